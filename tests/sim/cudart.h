/* SPDX-License-Identifier: MIT */
/*
 * A CUDA runtime (libcudart.so.13) over the simulated driver: what its files
 * share. It is the part of the public runtime API that test programs need, and
 * treats the driver as the real runtime does:
 *
 * - The first call opens libcuda.so.1, asks dlsym for cuGetProcAddress_v2 only,
 *   and looks up every driver function through it before cuInit: the empty
 *   name first, then each function for the legacy default stream and, where it
 *   has another form, for the per-thread default stream.
 * - Names, versions and their order are those seen when the runtime of CUDA
 *   13.0 started over a driver that wrote them down. It looks up more of them.
 * - A kernel is known by its host function, and is loaded when first used. The
 *   driver is given a CUkernel where it wants a CUfunction.
 * - A thread that has no current context gets the primary one of its device.
 *
 * Every call leaves its error, if any, as the thread's last error. Driver and
 * runtime have the same numbers for errors, and the same handles.
 *
 * Locks: one in cudart_driver.c (start, primary contexts), one in
 * cudart_kernel.c (kernels); neither is held while the other is taken.
 */
#ifndef CUDART_H
#define CUDART_H

#include <cuda.h>

/* Files with functions that have a _ptsz or _ptds form are compiled twice; the runtime's header
 * then renames them. The driver's functions are always called through the table of their stream. */
#ifdef RT_PER_THREAD_STREAM
#define CUDA_API_PER_THREAD_DEFAULT_STREAM
#define RT_STREAM RT_PER_THREAD
#else
#define RT_STREAM RT_LEGACY
#endif
#include <cuda_runtime_api.h>

/* -- The driver (cudart_driver.c) --- */

/* ONE(name, version): the function has one form. BOTH(name, version, version of the per-thread
 * default stream's form). */
