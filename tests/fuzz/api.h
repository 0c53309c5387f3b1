/* SPDX-License-Identifier: MIT */
/*
 * The driver functions that fuzz programs call, as four tables: linked or looked up through
 * cuGetProcAddress, with the legacy or the per-thread meaning of stream 0.
 */
#ifndef FUZZ_API_H
#define FUZZ_API_H

#include <cuda.h>
#include <stdbool.h>

/* X(name, suffix of the form with per-thread default streams) */
#define FUZZ_STREAM_API(X)                                                                         \
    X(cuLaunchKernel, _ptsz)                                                                       \
    X(cuLaunchKernelEx, _ptsz)                                                                     \
    X(cuLaunchCooperativeKernel, _ptsz)                                                            \
    X(cuLaunchHostFunc, _ptsz)                                                                     \
    X(cuStreamAddCallback, _ptsz)                                                                  \
    X(cuMemsetD8Async, _ptsz)                                                                      \
    X(cuMemsetD16Async, _ptsz)                                                                     \
    X(cuMemsetD32Async, _ptsz)                                                                     \
    X(cuMemsetD2D8Async, _ptsz)                                                                    \
    X(cuMemsetD2D16Async, _ptsz)                                                                   \
    X(cuMemsetD2D32Async, _ptsz)                                                                   \
    X(cuMemsetD8, _ptds)                                                                           \
    X(cuMemsetD32, _ptds)                                                                          \
    X(cuMemcpyAsync, _ptsz)                                                                        \
    X(cuMemcpyHtoDAsync, _ptsz)                                                                    \
    X(cuMemcpyDtoHAsync, _ptsz)                                                                    \
    X(cuMemcpyDtoDAsync, _ptsz)                                                                    \
    X(cuMemcpy2DAsync, _ptsz)                                                                      \
    X(cuMemcpy3DAsync, _ptsz)                                                                      \
    X(cuMemcpyHtoD, _ptds)                                                                         \
    X(cuMemcpyDtoH, _ptds)                                                                         \
    X(cuMemcpyDtoD, _ptds)                                                                         \
    X(cuMemAllocAsync, _ptsz)                                                                      \
    X(cuMemFreeAsync, _ptsz)                                                                       \
    X(cuEventRecord, _ptsz)                                                                        \
    X(cuStreamWaitEvent, _ptsz)                                                                    \
    X(cuStreamSynchronize, _ptsz)                                                                  \
    X(cuStreamQuery, _ptsz)                                                                        \
    X(cuStreamWriteValue32, _ptsz)                                                                 \
    X(cuStreamWaitValue32, _ptsz)                                                                  \
    X(cuStreamBeginCapture, _ptsz)                                                                 \
    X(cuStreamEndCapture, _ptsz)                                                                   \
    X(cuGraphLaunch, _ptsz)

#define FUZZ_PLAIN_API(X)                                                                          \
    X(cuInit)                                                                                      \
    X(cuDeviceGet)                                                                                 \
    X(cuDeviceGetCount)                                                                            \
    X(cuDevicePrimaryCtxRetain)                                                                    \
    X(cuDevicePrimaryCtxRelease)                                                                   \
    X(cuDevicePrimaryCtxReset)                                                                     \
    X(cuCtxCreate)                                                                                 \
    X(cuCtxDestroy)                                                                                \
    X(cuCtxSetCurrent)                                                                             \
    X(cuCtxSynchronize)                                                                            \
    X(cuStreamCreateWithPriority)                                                                  \
    X(cuStreamDestroy)                                                                             \
    X(cuEventCreate)                                                                               \
    X(cuEventDestroy)                                                                              \
    X(cuEventSynchronize)                                                                          \
    X(cuEventQuery)                                                                                \
    X(cuEventElapsedTime)                                                                          \
    X(cuMemAlloc)                                                                                  \
    X(cuMemFree)                                                                                   \
    X(cuMemHostAlloc)                                                                              \
    X(cuMemFreeHost)                                                                               \
    X(cuMemGetAllocationGranularity)                                                               \
    X(cuMemAddressReserve)                                                                         \
    X(cuMemAddressFree)                                                                            \
    X(cuMemCreate)                                                                                 \
    X(cuMemRelease)                                                                                \
    X(cuMemMap)                                                                                    \
    X(cuMemUnmap)                                                                                  \
    X(cuMemSetAccess)                                                                              \
    X(cuMemHostGetDevicePointer)                                                                   \
    X(cuModuleLoadData)                                                                            \
    X(cuModuleUnload)                                                                              \
    X(cuModuleGetFunction)                                                                         \
    X(cuLibraryLoadData)                                                                           \
    X(cuLibraryUnload)                                                                             \
    X(cuLibraryGetKernel)                                                                          \
    X(cuFuncSetAttribute)                                                                          \
    X(cuFuncSetCacheConfig)                                                                        \
    X(cuCtxSetCacheConfig)                                                                         \
    X(cuCtxSetLimit)                                                                               \
    X(cuCtxGetLimit)                                                                               \
    X(cuGraphCreate)                                                                               \
    X(cuGraphDestroy)                                                                              \
    X(cuGraphAddKernelNode)                                                                        \
    X(cuGraphAddMemsetNode)                                                                        \
    X(cuGraphInstantiateWithFlags)                                                                 \
    X(cuGraphExecUpdate)                                                                           \
    X(cuGraphExecKernelNodeSetParams)                                                              \
    X(cuGraphExecDestroy)                                                                          \
    X(cuGetErrorName)

struct api {
#define X(name, suffix) __typeof__(name) *name;
    FUZZ_STREAM_API(X)
#undef X
#define X(name) __typeof__(name) *name;
    FUZZ_PLAIN_API(X)
#undef X
};

enum api_route { API_LINKED, API_LOOKED_UP, API_ROUTES };

extern struct api api[API_ROUTES][2]; /* [route][per-thread default stream] */

/* Fills the tables; false, after a line on stderr, if the driver lacks a function. */
bool api_resolve(void);

#endif
