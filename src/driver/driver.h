/* SPDX-License-Identifier: MIT */
/*
 * The real driver functions that the library itself calls: a table of pointers, filled once.
 *
 * Nothing links libcuda: each function is looked up by its ELF name in the copy that the program
 * loaded. Calls through the table are the library's own and pass no door. The table is constant
 * once the engine has started; read without a lock.
 *
 * Only the forms without suffix are listed: there stream 0 is the legacy default stream, and the
 * handles CU_STREAM_LEGACY and CU_STREAM_PER_THREAD say exactly which stream is meant.
 */
#ifndef AG_DRIVER_H
#define AG_DRIVER_H

#include <cuda.h>

#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#error "the library names each variant itself: build without CUDA_API_PER_THREAD_DEFAULT_STREAM"
#endif

/* Without one of these nothing is held. ELF names, which are also the names that cuda.h declares
 * once its renaming macros are applied. */
#define AG_DRIVER_FUNCTIONS(X)                                                                     \
    X(cuCtxGetCurrent)                                                                             \
    X(cuCtxPushCurrent_v2)                                                                         \
    X(cuCtxPopCurrent_v2)                                                                          \
    X(cuCtxGetDevice)                                                                              \
    X(cuDeviceGetCount)                                                                            \
    X(cuDeviceGetAttribute)                                                                        \
    X(cuThreadExchangeStreamCaptureMode)                                                           \
    X(cuStreamCreate)                                                                              \
    X(cuStreamDestroy_v2)                                                                          \
    X(cuStreamGetCtx)                                                                              \
    X(cuStreamGetFlags)                                                                            \
    X(cuStreamGetPriority)                                                                         \
    X(cuStreamIsCapturing)                                                                         \
    X(cuStreamQuery)                                                                               \
    X(cuStreamSynchronize)                                                                         \
    X(cuStreamWaitEvent)                                                                           \
    X(cuEventCreate)                                                                               \
    X(cuEventQuery)                                                                                \
    X(cuEventRecord)                                                                               \
    X(cuEventSynchronize)                                                                          \
    X(cuEventDestroy_v2)                                                                           \
    X(cuLaunchKernel)                                                                              \
    X(cuLaunchKernelEx)                                                                            \
    X(cuMemsetD8Async)                                                                             \
    X(cuMemsetD16Async)                                                                            \
    X(cuMemsetD32Async)                                                                            \
    X(cuMemsetD2D8Async)                                                                           \
    X(cuMemsetD2D16Async)                                                                          \
    X(cuMemsetD2D32Async)                                                                          \
    X(cuMemcpyAsync)                                                                               \
    X(cuMemcpy3DAsync_v2)                                                                          \
    X(cuMemFreeAsync)                                                                              \
    X(cuStreamWriteValue32_v2)                                                                     \
    X(cuStreamWriteValue64_v2)                                                                     \
    X(cuStreamWaitValue32_v2)                                                                      \
    X(cuStreamWaitValue64_v2)                                                                      \
    X(cuMemHostAlloc)                                                                              \
    X(cuMemHostGetDevicePointer_v2)                                                                \
    X(cuModuleLoadData)                                                                            \
    X(cuModuleGetFunction)                                                                         \
    X(cuPointerGetAttributes)                                                                      \
    X(cuMemGetAddressRange_v2)                                                                     \
    X(cuKernelGetFunction)                                                                         \
    X(cuFuncGetAttribute)                                                                          \
    X(cuFuncGetParamInfo)                                                                          \
    X(cuFuncSetAttribute)                                                                          \
    X(cuFuncSetCacheConfig)                                                                        \
    X(cuKernelGetAttribute)                                                                        \
    X(cuKernelSetAttribute)                                                                        \
    X(cuKernelSetCacheConfig)                                                                      \
    X(cuCtxGetCacheConfig)                                                                         \
    X(cuCtxGetLimit)                                                                               \
    X(cuCtxGetFlags)                                                                               \
    X(cuGraphCreate)                                                                               \
    X(cuGraphDestroy)                                                                              \
    X(cuGraphAddKernelNode_v2)                                                                     \
    X(cuGraphAddMemsetNode)                                                                        \
    X(cuGraphAddMemcpyNode)                                                                        \
    X(cuGraphAddEventRecordNode)                                                                   \
    X(cuGraphAddEventWaitNode)                                                                     \
    X(cuGraphAddBatchMemOpNode)                                                                    \
    X(cuGraphKernelNodeSetParams_v2)                                                               \
    X(cuGraphMemsetNodeSetParams)                                                                  \
    X(cuGraphMemcpyNodeSetParams)                                                                  \
    X(cuGraphBatchMemOpNodeSetParams)                                                              \
    X(cuGraphKernelNodeSetAttribute)                                                               \
    X(cuGraphInstantiateWithFlags)                                                                 \
    X(cuGraphExecDestroy)                                                                          \
    X(cuGraphExecKernelNodeSetParams_v2)                                                           \
    X(cuGraphExecMemsetNodeSetParams)                                                              \
    X(cuGraphExecMemcpyNodeSetParams)                                                              \
    X(cuGraphExecEventRecordNodeSetEvent)                                                          \
    X(cuGraphExecEventWaitNodeSetEvent)                                                            \
    X(cuGraphExecBatchMemOpNodeSetParams)                                                          \
    X(cuGraphExecUpdate_v2)                                                                        \
    X(cuGraphLaunch)

/* Those that may be missing: of drivers after 12.4, or for report and profile alone. */
#define AG_DRIVER_NEWER_FUNCTIONS(X)                                                               \
    X(cuDeviceGetMemPool)                                                                          \
    X(cuDeviceGetName)                                                                             \
    X(cuDriverGetVersion)                                                                          \
    X(cuFuncGetModule)                                                                             \
    X(cuFuncGetName)                                                                               \
    X(cuGraphAddDependencies_v2)                                                                   \
    X(cuKernelGetLibrary)                                                                          \
    X(cuMemPoolGetAttribute)

struct ag_driver {
#define X(name) __typeof__(name) *name;
    AG_DRIVER_FUNCTIONS(X)
    AG_DRIVER_NEWER_FUNCTIONS(X)
#undef X
};

/* The program's driver. What an older driver lacks is NULL: ask before the first use. */
extern struct ag_driver ag_real;

/*
 * Fills `table` from `libcuda` with `lookup`, which finds a function of it by its name.
 * Cost: one look-up for each function. The doors make the first one ag_real, before the engine
 * starts.
 */
void ag_driver_resolve(struct ag_driver *table, void *libcuda,
                       void *(*lookup)(void *handle, const char *name));

#endif
