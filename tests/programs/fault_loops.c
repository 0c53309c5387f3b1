/* SPDX-License-Identifier: MIT */
/* fault_loops.c: small programs whose loops get hot, with kernels that do
 * order-sensitive arithmetic. Prints what is in memory at the end and what the
 * driver answered: both are the same whatever becomes of the library's calls. */
#define _GNU_SOURCE
#include "sim_test.h"

#include <pthread.h>
#include <stdbool.h>

enum { N = 32, BUFFERS = 4, STEPS = 24, BODY = 6 };

static CUdeviceptr buffer[BUFFERS];
static uint32_t answers; /* a hash of all return codes */
static unsigned failures;

/* Notes the answer; the program goes on, as one that does not look would. */
static void note(CUresult result)
{
    answers = answers * 31 + result + 1;
    failures += result != CUDA_SUCCESS;
}

static void body(CUstream s, uint32_t step)
{
    for (uint32_t i = 0; i < BODY; i++)
        note(launch_mix(buffer[i % 2], N, i == 2 ? step : i, s));
}

static CUstream stream_new(unsigned flags)
{
    CUstream s = NULL;
    note(cuStreamCreate(&s, flags));
    return s;
}

/* -- Scenarios -- */

static void arguments(void)
{
    CUstream s = stream_new(CU_STREAM_DEFAULT);
    for (uint32_t step = 0; step < STEPS; step++) {
        body(s, step);
        note(cuStreamSynchronize(s));
    }
    for (uint32_t step = 0; step < STEPS; step++)
        body(s, 7); /* and without a barrier, on the legacy stream too */
    for (uint32_t step = 0; step < STEPS; step++)
        body(NULL, 7);
    note(cuStreamDestroy(s));
}

static void memsets(void)
{
    for (uint32_t step = 0; step < STEPS; step++) {
        CUdeviceptr at = buffer[0] + step % 4 * 16;
        note(cuMemsetD32Async(buffer[1], step, N, NULL));
        note(cuMemsetD16Async(at, (unsigned short)step, 4, NULL));
        note(launch_mix(buffer[0], N, 3, NULL));
        note(cuMemsetD8Async(at + 8, (unsigned char)step, 8, NULL));
        note(cuMemsetD2D32Async(buffer[2], 16, 9, 2, 3, NULL));
        note(cuMemsetD2D16Async(buffer[2] + 64, 8, 8, 3, 2, NULL));
        note(cuMemsetD2D8Async(buffer[2] + 96, 8, 7, 3, 2, NULL));
        note(launch_mix(buffer[1], N, step, NULL));
        note(launch_mix(buffer[2], N, 1, NULL));
        if (step % 2)
            note(cuCtxSynchronize());
    }
}

static void no_stream(void)
{
    for (uint32_t step = 0; step < STEPS; step++) {
        note(launch_mix(buffer[0], N, 3, NULL));
        note(cuMemsetD32(buffer[1], step, N));
        note(launch_mix(buffer[1], N, step, NULL));
        note(cuMemcpyDtoD(buffer[2], buffer[1], 4 * N));
        note(launch_mix(buffer[2], N, 1, NULL));
        if (step % 4 == 3)
            note(cuCtxSynchronize());
    }
}

/* Read-backs, of which the first ones are no part of graphs. The kernel for read-backs is loaded by
   the 256th copy, or where that moment was none, by the 512th or 1,024th. */
static void read_often(unsigned first)
{
    uint32_t words[4];
    for (unsigned i = 0; i < first; i++) {
        note(launch_mix(buffer[0], N, i, NULL));
        note(cuMemcpyDtoH(words, buffer[0], sizeof words));
    }
    for (uint32_t step = 0; step < STEPS; step++) {
        body(NULL, step);
        note(cuMemcpyDtoH(words, buffer[0], sizeof words));
        for (unsigned i = 0; i < 4; i++)
            note((CUresult)words[i]);
    }
}

static void reads(void)
{
    read_often(256);
}

static pthread_barrier_t both;

/* Has issued work, which is done, and lives on. */
static void *worker(void *unused)
{
    (void)unused;
    note(cuCtxSetCurrent(ctx));
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    body(s, 1);
    note(cuStreamSynchronize(s));
    note(cuStreamDestroy(s));
    pthread_barrier_wait(&both);
    pthread_barrier_wait(&both);
    return NULL;
}

