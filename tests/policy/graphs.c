/* SPDX-License-Identifier: MIT */
/* Graphs of the costs driver: they know which ops they have, and of what shape. */
#include <stdlib.h>
#include <string.h>

#include "driver/driver.h"
#include "engine/context/fetch.h"
#include "policy/costs.h"
#include "policy/driver.h"
#include "policy/threads.h"

struct CUgraphNode_st {
    enum play_kind kind;
    uint32_t index; /* in its graph */
    uint64_t shape; /* hash of grid, block and shared memory of a kernel */
    struct play_event *event;
    struct ag_fetched *place; /* that fetch writes to */
};

struct CUgraph_st {
    uint32_t count, room;
    struct CUgraphNode_st **node;
};

struct CUgraphExec_st {
    uint32_t count;
    uint32_t reshaped;  /* nodes that have got another shape since the last launch */
    struct play_op *op; /* room for a launch */
    struct CUgraphNode_st node[];
};

/* -- Nodes ------------------------------------------------------------------------------ */

static CUresult add(CUgraphNode *to, CUgraph graph, const struct CUgraphNode_st *node)
{
    if (graph->count == graph->room) {
        graph->room = 2 * graph->room + 16;
        graph->node = realloc(graph->node, graph->room * sizeof(struct CUgraphNode_st *));
        if (graph->node == NULL)
            abort();
    }
    struct CUgraphNode_st *made = malloc(sizeof *made);
    if (made == NULL)
        abort();
    *made = *node;
    made->index = graph->count;
    graph->node[graph->count++] = *to = made;
    return CUDA_SUCCESS;
}

static struct CUgraphNode_st kernel(const CUDA_KERNEL_NODE_PARAMS *p)
{
    const unsigned words[] = {p->gridDimX,  p->gridDimY,  p->gridDimZ,      p->blockDimX,
                              p->blockDimY, p->blockDimZ, p->sharedMemBytes};
    struct CUgraphNode_st node = {.kind = PLAY_OP_KERNEL, .shape = (uint64_t)p->func};
    for (unsigned i = 0; i < sizeof words / sizeof words[0]; i++)
        node.shape = (node.shape ^ words[i]) * 0x100000001b3u;
    if (play_is_fetch(p->func)) {
        node.kind = PLAY_OP_FETCH;
        node.place = (struct ag_fetched *)*(CUdeviceptr *)p->kernelParams[1];
    }
    return node;
}

static CUresult add_kernel(CUgraphNode *to, CUgraph graph, const CUgraphNode *after, size_t count,
                           const CUDA_KERNEL_NODE_PARAMS *p)
{
    (void)after, (void)count;
    struct CUgraphNode_st node = kernel(p);
    return add(to, graph, &node);
}

static CUresult add_memset(CUgraphNode *to, CUgraph graph, const CUgraphNode *after, size_t count,
                           const CUDA_MEMSET_NODE_PARAMS *p, CUcontext context)
{
    (void)after, (void)count, (void)p, (void)context;
    return add(to, graph, &(struct CUgraphNode_st){.kind = PLAY_OP_MEMSET});
}

static CUresult add_copy(CUgraphNode *to, CUgraph graph, const CUgraphNode *after, size_t count,
                         const CUDA_MEMCPY3D *p, CUcontext context)
{
    (void)after, (void)count, (void)context;
    enum play_kind kind = p->srcMemoryType == CU_MEMORYTYPE_HOST   ? PLAY_OP_UPLOAD
                          : p->dstMemoryType == CU_MEMORYTYPE_HOST ? PLAY_OP_DOWNLOAD
                                                                   : PLAY_OP_COPY;
    return add(to, graph, &(struct CUgraphNode_st){.kind = kind});
}

static CUresult add_record(CUgraphNode *to, CUgraph graph, const CUgraphNode *after, size_t count,
                           CUevent event)
{
    (void)after, (void)count;
    return add(
        to, graph,
        &(struct CUgraphNode_st){.kind = PLAY_OP_RECORD, .event = (struct play_event *)event});
}

static CUresult add_wait(CUgraphNode *to, CUgraph graph, const CUgraphNode *after, size_t count,
                         CUevent event)
{
    (void)after, (void)count;
    return add(to, graph,
               &(struct CUgraphNode_st){.kind = PLAY_OP_WAIT, .event = (struct play_event *)event});
}

static CUresult add_value(CUgraphNode *to, CUgraph graph, const CUgraphNode *after, size_t count,
                          const CUDA_BATCH_MEM_OP_NODE_PARAMS *p)
{
    (void)after, (void)count, (void)p;
    return add(to, graph, &(struct CUgraphNode_st){.kind = PLAY_OP_VALUE});
}

static CUresult set_attribute(CUgraphNode node, CUkernelNodeAttrID name,
                              const CUkernelNodeAttrValue *value)
{
    (void)node, (void)name, (void)value;
    return CUDA_SUCCESS;
}

/* -- Graphs ------------------------------------------------------------------------------ */

