/* SPDX-License-Identifier: MIT */
/*
 * read_back.c SCENARIO: loops that read a few bytes back from the device in each step, for which
 * the host waits. What is read is printed as a hash, and so is each code that differs from success.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>
#include <sys/wait.h>

#include "sim_test.h"

enum { STEPS = 600, N = 64, WORDS = 1 << 14 };

static CUdeviceptr data;
static volatile uint32_t *word; /* a kernel waits for it */
static uint32_t hash;

static void take(const void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        hash = hash * 31 + ((const unsigned char *)bytes)[i];
}

static void told(const char *what, CUresult result)
{
    printf("%s: %d\n", what, (int)result);
}

/* Kernels, and a number that is read back. */
static void body(CUstream stream, uint32_t step)
{
    uint32_t number;
    for (uint32_t k = 0; k < 3; k++)
        OK(launch_mix(data, N, k == 1 ? step : k, stream));
    OK(stream == NULL ? cuMemcpyDtoH(&number, data, sizeof number)
                      : cuMemcpyDtoHAsync(&number, data, sizeof number, stream));
    take(&number, sizeof number);
}

static void warm(CUstream stream)
{
    for (uint32_t step = 0; step < STEPS; step++)
        body(stream, step);
}

/* A kernel that leaves no room for another one, until *word is 1. */
static void fill(CUstream stream)
{
    int many, each;
    CUdeviceptr at = (CUdeviceptr)(uintptr_t)word;
    uint32_t value = 1;
    void *args[] = {&at, &value};
    OK(cuDeviceGetAttribute(&many, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, dev));
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&each, spin, 1024, 0));
    OK(cuLaunchKernel(spin, (unsigned)(many * each), 1, 1, 1024, 1, 1, 0, stream, args, NULL));
}

/* -- What is read ----------------------------------------------------------- */

static void legacy(void)
{
    warm(NULL);
}

static void named(void)
{
    CUstream stream;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    warm(stream);
}

/* Memory of another context, which copies reach and kernels may not. */
static void foreign(void)
{
    CUcontext other;
    CUdeviceptr memory;
    uint32_t number;
    warm(NULL);
    OK(create_context(&other));
    OK(cuCtxSetCurrent(other));
    OK(cuMemAlloc(&memory, WORDS * 4));
    OK(cuMemsetD32(memory, 7, WORDS));
    OK(cuCtxSynchronize());
    OK(cuCtxSetCurrent(ctx));
    for (uint32_t step = 0; step < STEPS; step++) {
        for (uint32_t k = 0; k < 3; k++)
            OK(launch_mix(data, N, k == 1 ? step : k, NULL));
        OK(cuMemcpyDtoH(&number, memory + step % 4 * 4, sizeof number));
        take(&number, sizeof number);
    }
    told("end", cuCtxSynchronize());
}

/* Each size and alignment several times, so that it is held. */
static void sizes(void)
{
    static const size_t size[] = {0,  1,  2,   3,    4,    5,    8,     15,    16,
                                  17, 64, 100, 1024, 4096, 5000, 16384, 16385, 40000};
    static unsigned char bytes[WORDS * 4];
    warm(NULL);
    for (unsigned n = 0; n < sizeof size / sizeof size[0]; n++)
        for (unsigned from = 0; from < 20; from += from < 4 ? 1 : 4)
            for (uint32_t i = 0; i < 12; i++) {
                OK(launch_mix(data + 4 * (i % 3), N, i, NULL));
                OK(cuMemcpyDtoH(bytes + i, data + from, size[n]));
                take(bytes + i, size[n]);
            }
}