/* Another thread might issue work behind each copy. */
static void reads_beside(void)
{
    pthread_t thread;
    CHECK(pthread_barrier_init(&both, NULL, 2) == 0);
    CHECK(pthread_create(&thread, NULL, worker, NULL) == 0);
    pthread_barrier_wait(&both);
    read_often(1024);
    pthread_barrier_wait(&both);
    CHECK(pthread_join(thread, NULL) == 0);
}

/* To pinned memory: the host waits for the stream behind each copy. */
static void pinned_reads(void)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    volatile uint32_t *words = host_words(4);
    for (uint32_t step = 0; step < 256 + 4 * STEPS; step++) {
        for (uint32_t i = 0; i < 3; i++)
            note(launch_mix(buffer[i % 2], N, i == 2 ? step : i, s));
        note(cuMemcpyDtoHAsync((void *)words, buffer[0], 16, s));
        note(cuStreamSynchronize(s));
        for (unsigned i = 0; i < 4; i++)
            note((CUresult)words[i]);
    }
    note(cuStreamDestroy(s));
}

static void copies(void)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    volatile uint32_t *pinned = host_words(STEPS * N);
    for (unsigned i = 0; i < STEPS * N; i++)
        pinned[i] = i * 7;
    for (uint32_t step = 0; step < STEPS; step++) {
        note(cuMemcpyHtoDAsync(buffer[0], (const void *)(pinned + step * N), 4 * N, s));
        note(launch_mix(buffer[0], N, step, s));
        note(cuMemcpyDtoDAsync(buffer[1], buffer[0], 4 * N, s));
        note(launch_mix(buffer[1], N, 5, s));
        note(cuMemcpyDtoDAsync(buffer[2] + step % 3 * 32, buffer[1] + 16, 16, s));
        CUDA_MEMCPY2D r = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                           .srcDevice = buffer[1],
                           .srcPitch = 32,
                           .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = buffer[3],
                           .dstPitch = 16,
                           .WidthInBytes = 8,
                           .Height = 1 + step % 2};
        note(cuMemcpy2DAsync(&r, s));
        note(launch_mix(buffer[2], N, step, s));
        note(cuStreamSynchronize(s));
    }
    note(cuStreamDestroy(s));
}

/* From memory that is other memory as soon as the call has returned; some are more than fits into
   what the library has for them until the program waits. */
static void uploads(void)
{
    enum { LARGE = 1 << 10 };
    static unsigned char bytes[LARGE];
    CUdeviceptr large;
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    note(cuMemAlloc(&large, LARGE));
    for (uint32_t step = 0; step < STEPS; step++) {
        memset(bytes, (int)step, sizeof bytes);
        note(cuMemcpyHtoDAsync(buffer[0], bytes, 4 * N, s));
        note(launch_mix(buffer[0], N, step, s));
        for (int i = 0; i < 20; i++)
            note(cuMemcpyHtoDAsync(large, bytes, LARGE, s));
        note(cuMemcpyDtoDAsync(buffer[1] + step % 3 * 32, large + LARGE - 32, 16, s));
        memset(bytes, 0xee, sizeof bytes);
        note(launch_mix(buffer[1], N, 5, s));
        if (step % 16 == 15)
            note(cuStreamSynchronize(s));
    }
    note(cuStreamSynchronize(s));
    note(cuMemFree(large));
    note(cuStreamDestroy(s));
}

/* Two streams that take turns at the same memory, so that each event matters. */
static void events(void)
{
    CUstream s[2] = {stream_new(CU_STREAM_NON_BLOCKING), stream_new(CU_STREAM_NON_BLOCKING)};
    CUevent turn[4]; /* two of each stream, used in turn in some of the steps */
    for (unsigned i = 0; i < 4; i++)
        note(cuEventCreate(&turn[i], CU_EVENT_DISABLE_TIMING));
    for (uint32_t step = 0; step < STEPS; step++)
        for (unsigned i = 0; i < 2; i++) {
            body(s[i], step);
            note(launch_mix(buffer[0], N, i, s[i]));
            CUevent e = turn[i + (step > STEPS / 2 && step % 2 ? 2 : 0)];
            note(cuEventRecord(e, s[i]));
            note(cuStreamWaitEvent(s[!i], e, 0));
            if (step % 8 == 7)
                note(cuEventSynchronize(e));
        }
    for (unsigned i = 0; i < 2; i++)
        note(cuStreamDestroy(s[i]));
    for (unsigned i = 0; i < 4; i++)
        note(cuEventDestroy(turn[i]));
}

