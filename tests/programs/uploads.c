/* SPDX-License-Identifier: MIT */
/* uploads.c: loops with copies from pageable memory, whose bytes are other ones as soon as the call
 * has returned, in the way that the argument names. */
#define _GNU_SOURCE
#include "sim_test.h"

#include <pthread.h>
#include <stdbool.h>
#include <sys/mman.h>

enum {
    STEPS = 200,
    MOST = 1 << 10, /* bytes of an upload that can be held */
    ROOM = 32 << 10,
    AREA = 8192 /* words */
};

static CUstream stream;
static CUdeviceptr target, area;
static unsigned used; /* words of the area */
static unsigned char *source, *pinned;

/* -- Steps --------------------------------------------------------------------- */

static void fill(unsigned char *to, size_t bytes, uint32_t k)
{
    for (size_t i = 0; i < bytes; i += i < 256 ? 1 : 509)
        to[i] = (unsigned char)(k * 31 + i);
    to[bytes - 1] = (unsigned char)k;
}

/* The first and the last words that have been uploaded go to the area. */
static void keep(size_t bytes, CUstream s)
{
    CUdeviceptr to = area + used * 4;
    used = (used + 2) % AREA;
    OK(cuMemcpyDtoDAsync(to, target, 4, s));
    OK(cuMemcpyDtoDAsync(to + 4, target + (bytes - 4) / 4 * 4, 4, s));
}

static void step_in(CUstream s, uint32_t k, size_t bytes)
{
    fill(source, bytes, k);
    OK(cuMemcpyHtoDAsync(target, source, bytes, s));
    memset(source, 0xee, bytes);
    keep(bytes, s);
}

static void steps(unsigned count, size_t bytes, bool wait)
{
    for (uint32_t k = 0; k < count; k++) {
        step_in(stream, k, bytes);
        if (wait)
            OK(cuStreamSynchronize(stream));
    }
}

/* -- Words that the device waits for --------------------------------------------- */

enum { WORDS = 16 };
static volatile uint32_t *words;
static unsigned awaited;

/* A kernel that waits until set_free(); a sequence begins behind it. */
static void block(CUstream s)
{
    CHECK(++awaited < WORDS);
    OK(launch_word(spin, &words[awaited], 1, s));
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(s));
}

static void set_free(void)
{
    set_word(&words[awaited], 1);
}

/* -- Ways ------------------------------------------------------------------------ */

static void waits(void)
{
    steps(STEPS, 64, true);
}

static void goes_on(void)
{
    steps(20 * STEPS, 64, false);
}

static void sizes(void)
{
    static const size_t size[] = {4, 60, 256, MOST, 512, MOST - 4, 5, 4};
    for (uint32_t k = 0; k < 2 * STEPS; k++) {
        step_in(stream, k, size[k % 8]);
        if (k % 8 == 7)
            OK(cuStreamSynchronize(stream));
    }
}

/* Iterations are unrolled into one graph, as many as there is room for their bytes. */
static void large(void)
{
    for (int round = 0; round < STEPS / 10; round++) {
        steps(160, MOST, false);
        OK(cuStreamSynchronize(stream));
    }
}

/* More streams than may have memory for uploads. */
static void many(void)
{
    enum { STREAMS = 72 };
    CUstream s[STREAMS];
    for (int i = 0; i < STREAMS; i++)
        OK(cuStreamCreate(&s[i], CU_STREAM_NON_BLOCKING));
    for (uint32_t k = 0; k < STEPS / 8; k++)
        for (int i = 0; i < STREAMS; i++) {
            step_in(s[i], k, 64);
            OK(cuStreamSynchronize(s[i]));
        }
    for (int i = 0; i < STREAMS; i++)
        OK(cuStreamDestroy(s[i]));
}

static void too_large(void)
{
    steps(STEPS, MOST + 1, true);
}

/* A driver may take no more uploads: then the kernel goes on all the same. */
static void *free_in_time(void *issued)
{
    for (int ms = 0; ms < 2000 && !__atomic_load_n((bool *)issued, __ATOMIC_SEQ_CST); ms++)
        usleep(1000);
    set_free();
    return NULL;
}

/* More than one ring of uploads is issued before the first of them runs. */
static void blocked(void)
{
    pthread_t thread;
    bool issued = false;
    steps(STEPS, MOST, true);
    block(stream);
    CHECK(pthread_create(&thread, NULL, free_in_time, &issued) == 0);
    steps(300, MOST, false);
    __atomic_store_n(&issued, true, __ATOMIC_SEQ_CST);
    CHECK(pthread_join(thread, NULL) == 0);
    OK(cuStreamSynchronize(stream));
    steps(STEPS, MOST, false); /* and the ring comes to be used again */
}

