/* SPDX-License-Identifier: MIT */
/*
 * What the patterns share: a kernel whose result depends on order, and checks.
 *
 * A pattern is what programs do by hand with CUDA graphs. Each program does the
 * same work twice over, by choice: with ordinary launches, or (--graph) by hand.
 * On the way it asserts what it knows of CUDA's answers, and ends with status 1
 * where one is not so.
 */
#ifndef PATTERN_H
#define PATTERN_H

#include "sample.h"

/* In the runtime of CUDA 12 the calls that know of edge data have names of their own. */
#if CUDART_VERSION < 13000
#define cudaGraphAddDependencies       cudaGraphAddDependencies_v2
#define cudaGraphRemoveDependencies    cudaGraphRemoveDependencies_v2
#define cudaGraphNodeGetDependencies   cudaGraphNodeGetDependencies_v2
#define cudaGraphNodeGetDependentNodes cudaGraphNodeGetDependentNodes_v2
#define cudaGraphGetEdges              cudaGraphGetEdges_v2
#define cudaGraphAddNode               cudaGraphAddNode_v2
#endif

#define EXPECT(condition) expect((condition), #condition, __FILE__, __LINE__)

static inline void expect(bool condition, const char *what, const char *file, int line)
{
    if (condition)
        return;
    fprintf(stderr, "%s:%d: not so: %s\n", file, line, what);
    exit(1);
}

/* A call that must fail in one way; leaves no last error. */
#define EXPECT_ERROR(call, error) expect_error((call), (error), #call, __FILE__, __LINE__)

static inline void expect_error(cudaError_t got, cudaError_t wanted, const char *what,
                                const char *file, int line)
{
    (void)cudaGetLastError();
    if (got == wanted)
        return;
    fprintf(stderr, "%s:%d: %s: %s (%d), not %s\n", file, line, what, cudaGetErrorName(got), got,
            cudaGetErrorName(wanted));
    exit(1);
}

/* The stream is not capturing any more, and has no error left. */
static inline void expect_no_capture(cudaStream_t stream)
{
    enum cudaStreamCaptureStatus status;
    CHECK(cudaStreamIsCapturing(stream, &status));
    EXPECT(status == cudaStreamCaptureStatusNone);
    CHECK(cudaGetLastError());
}

KERNEL(mix, unsigned *data, unsigned size, unsigned k)
{
    unsigned i = INDEX();
    if (i < size)
        data[i] = data[i] * 1664525u + k;
}

static inline void launch_mix(cudaStream_t stream, unsigned *data, unsigned size, unsigned k)
{
    LAUNCH(mix, blocks(size), BLOCK, 0, stream, data, size, k);
}

/* A node of mix, after at most one other. */
static inline cudaGraphNode_t add_mix(cudaGraph_t graph, const cudaGraphNode_t *after,
                                      unsigned *data, unsigned size, unsigned k)
{
    void *arguments[] = {&data, &size, &k};
    struct cudaKernelNodeParams p = {};
    p.func = (void *)mix;
    p.gridDim = dim3(blocks(size));
    p.blockDim = dim3(BLOCK);
    p.kernelParams = arguments;
    cudaGraphNode_t node;
    CHECK(cudaGraphAddKernelNode(&node, graph, after, after != NULL, &p));
    return node;
}

static inline cudaStream_t new_stream(void)
{
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

static inline cudaEvent_t new_event(void)
{
    cudaEvent_t event;
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    return event;
}

/* Pinned memory of the host: first, first + 1, ... */
static inline unsigned *pinned_array(long size, unsigned first)
{
    unsigned *host;
    CHECK(cudaMallocHost((void **)&host, size * sizeof(*host)));
    for (long i = 0; i < size; i++)
        host[i] = first + (unsigned)i;
    return host;
}

#endif