static CUresult create(CUgraph *to, unsigned flags)
{
    (void)flags;
    *to = calloc(1, sizeof(struct CUgraph_st));
    return *to != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult destroy(CUgraph graph)
{
    for (uint32_t i = 0; i < graph->count; i++)
        free(graph->node[i]);
    free(graph->node);
    free(graph);
    return CUDA_SUCCESS;
}

/* Building and uploading are part of what making costs. */
static CUresult instantiate(CUgraphExec *to, CUgraph graph, unsigned long long flags)
{
    struct CUgraphExec_st *exec = malloc(sizeof *exec + graph->count * sizeof exec->node[0]);
    uint64_t ns = NS_MAKE + graph->count * NS_MAKE_OP;
    (void)flags;
    if (exec == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *exec = (struct CUgraphExec_st){.count = graph->count,
                                    .op = calloc(graph->count + 1, sizeof *exec->op)};
    for (uint32_t i = 0; i < graph->count; i++)
        exec->node[i] = *graph->node[i];
    play_call(ns, ns);
    *to = exec;
    return exec->op != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult destroy_exec(CUgraphExec exec)
{
    play_call(NS_EXEC_DESTROY, NS_EXEC_DESTROY);
    free(exec->op);
    free(exec);
    return CUDA_SUCCESS;
}

static CUresult launch(CUgraphExec exec, CUstream handle)
{
    struct play_gpu *stream = play_resolve(handle);
    play_gpu_room(stream);
    play_call(NS_GRAPH + exec->count * NS_GRAPH_OP + exec->reshaped * (uint64_t)NS_RESHAPED,
              NS_GRAPH_LOCKED);
    exec->reshaped = 0;
    for (uint32_t i = 0; i < exec->count; i++) {
        const struct CUgraphNode_st *node = &exec->node[i];
        exec->op[i] = play_gpu_take(play_issues(stream), node->kind, node->event);
        if (node->place != NULL)
            node->place->done = 1;
    }
    play_gpu_launch(stream, exec->op, exec->count);
    return CUDA_SUCCESS;
}

/* -- Other arguments ----------------------------------------------------------------------- */

static CUresult set_kernel(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *p)
{
    struct CUgraphNode_st *to = &exec->node[node->index], now = kernel(p);
    bool reshaped = now.shape != to->shape;
    play_spend(reshaped ? NS_SET_SHAPE : NS_SET);
    exec->reshaped += reshaped;
    now.index = to->index;
    *to = now;
    return CUDA_SUCCESS;
}

static CUresult set_memset(CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *p,
                           CUcontext context)
{
    (void)exec, (void)node, (void)p, (void)context;
    play_spend(NS_SET);
    return CUDA_SUCCESS;
}

static CUresult set_copy(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *p,
                         CUcontext context)
{
    (void)exec, (void)node, (void)p, (void)context;
    play_spend(NS_SET_COPY);
    return CUDA_SUCCESS;
}

static CUresult set_event(CUgraphExec exec, CUgraphNode node, CUevent event)
{
    play_spend(NS_SET);
    exec->node[node->index].event = (struct play_event *)event;
    return CUDA_SUCCESS;
}

static CUresult set_value(CUgraphExec exec, CUgraphNode node,
                          const CUDA_BATCH_MEM_OP_NODE_PARAMS *p)
{
    (void)exec, (void)node, (void)p;
    play_spend(NS_SET);
    return CUDA_SUCCESS;
}

static CUresult set_source_kernel(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *p)
{
    uint32_t index = node->index;
    play_spend(NS_SET_SOURCE);
    *node = kernel(p);
    node->index = index;
    return CUDA_SUCCESS;
}

static CUresult set_source_memset(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *p)
{
    (void)node, (void)p;
    play_spend(NS_SET_SOURCE);
    return CUDA_SUCCESS;
}

static CUresult set_source_copy(CUgraphNode node, const CUDA_MEMCPY3D *p)
{
    (void)node, (void)p;
    play_spend(NS_SET_SOURCE);
    return CUDA_SUCCESS;
}

static CUresult set_source_value(CUgraphNode node, const CUDA_BATCH_MEM_OP_NODE_PARAMS *p)
{
    (void)node, (void)p;
    play_spend(NS_SET_SOURCE);
    return CUDA_SUCCESS;
}

static CUresult update(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info)
{
    play_spend(exec->count * (uint64_t)NS_UPDATE_NODE);
    for (uint32_t i = 0; i < exec->count; i++) {
        exec->reshaped += exec->node[i].shape != graph->node[i]->shape;
        exec->node[i] = *graph->node[i];
    }
    info->result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
    return CUDA_SUCCESS;
}

void play_driver_graphs(struct ag_driver *to)
{
    to->cuGraphCreate = create;
    to->cuGraphDestroy = destroy;
    to->cuGraphAddKernelNode_v2 = add_kernel;
    to->cuGraphAddMemsetNode = add_memset;
    to->cuGraphAddMemcpyNode = add_copy;
    to->cuGraphAddEventRecordNode = add_record;
    to->cuGraphAddEventWaitNode = add_wait;
    to->cuGraphAddBatchMemOpNode = add_value;
    to->cuGraphKernelNodeSetAttribute = set_attribute;
    to->cuGraphInstantiateWithFlags = instantiate;
    to->cuGraphExecDestroy = destroy_exec;
    to->cuGraphLaunch = launch;
    to->cuGraphExecKernelNodeSetParams_v2 = set_kernel;
    to->cuGraphExecMemsetNodeSetParams = set_memset;
    to->cuGraphExecMemcpyNodeSetParams = set_copy;
    to->cuGraphExecEventRecordNodeSetEvent = to->cuGraphExecEventWaitNodeSetEvent = set_event;
    to->cuGraphExecBatchMemOpNodeSetParams = set_value;
    to->cuGraphKernelNodeSetParams_v2 = set_source_kernel;
    to->cuGraphMemsetNodeSetParams = set_source_memset;
    to->cuGraphMemcpyNodeSetParams = set_source_copy;
    to->cuGraphBatchMemOpNodeSetParams = set_source_value;
    to->cuGraphExecUpdate_v2 = update;
}
