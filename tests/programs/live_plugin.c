/* SPDX-License-Identifier: MIT */
/* live_plugin.c: a library that launches, and may be unloaded after that. */
#include <cuda.h>
#include <stdint.h>
#include <stdlib.h>

void plugin(CUfunction f, CUdeviceptr at, uint32_t step)
{
    static uint32_t n = 32; /* in memory that goes with the library */
    void *args[] = {&at, &n, &step};
    for (step = 0; step < 5; step++)
        if (cuLaunchKernel(f, 1, 1, 1, n, 1, 1, 0, NULL, args, NULL) != CUDA_SUCCESS)
            abort();
}
