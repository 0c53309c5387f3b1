/* SPDX-License-Identifier: MIT */
/* Graphs of the simulated runtime, as far as hand-written ones need them: all that has no stream.
 */
#include <string.h>

#include "cudart.h"

/* The runtime's graph, node and edge types are the driver's. */

/* -- Graphs --- */

cudaError_t cudaGraphCreate(cudaGraph_t *graph, unsigned flags)
{
    RT_CALL(DRIVER.cuGraphCreate(graph, flags));
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    RT_CALL(DRIVER.cuGraphDestroy(graph));
}

cudaError_t cudaGraphClone(cudaGraph_t *clone, cudaGraph_t original)
{
    RT_CALL(DRIVER.cuGraphClone(clone, original));
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count)
{
    RT_CALL(DRIVER.cuGraphGetNodes(graph, nodes, count));
}

cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count)
{
    RT_CALL(DRIVER.cuGraphGetRootNodes(graph, nodes, count));
}

cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to,
                              cudaGraphEdgeData *edges, size_t *count)
{
    RT_CALL(DRIVER.cuGraphGetEdges(graph, from, to, (CUgraphEdgeData *)edges, count));
}

cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t *from,
                                     const cudaGraphNode_t *to, const cudaGraphEdgeData *edges,
                                     size_t count)
{
    RT_CALL(DRIVER.cuGraphAddDependencies(graph, from, to, (const CUgraphEdgeData *)edges, count));
}

cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t *from,
                                        const cudaGraphNode_t *to, const cudaGraphEdgeData *edges,
                                        size_t count)
{
    RT_CALL(
        DRIVER.cuGraphRemoveDependencies(graph, from, to, (const CUgraphEdgeData *)edges, count));
}

cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t *nodes,
                                         cudaGraphEdgeData *edges, size_t *count)
{
    RT_CALL(DRIVER.cuGraphNodeGetDependencies(node, nodes, (CUgraphEdgeData *)edges, count));
}

cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t *nodes,
                                           cudaGraphEdgeData *edges, size_t *count)
{
    RT_CALL(DRIVER.cuGraphNodeGetDependentNodes(node, nodes, (CUgraphEdgeData *)edges, count));
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, enum cudaGraphNodeType *type)
{
    RT_CALL(DRIVER.cuGraphNodeGetType(node, (CUgraphNodeType *)type));
}

cudaError_t cudaGraphDestroyNode(cudaGraphNode_t node)
{
    RT_CALL(DRIVER.cuGraphDestroyNode(node));
}

/* -- Kernel nodes --- */

static cudaError_t kernel_params(CUDA_KERNEL_NODE_PARAMS *to,
                                 const struct cudaKernelNodeParams *from)
{
    memset(to, 0, sizeof(*to));
    to->gridDimX = from->gridDim.x;
    to->gridDimY = from->gridDim.y;
    to->gridDimZ = from->gridDim.z;
    to->blockDimX = from->blockDim.x;
    to->blockDimY = from->blockDim.y;
    to->blockDimZ = from->blockDim.z;
    to->sharedMemBytes = from->sharedMemBytes;
    to->kernelParams = from->kernelParams;
    to->extra = from->extra;
    /* A kernel's handle is no function here: it has a field of its own. */
    return rt_kernel(from->func, &to->kern);
}

#define RT_KERNEL_NODE_CALL(params, call)                                                          \
    do {                                                                                           \
        CUDA_KERNEL_NODE_PARAMS driver_params;                                                     \
        cudaError_t error_ = rt_enter();                                                           \
        if (!error_)                                                                               \
            error_ = kernel_params(&driver_params, params);                                        \
        return rt_result(error_ ? error_ : (cudaError_t)(call));                                   \
    } while (0)

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                   const cudaGraphNode_t *dependencies, size_t count,
                                   const struct cudaKernelNodeParams *params)
{
    RT_KERNEL_NODE_CALL(
        params, DRIVER.cuGraphAddKernelNode(node, graph, dependencies, count, &driver_params));
}

cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node,
                                         const struct cudaKernelNodeParams *params)
{
    RT_KERNEL_NODE_CALL(params, DRIVER.cuGraphKernelNodeSetParams(node, &driver_params));
}

cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                             const struct cudaKernelNodeParams *params)
{
    RT_KERNEL_NODE_CALL(params, DRIVER.cuGraphExecKernelNodeSetParams(exec, node, &driver_params));
}

cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node, struct cudaKernelNodeParams *params)
{
    CUDA_KERNEL_NODE_PARAMS p;
    cudaError_t error = rt_enter();
    if (!error)
        error = (cudaError_t)DRIVER.cuGraphKernelNodeGetParams(node, &p);
    if (error)
        return rt_result(error);
    params->func = p.kern ? rt_host_function(p.kern) : (void *)p.func;
    params->gridDim = (dim3){p.gridDimX, p.gridDimY, p.gridDimZ};
    params->blockDim = (dim3){p.blockDimX, p.blockDimY, p.blockDimZ};
    params->sharedMemBytes = p.sharedMemBytes;
    params->kernelParams = p.kernelParams;
    params->extra = p.extra;
    return cudaSuccess;
}

cudaError_t cudaGraphKernelNodeGetAttribute(cudaGraphNode_t node, cudaLaunchAttributeID attribute,
                                            cudaLaunchAttributeValue *value)
{
    RT_CALL(DRIVER.cuGraphKernelNodeGetAttribute(node, (CUlaunchAttributeID)attribute,
                                                 (CUlaunchAttributeValue *)value));
}

cudaError_t cudaGraphKernelNodeSetAttribute(cudaGraphNode_t node, cudaLaunchAttributeID attribute,
                                            const cudaLaunchAttributeValue *value)
{
    RT_CALL(DRIVER.cuGraphKernelNodeSetAttribute(node, (CUlaunchAttributeID)attribute,
                                                 (const CUlaunchAttributeValue *)value));
}

/* -- Memset and copy nodes: the driver wants their context --- */

static CUDA_MEMSET_NODE_PARAMS memset_params(const struct cudaMemsetParams *from)
{
    return (CUDA_MEMSET_NODE_PARAMS){
        .dst = (CUdeviceptr)from->dst,
        .pitch = from->pitch,
        .value = from->value,
        .elementSize = from->elementSize,
        .width = from->width,
        .height = from->height,
    };
}

cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                   const cudaGraphNode_t *dependencies, size_t count,
                                   const struct cudaMemsetParams *params)
{
    CUDA_MEMSET_NODE_PARAMS p = memset_params(params);
    CUcontext context;
    cudaError_t error = rt_enter();
    if (!error)
        error = (cudaError_t)DRIVER.cuCtxGetCurrent(&context);
    if (!error)
        error =
            (cudaError_t)DRIVER.cuGraphAddMemsetNode(node, graph, dependencies, count, &p, context);
    return rt_result(error);
}

cudaError_t cudaGraphMemsetNodeGetParams(cudaGraphNode_t node, struct cudaMemsetParams *params)
{
    CUDA_MEMSET_NODE_PARAMS p;
    cudaError_t error = rt_enter();
    if (!error)
        error = (cudaError_t)DRIVER.cuGraphMemsetNodeGetParams(node, &p);
    if (error)
        return rt_result(error);
    *params = (struct cudaMemsetParams){
        .dst = (void *)p.dst,
        .pitch = p.pitch,
        .value = p.value,
        .elementSize = p.elementSize,
        .width = p.width,
        .height = p.height,
    };
    return cudaSuccess;
}

cudaError_t cudaGraphMemsetNodeSetParams(cudaGraphNode_t node,
                                         const struct cudaMemsetParams *params)
{
    CUDA_MEMSET_NODE_PARAMS p = memset_params(params);
    RT_CALL(DRIVER.cuGraphMemsetNodeSetParams(node, &p));
}

cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                             const struct cudaMemsetParams *params)
{
    CUDA_MEMSET_NODE_PARAMS p = memset_params(params);
    CUcontext context;
    cudaError_t error = rt_enter();
    if (!error)
        error = (cudaError_t)DRIVER.cuCtxGetCurrent(&context);
    if (!error)
        error = (cudaError_t)DRIVER.cuGraphExecMemsetNodeSetParams(exec, node, &p, context);
    return rt_result(error);
}

static cudaError_t add_copy(cudaGraphNode_t *node, cudaGraph_t graph,
                            const cudaGraphNode_t *dependencies, size_t count,
                            const CUDA_MEMCPY3D *copy)
{
    CUcontext context;
    cudaError_t error = rt_enter();
    if (!error)
        error = (cudaError_t)DRIVER.cuCtxGetCurrent(&context);
    if (!error)
        error = (cudaError_t)DRIVER.cuGraphAddMemcpyNode(node, graph, dependencies, count, copy,
                                                         context);
    return rt_result(error);
}