/* To memory of each kind, and from each. */
static void kinds(void)
{
    enum { KINDS = 5 };
    uint32_t *at[KINDS], *registered, here[N];
    CUdeviceptr device, managed;
    OK(cuMemAlloc(&device, sizeof here));
    OK(cuMemAllocManaged(&managed, sizeof here, CU_MEM_ATTACH_GLOBAL));
    CHECK(posix_memalign((void **)&registered, 4096, 4096) == 0);
    OK(cuMemHostRegister(registered, 4096, 0));
    at[0] = here;
    at[1] = (uint32_t *)(uintptr_t)host_words(N);
    at[2] = registered;
    at[3] = (uint32_t *)(uintptr_t)managed;
    at[4] = (uint32_t *)(uintptr_t)device;
    for (uint32_t i = 0; i < N; i++)
        at[3][i] = i;
    warm(NULL);
    for (unsigned to = 0; to < KINDS; to++)
        for (unsigned from = 0; from < 3; from++)
            for (uint32_t i = 0; i < 12; i++) {
                CUdeviceptr src = from == 0 ? data : (CUdeviceptr)(uintptr_t)at[from == 1 ? 1 : 3];
                OK(launch_mix(data, N, i, NULL));
                CUresult result = cuMemcpyDtoH(at[to], src, sizeof here);
                if (result != CUDA_SUCCESS && i == 11)
                    printf("to %u from %u: %d\n", to, from, (int)result);
                OK(cuCtxSynchronize());
                if (result == CUDA_SUCCESS && to != 4)
                    take(at[to], sizeof here);
            }
}

/* What the driver refuses, in a loop that is held. */
static void refuses(void)
{
    uint32_t words[N];
    warm(NULL);
    told("no destination", cuMemcpyDtoH(NULL, data, 4));
    told("no source", cuMemcpyDtoH(words, 0, 4));
    told("beyond the end", cuMemcpyDtoH(words, data + WORDS * 4 - 8, 16));
    body(NULL, 7);
    told("nothing", cuMemcpyDtoH(words, data, 0));
}

/* Memory that is allocated and freed in each step. */
static void freed(void)
{
    for (uint32_t step = 0; step < STEPS; step++) {
        CUdeviceptr mine;
        uint32_t words[4];
        OK(cuMemAlloc(&mine, 4096));
        OK(cuMemsetD32(mine, step, 1024));
        OK(launch_mix(mine, N, step, NULL));
        OK(launch_mix(mine, N, 1, NULL));
        OK(cuMemcpyDtoH(words, mine, sizeof words));
        OK(cuMemFree(mine));
        take(words, sizeof words);
    }
}

/* -- Copies to pinned memory -------------------------------------------------- */

static CUstream side;
static uint32_t *pinned;

static void pinned_begin(void)
{
    OK(cuStreamCreate(&side, CU_STREAM_NON_BLOCKING));
    pinned = (uint32_t *)(uintptr_t)host_words(N);
}

/* Three kernels, and words that are copied to pinned memory. */
static void pinned_copy(uint32_t step, uint32_t words)
{
    for (uint32_t k = 0; k < 3; k++)
        OK(launch_mix(data, N, k == 1 ? step : k, side));
    OK(cuMemcpyDtoHAsync(pinned, data, words * 4, side));
}

static void pinned_body(uint32_t step, uint32_t words)
{
    pinned_copy(step, words);
    OK(cuStreamSynchronize(side));
    take(pinned, words * 4);
    pinned[0] = 0;
}

static void pinned_warm(void)
{
    for (uint32_t step = 0; step < STEPS; step++)
        pinned_body(step, 2);
}

static void pinned_waited(void)
{
    pinned_begin();
    for (uint32_t step = 0; step < 3 * STEPS; step++)
        pinned_body(step, 1 + step / 100 % 4);
}

