/* SPDX-License-Identifier: MIT */
/*
 * A CUDA runtime that answers each launch with its own number, RUNTIME, if all arguments arrived;
 * and, with CALLS, a library that calls it. With both it is a library with a runtime of its own.
 */
#include <stddef.h>

struct dim3 {
    unsigned x, y, z;
};

#define GRID(name)                                                                                 \
    int name(const void *kernel, struct dim3 grid, struct dim3 block, void **params,               \
             size_t shared, void *stream)
#define CONFIG(name) int name(const void *config, const void *kernel, void **params)

GRID(cudaLaunchKernel);
GRID(cudaLaunchKernel_ptsz);
GRID(__cudaLaunchKernel);
GRID(__cudaLaunchKernel_ptsz);
GRID(cudaLaunchCooperativeKernel);
GRID(cudaLaunchCooperativeKernel_ptsz);
CONFIG(cudaLaunchKernelExC);
CONFIG(cudaLaunchKernelExC_ptsz);

#ifdef RUNTIME
#define DEFINE_GRID(name, number)                                                                  \
    GRID(name)                                                                                     \
    {                                                                                              \
        return kernel == (void *)1 && grid.x == 2 && grid.y == 3 && grid.z == 4 && block.x == 5 && \
                       block.y == 6 && block.z == 7 && params == (void **)8 && shared == 9 &&      \
                       stream == (void *)10                                                        \
                   ? RUNTIME * 10 + number                                                         \
                   : -1;                                                                           \
    }
#define DEFINE_CONFIG(name, number)                                                                \
    CONFIG(name)                                                                                   \
    {                                                                                              \
        return config == (void *)1 && kernel == (void *)2 && params == (void **)3                  \
                   ? RUNTIME * 10 + number                                                         \
                   : -1;                                                                           \
    }
DEFINE_GRID(cudaLaunchKernel, 0)
DEFINE_GRID(cudaLaunchKernel_ptsz, 1)
DEFINE_GRID(__cudaLaunchKernel, 2)
DEFINE_GRID(__cudaLaunchKernel_ptsz, 3)
DEFINE_GRID(cudaLaunchCooperativeKernel, 4)
DEFINE_GRID(cudaLaunchCooperativeKernel_ptsz, 5)
DEFINE_CONFIG(cudaLaunchKernelExC, 6)
DEFINE_CONFIG(cudaLaunchKernelExC_ptsz, 7)
#endif

#ifdef CALLS
#define CALL_GRID(name)                                                                            \
    name((void *)1, (struct dim3){2, 3, 4}, (struct dim3){5, 6, 7}, (void **)8, 9, (void *)10)
#define CALL_CONFIG(name) name((void *)1, (void *)2, (void **)3)

/* Calls each function from one place; the number of the runtime, if all answers are right. */
static int launch_all(void)
{
    volatile int number[] = {
        CALL_GRID(cudaLaunchKernel),
        CALL_GRID(cudaLaunchKernel_ptsz),
        CALL_GRID(__cudaLaunchKernel),
        CALL_GRID(__cudaLaunchKernel_ptsz),
        CALL_GRID(cudaLaunchCooperativeKernel),
        CALL_GRID(cudaLaunchCooperativeKernel_ptsz),
        CALL_CONFIG(cudaLaunchKernelExC),
        CALL_CONFIG(cudaLaunchKernelExC_ptsz),
    };
    for (int i = 1; i < 8; i++)
        if (number[i] != number[0] + i)
            return -1;
    return number[0] / 10;
}

int launch(void)
{
    int first = launch_all();
    for (int i = 0; i < 100; i++)
        if (launch_all() != first)
            return -1;
    return first;
}
#endif
