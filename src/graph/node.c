/* SPDX-License-Identifier: MIT */
/* Each kind of op: its call, its node. */
#include "graph/node.h"

#include <pthread.h>

#include "driver/driver.h"
#include "graph/attribute.h"
#include "graph/function.h"
#include "graph/setting.h"

/* -- Kernels --------------------------------------------------------------- */

CUfunction ag_node_function(const struct ag_node *node)
{
    if (node->op.kind != AG_OP_KERNEL)
        return NULL;
    return ag_function_of(node->op.layout)->func;
}

CUDA_KERNEL_NODE_PARAMS ag_node_kernel(const struct ag_node *node, CUfunction func, void **params)
{
    const uint32_t *shape = node->op.shape;
    return (CUDA_KERNEL_NODE_PARAMS){
        .func = func,
        .gridDimX = shape[0],
        .gridDimY = shape[1],
        .gridDimZ = shape[2],
        .blockDimX = shape[3],
        .blockDimY = shape[4],
        .blockDimZ = shape[5],
        .sharedMemBytes = shape[6],
        .kernelParams = params,
    };
}

static CUresult kernel_launch(const struct ag_node *node, CUstream stream)
{
    const struct ag_op *op = &node->op;
    const uint32_t *shape = op->shape;
    CUfunction func = (CUfunction)op->func;
    if (op->extra_size == 0)
        return ag_real.cuLaunchKernel(func, shape[0], shape[1], shape[2], shape[3], shape[4],
                                      shape[5], shape[6], stream, (void **)node->params, NULL);
    CUlaunchConfig config = {
        .gridDimX = shape[0],
        .gridDimY = shape[1],
        .gridDimZ = shape[2],
        .blockDimX = shape[3],
        .blockDimY = shape[4],
        .blockDimZ = shape[5],
        .sharedMemBytes = shape[6],
        .hStream = stream,
        .attrs = (CUlaunchAttribute *)op->extra,
        .numAttrs = op->extra_size / sizeof(CUlaunchAttribute),
    };
    return ag_real.cuLaunchKernelEx(&config, func, (void **)node->params, NULL);
}

/* A launch may wait until its stream takes more, and setters must not wait for that without need.
   So it is made first as if no setter were faster. */
static __attribute__((noinline)) CUresult launch_in_moment(const struct ag_node *node,
                                                           CUstream stream)
{
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    for (int sure = 0; sure <= 1 && result == CUDA_ERROR_INVALID_VALUE; sure++) {
        struct ag_moment moment;
        ag_moment_open(&moment, &node->op, sure);
        result = kernel_launch(node, stream);
        (void)ag_moment_close(&moment); /* it has taken its settings */
    }
    return result;
}

static CUresult kernel_submit(const struct ag_node *node, CUstream stream)
{
    return __builtin_expect(ag_kernel_setting(&node->op) != 0, 0) ? launch_in_moment(node, stream)
                                                                  : kernel_launch(node, stream);
}

/*
 * A launch that may begin before the one ahead of it has ended (programmatic stream serialization)
 * is a programmatic edge in a graph, as capture makes it. Behind anything but a kernel, and at the
 * head of a trace, it is an ordinary dependency: later than allowed, and in order. It need not wait
 * for the kernel ahead at all (CUDA driver API, CUlaunchAttributeID: dependents can choose to), and
 * may end first; what comes behind it in the stream comes behind both, so it waits for both.
 */