/* A stream forks two others off, and joins them. */
static void forks(void)
{
    CUstream s[3];
    CUevent e[3];
    for (unsigned i = 0; i < 3; i++) {
        s[i] = stream_new(CU_STREAM_NON_BLOCKING);
        note(cuEventCreate(&e[i], CU_EVENT_DISABLE_TIMING));
    }
    for (uint32_t step = 0; step < STEPS; step++) {
        note(cuEventRecord(e[0], s[0]));
        for (unsigned i = 1; i < 3; i++) {
            note(cuStreamWaitEvent(s[i], e[0], 0));
            note(launch_mix(buffer[i - 1], N, step / 2, s[i]));
            note(cuEventRecord(e[i], s[i]));
            note(cuStreamWaitEvent(s[0], e[i], 0));
        }
        note(cuMemcpyDtoDAsync(buffer[0], buffer[1], N, s[0]));
        if (step % 8 == 7)
            note(cuStreamSynchronize(s[0]));
    }
    for (unsigned i = 0; i < 3; i++) {
        note(cuStreamDestroy(s[i]));
        note(cuEventDestroy(e[i]));
    }
}

/* The legacy stream orders blocking streams without any call. */
static void legacy(void)
{
    CUstream s = stream_new(CU_STREAM_DEFAULT);
    for (uint32_t step = 0; step < STEPS; step++) {
        body(s, step);
        body(NULL, step);
    }
    note(cuStreamDestroy(s));
}

static void *thread(void *arg)
{
    uint32_t pauses = (uint32_t)(uintptr_t)arg;
    note(cuCtxSetCurrent(ctx));
    for (uint32_t step = 0; step < STEPS; step++) {
        for (uint32_t i = 0; i < BODY; i++) {
            note(launch_mix(buffer[i % 2], N, i == 2 ? step : i, CU_STREAM_PER_THREAD));
            if (i == 3 && step % 4 != 3 && pauses)
                usleep(500); /* past the bound: somebody else submits what is held */
        }
        if (step % 2)
            note(cuStreamSynchronize(CU_STREAM_PER_THREAD));
        else
            note(launch_mix(buffer[0], N, step, NULL)); /* the legacy stream: so does this */
    }
    body(CU_STREAM_PER_THREAD, 1); /* may still be held when the thread ends */
    return NULL;
}

static void per_thread(void)
{
    for (uintptr_t i = 0; i < 2; i++) {
        pthread_t t;
        CHECK(pthread_create(&t, NULL, thread, (void *)i) == 0);
        CHECK(pthread_join(t, NULL) == 0);
        note(cuCtxSynchronize());
    }
}

enum { RELEASED, BEGUN, ENDED, WORDS }; /* written by the host; by the first kernel and the last */

static bool is_lost; /* the order between what was relayed and what comes behind it */

static void *release(void *arg)
{
    volatile uint32_t *words = arg;
    do
        usleep(100000);
    while (is_lost && get_word(&words[ENDED]) != STEPS);
    set_word(&words[RELEASED], 1);
    return NULL;
}

/* Once its loop is hot the thread waits until work has gone out in its name. That work comes to no
   end until the thread has gone on: some time later, or when what the thread adds has ended. */
