/* SPDX-License-Identifier: MIT */
/*
 * live_pool.c SCENARIO: calls that came ahead of what is held, and must not: allocations that wait
 * for another stream's free (AGSIM_REUSE), and the first call on a stream of a context that is not
 * current.
 */
#include "live.h"

static CUstream other;
static pthread_barrier_t turn;
static unsigned wrong;

static void CUDA_CB slow(void *unused)
{
    (void)unused;
    usleep(2000);
}

static void *owner(void *arg)
{
    const CUstream own = CU_STREAM_PER_THREAD;
    OK(cuCtxSetCurrent(ctx));
    for (uint32_t step = 1; step <= STEPS; step++) {
        CUdeviceptr x, y;
        uint32_t host[N];
        OK(cuMemAllocAsync(&x, 4 * N, other));
        OK(cuLaunchHostFunc(other, slow, NULL));
        OK(cuMemsetD32Async(x, 7, N, other));
        OK(cuMemFreeAsync(x, other));
        OK(launch_mix(buffer[0], N, 1, own));
        OK(launch_mix(buffer[0], N, 2, own));
        OK(cuMemAllocAsync(&y, 4 * N, own)); /* the same memory, behind the free */
        OK(cuMemsetD32Async(y, step, N, own));
        OK(launch_mix(y, N, 0, own));
        pthread_barrier_wait(&turn);
        pthread_barrier_wait(&turn); /* what is held has been submitted by another thread */
        OK(launch_mix(buffer[0], N, 3, own));
        OK(cuMemcpyDtoHAsync(host, y, sizeof host, own));
        OK(cuStreamSynchronize(own));
        wrong += host[0] != step * 1664525u;
        OK(cuMemFreeAsync(y, own));
        OK(cuStreamSynchronize(own));
        OK(cuStreamSynchronize(other));
    }
    return arg;
}

/* A per-thread default stream: its relay has to come behind the allocation. */
static void relayed(void)
{
    pthread_t thread;
    other = made(CU_STREAM_NON_BLOCKING);
    CHECK(pthread_barrier_init(&turn, NULL, 2) == 0);
    CHECK(pthread_create(&thread, NULL, owner, NULL) == 0);
    for (uint32_t step = 1; step <= STEPS; step++) {
        CUdeviceptr at;
        pthread_barrier_wait(&turn);
        if (step > STEPS / 2 && step % 4 == 0) {
            OK(cuMemAlloc(&at, 64));
            OK(cuMemFree(at));
        }
        pthread_barrier_wait(&turn);
    }
    CHECK(pthread_join(thread, NULL) == 0);
    printf("%u wrong\n", wrong);
    show_all("relayed");
}

/* A kernel waits for one that was launched in another stream, and then memory is freed behind it,
   which an allocation in that one gets. */
static void ahead(void)
{
    CUstream t = made(CU_STREAM_NON_BLOCKING), s = made(CU_STREAM_NON_BLOCKING);
    volatile uint32_t *word = host_words(1);
    for (uint32_t step = 1; step <= STEPS; step++) {
        CUdeviceptr x, y;
        OK(cuMemAllocAsync(&x, 4 * N, t));
        OK(launch_word(spin, word, step, t));
        OK(cuMemFreeAsync(x, t));
        OK(launch_mix(buffer[0], N, 1, s));
        OK(launch_word(flag, word, step, s));
        OK(cuMemAllocAsync(&y, 4 * N, s));
        OK(launch_mix(y, N, 1, s));
        OK(launch_mix(y, N, 2, s));
        OK(cuMemFreeAsync(y, s));
        OK(cuStreamSynchronize(s));
        OK(cuStreamSynchronize(t));
    }
    show_all("ahead");
}

/* The legacy stream of a context holds ops, and another context is current at the first call on a
   new blocking stream of it. */
static void elsewhere(void)
{
    CUcontext there;
    CUmodule module;
    unsigned early = 0;
    OK(create_context(&there));
    volatile uint32_t *word = host_words(1);
    OK(cuModuleLoadData(&module, agsim_kernels_ptx));
    OK(cuModuleGetFunction(&mix, module, "ag_mix"));
    OK(cuModuleGetFunction(&flag, module, "ag_flag"));
    CUdeviceptr at;
    OK(cuMemAlloc(&at, 4 * N));
    OK(cuMemsetD32(at, 1, N));
    for (uint32_t step = 1; step <= STEPS; step++) {
        CUstream s = made(CU_STREAM_DEFAULT);
        uint32_t seen;
        body(NULL, at, step);
        OK(launch_word(flag, word, step, NULL));
        OK(launch_mix(at, N, 3, NULL));
        OK(cuCtxSetCurrent(ctx));
        OK(cuMemcpyDtoHAsync(&seen, (CUdeviceptr)(uintptr_t)word, 4, s));
        OK(cuStreamSynchronize(s));
        early += seen != step;
        OK(cuCtxSetCurrent(there));
        body(NULL, at, step); /* or the sequence would have been at its end */
        OK(cuStreamSynchronize(NULL));
        OK(cuStreamDestroy(s));
    }
    printf("%u copies came early\n", early);
    show("elsewhere", at);
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {
        {"relayed", relayed}, {"ahead", ahead}, {"elsewhere", elsewhere}, {NULL, NULL}};
    run(all, argc, argv);
    return 0;
}