bool ag_node_is_early(const struct ag_node *node, const struct ag_node *last)
{
    const CUlaunchAttribute *attrs = node->op.extra;
    bool early = false;
    if (node->op.kind != AG_OP_KERNEL || last == NULL || last->op.kind != AG_OP_KERNEL)
        return false;
    for (uint32_t i = 0; i < node->op.extra_size / sizeof *attrs; i++)
        early |= attrs[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    return early && ag_real.cuGraphAddDependencies_v2 != NULL;
}

static CUresult add_kernel(const struct ag_node *node, CUfunction func, CUgraph graph,
                           CUgraphNode *made, const struct ag_after *after)
{
    const CUlaunchAttribute *attrs = node->op.extra;
    uint32_t count = node->op.extra_size / sizeof *attrs;
    bool early = ag_node_is_early(node, after->last);
    struct ag_moment moment = {.function = NULL};
    if (ag_kernel_setting(&node->op) != 0)
        ag_moment_open(&moment, &node->op, true);
    CUresult result =
        ag_attribute_add_kernel(made, graph, after->node, after->count - early,
                                ag_node_kernel(node, func, (void **)node->params), attrs, count);
    if (!ag_moment_close(&moment)) /* the node may have other settings */
        result = CUDA_ERROR_NOT_PERMITTED;
    if (result == CUDA_SUCCESS && early) {
        CUgraphEdgeData edge = {
            .from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC,
            .type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC,
        };
        result = ag_real.cuGraphAddDependencies_v2(graph, &after->node[after->count - 1], made,
                                                   &edge, 1);
    }
    return result;
}

/* -- Memsets --------------------------------------------------------------- */

static CUDA_MEMSET_NODE_PARAMS memset_params(const struct ag_node *node)
{
    const struct ag_op *op = &node->op;
    CUDA_MEMSET_NODE_PARAMS params = {
        .dst = (CUdeviceptr)op->func,
        .pitch = ag_words(&op->shape[AG_MEMSET_PITCH_LOW]),
        .value = op->shape[AG_MEMSET_VALUE],
        .elementSize = op->shape[AG_MEMSET_WIDTH],
        .width = ag_words(&op->shape[AG_MEMSET_COUNT_LOW]),
        .height = op->shape[AG_MEMSET_HEIGHT],
    };
    if (op->layout->count != 0) {
        struct ag_memset_arguments arguments;
        memcpy(&arguments, node->args, sizeof arguments);
        params.dst = arguments.dst;
        params.value = arguments.value;
    }
    return params;
}

static CUresult memset_submit(const struct ag_node *node, CUstream stream)
{
    CUDA_MEMSET_NODE_PARAMS p = memset_params(node);
    bool rows = node->op.layout->count == 0;
    switch (p.elementSize) {
    case 1:
        return rows ? ag_real.cuMemsetD2D8Async(p.dst, p.pitch, (unsigned char)p.value, p.width,
                                                p.height, stream)
                    : ag_real.cuMemsetD8Async(p.dst, (unsigned char)p.value, p.width, stream);
    case 2:
        return rows ? ag_real.cuMemsetD2D16Async(p.dst, p.pitch, (unsigned short)p.value, p.width,
                                                 p.height, stream)
                    : ag_real.cuMemsetD16Async(p.dst, (unsigned short)p.value, p.width, stream);
    default:
        return rows ? ag_real.cuMemsetD2D32Async(p.dst, p.pitch, p.value, p.width, p.height, stream)
                    : ag_real.cuMemsetD32Async(p.dst, p.value, p.width, stream);
    }
}

/* -- Copies ---------------------------------------------------------------- */

static CUDA_MEMCPY3D copy_params(const struct ag_node *node)
{
    CUDA_MEMCPY3D params;
    memcpy(&params, node->op.extra, sizeof params);
    if (node->op.layout->count != 0) {
        struct ag_copy_arguments arguments;
        memcpy(&arguments, node->args, sizeof arguments);
        params.WidthInBytes = ag_words(&node->op.shape[AG_COPY_BYTES_LOW]);
        params.dstDevice = arguments.dst;
        if (params.srcMemoryType == CU_MEMORYTYPE_HOST)
            params.srcHost = (const void *)arguments.src;
        else
            params.srcDevice = arguments.src;
    }
    return params;
}

bool ag_op_is_from_host(const struct ag_op *op)
{
    CUmemorytype type;
    if (op->kind != AG_OP_COPY)
        return false;
    const char *params = op->extra;
    memcpy(&type, params + offsetof(CUDA_MEMCPY3D, srcMemoryType), sizeof type);
    return type == CU_MEMORYTYPE_HOST;
}

static CUresult copy_submit(const struct ag_node *node, CUstream stream)
{
    CUDA_MEMCPY3D params = copy_params(node);
    if (node->op.layout->count == 0)
        return ag_real.cuMemcpy3DAsync_v2(&params, stream);
    CUdeviceptr src =
        params.srcMemoryType == CU_MEMORYTYPE_HOST ? (CUdeviceptr)params.srcHost : params.srcDevice;
    return ag_real.cuMemcpyAsync(params.dstDevice, src, params.WidthInBytes, stream);
}

/* -- Memory ---------------------------------------------------------------- */

unsigned ag_node_places(const struct ag_node *node, struct ag_place place[AG_PLACES])
{
    /* Of more than one row it is enough to know whether there is an allocation at all. */
    bool row = node->op.layout->count != 0;
    if (node->op.kind == AG_OP_MEMSET) {
        size_t offset = offsetof(struct ag_memset_arguments, dst);
        place[0] = (struct ag_place){.at = memset_params(node).dst,
                                     .bytes = row ? ag_memset_row(&node->op) : 1,
                                     .argument = row ? node->args + offset : NULL};
        return 1;
    }
    if (node->op.kind != AG_OP_COPY)
        return 0;
    CUDA_MEMCPY3D params = copy_params(node);
    size_t bytes = row ? params.WidthInBytes : 1;
    size_t dst = offsetof(struct ag_copy_arguments, dst);
    size_t src = offsetof(struct ag_copy_arguments, src);
    place[0] = (struct ag_place){params.dstDevice, bytes, row ? node->args + dst : NULL};
    place[1] = (struct ag_place){params.srcDevice, bytes, row ? node->args + src : NULL};
    return params.srcMemoryType == CU_MEMORYTYPE_DEVICE ? 2 : 1;
}

/* -- Values in memory -------------------------------------------------------- */

static CUstreamBatchMemOpParams value_params(const struct ag_node *node)
{
    const struct ag_op *op = &node->op;
    CUstreamBatchMemOpParams params = {0};
    uint64_t value;
    memcpy(&value, node->args, sizeof value);
    /* Writes and waits have the same form, and so have 32 and 64 bits. */
    params.writeValue.operation = op->shape[AG_VALUE_OPERATION];
    params.writeValue.address = (CUdeviceptr)op->func;
    params.writeValue.value64 = value;
    params.writeValue.flags = op->shape[AG_VALUE_FLAGS];
    return params;
}

static CUDA_BATCH_MEM_OP_NODE_PARAMS value_node(CUstreamBatchMemOpParams *params, CUcontext ctx)
{
    return (CUDA_BATCH_MEM_OP_NODE_PARAMS){.ctx = ctx, .count = 1, .paramArray = params};
}

static CUresult value_submit(const struct ag_node *node, CUstream stream)
{
    CUstreamBatchMemOpParams p = value_params(node);
    CUdeviceptr at = p.writeValue.address;
    cuuint64_t value = p.writeValue.value64;
    unsigned flags = p.writeValue.flags;
    switch (p.operation) {
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        return ag_real.cuStreamWriteValue32_v2(stream, at, (cuuint32_t)value, flags);
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        return ag_real.cuStreamWriteValue64_v2(stream, at, value, flags);
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        return ag_real.cuStreamWaitValue32_v2(stream, at, (cuuint32_t)value, flags);
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        return ag_real.cuStreamWaitValue64_v2(stream, at, value, flags);
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

/* -- By kind --------------------------------------------------------------- */

CUresult ag_node_add(const struct ag_node *node, CUfunction func, CUgraph graph, CUcontext ctx,
                     CUgraphNode *made, const struct ag_after *after)
{
    switch ((enum ag_op_kind)node->op.kind) {
    case AG_OP_KERNEL:
        return add_kernel(node, func, graph, made, after);
    case AG_OP_MEMSET: {
        CUDA_MEMSET_NODE_PARAMS params = memset_params(node);
        return ag_real.cuGraphAddMemsetNode(made, graph, after->node, after->count, &params, ctx);
    }
    case AG_OP_COPY: {
        CUDA_MEMCPY3D params = copy_params(node);
        return ag_real.cuGraphAddMemcpyNode(made, graph, after->node, after->count, &params, ctx);
    }
    case AG_OP_RECORD:
        return ag_real.cuGraphAddEventRecordNode(made, graph, after->node, after->count,
                                                 ag_node_event(node));
    case AG_OP_WAIT:
        return ag_real.cuGraphAddEventWaitNode(made, graph, after->node, after->count,
                                               ag_node_event(node));
    case AG_OP_VALUE: {
        CUstreamBatchMemOpParams value = value_params(node);
        CUDA_BATCH_MEM_OP_NODE_PARAMS params = value_node(&value, ctx);
        return ag_real.cuGraphAddBatchMemOpNode(made, graph, after->node, after->count, &params);
    }
    }
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* Gives a kernel its arguments: in an exec or, where that is NULL, in its source graph. */
static __attribute__((noinline)) CUresult patch_in_moment(const struct ag_node *node,
                                                          CUgraphExec exec, CUgraphNode graph_node,
                                                          const CUDA_KERNEL_NODE_PARAMS *params)
{
    struct ag_moment moment;
    ag_moment_open(&moment, &node->op, true);
    CUresult result = exec != NULL
                          ? ag_real.cuGraphExecKernelNodeSetParams_v2(exec, graph_node, params)
                          : ag_real.cuGraphKernelNodeSetParams_v2(graph_node, params);
    return ag_moment_close(&moment) ? result : CUDA_ERROR_NOT_PERMITTED;
}

CUresult ag_node_patch(const struct ag_node *node, CUfunction func, CUgraphExec exec,
                       CUgraphNode graph_node, CUcontext ctx)
{
    switch ((enum ag_op_kind)node->op.kind) {
    case AG_OP_KERNEL: {
        CUDA_KERNEL_NODE_PARAMS params = ag_node_kernel(node, func, (void **)node->params);
        if (__builtin_expect(ag_kernel_setting(&node->op) != 0, 0))
            return patch_in_moment(node, exec, graph_node, &params);
        return ag_real.cuGraphExecKernelNodeSetParams_v2(exec, graph_node, &params);
    }
    case AG_OP_MEMSET: {
        CUDA_MEMSET_NODE_PARAMS params = memset_params(node);
        return ag_real.cuGraphExecMemsetNodeSetParams(exec, graph_node, &params, ctx);
    }
    case AG_OP_COPY: {
        CUDA_MEMCPY3D params = copy_params(node);
        return ag_real.cuGraphExecMemcpyNodeSetParams(exec, graph_node, &params, ctx);
    }
    case AG_OP_RECORD:
    case AG_OP_WAIT:
        return ag_node_patch_event(node, exec, graph_node, ag_node_event(node));
    case AG_OP_VALUE: {
        CUstreamBatchMemOpParams value = value_params(node);
        CUDA_BATCH_MEM_OP_NODE_PARAMS params = value_node(&value, ctx);
        return ag_real.cuGraphExecBatchMemOpNodeSetParams(exec, graph_node, &params);
    }
    }
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult ag_node_patch_event(const struct ag_node *node, CUgraphExec exec, CUgraphNode graph_node,
                             CUevent event)
{
    return node->op.kind == AG_OP_RECORD
               ? ag_real.cuGraphExecEventRecordNodeSetEvent(exec, graph_node, event)
               : ag_real.cuGraphExecEventWaitNodeSetEvent(exec, graph_node, event);
}

CUresult ag_node_patch_source(const struct ag_node *node, CUfunction func, CUgraphNode graph_node,
                              CUcontext ctx)
{
    switch ((enum ag_op_kind)node->op.kind) {
    case AG_OP_KERNEL: {
        CUDA_KERNEL_NODE_PARAMS params = ag_node_kernel(node, func, (void **)node->params);
        if (__builtin_expect(ag_kernel_setting(&node->op) != 0, 0))
            return patch_in_moment(node, NULL, graph_node, &params);
        return ag_real.cuGraphKernelNodeSetParams_v2(graph_node, &params);
    }
    case AG_OP_MEMSET: {
        CUDA_MEMSET_NODE_PARAMS params = memset_params(node);
        return ag_real.cuGraphMemsetNodeSetParams(graph_node, &params);
    }
    case AG_OP_COPY: {
        CUDA_MEMCPY3D params = copy_params(node);
        return ag_real.cuGraphMemcpyNodeSetParams(graph_node, &params);
    }
    case AG_OP_RECORD:
    case AG_OP_WAIT:
        break;
    case AG_OP_VALUE: {
        CUstreamBatchMemOpParams value = value_params(node);
        CUDA_BATCH_MEM_OP_NODE_PARAMS params = value_node(&value, ctx);
        return ag_real.cuGraphBatchMemOpNodeSetParams(graph_node, &params);
    }
    }
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult ag_node_submit(const struct ag_node *node, CUstream stream)
{
    switch ((enum ag_op_kind)node->op.kind) {
    case AG_OP_KERNEL:
        return kernel_submit(node, stream);
    case AG_OP_MEMSET:
        return memset_submit(node, stream);
    case AG_OP_COPY:
        return copy_submit(node, stream);
    case AG_OP_RECORD:
        return ag_real.cuEventRecord(ag_node_event(node), stream);
    case AG_OP_WAIT:
        return ag_real.cuStreamWaitEvent(stream, ag_node_event(node), 0);
    case AG_OP_VALUE:
        return value_submit(node, stream);
    }
    return CUDA_ERROR_NOT_SUPPORTED;
}