/* Now and then the host does something else first. */
static void pinned_else(void)
{
    CUevent event;
    pinned_begin();
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    pinned_warm();
    for (uint32_t step = 0; step < 2 * STEPS; step++) {
        pinned_copy(step, 2);
        switch (step % 30 == 0 ? 1 + step / 30 % 7 : 0) {
        case 1:
            OK(launch_mix(data, N, 3, side));
            break;
        case 2:
            OK(cuMemcpyDtoHAsync(pinned + 8, data + 64, 8, side));
            break;
        case 3:
            OK(cuEventRecord(event, side));
            OK(cuEventSynchronize(event));
            break;
        case 4:
            while (cuStreamQuery(side) == CUDA_ERROR_NOT_READY)
                usleep(10);
            break;
        case 5:
            OK(cuMemsetD32Async(data, step, 16, side));
            break;
        case 6:
            OK(cuCtxSynchronize());
            break;
        case 7:
            OK(launch_mix(data + 4096, N, 3, NULL));
            break;
        }
        OK(cuStreamSynchronize(side));
        take(pinned, 64);
    }
}

static uint32_t draw(uint32_t below)
{
    static uint32_t state = 1;
    state = state * 1664525 + 1013904223;
    return (state >> 16) % below;
}

/* Kernels, sizes and what comes behind the copy by chance, in two streams. */
static void pinned_random(void)
{
    static const uint32_t bytes[] = {4, 8, 8, 8, 64, 1000, 4096, 16384};
    CUstream stream[2];
    CUevent event;
    uint32_t *to, number;
    pinned_begin();
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cuStreamCreate(&stream[1], CU_STREAM_DEFAULT));
    stream[0] = side;
    to = (uint32_t *)(uintptr_t)host_words(WORDS);
    for (uint32_t step = 0; step < 10 * STEPS; step++) {
        CUstream s = stream[step / 400 % 2];
        uint32_t n = step / 200 % 3 == 2 ? bytes[draw(8)] : 8, from = n < 8192 ? 0 : 4;
        for (uint32_t k = 0; k < 3 + (draw(20) == 0); k++)
            OK(launch_mix(data, N, k == 1 ? step : k, s));
        OK(cuMemcpyDtoHAsync(to, data + from, n, s));
        switch (draw(25)) {
        case 1:
            OK(launch_mix(data, N, 3, s));
            break;
        case 2:
            OK(cuMemcpyDtoHAsync(to + 8, data + 64, 8, s));
            break;
        case 3:
            OK(cuEventRecord(event, s));
            break;
        case 4:
            OK(cuStreamSynchronize(stream[1 - step / 400 % 2]));
            break;
        case 5:
            OK(cuMemcpyDtoH(&number, data + 8192, 4)); /* nobody writes there */
            take(&number, 4);
            break;
        case 6:
            OK(cuMemsetD32Async(data + 32768, step, 16, stream[1])); /* nobody reads there */
            break;
        case 7:
            OK(cuMemcpyDtoHAsync(&number, data, 4, s));
            take(&number, 4);
            break;
        }
        OK(draw(15) != 0 ? cuStreamSynchronize(s) : cuCtxSynchronize());
        take(to, n);
    }
}

/* No call: the host looks at the memory until it changes. */
static void pinned_polled(void)
{
    volatile uint32_t *at;
    pinned_begin();
    at = pinned;
    pinned_warm();
    for (uint32_t step = 0; step < 40; step++) {
        for (uint32_t i = 0; i < 12; i++)
            pinned_body(step + i, 2);
        at[0] = at[1] = 0;
        OK(cuMemsetD32Async(data, step + 1, 2, side));
        for (uint32_t k = 1; k < 3; k++)
            OK(launch_mix(data + 4096, N, k, side));
        OK(cuMemcpyDtoHAsync(pinned, data, 8, side));
        while (at[0] == 0 || at[1] == 0)
            usleep(100);
        take(pinned, 8);
    }
}

/* The host never waits: the last values are read. */
static void pinned_goes_on(void)
{
    pinned_begin();
    pinned_warm();
    for (uint32_t step = 0; step < STEPS; step++)
        pinned_copy(step, 2);
    OK(cuStreamSynchronize(side));
    take(pinned, 8);
    pinned_warm();
}

static void *waiter(void *unused)
{
    (void)unused;
    OK(cuCtxSetCurrent(ctx));
    OK(cuStreamSynchronize(side));
    return NULL;
}

