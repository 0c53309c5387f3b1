/* SPDX-License-Identifier: MIT */
/* peer_order.c WAY [own]: one thread gives a non-blocking stream of the second device work; another
 * one copies the result to the first device in the default stream of the first ("own": of the
 * device where the work is), which comes behind that work: by cuMemcpy ("sync"), cuMemcpyAsync
 * ("async") or cuMemcpyPeerAsync ("peer"). Prints how many copies came too early. ("upload": the
 * copies come from the host.) */
#include <pthread.h>

#include "sim_test.h"

enum { N = 32, STEPS = 240 };

static CUcontext second, copying;
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

static void copy(const char *way, const uint32_t *upload)
{
    OK(cuCtxSetCurrent(copying));
    if (strcmp(way, "peer") == 0)
        OK(cuMemcpyPeerAsync(here, ctx, there, second, 4 * N, NULL));
    else if (strcmp(way, "async") == 0)
        OK(cuMemcpyAsync(here, there, 4 * N, NULL));
    else if (strcmp(way, "upload") == 0)
        OK(cuMemcpyHtoD(here, upload, 4));
    else
        OK(cuMemcpy(here, there, 4 * N));
    OK(cuStreamSynchronize(NULL));
    OK(cuCtxSetCurrent(ctx));
}

int main(int argc, char **argv)
{
    CUdevice device;
    CUmodule module;
    pthread_t thread;
    uint32_t want = 1, got, early = 0;
    CHECK(argc >= 2);
    alarm(100);
    start();
    OK(cuMemAlloc(&here, 4 * N));
    OK(cuDeviceGet(&device, 1));
    OK(cuDevicePrimaryCtxRetain(&second, device));
    OK(cuCtxSetCurrent(second));
    OK(cuModuleLoadData(&module, agsim_kernels_ptx));
    OK(cuModuleGetFunction(&mix_there, module, "ag_mix"));
    OK(cuMemAlloc(&there, 4 * N));
    OK(cuMemsetD32(there, want, N));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuCtxSynchronize());
    OK(cuCtxSetCurrent(ctx));
    copying = argc > 2 ? second : ctx;
    CHECK(pthread_barrier_init(&turn, NULL, 2) == 0);
    CHECK(pthread_create(&thread, NULL, beside, NULL) == 0);
    for (uint32_t step = 0; step < STEPS; step++) {
        pthread_barrier_wait(&turn);
        for (uint32_t k = 0; k < 3; k++)
            want = mixed(want, k);
        if (step % 4 == 3) {
            copy(argv[1], &want);
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