#define RT_DRIVER_FUNCTIONS(ONE, BOTH)                                                             \
    ONE(cuInit, 2000)                                                                              \
    ONE(cuDeviceGet, 2000)                                                                         \
    ONE(cuDeviceGetCount, 2000)                                                                    \
    ONE(cuDeviceGetName, 2000)                                                                     \
    ONE(cuDeviceTotalMem, 3020)                                                                    \
    ONE(cuDeviceGetAttribute, 2000)                                                                \
    ONE(cuDriverGetVersion, 2020)                                                                  \
    ONE(cuDeviceGetDefaultMemPool, 11020)                                                          \
    ONE(cuDevicePrimaryCtxRetain, 7000)                                                            \
    ONE(cuDevicePrimaryCtxRelease, 7000)                                                           \
    ONE(cuDevicePrimaryCtxReset, 7000)                                                             \
    ONE(cuCtxSetCurrent, 4000)                                                                     \
    ONE(cuCtxGetCurrent, 4000)                                                                     \
    ONE(cuCtxGetDevice, 2000)                                                                      \
    ONE(cuCtxGetStreamPriorityRange, 5050)                                                         \
    ONE(cuCtxSynchronize, 2000)                                                                    \
    ONE(cuModuleGetLoadingMode, 11070)                                                             \
    ONE(cuLibraryLoadData, 12000)                                                                  \
    ONE(cuLibraryUnload, 12000)                                                                    \
    ONE(cuLibraryGetKernel, 12000)                                                                 \
    ONE(cuKernelGetFunction, 12000)                                                                \
    ONE(cuLibraryGetKernelCount, 12040)                                                            \
    ONE(cuLibraryEnumerateKernels, 12040)                                                          \
    ONE(cuKernelGetAttribute, 12000)                                                               \
    ONE(cuKernelSetAttribute, 12000)                                                               \
    ONE(cuKernelSetCacheConfig, 12000)                                                             \
    ONE(cuKernelGetName, 12030)                                                                    \
    ONE(cuKernelGetParamInfo, 12040)                                                               \
    ONE(cuMemGetInfo, 3020)                                                                        \
    ONE(cuMemAllocManaged, 6000)                                                                   \
    ONE(cuMemAlloc, 3020)                                                                          \
    ONE(cuMemAllocPitch, 3020)                                                                     \
    ONE(cuMemFree, 3020)                                                                           \
    ONE(cuMemFreeHost, 2000)                                                                       \
    ONE(cuMemHostAlloc, 2020)                                                                      \
    ONE(cuMemHostGetDevicePointer, 3020)                                                           \
    ONE(cuMemHostRegister, 6050)                                                                   \
    ONE(cuMemHostUnregister, 4000)                                                                 \
    ONE(cuPointerGetAttribute, 4000)                                                               \
    BOTH(cuMemAllocAsync, 11020, 11020)                                                            \
    BOTH(cuMemAllocFromPoolAsync, 11020, 11020)                                                    \
    BOTH(cuMemFreeAsync, 11020, 11020)                                                             \
    ONE(cuMemPoolSetAttribute, 11020)                                                              \
    BOTH(cuMemcpy, 4000, 7000)                                                                     \
    BOTH(cuMemcpyAsync, 4000, 7000)                                                                \
    BOTH(cuMemcpyHtoD, 3020, 7000)                                                                 \
    BOTH(cuMemcpyHtoDAsync, 3020, 7000)                                                            \
    BOTH(cuMemcpyDtoH, 3020, 7000)                                                                 \
    BOTH(cuMemcpyDtoHAsync, 3020, 7000)                                                            \
    BOTH(cuMemcpyDtoD, 3020, 7000)                                                                 \
    BOTH(cuMemcpyDtoDAsync, 3020, 7000)                                                            \
    BOTH(cuMemcpy2DUnaligned, 3020, 7000)                                                          \
    BOTH(cuMemcpy2DAsync, 3020, 7000)                                                              \
    BOTH(cuMemcpy3D, 3020, 7000)                                                                   \
    BOTH(cuMemcpy3DAsync, 3020, 7000)                                                              \
    BOTH(cuMemsetD8, 3020, 7000)                                                                   \
    BOTH(cuMemsetD8Async, 3020, 7000)                                                              \
    BOTH(cuMemsetD2D8, 3020, 7000)                                                                 \
    BOTH(cuMemsetD2D8Async, 3020, 7000)                                                            \
    BOTH(cuLaunchKernel, 4000, 7000)                                                               \
    BOTH(cuLaunchCooperativeKernel, 9000, 9000)                                                    \
    BOTH(cuLaunchHostFunc, 10000, 10000)                                                           \
    BOTH(cuLaunchKernelEx, 11060, 11060)                                                           \
    ONE(cuEventCreate, 2000)                                                                       \
    BOTH(cuEventRecord, 2000, 7000)                                                                \
    BOTH(cuEventRecordWithFlags, 11010, 11010)                                                     \
    ONE(cuEventQuery, 2000)                                                                        \
    ONE(cuEventSynchronize, 2000)                                                                  \
    ONE(cuEventDestroy, 4000)                                                                      \
    ONE(cuEventElapsedTime, 12080)                                                                 \
    ONE(cuStreamCreate, 2000)                                                                      \
    ONE(cuStreamCreateWithPriority, 5050)                                                          \
    BOTH(cuStreamGetPriority, 5050, 7000)                                                          \
    BOTH(cuStreamGetFlags, 5050, 7000)                                                             \
    BOTH(cuStreamGetId, 12000, 12000)                                                              \
    ONE(cuStreamDestroy, 4000)                                                                     \
    BOTH(cuStreamWaitEvent, 3020, 7000)                                                            \
    BOTH(cuStreamAddCallback, 5000, 7000)                                                          \
    BOTH(cuStreamSynchronize, 2000, 7000)                                                          \
    BOTH(cuStreamQuery, 2000, 7000)                                                                \
    ONE(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, 7000)                                \
    ONE(cuGraphCreate, 10000)                                                                      \
    ONE(cuGraphAddKernelNode, 12000)                                                               \
    ONE(cuGraphKernelNodeGetParams, 12000)                                                         \
    ONE(cuGraphKernelNodeSetParams, 12000)                                                         \
    ONE(cuGraphAddMemcpyNode, 10000)                                                               \
    ONE(cuGraphMemcpyNodeSetParams, 10000)                                                         \
    ONE(cuGraphAddMemsetNode, 10000)                                                               \
    ONE(cuGraphMemsetNodeGetParams, 10000)                                                         \
    ONE(cuGraphMemsetNodeSetParams, 10000)                                                         \
    ONE(cuGraphAddHostNode, 10000)                                                                 \
    ONE(cuGraphHostNodeGetParams, 10000)                                                           \
    ONE(cuGraphAddChildGraphNode, 10000)                                                           \
    ONE(cuGraphChildGraphNodeGetGraph, 10000)                                                      \
    ONE(cuGraphAddEmptyNode, 10000)                                                                \
    ONE(cuGraphAddEventRecordNode, 11010)                                                          \
    ONE(cuGraphEventRecordNodeGetEvent, 11010)                                                     \
    ONE(cuGraphAddEventWaitNode, 11010)                                                            \
    ONE(cuGraphEventWaitNodeGetEvent, 11010)                                                       \
    ONE(cuGraphAddMemAllocNode, 11040)                                                             \
    ONE(cuGraphMemAllocNodeGetParams, 11040)                                                       \
    ONE(cuGraphAddMemFreeNode, 11040)                                                              \
    ONE(cuGraphMemFreeNodeGetParams, 11040)                                                        \
    ONE(cuGraphClone, 10000)                                                                       \
    ONE(cuGraphNodeGetType, 10000)                                                                 \
    ONE(cuGraphGetNodes, 10000)                                                                    \
    ONE(cuGraphGetRootNodes, 10000)                                                                \
    ONE(cuGraphGetEdges, 12030)                                                                    \
    ONE(cuGraphNodeGetDependencies, 12030)                                                         \
    ONE(cuGraphNodeGetDependentNodes, 12030)                                                       \
    ONE(cuGraphAddDependencies, 12030)                                                             \
    ONE(cuGraphRemoveDependencies, 12030)                                                          \
    ONE(cuGraphDestroyNode, 10000)                                                                 \
    ONE(cuGraphInstantiateWithFlags, 11040)                                                        \
    BOTH(cuGraphUpload, 11010, 11010)                                                              \
    BOTH(cuGraphLaunch, 10000, 10000)                                                              \
    ONE(cuGraphExecDestroy, 10000)                                                                 \
    ONE(cuGraphDestroy, 10000)                                                                     \
    BOTH(cuStreamBeginCapture, 10010, 10010)                                                       \
    BOTH(cuStreamEndCapture, 10000, 10000)                                                         \
    BOTH(cuStreamIsCapturing, 10000, 10000)                                                        \
    BOTH(cuStreamGetCaptureInfo, 12030, 12030)                                                     \
    ONE(cuGraphExecKernelNodeSetParams, 12000)                                                     \
    ONE(cuGraphExecMemcpyNodeSetParams, 10020)                                                     \
    ONE(cuGraphExecMemsetNodeSetParams, 10020)                                                     \
    ONE(cuGraphExecHostNodeSetParams, 10020)                                                       \
    ONE(cuGraphExecChildGraphNodeSetParams, 11010)                                                 \
    ONE(cuThreadExchangeStreamCaptureMode, 10010)                                                  \
    ONE(cuGraphExecUpdate, 12000)                                                                  \
    ONE(cuGraphKernelNodeGetAttribute, 11000)                                                      \
    ONE(cuGraphKernelNodeSetAttribute, 11000)                                                      \
    BOTH(cuGraphInstantiateWithParams, 12000, 12000)                                               \
    ONE(cuGraphNodeSetEnabled, 11060)                                                              \
    ONE(cuGraphNodeGetEnabled, 11060)                                                              \
    ONE(cuGraphAddNode, 12030)