/* Another thread waits, and then the stream goes. */
static void pinned_other(void)
{
    pinned_begin();
    pinned_warm();
    for (uint32_t step = 0; step < 20; step++) {
        pthread_t thread;
        for (uint32_t i = 0; i < 12; i++)
            pinned_body(step, 2);
        pinned_copy(step, 2);
        CHECK(pthread_create(&thread, NULL, waiter, NULL) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
        take(pinned, 8);
    }
    for (uint32_t i = 0; i < 12; i++)
        pinned_body(i, 2);
    pinned_copy(7, 2);
    OK(cuStreamDestroy(side));
    OK(cuCtxSynchronize());
    take(pinned, 8);
    OK(cuStreamCreate(&side, CU_STREAM_NON_BLOCKING));
    pinned_warm();
}

/* Another stream's kernel fills the device, and waits for what the host does behind the copy. */
static void pinned_full(void)
{
    CUstream other;
    pinned_begin();
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    pinned_warm();
    for (uint32_t step = 0; step < 8; step++) {
        for (uint32_t i = 0; i < 12; i++)
            pinned_body(step, 2);
        set_word(word, 0);
        for (uint32_t k = 0; k < 3; k++)
            OK(launch_mix(data, N, k == 1 ? step : k, side));
        OK(cuStreamSynchronize(side));
        fill(other);
        OK(cuMemcpyDtoHAsync(pinned, data, 8, side));
        OK(cuStreamSynchronize(side));
        set_word(word, 1);
        take(pinned, 8);
        OK(cuStreamSynchronize(other));
    }
}

/* What the driver refuses, and a kernel that fails. */
static void pinned_fails(void)
{
    CUdeviceptr nowhere = 0;
    uint32_t n = N, k = 1;
    void *args[] = {&nowhere, &n, &k};
    pinned_begin();
    pinned_warm();
    for (uint32_t i = 0; i < 3; i++)
        OK(launch_mix(data, N, i, side));
    told("beyond the end", cuMemcpyDtoHAsync(pinned, data + WORDS * 4 - 8, 16, side));
    OK(cuStreamSynchronize(side));
    pinned_warm();
    for (uint32_t i = 0; i < 3; i++)
        OK(i == 2 ? cuLaunchKernel(mix, 1, 1, 1, N, 1, 1, 0, side, args, NULL)
                  : launch_mix(data, N, i, side));
    CUresult copy = cuMemcpyDtoHAsync(pinned, data, 8, side), wait = cuStreamSynchronize(side);
    told("behind a kernel that fails", copy != CUDA_SUCCESS ? copy : wait);
}

/* -- What the program asks behind it ---------------------------------------- */

static void asks(void)
{
    CUevent event;
    uint32_t number;
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    for (uint32_t step = 0; step < STEPS; step++) {
        for (uint32_t k = 0; k < 3; k++)
            OK(launch_mix(data, N, k, NULL));
        if (step % 2)
            OK(cuEventRecord(event, NULL));
        OK(cuMemcpyDtoH(&number, data, sizeof number));
        OK(cuStreamQuery(NULL));
        if (step % 2)
            OK(cuEventQuery(event));
        take(&number, sizeof number);
    }
}

/* A kernel of a wrong address: the read-back tells. */
static void fails(void)
{
    uint32_t number;
    CUdeviceptr nowhere = 0;
    uint32_t n = N, k = 1;
    void *args[] = {&nowhere, &n, &k};
    warm(NULL);
    for (uint32_t i = 0; i < 3; i++)
        OK(launch_mix(data, N, i, NULL));
    OK(cuLaunchKernel(mix, 1, 1, 1, N, 1, 1, 0, NULL, args, NULL));
    told("behind a kernel that fails", cuMemcpyDtoH(&number, data, sizeof number));
    told("and once more", cuMemcpyDtoH(&number, data, sizeof number));
}

/* -- What else is at work --------------------------------------------------- */

/* Read-backs that come alone are held, too. Then there is no room for a kernel: a copy goes on, and
   the host ends the kernel that fills the device. */
static void full(void)
{
    CUstream other, stream;
    uint32_t numbers[2];
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (uint32_t step = 0; step < STEPS; step++) {
        body(stream, step);
        OK(cuMemcpyDtoHAsync(numbers, data, sizeof numbers, stream));
        take(numbers, sizeof numbers);
    }
    for (uint32_t step = 0; step < 8; step++) {
        set_word(word, 0);
        fill(other);
        OK(cuMemcpyDtoHAsync(numbers, data, sizeof numbers, stream));
        set_word(word, 1);
        take(numbers, sizeof numbers);
        OK(cuStreamSynchronize(other));
        body(stream, step);
    }
}

static pthread_barrier_t both;

/* Fills the device from another thread, while the first one reads back. */
static void *filler(void *arg)
{
    CUstream stream = arg;
    OK(cuCtxSetCurrent(ctx));
    for (uint32_t step = 0; step < 60; step++) {
        pthread_barrier_wait(&both); /* nothing waits for the word */
        pthread_barrier_wait(&both); /* it is 0 */
        fill(stream);
        pthread_barrier_wait(&both); /* what must be read has been read */
        OK(cuStreamSynchronize(stream));
    }
    return NULL;
}

static void full_by_thread(void)
{
    CUstream other, stream;
    pthread_t thread;
    uint32_t numbers[2];
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(pthread_barrier_init(&both, NULL, 2) == 0);
    for (uint32_t step = 0; step < STEPS; step++) {
        body(stream, step);
        OK(cuMemcpyDtoHAsync(numbers, data, sizeof numbers, stream));
    }
    CHECK(pthread_create(&thread, NULL, filler, other) == 0);
    for (uint32_t step = 0; step < 60; step++) {
        pthread_barrier_wait(&both);
        set_word(word, 0);
        pthread_barrier_wait(&both);
        for (uint32_t i = 0; i < 8; i++) {
            OK(cuMemcpyDtoHAsync(numbers, data, sizeof numbers, stream));
            take(numbers, sizeof numbers);
        }
        pthread_barrier_wait(&both);
        set_word(word, 1);
        body(stream, step);
    }
    CHECK(pthread_join(thread, NULL) == 0);
}

/* Two streams take turns, and wait for each other by the host only. */
static void turns(void)
{
    CUstream streams[2];
    for (unsigned i = 0; i < 2; i++)
        OK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    for (uint32_t step = 0; step < STEPS; step++)
        body(streams[step / 20 % 2], step);
}

static void *reader(void *arg)
{
    CUdeviceptr mine = data + 4096 * (CUdeviceptr)(uintptr_t)arg;
    CUstream stream;
    uint32_t number, sum = 0;
    OK(cuCtxSetCurrent(ctx));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (uint32_t step = 0; step < STEPS; step++) {
        for (uint32_t k = 0; k < 3; k++)
            OK(launch_mix(mine, N, k + step, stream));
        OK(cuMemcpyDtoHAsync(&number, mine, sizeof number, stream));
        sum = sum * 31 + number;
    }
    OK(cuStreamDestroy(stream));
    return (void *)(uintptr_t)sum;
}

static void threads(void)
{
    enum { THREADS = 4 };
    pthread_t thread[THREADS];
    void *sum;
    warm(NULL);
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&thread[i], NULL, reader, (void *)i) == 0);
    for (unsigned i = 0; i < THREADS; i++) {
        CHECK(pthread_join(thread[i], &sum) == 0);
        hash = hash * 31 + (uint32_t)(uintptr_t)sum;
    }
}

