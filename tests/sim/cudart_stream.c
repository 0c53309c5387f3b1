/* SPDX-License-Identifier: MIT */
/*
 * Stream operations of the simulated runtime. Compiled twice: as written, and
 * with RT_PER_THREAD_STREAM for the _ptsz and _ptds forms, in which stream 0
 * is the calling thread's own default stream. What has one form only is in
 * the first object alone.
 */
#include "cudart.h"

/* -- Launches --- */

#ifdef RT_PER_THREAD_STREAM
#define __cudaLaunchKernel __cudaLaunchKernel_ptsz
#endif

/* nvcc declares this by itself, no header does. */
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments,
                               size_t shared, cudaStream_t stream);

static cudaError_t launch(CUkernel kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
                          cudaStream_t stream)
{
    return (cudaError_t)DRIVER.cuLaunchKernel((CUfunction)kernel, grid.x, grid.y, grid.z, block.x,
                                              block.y, block.z, (unsigned)shared, stream, arguments,
                                              NULL);
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments,
                               size_t shared, cudaStream_t stream)
{
    if (!kernel)
        return rt_result(cudaErrorInvalidDeviceFunction);
    RT_CALL(launch(kernel, grid, block, arguments, shared, stream));
}

cudaError_t cudaLaunchKernel(const void *func, dim3 grid, dim3 block, void **arguments,
                             size_t shared, cudaStream_t stream)
{
    CUkernel kernel;
    cudaError_t error = rt_enter();
    if (!error)
        error = rt_kernel(func, &kernel);
    if (!error)
        error = launch(kernel, grid, block, arguments, shared, stream);
    return rt_result(error);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *func,
                                void **arguments)
{
    CUkernel kernel;
    cudaError_t error = rt_enter();
    if (!error)
        error = rt_kernel(func, &kernel);
    if (error)
        return rt_result(error);
    /* Attributes have the same layout and numbers on both sides. */
    CUlaunchConfig c = {
        .gridDimX = config->gridDim.x,
        .gridDimY = config->gridDim.y,
        .gridDimZ = config->gridDim.z,
        .blockDimX = config->blockDim.x,
        .blockDimY = config->blockDim.y,
        .blockDimZ = config->blockDim.z,
        .sharedMemBytes = (unsigned)config->dynamicSmemBytes,
        .hStream = config->stream,
        .attrs = (CUlaunchAttribute *)config->attrs,
        .numAttrs = config->numAttrs,
    };
    return rt_result((cudaError_t)DRIVER.cuLaunchKernelEx(&c, (CUfunction)kernel, arguments, NULL));
}

cudaError_t cudaLaunchCooperativeKernel(const void *func, dim3 grid, dim3 block, void **arguments,
                                        size_t shared, cudaStream_t stream)
{
    CUkernel kernel;
    cudaError_t error = rt_enter();
    if (!error)
        error = rt_kernel(func, &kernel);
    if (error)
        return rt_result(error);
    return rt_result((cudaError_t)DRIVER.cuLaunchCooperativeKernel(
        (CUfunction)kernel, grid.x, grid.y, grid.z, block.x, block.y, block.z, (unsigned)shared,
        stream, arguments));
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data)
{
    RT_CALL(DRIVER.cuLaunchHostFunc(stream, function, data));
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void *data,
                                  unsigned flags)
{
    /* The two types differ in the name of the error's enum only. */
    RT_CALL(DRIVER.cuStreamAddCallback(stream, (CUstreamCallback)callback, data, flags));
}

/* -- Copies, memsets, stream-ordered memory --- */

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    switch (kind) {
    case cudaMemcpyHostToDevice:
        RT_CALL(DRIVER.cuMemcpyHtoD((CUdeviceptr)to, from, bytes));
    case cudaMemcpyDeviceToHost:
        RT_CALL(DRIVER.cuMemcpyDtoH(to, (CUdeviceptr)from, bytes));
    case cudaMemcpyDeviceToDevice:
        RT_CALL(DRIVER.cuMemcpyDtoD((CUdeviceptr)to, (CUdeviceptr)from, bytes));
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
        RT_CALL(DRIVER.cuMemcpy((CUdeviceptr)to, (CUdeviceptr)from, bytes));
    }
    return rt_result(cudaErrorInvalidMemcpyDirection);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    switch (kind) {
    case cudaMemcpyHostToDevice:
        RT_CALL(DRIVER.cuMemcpyHtoDAsync((CUdeviceptr)to, from, bytes, stream));
    case cudaMemcpyDeviceToHost:
        RT_CALL(DRIVER.cuMemcpyDtoHAsync(to, (CUdeviceptr)from, bytes, stream));
    case cudaMemcpyDeviceToDevice:
        RT_CALL(DRIVER.cuMemcpyDtoDAsync((CUdeviceptr)to, (CUdeviceptr)from, bytes, stream));
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
        RT_CALL(DRIVER.cuMemcpyAsync((CUdeviceptr)to, (CUdeviceptr)from, bytes, stream));
    }
    return rt_result(cudaErrorInvalidMemcpyDirection);
}

cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                         size_t width, size_t height, enum cudaMemcpyKind kind)
{
    CUDA_MEMCPY2D copy;
    cudaError_t error = rt_copy_2d(&copy, to, to_pitch, from, from_pitch, width, height, kind);
    if (error)
        return rt_result(error);
    RT_CALL(DRIVER.cuMemcpy2DUnaligned(&copy));
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t width, size_t height, enum cudaMemcpyKind kind,
                              cudaStream_t stream)
{
    CUDA_MEMCPY2D copy;
    cudaError_t error = rt_copy_2d(&copy, to, to_pitch, from, from_pitch, width, height, kind);
    if (error)
        return rt_result(error);
    RT_CALL(DRIVER.cuMemcpy2DAsync(&copy, stream));
}

