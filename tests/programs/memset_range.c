/* SPDX-License-Identifier: MIT */
/* memset_range.c: memsets in a loop, while the allocation that they are in makes room, at the same
 * address, for one that is too small for them, and back, in the way that the argument names. */
#include "sim_test.h"

#include <pthread.h>

enum { ROUNDS = 4, TRIPS = 50, BYTES = 1 << 21, STEP = 1 << 12 };

static CUstream stream;
static CUdeviceptr target;

/* -- Ways to free it ----------------------------------------------------------- */

static void freed(void)
{
    OK(cuMemFree(target));
}

static void *free_target(void *unused)
{
    (void)unused;
    OK(cuCtxSetCurrent(ctx));
    OK(cuMemFree(target));
    return NULL;
}

static void elsewhere(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, free_target, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

static void async(void)
{
    OK(cuMemFreeAsync(target, stream));
    OK(cuStreamSynchronize(stream));
}

static const struct {
    const char *name;
    void (*free)(void);
} ways[] = {
    {"freed", freed},
    {"elsewhere", elsewhere},
    {"async", async},
};

/* -- The loop ------------------------------------------------------------------ */

static void trips(CUdeviceptr at)
{
    unsigned refused = 0, sum = 0;
    for (unsigned trip = 0; trip < TRIPS; trip++) {
        unsigned char result[STEP];
        /* What the first one leaves of a small one is the second one's. */
        refused += cuMemsetD8Async(at, trip, BYTES, stream) != CUDA_SUCCESS;
        refused += cuMemsetD8Async(at + STEP, trip + 1, STEP, stream) != CUDA_SUCCESS;
        refused += cuMemsetD32Async(at + BYTES / 2, trip, BYTES / 8, stream) != CUDA_SUCCESS;
        OK(cuMemcpyDtoHAsync(result, at + STEP, STEP, stream));
        OK(cuStreamSynchronize(stream));
        for (int i = 0; i < STEP; i++)
            sum = sum * 31 + result[i];
    }
    printf("%u refused, %08x\n", refused, sum);
}

int main(int argc, char **argv)
{
    start();
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (size_t i = 0; argc == 2 && i < sizeof ways / sizeof *ways; i++) {
        if (strcmp(ways[i].name, argv[1]) != 0)
            continue;
        CUdeviceptr first = 0;
        for (int round = 0; round < ROUNDS; round++) {
            size_t bytes = round % 2 == 0 ? BYTES : BYTES / 2;
            if (ways[i].free == async)
                OK(cuMemAllocAsync(&target, bytes, stream));
            else
                OK(cuMemAlloc(&target, bytes));
            if (round == 0)
                first = target;
            printf("%s: ", target == first ? "the same address" : "another address");
            trips(target);
            ways[i].free();
        }
        return 0;
    }
    fprintf(stderr, "usage: memset_range WAY\n");
    return 2;
}
