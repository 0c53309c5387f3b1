/* SPDX-License-Identifier: MIT */
/* memory_changes.c: copies in a loop, while their memory becomes other memory at the same address,
 * in the way that the argument names; "never" of them: it stays. */
#include "sim_test.h"

#include <pthread.h>
#include <sys/mman.h>

enum { ROUNDS = 6, TRIPS = 50, WORDS = 256, BYTES = WORDS * 4, PAGE = 4096 };

static CUstream stream;
static CUdeviceptr target, work;
static uint32_t *source, sum;
static size_t mapped;
static CUmemGenericAllocationHandle handle;

/* -- Ways to change ---------------------------------------------------------- */

static void never(int round)
{
    if (round == 0) {
        OK(cuMemAlloc(&target, BYTES));
        OK(cuMemAllocHost((void **)&source, BYTES));
    }
}

/* Pinned in even rounds, pageable in odd ones, of which the driver reads during the call. */
static void unregister(int round)
{
    if (round == 0) {
        OK(cuMemAlloc(&target, BYTES));
        source = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(source != MAP_FAILED);
    }
    if (round % 2 == 0)
        OK(cuMemHostRegister(source, PAGE, 0));
    else
        OK(cuMemHostUnregister(source));
}

/* A kind of memory that is never held takes the place of one that is. */
static void freed(int round)
{
    if (round != 0)
        OK(cuMemFree(target));
    else
        OK(cuMemAllocHost((void **)&source, BYTES));
    if (round % 2 == 0)
        OK(cuMemAlloc(&target, BYTES));
    else
        OK(cuMemAllocManaged(&target, BYTES, CU_MEM_ATTACH_GLOBAL));
}

static void freed_host(int round)
{
    if (round == 0)
        OK(cuMemAlloc(&target, BYTES));
    else
        OK(cuMemFreeHost(source));
    OK(cuMemAllocHost((void **)&source, BYTES));
}

static void freed_async(int round)
{
    if (round == 0)
        OK(cuMemAllocHost((void **)&source, BYTES));
    else
        OK(cuMemFreeAsync(target, stream));
    OK(cuMemAllocAsync(&target, BYTES, stream));
}

static void unmapped(int round)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, dev}};
    CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    if (round == 0) {
        OK(cuMemAllocHost((void **)&source, BYTES));
        OK(cuMemGetAllocationGranularity(&mapped, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
        OK(cuMemAddressReserve(&target, mapped, 0, 0, 0));
    } else {
        OK(cuMemUnmap(target, mapped));
        OK(cuMemRelease(handle));
    }
    OK(cuMemCreate(&handle, mapped, &prop, 0));
    OK(cuMemMap(target, mapped, 0, handle, 0));
    OK(cuMemSetAccess(target, mapped, &access, 1));
}

static void *free_target(void *unused)
{
    (void)unused;
    OK(cuCtxSetCurrent(ctx));
    OK(cuMemFree(target));
    return NULL;
}

/* Another context frees it, and the memory that takes its place is that context's. */
static void freed_by_context(int round)
{
    static CUcontext other;
    if (round == 0) {
        OK(cuMemAllocHost((void **)&source, BYTES));
        OK(create_context(&other));
    }
    OK(cuCtxSetCurrent(other));
    if (round != 0)
        OK(cuMemFree(target));
    if (round % 2 == 0)
        OK(cuCtxSetCurrent(ctx));
    OK(cuMemAlloc(&target, BYTES));
    OK(cuCtxSetCurrent(ctx));
}

static void freed_elsewhere(int round)
{
    pthread_t thread;
    if (round == 0) {
        OK(cuMemAllocHost((void **)&source, BYTES));
    } else {
        CHECK(pthread_create(&thread, NULL, free_target, NULL) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
    }
    OK(cuMemAlloc(&target, BYTES));
}

static void reset(int round)
{
    if (round != 0) {
        OK(cuDevicePrimaryCtxReset(dev));
        OK(cuDevicePrimaryCtxRetain(&ctx, dev));
        OK(cuCtxSetCurrent(ctx));
        OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        OK(cuMemAlloc(&work, BYTES));
    }
    OK(cuMemAlloc(&target, BYTES));
    OK(cuMemAllocHost((void **)&source, BYTES));
}

static const struct {
    const char *name;
    void (*change)(int round);
} ways[] = {
    {"never", never},
    {"unregister", unregister},
    {"freed", freed},
    {"host", freed_host},
    {"async", freed_async},
    {"unmapped", unmapped},
    {"thread", freed_elsewhere},
    {"context", freed_by_context},
    {"reset", reset},
};

/* -- The loop ------------------------------------------------------------------ */

static void trips(void)
{
    uint32_t result[WORDS];
    for (uint32_t trip = 0; trip < TRIPS; trip++) {
        unsigned type = 0;
        int pinned = cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                           (CUdeviceptr)source) == CUDA_SUCCESS;
        for (uint32_t i = 0; i < WORDS; i++)
            source[i] = trip * 31 + i;
        OK(cuMemsetD32Async(work, trip, WORDS, stream));
        OK(cuMemsetD32Async(work, trip + 1, WORDS / 2, stream));
        OK(cuMemcpyHtoDAsync(target, source, BYTES, stream));
        if (!pinned) /* it has been read */
            memset(source, 0xff, BYTES);
        OK(cuMemsetD32Async(work + BYTES / 2, trip + 2, 8, stream));
        OK(cuMemcpyDtoDAsync(work + 64, target + 64, BYTES / 2, stream));
        OK(cuMemcpyDtoHAsync(result, trip % 2 ? work : target, BYTES, stream));
        OK(cuStreamSynchronize(stream));
        for (int i = 0; i < WORDS; i++)
            sum = sum * 31 + result[i];
    }
}

int main(int argc, char **argv)
{
    start();
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&work, BYTES));
    for (size_t i = 0; argc == 2 && i < sizeof ways / sizeof *ways; i++)
        if (strcmp(ways[i].name, argv[1]) == 0) {
            for (int round = 0; round < ROUNDS; round++) {
                ways[i].change(round);
                trips();
            }
            printf("%08x\n", sum);
            return 0;
        }
    fprintf(stderr, "usage: memory_changes WAY\n");
    return 2;
}
