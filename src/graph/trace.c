/* SPDX-License-Identifier: MIT */
/* Building, patching, launching graphs of held ops. */
#include "graph/trace.h"

#include <stdlib.h>

#include "driver/driver.h"
#include "graph/function.h"
#include "graph/node.h"

/* -- One op --------------------------------------------------------------- */

static const struct ag_function *function_of(const struct ag_node *node)
{
    return (const void *)((const char *)node->op.layout - offsetof(struct ag_function, layout));
}

static CUDA_KERNEL_NODE_PARAMS kernel_params(const struct ag_node *node, CUfunction func)
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
        .kernelParams = node->params,
    };
}

static CUDA_MEMSET_NODE_PARAMS memset_params(const struct ag_node *node)
{
    struct ag_memset_arguments arguments;
    memcpy(&arguments, node->args, sizeof arguments);
    return (CUDA_MEMSET_NODE_PARAMS){
        .dst = arguments.dst,
        .value = arguments.value,
        .elementSize = node->op.shape[AG_MEMSET_WIDTH],
        .width = ag_memset_count(&node->op),
        .height = 1,
    };
}

CUresult ag_node_submit(const struct ag_node *node, CUstream stream)
{
    const struct ag_op *op = &node->op;
    const uint32_t *shape = op->shape;
    if (op->kind == AG_OP_MEMSET) {
        struct ag_memset_arguments arguments;
        memcpy(&arguments, node->args, sizeof arguments);
        size_t count = ag_memset_count(op);
        switch (shape[AG_MEMSET_WIDTH]) {
        case 1:
            return ag_real.cuMemsetD8Async(arguments.dst, arguments.value, count, stream);
        case 2:
            return ag_real.cuMemsetD16Async(arguments.dst, arguments.value, count, stream);
        default:
            return ag_real.cuMemsetD32Async(arguments.dst, arguments.value, count, stream);
        }
    }
    CUfunction func = (CUfunction)op->func;
    if (op->extra_size == 0)
        return ag_real.cuLaunchKernel(func, shape[0], shape[1], shape[2], shape[3], shape[4],
                                      shape[5], shape[6], stream, node->params, NULL);
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
    return ag_real.cuLaunchKernelEx(&config, func, node->params, NULL);
}

/* -- Building ------------------------------------------------------------- */

static CUresult add_kernel(struct ag_trace *trace, struct ag_step *step, const CUgraphNode *after)
{
    const struct ag_op *op = &step->node->op;
    CUDA_KERNEL_NODE_PARAMS params = kernel_params(step->node, step->func);
    CUresult result = ag_real.cuGraphAddKernelNode_v2(&step->graph_node, trace->graph, after,
                                                      after != NULL, &params);
    const CUlaunchAttribute *attrs = op->extra;
    for (uint32_t i = 0; result == CUDA_SUCCESS && i < op->extra_size / sizeof *attrs; i++)
        result =
            ag_real.cuGraphKernelNodeSetAttribute(step->graph_node, attrs[i].id, &attrs[i].value);
    return result;
}

static CUresult build(struct ag_trace *trace, CUcontext ctx, CUstream stream)
{
    CUresult result = ag_real.cuGraphCreate(&trace->graph, 0);
    const CUgraphNode *after = NULL;
    for (uint32_t i = 0; result == CUDA_SUCCESS && i < trace->length; i++) {
        struct ag_step *step = &trace->step[i];
        if (step->node->op.kind == AG_OP_KERNEL) {
            result = add_kernel(trace, step, after);
        } else {
            CUDA_MEMSET_NODE_PARAMS params = memset_params(step->node);
            result = ag_real.cuGraphAddMemsetNode(&step->graph_node, trace->graph, after,
                                                  after != NULL, &params, ctx);
        }
        after = &step->graph_node;
    }
    if (result == CUDA_SUCCESS)
        result = ag_real.cuGraphInstantiateWithFlags(&trace->exec, trace->graph, 0);
    /* Arguments that change before the first upload make replays slower for good. */
    if (result == CUDA_SUCCESS)
        result = ag_real.cuGraphUpload(trace->exec, stream);
    return result;
}

struct ag_trace *ag_trace_build(struct ag_node *leaf, CUcontext ctx, CUstream stream,
                                CUresult *error)
{
    *error = CUDA_SUCCESS;
    struct ag_trace *trace = calloc(1, sizeof *trace + leaf->depth * sizeof trace->step[0]);
    if (trace == NULL)
        return NULL;
    trace->leaf = leaf;
    trace->length = leaf->depth;
    for (struct ag_node *node = leaf; node->parent != NULL; node = node->parent) {
        struct ag_step *step = &trace->step[node->depth - 1];
        step->node = node;
        if (node->op.kind == AG_OP_KERNEL)
            step->func = function_of(node)->func;
        if (!ag_node_arguments(node)) {
            free(trace);
            return NULL;
        }
        step->version = node->version;
    }
    *error = build(trace, ctx, stream);
    if (*error == CUDA_SUCCESS)
        return trace;
    ag_trace_destroy(trace);
    return NULL;
}

CUresult ag_trace_destroy(struct ag_trace *trace)
{
    CUresult result = CUDA_SUCCESS;
    if (trace->exec != NULL)
        result = ag_real.cuGraphExecDestroy(trace->exec);
    if (trace->graph != NULL) {
        CUresult second = ag_real.cuGraphDestroy(trace->graph);
        result = result != CUDA_SUCCESS ? result : second;
    }
    free(trace);
    return result;
}

/* -- Replay --------------------------------------------------------------- */

static CUresult patch(struct ag_trace *trace, struct ag_step *step)
{
    if (step->node->op.kind == AG_OP_KERNEL) {
        CUDA_KERNEL_NODE_PARAMS params = kernel_params(step->node, step->func);
        return ag_real.cuGraphExecKernelNodeSetParams_v2(trace->exec, step->graph_node, &params);
    }
    CUDA_MEMSET_NODE_PARAMS params = memset_params(step->node);
    CUcontext ctx;
    CUresult result = ag_real.cuCtxGetCurrent(&ctx);
    if (result != CUDA_SUCCESS)
        return result;
    return ag_real.cuGraphExecMemsetNodeSetParams(trace->exec, step->graph_node, &params, ctx);
}

CUresult ag_trace_replay(struct ag_trace *trace, CUstream stream, uint64_t *patches)
{
    for (uint32_t i = 0; i < trace->length; i++) {
        struct ag_step *step = &trace->step[i];
        if (__builtin_expect(step->version == step->node->version, 1))
            continue;
        CUresult result = patch(trace, step);
        if (result != CUDA_SUCCESS)
            return result;
        step->version = step->node->version;
        ++*patches;
    }
    return ag_real.cuGraphLaunch(trace->exec, stream);
}