static void *relay_thread(void *arg)
{
    volatile uint32_t *words = arg;
    pthread_t helper;
    note(cuCtxSetCurrent(ctx));
    set_word(&words[RELEASED], 1);
    for (uint32_t step = 1; step <= STEPS; step++) {
        if (step == STEPS) {
            set_word(&words[RELEASED], 0);
            CHECK(pthread_create(&helper, NULL, release, arg) == 0);
        }
        note(launch_word(flag, &words[BEGUN], step, CU_STREAM_PER_THREAD));
        note(launch_word(spin, &words[RELEASED], 1, CU_STREAM_PER_THREAD));
        note(launch_mix(buffer[0], N, step, CU_STREAM_PER_THREAD));
        /* A fault may keep it from going out. */
        for (int ms = 0; step == STEPS && get_word(&words[BEGUN]) != STEPS && ms < 10000; ms++)
            usleep(1000);
        note(launch_mix(buffer[0], N, 3, CU_STREAM_PER_THREAD));
        note(launch_word(flag, &words[ENDED], step, CU_STREAM_PER_THREAD));
        note(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    }
    CHECK(pthread_join(helper, NULL) == 0);
    return NULL;
}

static void relay(void)
{
    pthread_t t;
    CHECK(pthread_create(&t, NULL, relay_thread, (void *)host_words(WORDS)) == 0);
    CHECK(pthread_join(t, NULL) == 0);
}

static void relay_lost(void)
{
    is_lost = true;
    relay();
}

/* So slow that somebody else submits what the legacy stream and another hold. */
static void late(void)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    for (uint32_t step = 0; step < STEPS; step++) {
        for (uint32_t i = 0; i < BODY; i++) {
            note(launch_mix(buffer[0], N, i == 2 ? step : i, NULL));
            note(launch_mix(buffer[1], N, i, s));
            note(cuMemsetD32Async(buffer[2] + i * 4, step, 1, s));
            if (i == 3 && step % 4 != 3)
                usleep(500);
        }
        note(cuCtxSynchronize());
    }
    note(cuStreamDestroy(s));
}

static void capture(void)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    CUgraph graph;
    CUgraphExec exec;
    for (uint32_t step = 0; step < STEPS; step++) {
        body(s, step);
        kick(s);
    }
    note(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    body(s, 3);
    note(cuStreamEndCapture(s, &graph));
    note(cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (uint32_t step = 0; step < STEPS; step++) {
        body(s, step);
        if (step % 4 == 0)
            note(cuGraphLaunch(exec, s));
    }
    note(cuStreamSynchronize(s));
    note(cuGraphExecDestroy(exec));
    note(cuGraphDestroy(graph));
    note(cuStreamDestroy(s));
}

/* A stream, and every second time an event, for each step. */
static void streams(void)
{
    for (uint32_t step = 0; step < STEPS / 4; step++) {
        CUstream s = stream_new(step % 2 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT);
        for (uint32_t i = 0; i < STEPS; i++)
            body(s, i);
        if (step % 2)
            note(cuStreamSynchronize(s));
        note(cuStreamDestroy(s));
        note(cuCtxSynchronize());
    }
}

/* Every third round breaks off, at another place each time: what is held goes out op by op. */
static void exits(void)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    for (uint32_t step = 0; step < 4; step++) /* such as the library does not look at */
        note(cuMemcpyDtoDAsync(buffer[3], buffer[2], 16, s));
    for (uint32_t step = 0; step < 2 * STEPS; step++) {
        CUdeviceptr at = buffer[step % 2];
        unsigned end = step > STEPS / 2 && step % 3 == 0 ? 1 + step / 3 % 8 : 9;
        CUDA_MEMCPY3D c = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                           .srcDevice = buffer[2],
                           .srcPitch = 16,
                           .srcHeight = 2,
                           .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = buffer[3],
                           .dstPitch = 8,
                           .dstHeight = 3,
                           .WidthInBytes = 8,
                           .Height = 2,
                           .Depth = 2};
        CUlaunchAttribute attr = {.id = CU_LAUNCH_ATTRIBUTE_PRIORITY, .value = {.priority = -1}};
        CUlaunchConfig config = one_block(N, &attr, 1, s);
        uint32_t n = N;
        void *args[] = {&at, &n, &step};
        for (unsigned i = 0; i < end; i++)
            switch (i) {
            case 0:
                note(cuMemsetD8Async(at, (unsigned char)step, 4, s));
                break;
            case 1:
                note(cuMemsetD16Async(at + 4, (unsigned short)step, 4, s));
                break;
            case 2:
                note(cuMemsetD2D8Async(buffer[2], 8, 7, 3, 2, s));
                break;
            case 3:
                note(cuMemsetD2D16Async(buffer[2] + 32, 8, 8, 3, 2, s));
                break;
            case 4:
                note(cuMemsetD2D32Async(buffer[2] + 64, 16, 9, 2, 3, s));
                break;
            case 5:
                note(cuMemcpy3DAsync(&c, s));
                break;
            default:
                note(i == 6 ? cuLaunchKernelEx(&config, mix, args, NULL)
                            : launch_mix(buffer[i - 6], N, step, s));
            }
        note(cuStreamSynchronize(s));
    }
    note(cuStreamDestroy(s));
}