/* -- What begins and ends ---------------------------------------------------- */

/* Contexts that come and go, whose hosts wait by blocking. */
static void contexts(void)
{
    CUdeviceptr kept = data;
    CUfunction was = mix;
    for (uint32_t round = 0; round < 3; round++) {
        CUcontext mine;
        CUmodule module;
#if CUDA_VERSION >= 13000
        OK(cuCtxCreate(&mine, NULL, round == 1 ? CU_CTX_SCHED_BLOCKING_SYNC : 0, dev));
#else
        OK(cuCtxCreate(&mine, round == 1 ? CU_CTX_SCHED_BLOCKING_SYNC : 0, dev));
#endif
        OK(cuModuleLoadData(&module, agsim_kernels_ptx));
        OK(cuModuleGetFunction(&mix, module, "ag_mix"));
        OK(cuMemAlloc(&data, WORDS * 4));
        OK(cuMemsetD32(data, round, WORDS));
        warm(NULL);
        OK(cuCtxDestroy(mine));
    }
    OK(cuCtxSetCurrent(ctx));
    data = kept;
    mix = was;
    warm(NULL);
}

static void captured(void)
{
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    static uint32_t number;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    warm(stream);
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    for (uint32_t k = 0; k < 3; k++)
        OK(launch_mix(data, N, k, stream));
    OK(cuMemcpyDtoHAsync(&number, data, sizeof number, stream));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiate(&exec, graph, 0));
    for (uint32_t i = 0; i < 8; i++) {
        OK(cuGraphLaunch(exec, stream));
        OK(cuStreamSynchronize(stream));
        take(&number, sizeof number);
        body(stream, i);
    }
}

