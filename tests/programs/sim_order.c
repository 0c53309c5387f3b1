/* SPDX-License-Identifier: MIT */
/* sim_order.c: what runs before what: the legacy stream and the others, the
 * per-thread default stream, full queues, stream-ordered memory. */
#define _GNU_SOURCE
#include "sim_test.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>

static volatile uint32_t *words;

/* With a kernel that spins on `first`, does a flag kernel on `second` run within so many ms? */
static bool passes_within(CUstream first, CUstream second, int ms)
{
    set_word(&words[0], 0);
    set_word(&words[1], 0);
    OK(launch_word(spin, &words[0], 1, first));
    OK(launch_word(flag, &words[1], 1, second));
    while (get_word(&words[1]) != 1 && ms-- > 0)
        usleep(1000);
    bool passed = get_word(&words[1]) == 1;
    set_word(&words[0], 1);
    OK(cuCtxSynchronize());
    CHECK(get_word(&words[1]) == 1);
    return passed;
}

static bool waits(CUstream first, CUstream second)
{
    return !passes_within(first, second, 20);
}

static bool passes(CUstream first, CUstream second)
{
    return passes_within(first, second, 30000); /* a busy machine may be late */
}

static void defaults(void)
{
    CUstream blocking, other, free_running;
    OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    OK(cuStreamCreate(&other, CU_STREAM_DEFAULT));
    OK(cuStreamCreate(&free_running, CU_STREAM_NON_BLOCKING));
    CHECK(waits(0, blocking));
    CHECK(waits(blocking, 0));
    CHECK(waits(0, CU_STREAM_PER_THREAD));
    CHECK(waits(CU_STREAM_PER_THREAD, 0));
    CHECK(waits(CU_STREAM_LEGACY, 0));
    CHECK(waits(blocking, blocking));
    CHECK(passes(0, free_running));
    CHECK(passes(free_running, 0));
    CHECK(passes(blocking, other));
    CHECK(passes(blocking, free_running));
    CHECK(passes(CU_STREAM_PER_THREAD, blocking));
    /* Through the legacy stream one blocking stream waits for another. */
    set_word(&words[0], 0);
    set_word(&words[1], 0);
    OK(launch_word(spin, &words[0], 1, blocking));
    OK(cuMemsetD32Async((CUdeviceptr)(uintptr_t)&words[2], 1, 1, 0));
    OK(launch_word(flag, &words[1], 1, other));
    usleep(20000);
    CHECK(get_word(&words[1]) == 0);
    set_word(&words[0], 1);
    OK(cuStreamSynchronize(other));
    CHECK(get_word(&words[1]) == 1);
    OK(cuStreamDestroy(blocking));
    OK(cuStreamDestroy(other));
    OK(cuStreamDestroy(free_running));
}

/* The _ptsz functions mean the per-thread stream by stream 0. */
typedef CUresult launch_fn(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                           unsigned, CUstream, void **, void **);

static void *other_thread(void *arg)
{
    launch_fn *launch = *(launch_fn **)arg;
    CUdeviceptr p = (CUdeviceptr)(uintptr_t)&words[1];
    uint32_t one = 1;
    void *args[] = {&p, &one};
    OK(cuCtxSetCurrent(ctx));
    OK(launch(flag, 1, 1, 1, 1, 1, 1, 0, 0, args, NULL));
    OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    CHECK(get_word(&words[1]) == 1);
    return NULL;
}

static void per_thread(void)
{
    void *symbol;
    launch_fn *launch;
    OK(cuGetProcAddress("cuLaunchKernel", &symbol, 12000,
                        CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, NULL));
    memcpy(&launch, &symbol, sizeof launch);
    CUdeviceptr p = (CUdeviceptr)(uintptr_t)&words[0];
    uint32_t one = 1;
    void *args[] = {&p, &one};
    set_word(&words[0], 0);
    set_word(&words[1], 0);
    OK(launch(spin, 1, 1, 1, 1, 1, 1, 0, 0, args, NULL));
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(CU_STREAM_PER_THREAD));
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(0));
    pthread_t t; /* another thread's is another stream */
    CHECK(pthread_create(&t, NULL, other_thread, &launch) == 0);
    CHECK(pthread_join(t, NULL) == 0);
    set_word(&words[0], 1);
    OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
}

static void *release(void *arg)
{
    usleep(30000);
    CHECK(get_word(arg) == 0);
    set_word(&words[0], 1);
    return NULL;
}

/* About a thousand launches wait behind a kernel; one more makes the call wait. */
static void full_queue(void)
{
    CUstream s;
    pthread_t t;
    unsigned n = 0;
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    set_word(&words[0], 0);
    set_word(&words[3], 0);
    OK(launch_word(spin, &words[0], 1, s));
    for (; n < 900; n++)
        OK(cuLaunchKernel(nop, 1, 1, 1, 1, 1, 1, 0, s, NULL, NULL));
    CHECK(pthread_create(&t, NULL, release, (void *)&words[3]) == 0);
    for (; n < 3000; n++)
        OK(cuLaunchKernel(nop, 1, 1, 1, 1, 1, 1, 0, s, NULL, NULL));
    set_word(&words[3], 1);
    CHECK(get_word(&words[0]) == 1); /* only then did the calls go on */
    CHECK(pthread_join(t, NULL) == 0);
    OK(cuStreamSynchronize(s));
    OK(cuStreamDestroy(s));
}