/* Each upload runs before the next one is issued, and a kernel behind it does not. */
static void never_idle(void)
{
    for (uint32_t k = 1; k <= 4 * STEPS; k++) {
        step_in(stream, k, MOST / 2);
        OK(launch_word(flag, &words[1], k, stream));
        OK(launch_word(spin, &words[0], k, stream));
        set_word(&words[0], k - 1);
        while (get_word(&words[1]) != k)
            (void)cuStreamQuery(stream);
    }
    set_word(&words[0], 4 * STEPS);
}

static void legacy(void)
{
    CUstream own = stream;
    stream = NULL;
    steps(STEPS, 1024, true);
    steps(STEPS, 1024, false);
    block(stream);
    steps(300, MOST, false);
    set_free();
    stream = own;
}

static void per_thread(void)
{
    CUstream own = stream;
    stream = CU_STREAM_PER_THREAD;
    steps(STEPS, 1024, true);
    steps(2 * STEPS, 1024, false);
    stream = own;
}

/* A stream goes while its uploads wait, and the next one has its own at once. */
static void left(void)
{
    for (int round = 0; round < 6; round++) {
        CUstream s;
        OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
        for (uint32_t k = 0; k < STEPS; k++) {
            step_in(s, k, 64);
            OK(cuStreamSynchronize(s));
        }
        block(s);
        for (uint32_t k = 0; k < 4; k++)
            step_in(s, 77 * k, 64);
        OK(cuStreamDestroy(s));
        CUdeviceptr kept = target;
        target += MOST;
        OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
        for (uint32_t k = 0; k < STEPS; k++) {
            step_in(s, 99 * k, 64);
            if (k % 8 == 7)
                OK(cuStreamSynchronize(s));
        }
        OK(cuStreamDestroy(s));
        set_free();
        OK(cuCtxSynchronize());
        target = kept;
    }
}

static void *own_stream(void *unused)
{
    (void)unused;
    OK(cuCtxSetCurrent(ctx));
    for (uint32_t k = 0; k < STEPS; k++) {
        step_in(CU_STREAM_PER_THREAD, k, 64);
        OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    }
    block(CU_STREAM_PER_THREAD);
    for (uint32_t k = 0; k < 4; k++)
        step_in(CU_STREAM_PER_THREAD, 77 * k, 64);
    return NULL;
}

/* Threads end while uploads in their own default streams wait. */
static void threads(void)
{
    for (int round = 0; round < 2; round++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, own_stream, NULL) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
        CUdeviceptr kept = target;
        target += MOST;
        for (int eight = 0; eight < STEPS / 8; eight++) {
            steps(8, 64, false);
            OK(cuStreamSynchronize(stream));
        }
        set_free();
        OK(cuCtxSynchronize());
        target = kept;
    }
}

/* Pinned and pageable memory at one place of the loop. */
static void in_turn(void)
{
    unsigned char *pageable = source;
    for (uint32_t k = 0; k < 2 * STEPS; k++) {
        bool pin = k % 50 >= 25;
        source = pin ? pinned : pageable;
        fill(source, 64, k);
        OK(cuMemcpyHtoDAsync(target, source, 64, stream));
        if (!pin)
            memset(source, 0xee, 64);
        keep(64, stream);
        OK(cuStreamSynchronize(stream));
    }
    source = pageable;
}

/* The memory is gone as soon as the call has returned. */
static void unmapped(void)
{
    unsigned char *pageable = source;
    for (uint32_t k = 0; k < STEPS; k++) {
        source = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(source != MAP_FAILED);
        fill(source, MOST, k);
        OK(cuMemcpyHtoDAsync(target, source, MOST, stream));
        CHECK(munmap(source, 4096) == 0);
        keep(MOST, stream);
        if (k % 3 == 0)
            OK(cuStreamSynchronize(stream));
    }
    source = pageable;
}

/* One row of two dimensions, cuMemcpyAsync, and a device's address in place of the host's. */
static void forms(void)
{
    for (uint32_t k = 0; k < STEPS; k++) {
        CUDA_MEMCPY2D row = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                             .srcHost = source,
                             .srcPitch = 512,
                             .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                             .dstDevice = target + 512,
                             .dstPitch = 512,
                             .WidthInBytes = 64,
                             .Height = 1};
        fill(source, 1024, k);
        OK(cuMemcpy2DAsync(&row, stream));
        OK(cuMemcpyAsync(target + 1024, (CUdeviceptr)(source + 100), 64, stream));
        row.Height = 2; /* never held */
        if (k % 40 == 0)
            OK(cuMemcpy2DAsync(&row, stream));
        memset(source, 0xee, 1024);
        OK(cuMemcpyHtoDAsync(target, (const void *)(target + 512), 64, stream));
        keep(64, stream);
        OK(cuMemcpyDtoDAsync(target, target + 1024, 64, stream));
        keep(64, stream);
        OK(cuStreamSynchronize(stream));
    }
}

