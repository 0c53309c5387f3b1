/* SPDX-License-Identifier: MIT */
/*
 * KERNEL and LAUNCH for a host compiler: a kernel is an ordinary function that
 * the simulated driver calls for each thread. It is registered with the CUDA
 * runtime as nvcc's generated code does it: a fat binary (here the PTX of one
 * empty entry, which tells the parameters' sizes) and the function in it. A
 * launch pushes and pops its configuration, and goes the way of nvcc 13, through
 * __cudaLaunchKernel, or with __NV_LEGACY_LAUNCH that of older ones, through cudaLaunchKernel.
 */
#ifndef HOST_KERNEL_H
#define HOST_KERNEL_H

#include <algorithm>
#include <string>
#include <type_traits>
#include <utility>

#include <cuda_runtime_api.h>

#include "tests/sim/agsim.h"

#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#define __cudaLaunchKernel __cudaLaunchKernel_ptsz
#endif

/* nvcc declares these by itself, no header does. */
extern "C" {
void **__cudaRegisterFatBinary(void *wrapper);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *host_function, char *device_function,
                            const char *device_name, int thread_limit, uint3 *tid, uint3 *bid,
                            dim3 *block, dim3 *grid, int *warp_size);
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host_function);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments,
                               size_t shared, cudaStream_t stream);
}

/* What a kernel sees: here the position is the executing host thread's. */
static thread_local uint3 threadIdx, blockIdx;
static thread_local dim3 blockDim, gridDim;

/* One thread of the host runs a whole grid, so nothing can come between. */
static inline unsigned atomicMax(unsigned *address, unsigned value)
{
    unsigned old = *address;
    *address = std::max(old, value);
    return old;
}

template <typename... P> class host_kernel
{
    struct wrapper {
        int magic, version;
        const void *data;
        void *filename;
    } wrapper_;
    std::string ptx_;
    void **handle_;

  public:
    host_kernel(const char *name, void (*kernel)(P...))
    {
        ptx_ = ".version 8.0\n.target sm_75\n.address_size 64\n.visible .entry ";
        ptx_ = ptx_ + name + "(";
        const char *separator = "";
        size_t sizes[] = {0, sizeof(P)...}, alignments[] = {0, alignof(P)...};
        for (size_t i = 1; i <= sizeof...(P); i++, separator = ", ")
            ptx_ = ptx_ + separator + ".param .align " + std::to_string(alignments[i]) + " .b8 p" +
                   std::to_string(i) + "[" + std::to_string(sizes[i]) + "]";
        ptx_ += ")\n{\n    ret;\n}\n";
        wrapper_ = {0x466243b1, 1, ptx_.c_str(), NULL};
        handle_ = __cudaRegisterFatBinary(&wrapper_);
        __cudaRegisterFunction(handle_, (const char *)kernel, (char *)name, name, -1, NULL, NULL,
                               NULL, NULL, NULL);
        __cudaRegisterFatBinaryEnd(handle_);
    }
    ~host_kernel()
    {
        __cudaUnregisterFatBinary(handle_);
    }

    template <size_t... I>
    static void run(const struct agsim_launch *l, void **params, void (*kernel)(P...),
                    std::index_sequence<I...>)
    {
        (void)params;
        gridDim = dim3(l->grid[0], l->grid[1], l->grid[2]);
        blockDim = dim3(l->block[0], l->block[1], l->block[2]);
        for (blockIdx.z = 0; blockIdx.z < gridDim.z; blockIdx.z++)
            for (blockIdx.y = 0; blockIdx.y < gridDim.y; blockIdx.y++)
                for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++)
                    for (threadIdx.z = 0; threadIdx.z < blockDim.z; threadIdx.z++)
                        for (threadIdx.y = 0; threadIdx.y < blockDim.y; threadIdx.y++)
                            for (threadIdx.x = 0; threadIdx.x < blockDim.x; threadIdx.x++)
                                kernel(*(std::remove_const_t<P> *)params[I]...);
    }
};

template <typename... P>
void host_kernel_run(const struct agsim_launch *l, void **params, void (*kernel)(P...))
{
    host_kernel<P...>::run(l, params, kernel, std::index_sequence_for<P...>());
}

/* Arguments are converted to the kernel's parameter types, as in a call. As with <<<>>>, an error
 * is found by cudaGetLastError(). */
template <typename... P>
void host_kernel_launch(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared,
                        cudaStream_t stream, std::common_type_t<P>... arguments)
{
    void *pointers[] = {(void *)&arguments..., NULL};
    if (__cudaPushCallConfiguration(grid, block, shared, stream) != 0)
        return;
#ifndef __NV_LEGACY_LAUNCH
    cudaKernel_t handle = NULL;
    (void)__cudaGetKernel(&handle, (const void *)kernel);
#endif
    if (__cudaPopCallConfiguration(&grid, &block, &shared, &stream) != cudaSuccess)
        return;
#ifdef __NV_LEGACY_LAUNCH
    (void)cudaLaunchKernel((const void *)kernel, grid, block, pointers, shared, stream);
#else
    (void)__cudaLaunchKernel(handle, grid, block, pointers, shared, stream);
#endif
}

#define KERNEL(name, ...)                                                                          \
    static void name(__VA_ARGS__);                                                                 \
    extern "C" void agsim_kernel_##name(const struct agsim_launch *l, void **params)               \
    {                                                                                              \
        host_kernel_run(l, params, name);                                                          \
    }                                                                                              \
    static host_kernel name##_registration(#name, name);                                           \
    static void name(__VA_ARGS__)

#define LAUNCH(kernel, grid, block, shared, stream, ...)                                           \
    host_kernel_launch(kernel, grid, block, shared, stream, ##__VA_ARGS__)

#endif
