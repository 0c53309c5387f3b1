/* SPDX-License-Identifier: MIT */
/*
 * A CUDA runtime over the driver of door_driver.c: it has its own function for each kernel.
 * VERSION is the version that it says it has. And a program's calls of it, with USER.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stddef.h>

struct dim3 {
    unsigned x, y, z;
};
int cudaLaunchKernel(const void *kernel, struct dim3 grid, struct dim3 block, void **params,
                     size_t shared, void *stream);

#ifndef USER
int runtime_calls;
int runtime_broken; /* fails before it comes to the driver */
long runtime_offset = 0x1000;

int cudaRuntimeGetVersion(int *version)
{
    *version = VERSION;
    return 0;
}

/* An odd kernel is launched with a configuration. */
int cudaLaunchKernel(const void *kernel, struct dim3 grid, struct dim3 block, void **params,
                     size_t shared, void *stream)
{
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY);
    CUfunction func = (CUfunction)((long)kernel + runtime_offset);
    runtime_calls++;
    if (runtime_broken)
        return 1;
    if ((long)kernel % 2) {
        CUlaunchConfig config = {grid.x,  grid.y,           grid.z, block.x, block.y,
                                 block.z, (unsigned)shared, stream, NULL,    0};
        return ((__typeof__(cuLaunchKernelEx) *)dlsym(driver, "cuLaunchKernelEx"))(&config, func,
                                                                                   params, NULL);
    }
    return ((__typeof__(cuLaunchKernel) *)dlsym(driver, "cuLaunchKernel"))(
        func, grid.x, grid.y, grid.z, block.x, block.y, block.z, (unsigned)shared, stream, params,
        NULL);
}

void runtime_set(long broken, long offset)
{
    runtime_broken = (int)broken;
    runtime_offset = offset;
}
#else
extern int runtime_calls;
void runtime_set(long broken, long offset);

/* The number of times that the runtime has been called; negative where this launch failed. Kernels
   from 0x40 on are launched in the default stream. */
int launch(long kernel)
{
    int result = cudaLaunchKernel((void *)kernel, (struct dim3){2, 3, 4}, (struct dim3){5, 6, 7},
                                  (void **)8, 9, kernel < 0x40 ? (void *)10 : NULL);
    return result == 0 ? runtime_calls : -runtime_calls;
}

void break_runtime(long broken)
{
    runtime_set(broken, 0x1000);
}

/* As when another module was loaded in the place of one that is gone. */
void move_functions(long offset)
{
    runtime_set(0, offset);
}
#endif
