/* SPDX-License-Identifier: MIT */
/*
 * newer.h: driver functions that came after CUDA 13.0, as NVIDIA's documentation declares them: the
 * headers of the build may lack them. Behind each the version that brought it, and ptsz where it
 * has a form for the per-thread default stream; gen_api.py and the tests read both. Types that are
 * new as well are void here. Of CUDA 13.4 there are those alone whose parameters are known.
 */
#ifndef AGSIM_NEWER_H
#define AGSIM_NEWER_H

#include <cuda.h>

/* Types that came with functions below. */
#if CUDA_VERSION < 12080
typedef void CUmemcpyAttributes;
typedef void CUDA_MEMCPY3D_BATCH_OP;
#endif
#if CUDA_VERSION < 13020
typedef void CUstreamCigCaptureParams;
#endif
#if CUDA_VERSION < 13030
typedef void *CUgraphRecaptureCallback;
#endif

#if CUDA_VERSION < 13010
CUresult cuDevSmResourceSplit(void *result, unsigned groups, const void *input, void *remainder,
                              unsigned flags, void *params);              /* 13010 */
CUresult cuGraphExecGetId(CUgraphExec exec, unsigned *id);                /* 13010 */
CUresult cuGraphGetId(CUgraph graph, unsigned *id);                       /* 13010 */
CUresult cuGraphNodeGetContainingGraph(CUgraphNode node, CUgraph *graph); /* 13010 */
CUresult cuGraphNodeGetLocalId(CUgraphNode node, unsigned *id);           /* 13010 */
CUresult cuGraphNodeGetToolsId(CUgraphNode node, unsigned long long *id); /* 13010 */
CUresult cuMulticastBindAddr_v2(CUmemGenericAllocationHandle handle, CUdevice device, size_t offset,
                                CUdeviceptr memory, size_t size,
                                unsigned long long flags); /* 13010 */
CUresult cuMulticastBindMem_v2(CUmemGenericAllocationHandle handle, CUdevice device, size_t offset,
                               CUmemGenericAllocationHandle memory, size_t memory_offset,
                               size_t size, unsigned long long flags);           /* 13010 */
CUresult cuStreamGetDevResource(CUstream stream, void *resource, unsigned type); /* 13010 ptsz */
#endif

#if CUDA_VERSION < 13020
CUresult cuCoredumpDeregisterCompleteCallback(void *callback);                      /* 13020 */
CUresult cuCoredumpDeregisterStartCallback(void *callback);                         /* 13020 */
CUresult cuCoredumpRegisterCompleteCallback(void *callback, void *data, void *out); /* 13020 */
CUresult cuCoredumpRegisterStartCallback(void *callback, void *data, void *out);    /* 13020 */
CUresult cuFuncGetParamCount(CUfunction func, size_t *count);                       /* 13020 */
CUresult cuGraphNodeGetParams(CUgraphNode node, void *params);                      /* 13020 */
CUresult cuKernelGetParamCount(CUkernel kernel, size_t *count);                     /* 13020 */
CUresult cuLaunchHostFunc_v2(CUstream stream, CUhostFn fn, void *data,
                             unsigned sync_mode); /* 13020 ptsz */
CUresult cuMemcpy3DWithAttributesAsync(CUDA_MEMCPY3D_BATCH_OP *op, unsigned long long flags,
                                       CUstream stream); /* 13020 ptsz */
CUresult cuMemcpyWithAttributesAsync(CUdeviceptr dst, CUdeviceptr src, size_t size,
                                     CUmemcpyAttributes *attributes,
                                     CUstream stream); /* 13020 ptsz */
CUresult cuStreamBeginCaptureToCig(CUstream stream,
                                   CUstreamCigCaptureParams *params); /* 13020 ptsz */
CUresult cuStreamEndCaptureToCig(CUstream stream);                    /* 13020 ptsz */
#endif

#if CUDA_VERSION < 13030
CUresult cuLogicalEndpointAddDevice(unsigned long long id, CUdevice device); /* 13030 */
CUresult cuLogicalEndpointBindAddr(unsigned long long id, CUdevice device, cuuint64_t offset,
                                   void *memory, cuuint64_t size,
                                   unsigned long long flags); /* 13030 */
CUresult cuLogicalEndpointBindMem(unsigned long long id, CUdevice device, cuuint64_t offset,
                                  CUmemGenericAllocationHandle memory, cuuint64_t memory_offset,
                                  cuuint64_t size, unsigned long long flags);         /* 13030 */
CUresult cuLogicalEndpointCreate(unsigned long long id, const void *properties);      /* 13030 */
CUresult cuLogicalEndpointDestroy(unsigned long long id);                             /* 13030 */
CUresult cuLogicalEndpointExport(void *handle, unsigned long long id, unsigned type); /* 13030 */
CUresult cuLogicalEndpointGetLimits(cuuint64_t *alignment, cuuint64_t *most,
                                    const void *properties);                   /* 13030 */
CUresult cuLogicalEndpointIdRelease(unsigned long long id, cuuint32_t count);  /* 13030 */
CUresult cuLogicalEndpointIdReserve(unsigned long long *id, cuuint32_t count); /* 13030 */
CUresult cuLogicalEndpointImport(unsigned long long id, const void *handle,
                                 unsigned type);                                       /* 13030 */
CUresult cuLogicalEndpointQuery(unsigned long long id, cuuint32_t count, int *status); /* 13030 */
CUresult cuLogicalEndpointUnbind(unsigned long long id, CUdevice device, cuuint64_t offset,
                                 cuuint64_t size); /* 13030 */
CUresult cuStreamBeginRecaptureToGraph(CUstream stream, CUstreamCaptureMode mode, CUgraph graph,
                                       CUgraphRecaptureCallback callback,
                                       void *data); /* 13030 ptsz */
#endif

#if CUDA_VERSION < 13040
CUresult cuGraphAddNode_v3(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
                           const CUgraphEdgeData *edges, size_t count,
                           CUgraphNodeParams *params);                         /* 13040 */
CUresult cuGraphNodeSetParams_v2(CUgraphNode node, CUgraphNodeParams *params); /* 13040 */
#endif

/* The version of the driver that is simulated. */
#define AGSIM_NEWEST (CUDA_VERSION > 13040 ? CUDA_VERSION : 13040)

#endif