/* Words written and waited for in stream order, at two addresses in turn. */
static void values(void)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    for (uint32_t step = 0; step < 2 * STEPS; step++) {
        CUdeviceptr word = buffer[2] + step % 2 * 16;
        note(launch_mix(buffer[0], N, step, s));
        note(cuStreamWriteValue32(s, word, step, 0));
        note(cuStreamWaitValue32(s, word, step, CU_STREAM_WAIT_VALUE_EQ));
        note(launch_mix(buffer[2], N, 1, s));
        note(cuStreamWriteValue64(s, word + 8, step, 0));
        if (step > STEPS / 2 && step % 5 == 0)
            note(cuStreamSynchronize(s)); /* and what is held goes out op by op */
        note(cuStreamWaitValue64(s, word + 8, step, CU_STREAM_WAIT_VALUE_GEQ));
        if (step > STEPS / 2 && step % 5 == 1)
            note(cuStreamSynchronize(s));
        note(launch_mix(buffer[1], N, step, s));
        if (step % 2)
            note(cuStreamSynchronize(s));
    }
    note(cuStreamDestroy(s));
}

/* Words that are only written, and kernels that may begin before the one ahead has ended. */
static void writes(void)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    for (uint32_t step = 0; step < 2 * STEPS; step++) {
        CUlaunchAttribute early = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                                   .value = {.programmaticStreamSerializationAllowed = 1}};
        CUlaunchConfig config = one_block(N, &early, 1, s);
        uint32_t n = N;
        void *args[] = {&buffer[0], &n, &step};
        note(cuStreamWriteValue32(s, buffer[2], step, 0));
        note(launch_mix(buffer[0], N, step, s));
        note(cuLaunchKernelEx(&config, mix, args, NULL));
        note(cuStreamWriteValue64(s, buffer[2] + 8, step, 0));
        if (step > STEPS / 2 && step % 5 == 0)
            note(cuStreamSynchronize(s)); /* and what is held goes out op by op */
        note(launch_mix(buffer[2], N, 1, s));
        note(cuStreamSynchronize(s));
    }
    note(cuStreamDestroy(s));
}

/* Settings of a function and a kernel that are set again and again, and changed once. */
/* Settings alternate within a step: what is held has other ones than are set by then. */
static void settings(void)
{
    const CUfunction_attribute most = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    const CUfunction_attribute carveout = CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
    CUlibrary library;
    CUkernel kernel;
    note(cuLibraryLoadData(&library, agsim_kernels_ptx, NULL, NULL, 0, NULL, NULL, 0));
    note(cuLibraryGetKernel(&kernel, library, "ag_mix"));
    for (uint32_t step = 0; step < 4 * STEPS; step++) {
        uint32_t n = N;
        void *args[] = {&buffer[1], &n, &step};
        for (int half = 0; half < 2; half++) {
            note(cuFuncSetAttribute(mix, carveout, 25 + 50 * half));
            note(cuFuncSetAttribute(mix, most, 1024 * half));
            note(cuFuncSetCacheConfig(mix,
                                      half ? CU_FUNC_CACHE_PREFER_L1 : CU_FUNC_CACHE_PREFER_EQUAL));
            body(NULL, step);
            note(cuKernelSetAttribute(carveout, 90 - 80 * half, kernel, dev));
            note(cuKernelSetCacheConfig(
                kernel, half ? CU_FUNC_CACHE_PREFER_L1 : CU_FUNC_CACHE_PREFER_SHARED, dev));
            note(cuLaunchKernel((CUfunction)kernel, 1, 1, 1, N, 1, 1, 0, NULL, args, NULL));
        }
        if (step % 5 == 4) { /* behind a part of the sequence */
            body(NULL, step);
            note(cuMemsetD32Async(buffer[2], step, 1, NULL));
        }
        if (step == 2 * STEPS)
            note(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096));
        note(cuStreamSynchronize(NULL));
    }
    note(cuLibraryUnload(library));
}