/* Read-backs while another stream captures. The default stream, which nobody has waited for by
   name, must not be asked: that would end the capture. */
static void captured_beside(void)
{
    CUstream stream, other;
    CUgraph graph;
    uint32_t number;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&other, CU_STREAM_DEFAULT));
    OK(launch_mix(data, N, 1, NULL));
    OK(cuCtxSynchronize());
    warm(stream);
    for (uint32_t i = 0; i < 8; i++) {
        OK(launch_mix(data, N, i, NULL));
        OK(cuCtxSynchronize());
        OK(cuStreamBeginCapture(other, CU_STREAM_CAPTURE_MODE_RELAXED));
        OK(launch_mix(data, N, i, other));
        OK(cuMemcpyDtoHAsync(&number, data, sizeof number, stream));
        OK(cuStreamEndCapture(other, &graph));
        OK(cuGraphDestroy(graph));
        take(&number, sizeof number);
        body(stream, i);
    }
}

/* The child of a process that reads back, and the process itself behind it. */
static void forks(void)
{
    int status;
    warm(NULL);
    pid_t child = fork();
    if (child == 0)
        _exit(cuMemcpyDtoH(&status, data, 4) == CUDA_SUCCESS);
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    printf("child: %d\n", status);
    warm(NULL);
}

static const struct {
    const char *name;
    void (*run)(void);
} table[] = {{"legacy", legacy},
             {"named", named},
             {"foreign", foreign},
             {"sizes", sizes},
             {"kinds", kinds},
             {"refuses", refuses},
             {"freed", freed},
             {"pinned_waited", pinned_waited},
             {"pinned_else", pinned_else},
             {"pinned_random", pinned_random},
             {"pinned_polled", pinned_polled},
             {"pinned_goes_on", pinned_goes_on},
             {"pinned_other", pinned_other},
             {"pinned_full", pinned_full},
             {"pinned_fails", pinned_fails},
             {"asks", asks},
             {"fails", fails},
             {"full", full},
             {"full_by_thread", full_by_thread},
             {"turns", turns},
             {"threads", threads},
             {"contexts", contexts},
             {"captured", captured},
             {"captured_beside", captured_beside},
             {"forks", forks}};

int main(int argc, char **argv)
{
    alarm(50);
    start();
    OK(cuMemAlloc(&data, WORDS * 4));
    OK(cuMemsetD32(data, 1, WORDS));
    OK(cuCtxSynchronize());
    word = host_words(1);
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++)
        if (argc == 2 && strcmp(argv[1], table[i].name) == 0) {
            table[i].run();
            printf("%s %08x\n", argv[1], hash);
            return 0;
        }
    fprintf(stderr, "usage: read_back SCENARIO\n");
    return 2;
}