/* Memory freed in a stream is there again for that stream, in its order. */
static void stream_memory(void)
{
    CUstream s, t;
    CUdeviceptr a, b, keep, first = 0;
    uint32_t got, want = 0;
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&keep, 64));
    OK(cuMemsetD32(keep, 0, 16));
    OK(cuCtxSynchronize());
    uint32_t one = 1;
    for (uint32_t k = 0; k < 50; k++) {
        OK(cuMemAllocAsync(&a, 4096, s));
        first = first ? first : a;
        CHECK(a == first);
        OK(cuMemcpyDtoDAsync(a, keep, 4, s));
        OK(launch_mix(a, 1, k, s));
        void *args[] = {&keep, &a, &one};
        OK(cuLaunchKernel(word_copy, 1, 1, 1, 1, 1, 1, 0, s, args, NULL));
        OK(cuMemFreeAsync(a, s));
        want = mixed(want, k);
    }
    /* While the free waits behind a kernel, another stream gets other memory. */
    set_word(&words[0], 0);
    OK(cuMemAllocAsync(&a, 4096, s));
    OK(launch_word(spin, &words[0], 1, s));
    OK(cuMemFreeAsync(a, s));
    OK(cuMemAllocAsync(&b, 4096, t));
    CHECK(a != b);
    set_word(&words[0], 1);
    OK(cuMemFreeAsync(b, t));
    OK(cuStreamSynchronize(s));
    OK(cuMemcpyDtoH(&got, keep, 4));
    CHECK(got == want);
    OK(cuMemFree(keep));
    OK(cuStreamDestroy(s));
    OK(cuStreamDestroy(t));
}

/* Values in memory, written and waited for. */
static void values(void)
{
    CUstream s, t;
    CUdeviceptr p = (CUdeviceptr)(uintptr_t)&words[8];
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
    set_word(&words[8], 0);
    set_word(&words[1], 0);
    OK(cuStreamWaitValue32(t, p, 7, CU_STREAM_WAIT_VALUE_GEQ));
    OK(launch_word(flag, &words[1], 1, t));
    OK(cuStreamWriteValue32(s, p, 6, 0));
    OK(cuStreamSynchronize(s));
    usleep(5000);
    CHECK(get_word(&words[1]) == 0);
    OK(cuStreamWriteValue32(s, p, 8, 0));
    OK(cuStreamSynchronize(t));
    CHECK(get_word(&words[1]) == 1);
    /* Several in one call, in their order. */
    CUstreamBatchMemOpParams ops[3];
    memset(ops, 0, sizeof ops);
    ops[0].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    ops[0].waitValue.address = p;
    ops[0].waitValue.value = 20;
    ops[0].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
    ops[1].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    ops[1].writeValue.address = p;
    ops[1].writeValue.value = 21;
    ops[2].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
    ops[2].writeValue.address = p + 8;
    ops[2].writeValue.value64 = 1ull << 40;
    OK(cuStreamBatchMemOp(t, 3, ops, 0));
    usleep(2000);
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(t));
    OK(cuStreamWriteValue32(s, p, 20, 0));
    OK(cuStreamSynchronize(t));
    CHECK(get_word(&words[8]) == 21 && get_word(&words[11]) == 256);
    OK(cuStreamBatchMemOp(t, 0, ops, 0));
    OK(cuStreamDestroy(s));
    OK(cuStreamDestroy(t));
}

/* An event that a launch carries with it. */
static void launch_event(void)
{
    CUstream s, t;
    CUevent e, timed;
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    OK(cuEventCreate(&timed, CU_EVENT_DEFAULT));
    set_word(&words[0], 0);
    set_word(&words[1], 0);
    CUlaunchAttribute a = {.id = CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT};
    a.value.launchCompletionEvent.event = e;
    CUlaunchConfig c = one_block(1, &a, 1, s);
    OK(launch_word(spin, &words[0], 1, s));
    OK(cuLaunchKernelEx(&c, nop, NULL, NULL));
    EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(e));
    OK(cuStreamWaitEvent(t, e, 0));
    OK(launch_word(flag, &words[1], 1, t));
    usleep(2000);
    CHECK(get_word(&words[1]) == 0);
    set_word(&words[0], 1);
    OK(cuStreamSynchronize(t));
    CHECK(get_word(&words[1]) == 1);
    a.value.launchCompletionEvent.event = timed;
    EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuLaunchKernelEx(&c, nop, NULL, NULL));
    OK(cuStreamSynchronize(s));
    OK(cuStreamDestroy(s));
    OK(cuStreamDestroy(t));
    OK(cuEventDestroy(e));
    OK(cuEventDestroy(timed));
}

int main(void)
{
    alarm(60);
    start();
    words = host_words(16);
    defaults();
    per_thread();
    full_queue();
    stream_memory();
    values();
    launch_event();
    puts("ok");
    return 0;
}