/* A function that this driver does not have gives CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER. */
struct rt_driver {
#define RT_FIELD(name, ...) __typeof__(name) *name;
    RT_DRIVER_FUNCTIONS(RT_FIELD, RT_FIELD)
#undef RT_FIELD
};

enum rt_stream { RT_LEGACY, RT_PER_THREAD };

extern struct rt_driver rt_drivers[2]; /* by enum rt_stream; valid after rt_start() */

/* The driver's functions, as those that this file's calls of stream 0 mean. */
#define DRIVER (rt_drivers[RT_STREAM])

/* Opens and initialises the driver, once; its error ever after if that failed. */
cudaError_t rt_start(void);

/* rt_start(), and a current context for this thread. */
cudaError_t rt_enter(void);

/* Notes an error as the thread's last one, and returns it. */
cudaError_t rt_result(cudaError_t error);

/* The rest of an API function that is one driver call, with a context and without. */
#define RT_CALL(call)                                                                              \
    do {                                                                                           \
        cudaError_t error_ = rt_enter();                                                           \
        return rt_result(error_ ? error_ : (cudaError_t)(call));                                   \
    } while (0)
#define RT_CALL_NO_CONTEXT(call)                                                                   \
    do {                                                                                           \
        cudaError_t error_ = rt_start();                                                           \
        return rt_result(error_ ? error_ : (cudaError_t)(call));                                   \
    } while (0)

/* -- Kernels (cudart_kernel.c) --- */

/* The kernel of a host function, loaded now if it is not; or FUNC itself if it is a kernel's
 * handle. cudaErrorInvalidResourceHandle: neither. */
cudaError_t rt_kernel(const void *func, CUkernel *kernel);

/* The host function of a kernel, or the kernel itself if it has none. */
void *rt_host_function(CUkernel kernel);

/* -- Conversions (cudart_memory.c) --- */

/* Cudart's copy as the driver's; cudaErrorNotSupported for arrays. */
cudaError_t rt_copy_1d(CUDA_MEMCPY3D *copy, void *to, const void *from, size_t bytes,
                       enum cudaMemcpyKind kind);
cudaError_t rt_copy_2d(CUDA_MEMCPY2D *copy, void *to, size_t to_pitch, const void *from,
                       size_t from_pitch, size_t width, size_t height, enum cudaMemcpyKind kind);
cudaError_t rt_copy_3d(CUDA_MEMCPY3D *copy, const struct cudaMemcpy3DParms *p);

#endif
