/* SPDX-License-Identifier: MIT */
/*
 * What the samples share of CUDA: kernels and launches that compile with nvcc
 * and with a host compiler, checked calls, device arrays, captured graphs and
 * the timed loop.
 *
 * Each sample runs the same loop twice over, by choice: with ordinary launches,
 * or (--graph) as the CUDA graph that one would write by hand. Kernels do
 * integer arithmetic that depends on the order, so an operation that is lost,
 * doubled or swapped changes the checksum.
 */
#ifndef SAMPLE_H
#define SAMPLE_H

#include <stdio.h>
#include <stdlib.h>
#include <vector>

#include "harness.h"

#ifdef __CUDACC__
#include <cuda_runtime.h>
#define KERNEL(name, ...) static __global__ void name(__VA_ARGS__)
#define LAUNCH(kernel, grid, block, shared, stream, ...)                                           \
    kernel<<<(grid), (block), (shared), (stream)>>>(__VA_ARGS__)
#else
#include "host_kernel.h"
#endif

#define CHECK(call) check((call), #call, __FILE__, __LINE__)

static inline void check(cudaError_t error, const char *what, const char *file, int line)
{
    if (error == cudaSuccess)
        return;
    fprintf(stderr, "%s:%d: %s: %s\n", file, line, what, cudaGetErrorString(error));
    exit(1);
}

#define BLOCK 128

static inline unsigned blocks(long size)
{
    return (unsigned)((size + BLOCK - 1) / BLOCK);
}

/* The element that a thread works on. */
#define INDEX() (blockIdx.x * blockDim.x + threadIdx.x)

/* An array on the device: 0, 1, 2, ... */
template <typename T> T *device_array(long size)
{
    std::vector<T> host(size);
    for (long i = 0; i < size; i++)
        host[i] = (T)i;
    T *device;
    CHECK(cudaMalloc((void **)&device, size * sizeof(T)));
    CHECK(cudaMemcpy(device, host.data(), size * sizeof(T), cudaMemcpyHostToDevice));
    /* The copy from pageable memory may still be on its way, and not every stream waits for it. */
    CHECK(cudaDeviceSynchronize());
    return device;
}

template <typename T> uint64_t checksum(const T *device, long size, uint64_t hash = CHECKSUM_START)
{
    std::vector<T> host(size);
    CHECK(cudaMemcpy(host.data(), device, size * sizeof(T), cudaMemcpyDeviceToHost));
    return checksum_bytes(host.data(), size * sizeof(T), hash);
}

/* The graph of what the body does on the stream. Kernels must have run before: capture cannot load
 * them on every driver. */
template <typename Body> cudaGraphExec_t capture(cudaStream_t stream, Body body)
{
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    body();
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphDestroy(graph));
    return exec;
}

/* Nothing to do for the variant that made none. */
static inline void destroy(cudaGraphExec_t exec)
{
    if (exec)
        CHECK(cudaGraphExecDestroy(exec));
}

/* Runs step(i) for each iteration, then wait(); the time of those after the warm-up, in us. */
template <typename Step, typename Wait>
double time_loop(const struct options &o, Step step, Wait wait)
{
    for (long i = 0; i < o.warmup; i++)
        step(i);
    wait();
    double start = now_us();
    for (long i = 0; i < o.iterations; i++)
        step(o.warmup + i);
    wait();
    double total = now_us() - start;
    CHECK(cudaGetLastError());
    return total;
}

#endif