static void allocations(void)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    for (uint32_t step = 0; step < 4 * STEPS; step++) {
        CUdeviceptr a = 0, b = 0;
        note(cuMemAllocAsync(&a, 4 * N, s));
        note(cuMemcpyDtoDAsync(a, buffer[0], 4 * N, s));
        note(launch_mix(a, N, step, s));
        note(cuMemAllocAsync(&b, 4 * N, s));
        note(cuMemcpyDtoDAsync(b, a, 4 * N, s));
        note(cuMemFreeAsync(a, s));
        note(launch_mix(b, N, 2, s));
        note(cuMemcpyDtoDAsync(buffer[0], b, 4 * N, s));
        note(cuMemFreeAsync(b, s));
        if (step % 6 == 5)
            note(cuStreamSynchronize(s));
    }
    note(cuStreamDestroy(s));
}

/* No op but memsets of memory that lives for one step, all of it gone at the sequence's end. */
static void temporaries(void)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    for (uint32_t step = 0; step < 4 * STEPS; step++) {
        CUdeviceptr a = 0;
        note(cuMemAllocAsync(&a, 4 * N, s));
        note(cuMemsetD32Async(a, step, N, s));
        note(launch_mix(a, N, step, s));
        note(launch_mix(buffer[0], N, step, s));
        note(cuMemFreeAsync(a, s));
        note(cuStreamSynchronize(s));
    }
    note(cuStreamDestroy(s));
}

/* A stream with a priority, and launches with others and with none, in one loop. */
static void priorities(void)
{
    CUstream s = NULL;
    note(cuStreamCreateWithPriority(&s, CU_STREAM_NON_BLOCKING, -2));
    for (uint32_t step = 0; step < STEPS; step++) {
        uint32_t n = N;
        void *args[] = {&buffer[0], &n, &step};
        for (int i = 0; i < 3; i++) {
            CUlaunchAttribute attr = {.id = CU_LAUNCH_ATTRIBUTE_PRIORITY,
                                      .value = {.priority = -i}};
            CUlaunchConfig config = one_block(N, &attr, 1, s);
            note(cuLaunchKernelEx(&config, mix, args, NULL));
            note(launch_mix(buffer[1], N, step, s));
            note(cuMemsetD32Async(buffer[2], step, 4, s));
        }
        note(cuStreamSynchronize(s));
    }
    note(cuStreamDestroy(s));
}

/* Attributes of streams that change between two launches of a loop that is replayed. */
static void attributes(void)
{
    CUstream s[2] = {stream_new(CU_STREAM_NON_BLOCKING), stream_new(CU_STREAM_DEFAULT)};
    for (uint32_t step = 0; step < 3 * STEPS; step++)
        for (unsigned i = 0; i < 2; i++) {
            CUstreamAttrValue value = {.priority = -3}, got = {0};
            note(launch_mix(buffer[i], N, step, s[i]));
            note(launch_mix(buffer[2 + i], N, 1, s[i]));
            if (step == STEPS && i == 0)
                note(cuStreamSetAttribute(s[0], CU_STREAM_ATTRIBUTE_PRIORITY, &value));
            else if (step == 2 * STEPS && i == 1)
                note(cuStreamCopyAttributes(s[1], s[0]));
            note(cuStreamGetAttribute(s[i], CU_STREAM_ATTRIBUTE_PRIORITY, &got));
            note((CUresult)-got.priority);
            note(launch_mix(buffer[i], N, 2, s[i]));
            note(cuMemsetD32Async(buffer[2 + i], step, 1, s[i]));
            if (step % 3 == 0)
                note(cuStreamSynchronize(s[i]));
        }
    for (unsigned i = 0; i < 2; i++)
        note(cuStreamDestroy(s[i]));
}

/* The host only waits by copies: what fails shows in the launches themselves. */
static void unwaited(void)
{
    uint32_t host[N];
    for (uint32_t step = 0; step < STEPS; step++) {
        body(NULL, step);
        if (step % 5 == 0)
            note(launch_mix(buffer[2], N, step, NULL)); /* and the rest goes out op by op */
        note(cuMemcpyDtoH(host, buffer[0], sizeof host));
    }
    printf("failures of launches %u\n", failures);
}

