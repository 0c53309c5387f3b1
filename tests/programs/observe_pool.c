/* SPDX-License-Identifier: MIT */
/* observe_pool.c gives|keeps|own: steps that allocate stream-ordered memory, use it, free it and
 * wait. It is of the device's pool as that is, of the device's pool set to keep its memory, or of a
 * pool that the program names. */
#include <string.h>

#include "sim_test.h"

enum { N = 32 };

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "gives";
    CUdevice device;
    CUmemoryPool pool;
    CUstream stream;
    start();
    OK(cuCtxGetDevice(&device));
    OK(cuDeviceGetMemPool(&pool, device));
    if (strcmp(mode, "keeps") == 0) {
        cuuint64_t all = UINT64_MAX;
        OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
    }
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int step = 0; step < 100; step++) {
        CUdeviceptr memory;
        if (strcmp(mode, "own") == 0)
            OK(cuMemAllocFromPoolAsync(&memory, 1024, pool, stream));
        else
            OK(cuMemAllocAsync(&memory, 1024, stream));
        OK(launch_mix(memory, N, 7, stream));
        OK(cuMemFreeAsync(memory, stream));
        OK(cuStreamSynchronize(stream));
    }
    return 0;
}
