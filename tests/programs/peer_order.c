/* SPDX-License-Identifier: MIT */
/* peer_order.c: one thread gives a stream of the second device work; another one copies the result
 * to the first device in the default stream, which comes behind that work: by cuMemcpy, or as the
 * argument says ("async", "peer"). Prints how many copies came too early. */
#include <pthread.h>

#include "sim_test.h"

enum { N = 32, STEPS = 240 };

static CUcontext second;
static CUfunction mix_there;
static CUdeviceptr here, there;
static CUstream stream;
static pthread_barrier_t turn;

static void work(uint32_t first)
{
    uint32_t n = N;
    for (uint32_t k = first; k < first + 3; k++) {
        void *args[] = {&there, &n, &k};
        OK(cuLaunchKernel(mix_there, 1, 1, 1, n, 1, 1, 0, stream, args, NULL));
    }
}

static void *beside(void *arg)
{
    OK(cuCtxSetCurrent(second));
    for (uint32_t step = 0; step < STEPS; step++) {
        work(0);
        pthread_barrier_wait(&turn);
        pthread_barrier_wait(&turn);
        work(3);
        OK(cuStreamSynchronize(stream));
    }
    return arg;
}

static void copy(const char *way)
{
    if (strcmp(way, "peer") == 0)
        OK(cuMemcpyPeerAsync(here, ctx, there, second, 4 * N, NULL));
    else if (strcmp(way, "async") == 0)
        OK(cuMemcpyAsync(here, there, 4 * N, NULL));
    else
        OK(cuMemcpy(here, there, 4 * N));
}

int main(int argc, char **argv)
{
    CUdevice device;
    CUmodule module;
    pthread_t thread;
    uint32_t want = 1, got, early = 0;
    alarm(40);
    start();
    OK(cuMemAlloc(&here, 4 * N));
    OK(cuDeviceGet(&device, 1));
    OK(cuDevicePrimaryCtxRetain(&second, device));
    OK(cuCtxSetCurrent(second));
    OK(cuModuleLoadData(&module, agsim_kernels_ptx));
    OK(cuModuleGetFunction(&mix_there, module, "ag_mix"));
    OK(cuMemAlloc(&there, 4 * N));
    OK(cuMemsetD32(there, want, N));
    OK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    OK(cuCtxSynchronize());
    OK(cuCtxSetCurrent(ctx));
    CHECK(pthread_barrier_init(&turn, NULL, 2) == 0);
    CHECK(pthread_create(&thread, NULL, beside, NULL) == 0);
    for (uint32_t step = 0; step < STEPS; step++) {
        pthread_barrier_wait(&turn);
        for (uint32_t k = 0; k < 3; k++)
            want = mixed(want, k);
        if (step % 4 == 3) {
            copy(argc > 1 ? argv[1] : "");
            OK(cuMemcpyDtoH(&got, here, 4));
            early += got != want;
        }
        for (uint32_t k = 3; k < 6; k++)
            want = mixed(want, k);
        pthread_barrier_wait(&turn);
    }
    CHECK(pthread_join(thread, NULL) == 0);
    printf("%u too early\n", early);
    return 0;
}