/* Kernels of a library, launch attributes, and a module that comes and goes. */
static void kernels(void)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    for (unsigned round = 0; round < 3; round++) {
        CUlibrary library;
        CUkernel kernel;
        note(cuLibraryLoadData(&library, agsim_kernels_ptx, NULL, NULL, 0, NULL, NULL, 0));
        note(cuLibraryGetKernel(&kernel, library, "ag_mix"));
        CUlaunchAttribute attrs[2] = {
            {.id = CU_LAUNCH_ATTRIBUTE_PRIORITY, .value = {.priority = 0}},
            {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value = {.cooperative = 0}}};
        CUlaunchConfig config = one_block(N, attrs, 2, s);
        for (uint32_t step = 0; step < STEPS; step++) {
            uint32_t n = N;
            void *args[] = {&buffer[0], &n, &step};
            note(cuLaunchKernel((CUfunction)kernel, 1, 1, 1, N, 1, 1, 0, s, args, NULL));
            body(s, step);
            for (unsigned i = 0; i < 3; i++)
                note(cuLaunchKernelEx(&config, mix, args, NULL));
            if (step % 3 == 0) /* part of the trace only: the attributes go out eagerly */
                note(cuStreamSynchronize(s));
        }
        note(cuStreamSynchronize(s));
        note(cuLibraryUnload(library));
    }
    note(cuStreamDestroy(s));
}

/* A context beside the first, with streams of its own, destroyed with work in them. */
static void contexts(void)
{
    for (unsigned round = 0; round < 2; round++) {
        CUcontext second, popped;
        note(create_context(&second));
        CUmodule m;
        CUfunction first = mix;
        note(cuModuleLoadData(&m, agsim_kernels_ptx));
        note(cuModuleGetFunction(&mix, m, "ag_mix"));
        CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
        for (uint32_t step = 0; step < STEPS; step++)
            body(s, step);
        note(cuCtxPopCurrent(&popped));
        note(cuStreamSynchronize(s)); /* of a context that is not current */
        note(cuCtxPushCurrent(second));
        note(cuCtxSynchronize());
        note(cuCtxDestroy(second));
        mix = first;
        for (uint32_t step = 0; step < STEPS; step++)
            body(NULL, step);
        note(cuCtxSynchronize());
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } all[] = {{"arguments", arguments},
               {"memsets", memsets},
               {"copies", copies},
               {"events", events},
               {"forks", forks},
               {"legacy", legacy},
               {"per_thread", per_thread},
               {"relay", relay},
               {"relay_lost", relay_lost},
               {"late", late},
               {"capture", capture},
               {"streams", streams},
               {"exits", exits},
               {"values", values},
               {"allocations", allocations},
               {"temporaries", temporaries},
               {"kernels", kernels},
               {"contexts", contexts},
               {"priorities", priorities},
               {"unwaited", unwaited},
               {"writes", writes},
               {"settings", settings},
               {"attributes", attributes},
               {"no_stream", no_stream},
               {"reads", reads},
               {"reads_beside", reads_beside},
               {"pinned_reads", pinned_reads},
               {"uploads", uploads}};
    unsigned i = 0;
    CHECK(argc == 2);
    while (i < sizeof all / sizeof all[0] && strcmp(all[i].name, argv[1]))
        i++;
    CHECK(i < sizeof all / sizeof all[0]);
    alarm(100);
    start();
    for (unsigned b = 0; b < BUFFERS; b++) {
        OK(cuMemAlloc(&buffer[b], 4 * N));
        OK(cuMemsetD32(buffer[b], b + 1, N));
    }
    OK(cuCtxSynchronize());
    all[i].run();
    note(cuCtxSynchronize());
    uint32_t host[N];
    for (unsigned b = 0; b < BUFFERS; b++) {
        note(cuMemcpyDtoH(host, buffer[b], sizeof host));
        uint32_t sum = 0;
        for (unsigned j = 0; j < N; j++)
            sum = sum * 31 + host[j];
        printf("%u %08x\n", b, sum);
    }
    printf("answers %08x, failures %u\n", answers, failures);
    return 0;
}