cudaError_t cudaMemcpy3D(const struct cudaMemcpy3DParms *p)
{
    CUDA_MEMCPY3D copy;
    cudaError_t error = rt_copy_3d(&copy, p);
    if (error)
        return rt_result(error);
    RT_CALL(DRIVER.cuMemcpy3D(&copy));
}

cudaError_t cudaMemcpy3DAsync(const struct cudaMemcpy3DParms *p, cudaStream_t stream)
{
    CUDA_MEMCPY3D copy;
    cudaError_t error = rt_copy_3d(&copy, p);
    if (error)
        return rt_result(error);
    RT_CALL(DRIVER.cuMemcpy3DAsync(&copy, stream));
}

cudaError_t cudaMemset(void *pointer, int value, size_t bytes)
{
    RT_CALL(DRIVER.cuMemsetD8((CUdeviceptr)pointer, (unsigned char)value, bytes));
}

cudaError_t cudaMemsetAsync(void *pointer, int value, size_t bytes, cudaStream_t stream)
{
    RT_CALL(DRIVER.cuMemsetD8Async((CUdeviceptr)pointer, (unsigned char)value, bytes, stream));
}

cudaError_t cudaMemset2D(void *pointer, size_t pitch, int value, size_t width, size_t height)
{
    RT_CALL(DRIVER.cuMemsetD2D8((CUdeviceptr)pointer, pitch, (unsigned char)value, width, height));
}

cudaError_t cudaMemset2DAsync(void *pointer, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream)
{
    RT_CALL(DRIVER.cuMemsetD2D8Async((CUdeviceptr)pointer, pitch, (unsigned char)value, width,
                                     height, stream));
}

cudaError_t cudaMallocAsync(void **pointer, size_t size, cudaStream_t stream)
{
    RT_CALL(DRIVER.cuMemAllocAsync((CUdeviceptr *)pointer, size, stream));
}

cudaError_t cudaMallocFromPoolAsync(void **pointer, size_t size, cudaMemPool_t pool,
                                    cudaStream_t stream)
{
    RT_CALL(DRIVER.cuMemAllocFromPoolAsync((CUdeviceptr *)pointer, size, pool, stream));
}

cudaError_t cudaFreeAsync(void *pointer, cudaStream_t stream)
{
    RT_CALL(DRIVER.cuMemFreeAsync((CUdeviceptr)pointer, stream));
}

/* -- Streams and events --- */

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    RT_CALL(DRIVER.cuStreamSynchronize(stream));
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    RT_CALL(DRIVER.cuStreamQuery(stream));
}

cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned *flags)
{
    RT_CALL(DRIVER.cuStreamGetFlags(stream, flags));
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority)
{
    RT_CALL(DRIVER.cuStreamGetPriority(stream, priority));
}

cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long *id)
{
    RT_CALL(DRIVER.cuStreamGetId(stream, id));
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    RT_CALL(DRIVER.cuStreamWaitEvent(stream, event, flags));
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    RT_CALL(DRIVER.cuEventRecord(event, stream));
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags)
{
    RT_CALL(DRIVER.cuEventRecordWithFlags(event, stream, flags));
}

/* -- Graphs and capture --- */

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    RT_CALL(DRIVER.cuGraphLaunch(exec, stream));
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream)
{
    RT_CALL(DRIVER.cuGraphUpload(exec, stream));
}

cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t *exec, cudaGraph_t graph,
                                           cudaGraphInstantiateParams *params)
{
    /* The same layout and numbers on both sides. */
    RT_CALL(
        DRIVER.cuGraphInstantiateWithParams(exec, graph, (CUDA_GRAPH_INSTANTIATE_PARAMS *)params));
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    RT_CALL(DRIVER.cuStreamBeginCapture(stream, (CUstreamCaptureMode)mode));
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    RT_CALL(DRIVER.cuStreamEndCapture(stream, graph));
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
    RT_CALL(DRIVER.cuStreamIsCapturing(stream, (CUstreamCaptureStatus *)status));
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                     unsigned long long *id, cudaGraph_t *graph,
                                     const cudaGraphNode_t **dependencies,
                                     const cudaGraphEdgeData **edges, size_t *count)
{
    cuuint64_t driver_id = 0;
    cudaError_t error = rt_enter();
    if (!error)
        error = (cudaError_t)DRIVER.cuStreamGetCaptureInfo(stream, (CUstreamCaptureStatus *)status,
                                                           &driver_id, graph, dependencies,
                                                           (const CUgraphEdgeData **)edges, count);
    if (id)
        *id = driver_id;
    return rt_result(error);
}

#ifndef RT_PER_THREAD_STREAM

/* -- What has no form of its own for the per-thread default stream --- */

cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
    RT_CALL(DRIVER.cuStreamCreate(stream, CU_STREAM_DEFAULT));
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    RT_CALL(DRIVER.cuStreamCreate(stream, flags));
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority)
{
    RT_CALL(DRIVER.cuStreamCreateWithPriority(stream, flags, priority));
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    RT_CALL(DRIVER.cuStreamDestroy(stream));
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    RT_CALL(DRIVER.cuEventCreate(event, CU_EVENT_DEFAULT));
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    RT_CALL(DRIVER.cuEventCreate(event, flags));
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    RT_CALL(DRIVER.cuEventDestroy(event));
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    RT_CALL(DRIVER.cuEventQuery(event));
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    RT_CALL(DRIVER.cuEventSynchronize(event));
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
    RT_CALL(DRIVER.cuEventElapsedTime(ms, start, end));
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
    RT_CALL(DRIVER.cuThreadExchangeStreamCaptureMode((CUstreamCaptureMode *)mode));
}

#endif