static cudaError_t set_copy(cudaGraphExec_t exec, cudaGraphNode_t node, const CUDA_MEMCPY3D *copy)
{
    CUcontext context;
    cudaError_t error = rt_enter();
    if (!error)
        error = (cudaError_t)DRIVER.cuCtxGetCurrent(&context);
    if (!error)
        error = (cudaError_t)DRIVER.cuGraphExecMemcpyNodeSetParams(exec, node, copy, context);
    return rt_result(error);
}

cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                   const cudaGraphNode_t *dependencies, size_t count,
                                   const struct cudaMemcpy3DParms *params)
{
    CUDA_MEMCPY3D copy;
    cudaError_t error = rt_copy_3d(&copy, params);
    return error ? rt_result(error) : add_copy(node, graph, dependencies, count, &copy);
}

cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t *node, cudaGraph_t graph,
                                     const cudaGraphNode_t *dependencies, size_t count, void *to,
                                     const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    CUDA_MEMCPY3D copy;
    cudaError_t error = rt_copy_1d(&copy, to, from, bytes, kind);
    return error ? rt_result(error) : add_copy(node, graph, dependencies, count, &copy);
}

cudaError_t cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void *to, const void *from,
                                           size_t bytes, enum cudaMemcpyKind kind)
{
    CUDA_MEMCPY3D copy;
    cudaError_t error = rt_copy_1d(&copy, to, from, bytes, kind);
    if (error)
        return rt_result(error);
    RT_CALL(DRIVER.cuGraphMemcpyNodeSetParams(node, &copy));
}

cudaError_t cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                             const struct cudaMemcpy3DParms *params)
{
    CUDA_MEMCPY3D copy;
    cudaError_t error = rt_copy_3d(&copy, params);
    return error ? rt_result(error) : set_copy(exec, node, &copy);
}

cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t exec, cudaGraphNode_t node, void *to,
                                               const void *from, size_t bytes,
                                               enum cudaMemcpyKind kind)
{
    CUDA_MEMCPY3D copy;
    cudaError_t error = rt_copy_1d(&copy, to, from, bytes, kind);
    return error ? rt_result(error) : set_copy(exec, node, &copy);
}

/* -- Other nodes --- */

cudaError_t cudaGraphAddHostNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                 const cudaGraphNode_t *dependencies, size_t count,
                                 const struct cudaHostNodeParams *params)
{
    CUDA_HOST_NODE_PARAMS p = {.fn = params->fn, .userData = params->userData};
    RT_CALL(DRIVER.cuGraphAddHostNode(node, graph, dependencies, count, &p));
}

cudaError_t cudaGraphHostNodeGetParams(cudaGraphNode_t node, struct cudaHostNodeParams *params)
{
    CUDA_HOST_NODE_PARAMS p;
    cudaError_t error = rt_enter();
    if (!error)
        error = (cudaError_t)DRIVER.cuGraphHostNodeGetParams(node, &p);
    if (!error)
        *params = (struct cudaHostNodeParams){.fn = p.fn, .userData = p.userData};
    return rt_result(error);
}

cudaError_t cudaGraphExecHostNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                           const struct cudaHostNodeParams *params)
{
    CUDA_HOST_NODE_PARAMS p = {.fn = params->fn, .userData = params->userData};
    RT_CALL(DRIVER.cuGraphExecHostNodeSetParams(exec, node, &p));
}

cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                  const cudaGraphNode_t *dependencies, size_t count)
{
    RT_CALL(DRIVER.cuGraphAddEmptyNode(node, graph, dependencies, count));
}

cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                       const cudaGraphNode_t *dependencies, size_t count,
                                       cudaGraph_t child)
{
    RT_CALL(DRIVER.cuGraphAddChildGraphNode(node, graph, dependencies, count, child));
}

cudaError_t cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node, cudaGraph_t *child)
{
    RT_CALL(DRIVER.cuGraphChildGraphNodeGetGraph(node, child));
}

cudaError_t cudaGraphExecChildGraphNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                 cudaGraph_t child)
{
    RT_CALL(DRIVER.cuGraphExecChildGraphNodeSetParams(exec, node, child));
}

cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                        const cudaGraphNode_t *dependencies, size_t count,
                                        cudaEvent_t event)
{
    RT_CALL(DRIVER.cuGraphAddEventRecordNode(node, graph, dependencies, count, event));
}

cudaError_t cudaGraphEventRecordNodeGetEvent(cudaGraphNode_t node, cudaEvent_t *event)
{
    RT_CALL(DRIVER.cuGraphEventRecordNodeGetEvent(node, event));
}

cudaError_t cudaGraphEventWaitNodeGetEvent(cudaGraphNode_t node, cudaEvent_t *event)
{
    RT_CALL(DRIVER.cuGraphEventWaitNodeGetEvent(node, event));
}

cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                      const cudaGraphNode_t *dependencies, size_t count,
                                      cudaEvent_t event)
{
    RT_CALL(DRIVER.cuGraphAddEventWaitNode(node, graph, dependencies, count, event));
}

/* The parameters of an allocation have the same layout and numbers on both sides. */

cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                     const cudaGraphNode_t *dependencies, size_t count,
                                     struct cudaMemAllocNodeParams *params)
{
    RT_CALL(DRIVER.cuGraphAddMemAllocNode(node, graph, dependencies, count,
                                          (CUDA_MEM_ALLOC_NODE_PARAMS *)params));
}

cudaError_t cudaGraphMemAllocNodeGetParams(cudaGraphNode_t node,
                                           struct cudaMemAllocNodeParams *params)
{
    RT_CALL(DRIVER.cuGraphMemAllocNodeGetParams(node, (CUDA_MEM_ALLOC_NODE_PARAMS *)params));
}

cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                    const cudaGraphNode_t *dependencies, size_t count,
                                    void *pointer)
{
    RT_CALL(DRIVER.cuGraphAddMemFreeNode(node, graph, dependencies, count, (CUdeviceptr)pointer));
}

cudaError_t cudaGraphMemFreeNodeGetParams(cudaGraphNode_t node, void *pointer)
{
    RT_CALL(DRIVER.cuGraphMemFreeNodeGetParams(node, (CUdeviceptr *)pointer));
}

/* -- Any kind of node --- */

cudaError_t cudaGraphAddNode(cudaGraphNode_t *node, cudaGraph_t graph,
                             const cudaGraphNode_t *dependencies, const cudaGraphEdgeData *edges,
                             size_t count, struct cudaGraphNodeParams *params)
{
    CUgraphNodeParams p;
    CUcontext context = NULL;
    cudaError_t error = rt_enter();
    if (!error)
        error = (cudaError_t)DRIVER.cuCtxGetCurrent(&context);
    if (error)
        return rt_result(error);
    _Static_assert(sizeof(p) == sizeof(*params), "of most kinds the layout is the same");
    memcpy(&p, params, sizeof(p));
    if (params->type == cudaGraphNodeTypeKernel) {
        const struct cudaKernelNodeParamsV2 *k = &params->kernel;
        p.kernel = (CUDA_KERNEL_NODE_PARAMS_v3){
            .gridDimX = k->gridDim.x,
            .gridDimY = k->gridDim.y,
            .gridDimZ = k->gridDim.z,
            .blockDimX = k->blockDim.x,
            .blockDimY = k->blockDim.y,
            .blockDimZ = k->blockDim.z,
            .sharedMemBytes = k->sharedMemBytes,
            .kernelParams = k->kernelParams,
            .extra = k->extra,
            .ctx = context,
        };
        error = rt_kernel(k->func, &p.kernel.kern);
    } else if (params->type == cudaGraphNodeTypeMemcpy) {
        p.memcpy = (CUDA_MEMCPY_NODE_PARAMS){.copyCtx = context};
        error = rt_copy_3d(&p.memcpy.copyParams, &params->memcpy.copyParams);
    } else if (params->type == cudaGraphNodeTypeMemset) {
        p.memset.ctx = context;
    }
    if (!error)
        error = (cudaError_t)DRIVER.cuGraphAddNode(node, graph, dependencies,
                                                   (const CUgraphEdgeData *)edges, count, &p);
    if (!error && params->type == cudaGraphNodeTypeMemAlloc)
        params->alloc.dptr = (void *)p.alloc.dptr;
    return rt_result(error);
}

/* -- Execs --- */

cudaError_t cudaGraphNodeSetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node, unsigned enabled)
{
    RT_CALL(DRIVER.cuGraphNodeSetEnabled(exec, node, enabled));
}

cudaError_t cudaGraphNodeGetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node, unsigned *enabled)
{
    RT_CALL(DRIVER.cuGraphNodeGetEnabled(exec, node, enabled));
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags)
{
    RT_CALL(DRIVER.cuGraphInstantiateWithFlags(exec, graph, flags));
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *exec, cudaGraph_t graph,
                                          unsigned long long flags)
{
    return cudaGraphInstantiate(exec, graph, flags);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    RT_CALL(DRIVER.cuGraphExecDestroy(exec));
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                cudaGraphExecUpdateResultInfo *info)
{
    /* The same layout and numbers on both sides. */
    RT_CALL(DRIVER.cuGraphExecUpdate(exec, graph, (CUgraphExecUpdateResultInfo *)info));
}