/* What follows the upload differs now and then, so that it goes out by itself. */
static void differs(void)
{
    for (uint32_t k = 0; k < 2 * STEPS; k++) {
        step_in(stream, k, 256);
        if (k % 7 == 3)
            OK(cuMemsetD32Async(target, k, 16, stream));
        step_in(stream, 3 * k, 64);
        if (k % 11 == 5)
            OK(cuStreamSynchronize(stream));
    }
}

/* The driver refuses some of them, at once: beyond the memory, or not by a copy within the device.
 */
static void refused(void)
{
    unsigned errors = 0;
    for (uint32_t k = 0; k < 2 * STEPS; k++) {
        bool beyond = k % 10 == 4, within = k % 10 == 9;
        CUdeviceptr to = beyond ? target + ROOM - 32 : target;
        fill(source, 64, k);
        CUresult result = within ? cuMemcpyDtoDAsync(to, (CUdeviceptr)source, 64, stream)
                                 : cuMemcpyHtoDAsync(to, source, 64, stream);
        errors += result != CUDA_SUCCESS;
        memset(source, 0xee, 64);
        keep(64, stream);
        OK(cuStreamSynchronize(stream));
    }
    printf("%u errors\n", errors);
}

/* What is known of pageable memory may change with each allocation. */
static void allocates(void)
{
    CUdeviceptr memory;
    for (uint32_t k = 0; k < STEPS; k++) {
        OK(cuMemAllocAsync(&memory, 512, stream));
        step_in(stream, k, 64);
        OK(cuStreamSynchronize(stream));
    }
}

/* Contexts come and go, with uploads in them. */
static void contexts(void)
{
    CUdeviceptr kept = target, kept_area = area;
    for (int round = 0; round < 3; round++) {
        CUcontext other;
        CUstream s;
        uint32_t word[16], sum = 0;
        OK(create_context(&other));
        OK(cuMemAlloc(&target, ROOM));
        OK(cuMemAlloc(&area, AREA * 4));
        OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
        used = 0;
        for (uint32_t k = 0; k < STEPS; k++) {
            step_in(s, k + (uint32_t)round, 64);
            if (k % 4 == 0)
                OK(cuStreamSynchronize(s));
        }
        OK(cuCtxSynchronize());
        OK(cuMemcpyDtoH(word, area, sizeof word));
        for (int i = 0; i < 16; i++)
            sum = sum * 31 + word[i];
        printf("%08x\n", sum);
        OK(cuCtxDestroy(other));
        OK(cuCtxSetCurrent(ctx));
        target = kept;
        area = kept_area;
        used = 0;
        steps(STEPS / 4, 64, true);
    }
}

/* While another thread captures nothing is held, and asked. */
static void captured(void)
{
    CUstream other;
    CUgraph graph;
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    for (int round = 0; round < 8; round++) {
        steps(STEPS / 4, 64, round % 2);
        OK(cuStreamBeginCapture(other, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        steps(8, 64, false);
        OK(cuStreamEndCapture(other, &graph));
        OK(cuGraphDestroy(graph));
    }
    OK(cuStreamDestroy(other));
}

static const struct {
    const char *name;
    void (*run)(void);
} ways[] = {
    {"waits", waits},       {"goes_on", goes_on},
    {"sizes", sizes},       {"large", large},
    {"many", many},         {"too_large", too_large},
    {"blocked", blocked},   {"never_idle", never_idle},
    {"legacy", legacy},     {"per_thread", per_thread},
    {"left", left},         {"threads", threads},
    {"in_turn", in_turn},   {"unmapped", unmapped},
    {"forms", forms},       {"differs", differs},
    {"refused", refused},   {"allocates", allocates},
    {"contexts", contexts}, {"captured", captured},
};

static void begin(void)
{
    start();
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&target, ROOM));
    OK(cuMemsetD32(target, 0, ROOM / 4));
    OK(cuMemAlloc(&area, AREA * 4));
    OK(cuMemsetD32(area, 0, AREA));
    OK(cuMemAllocHost((void **)&pinned, ROOM));
    words = host_words(WORDS);
    OK(launch_word(spin, words, 0, stream)); /* the first launch may wait */
    OK(cuCtxSynchronize());
    source = malloc(ROOM);
}

int main(int argc, char **argv)
{
    static uint32_t result[AREA];
    uint32_t sum = 0;
    alarm(100);
    for (size_t i = 0; argc == 2 && i < sizeof ways / sizeof *ways; i++)
        if (strcmp(ways[i].name, argv[1]) == 0) {
            begin();
            ways[i].run();
            OK(cuCtxSynchronize());
            OK(cuMemcpyDtoH(result, area, sizeof result));
            for (unsigned k = 0; k < AREA; k++)
                sum = sum * 31 + result[k];
            printf("%08x\n", sum);
            return 0;
        }
    fprintf(stderr, "usage: uploads WAY\n");
    return 2;
}
