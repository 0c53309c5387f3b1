/* SPDX-License-Identifier: MIT */
/* node.c: the calls that add nodes and read and set their parameters, all by
 * way of the generic form of parameters (params.c). */
#include "sim.h"

/* -- Generic -- */

/* Attributes belong to the node, and are set after it has been added: what a kernel has without
 * them is checked again when an exec is made. */
static CUresult params_check(struct work *w, const struct kernel_attrs *attrs)
{
    if (w->kind != WORK_KERNEL)
        return CUDA_SUCCESS;
    const struct func_attrs f = function_attrs(w->kernel.func);
    CUresult r = kernel_attrs_check(w, attrs, &f, true);
    if (r != CUDA_SUCCESS)
        work_clear(w);
    return r;
}

static CUresult add(CUgraphNode *out, CUgraph handle, const CUgraphNode *deps,
                    const CUgraphEdgeData *data, size_t ndeps, CUgraphNodeParams *p)
{
    struct graph *g;
    struct node *n;
    struct work w;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = graph_get(handle, &g);
    if (r == CUDA_SUCCESS)
        r = params_to_work(p, &w);
    if (r == CUDA_SUCCESS)
        r = params_check(&w, &(struct kernel_attrs){0});
    if (r == CUDA_SUCCESS)
        r = graph_add(g, &w, deps, data, ndeps, &n);
    if (r == CUDA_SUCCESS) {
        *out = (CUgraphNode)n;
        if (n->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
            p->alloc.dptr = n->work.mem.ptr;
        if (n->type == CU_GRAPH_NODE_TYPE_GRAPH)
            p->graph.graph = (CUgraph)n->work.graph.graph;
    }
    sim_unlock();
    return r;
}

static CUresult get(CUgraphNode handle, CUgraphNodeType type, CUgraphNodeParams *p)
{
    struct node *n;
    sim_lock();
    CUresult r = node_get(handle, &n);
    if (r == CUDA_SUCCESS)
        r = n->type == type ? params_from_work(n, p) : CUDA_ERROR_INVALID_VALUE;
    sim_unlock();
    return r;
}

static CUresult set(CUgraphNode handle, const CUgraphNodeParams *p)
{
    struct node *n;
    struct work w;
    sim_lock();
    CUresult r = node_get(handle, &n);
    if (r == CUDA_SUCCESS && n->type != p->type)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS &&
        (n->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || n->type == CU_GRAPH_NODE_TYPE_MEM_FREE ||
         n->type == CU_GRAPH_NODE_TYPE_GRAPH))
        r = CUDA_ERROR_NOT_SUPPORTED;
    if (r == CUDA_SUCCESS)
        r = params_to_work(p, &w);
    if (r == CUDA_SUCCESS)
        r = params_check(&w, &n->work.kernel.attrs);
    if (r == CUDA_SUCCESS) {
        if (w.kind == WORK_KERNEL)
            w.kernel.attrs = n->work.kernel.attrs; /* they belong to the node */
        work_clear(&n->work);
        n->work = w;
        free(n->params);
        n->params = NULL;
    }
    sim_unlock();
    return r;
}

CUresult sim_cuGraphAddNode_v2(CUgraphNode *out, CUgraph g, const CUgraphNode *deps,
                               const CUgraphEdgeData *data, size_t n, CUgraphNodeParams *p)
{
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < COUNT(p->reserved0); i++)
        if (p->reserved0[i])
            return CUDA_ERROR_INVALID_VALUE;
    return add(out, g, deps, data, n, p);
}

CUresult sim_cuGraphAddNode(CUgraphNode *out, CUgraph g, const CUgraphNode *deps, size_t n,
                            CUgraphNodeParams *p)
{
    return sim_cuGraphAddNode_v2(out, g, deps, NULL, n, p);
}

CUresult sim_cuGraphAddNode_v3(CUgraphNode *out, CUgraph g, const CUgraphNode *deps,
                               const CUgraphEdgeData *data, size_t n, CUgraphNodeParams *p)
{
    return sim_cuGraphAddNode_v2(out, g, deps, data, n, p);
}

CUresult sim_cuGraphNodeSetParams_v2(CUgraphNode node, CUgraphNodeParams *p)
{
    return sim_cuGraphNodeSetParams(node, p);
}

CUresult sim_cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams *p)
{
    return p ? set(node, p) : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *p)
{
    return p ? exec_set(exec, node, p) : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuGraphNodeGetType(CUgraphNode handle, CUgraphNodeType *type)
{
    struct node *n;
    if (!type)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = node_get(handle, &n);
    if (r == CUDA_SUCCESS)
        *type = n->type;
    sim_unlock();
    return r;
}

/* -- Kernel -- */

static CUgraphNodeParams from_v1(const CUDA_KERNEL_NODE_PARAMS_v1 *v)
{
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_KERNEL};
    memcpy(&p.kernel, v, sizeof *v); /* v1 is the first part of the later forms */
    return p;
}

static CUgraphNodeParams from_v2(const CUDA_KERNEL_NODE_PARAMS_v2 *v)
{
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_KERNEL};
    memcpy(&p.kernel, v, sizeof *v);
    return p;
}

CUresult sim_cuGraphAddKernelNode(CUgraphNode *out, CUgraph g, const CUgraphNode *deps, size_t n,
                                  const CUDA_KERNEL_NODE_PARAMS_v1 *v)
{
    if (!v)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams p = from_v1(v);
    return add(out, g, deps, NULL, n, &p);
}

CUresult sim_cuGraphAddKernelNode_v2(CUgraphNode *out, CUgraph g, const CUgraphNode *deps, size_t n,
                                     const CUDA_KERNEL_NODE_PARAMS_v2 *v)
{
    if (!v)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams p = from_v2(v);
    return add(out, g, deps, NULL, n, &p);
}

CUresult sim_cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *v)
{
    if (!v)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams p = from_v1(v);
    return set(node, &p);
}

CUresult sim_cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2 *v)
{
    if (!v)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams p = from_v2(v);
    return set(node, &p);
}

CUresult sim_cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                            const CUDA_KERNEL_NODE_PARAMS_v1 *v)
{
    if (!v)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams p = from_v1(v);
    return exec_set(exec, node, &p);
}

CUresult sim_cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                               const CUDA_KERNEL_NODE_PARAMS_v2 *v)
{
    if (!v)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams p = from_v2(v);
    return exec_set(exec, node, &p);
}

CUresult sim_cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v2 *v)
{
    CUgraphNodeParams p;
    if (!v)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = get(node, CU_GRAPH_NODE_TYPE_KERNEL, &p);
    if (r == CUDA_SUCCESS)
        memcpy(v, &p.kernel, sizeof *v);
    return r;
}

CUresult sim_cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1 *v)
{
    CUgraphNodeParams p;
    if (!v)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = get(node, CU_GRAPH_NODE_TYPE_KERNEL, &p);
    if (r == CUDA_SUCCESS)
        memcpy(v, &p.kernel, sizeof *v);
    return r;
}

static CUresult kernel_node(CUgraphNode handle, struct node **n)
{
    CUresult r = node_get(handle, n);
    return r == CUDA_SUCCESS && (*n)->type != CU_GRAPH_NODE_TYPE_KERNEL ? CUDA_ERROR_INVALID_VALUE
                                                                        : r;
}

CUresult sim_cuGraphKernelNodeSetAttribute(CUgraphNode handle, CUkernelNodeAttrID id,
                                           const CUkernelNodeAttrValue *v)
{
    struct node *n;
    if (!v)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = kernel_node(handle, &n);
    if (r == CUDA_SUCCESS && id != CU_LAUNCH_ATTRIBUTE_IGNORE && id == sim.launch_only)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        r = kernel_attr_set(&n->work.kernel.attrs, id, v);
    sim_unlock();
    return r;
}

CUresult sim_cuGraphKernelNodeGetAttribute(CUgraphNode handle, CUkernelNodeAttrID id,
                                           CUkernelNodeAttrValue *v)
{
    struct node *n;
    if (!v)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = kernel_node(handle, &n);
    if (r == CUDA_SUCCESS)
        r = kernel_attr_get(&n->work.kernel.attrs, id, v);
    sim_unlock();
    return r;
}

CUresult sim_cuGraphKernelNodeCopyAttributes(CUgraphNode to, CUgraphNode from)
{
    struct node *a, *b;
    sim_lock();
    CUresult r = kernel_node(to, &a);
    if (r == CUDA_SUCCESS)
        r = kernel_node(from, &b);
    if (r == CUDA_SUCCESS)
        a->work.kernel.attrs = b->work.kernel.attrs;
    sim_unlock();
    return r;
}

/* -- Memset and copy: forms that name their context -- */

static CUgraphNodeParams from_memset(const CUDA_MEMSET_NODE_PARAMS *v, CUcontext ctx)
{
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_MEMSET};
    p.memset = (CUDA_MEMSET_NODE_PARAMS_v2){.dst = v->dst,
                                            .pitch = v->pitch,
                                            .value = v->value,
                                            .elementSize = v->elementSize,
                                            .width = v->width,
                                            .height = v->height,
                                            .ctx = ctx};
    return p;
}

static CUgraphNodeParams from_copy(const CUDA_MEMCPY3D *v, CUcontext ctx)
{
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_MEMCPY};
    p.memcpy.copyCtx = ctx;
    p.memcpy.copyParams = *v;
    return p;
}

CUresult sim_cuGraphAddMemsetNode(CUgraphNode *out, CUgraph g, const CUgraphNode *deps, size_t n,
                                  const CUDA_MEMSET_NODE_PARAMS *v, CUcontext ctx)
{
    if (!v)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams p = from_memset(v, ctx);
    return add(out, g, deps, NULL, n, &p);
}

CUresult sim_cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                            const CUDA_MEMSET_NODE_PARAMS *v, CUcontext ctx)
{
    if (!v || !ctx)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams p = from_memset(v, ctx);
    return exec_set(exec, node, &p);
}

CUresult sim_cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *v)
{
    CUgraphNodeParams old;
    if (!v)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = get(node, CU_GRAPH_NODE_TYPE_MEMSET, &old);
    if (r != CUDA_SUCCESS)
        return r;
    CUgraphNodeParams p = from_memset(v, old.memset.ctx);
    return set(node, &p);
}

CUresult sim_cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS *v)
{
    CUgraphNodeParams p;
    if (!v)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = get(node, CU_GRAPH_NODE_TYPE_MEMSET, &p);
    if (r == CUDA_SUCCESS)
        memcpy(v, &p.memset, sizeof *v); /* all but the context */
    return r;
}

CUresult sim_cuGraphAddMemcpyNode(CUgraphNode *out, CUgraph g, const CUgraphNode *deps, size_t n,
                                  const CUDA_MEMCPY3D *v, CUcontext ctx)
{
    if (!v || !ctx)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams p = from_copy(v, ctx);
    return add(out, g, deps, NULL, n, &p);
}

CUresult sim_cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                            const CUDA_MEMCPY3D *v, CUcontext ctx)
{
    if (!v || !ctx)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams p = from_copy(v, ctx);
    return exec_set(exec, node, &p);
}

CUresult sim_cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D *v)
{
    CUgraphNodeParams old;
    if (!v)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = get(node, CU_GRAPH_NODE_TYPE_MEMCPY, &old);
    if (r != CUDA_SUCCESS)
        return r;
    CUgraphNodeParams p = from_copy(v, old.memcpy.copyCtx);
    return set(node, &p);
}

CUresult sim_cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D *v)
{
    CUgraphNodeParams p;
    if (!v)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = get(node, CU_GRAPH_NODE_TYPE_MEMCPY, &p);
    if (r == CUDA_SUCCESS)
        *v = p.memcpy.copyParams;
    return r;
}

/* -- Host, child graph, empty -- */

CUresult sim_cuGraphAddHostNode(CUgraphNode *out, CUgraph g, const CUgraphNode *deps, size_t n,
                                const CUDA_HOST_NODE_PARAMS *v)
{
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_HOST};
    if (!v)
        return CUDA_ERROR_INVALID_VALUE;
    p.host.fn = v->fn;
    p.host.userData = v->userData;
    return add(out, g, deps, NULL, n, &p);
}

CUresult sim_cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS *v)
{
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_HOST};
    if (!v)
        return CUDA_ERROR_INVALID_VALUE;
    p.host.fn = v->fn;
    p.host.userData = v->userData;
    return set(node, &p);
}

CUresult sim_cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                          const CUDA_HOST_NODE_PARAMS *v)
{
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_HOST};
    if (!v)
        return CUDA_ERROR_INVALID_VALUE;
    p.host.fn = v->fn;
    p.host.userData = v->userData;
    return exec_set(exec, node, &p);
}

CUresult sim_cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS *v)
{
    CUgraphNodeParams p;
    if (!v)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = get(node, CU_GRAPH_NODE_TYPE_HOST, &p);
    if (r == CUDA_SUCCESS) {
        v->fn = p.host.fn;
        v->userData = p.host.userData;
    }
    return r;
}

CUresult sim_cuGraphAddChildGraphNode(CUgraphNode *out, CUgraph g, const CUgraphNode *deps,
                                      size_t n, CUgraph child)
{
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_GRAPH};
    p.graph.graph = child;
    return add(out, g, deps, NULL, n, &p);
}

CUresult sim_cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *out)
{
    CUgraphNodeParams p;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = get(node, CU_GRAPH_NODE_TYPE_GRAPH, &p);
    if (r == CUDA_SUCCESS)
        *out = p.graph.graph;
    return r;
}

CUresult sim_cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraph child)
{
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_GRAPH};
    p.graph.graph = child;
    return exec_set(exec, node, &p);
}

CUresult sim_cuGraphAddEmptyNode(CUgraphNode *out, CUgraph g, const CUgraphNode *deps, size_t n)
{
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_EMPTY};
    return add(out, g, deps, NULL, n, &p);
}

/* -- Events -- */

static CUgraphNodeParams from_event(CUgraphNodeType type, CUevent event)
{
    CUgraphNodeParams p = {.type = type};
    if (type == CU_GRAPH_NODE_TYPE_EVENT_RECORD)
        p.eventRecord.event = event;
    else
        p.eventWait.event = event;
    return p;
}

#define EVENT_NODE(Name, TYPE, field)                                                              \
    CUresult sim_cuGraphAddEvent##Name##Node(CUgraphNode *out, CUgraph g, const CUgraphNode *deps, \
                                             size_t n, CUevent event)                              \
    {                                                                                              \
        CUgraphNodeParams p = from_event(TYPE, event);                                             \
        return add(out, g, deps, NULL, n, &p);                                                     \
    }                                                                                              \
    CUresult sim_cuGraphEvent##Name##NodeGetEvent(CUgraphNode node, CUevent *event)                \
    {                                                                                              \
        CUgraphNodeParams p;                                                                       \
        if (!event)                                                                                \
            return CUDA_ERROR_INVALID_VALUE;                                                       \
        CUresult r = get(node, TYPE, &p);                                                          \
        if (r == CUDA_SUCCESS)                                                                     \
            *event = p.field.event;                                                                \
        return r;                                                                                  \
    }                                                                                              \
    CUresult sim_cuGraphEvent##Name##NodeSetEvent(CUgraphNode node, CUevent event)                 \
    {                                                                                              \
        CUgraphNodeParams p = from_event(TYPE, event);                                             \
        return set(node, &p);                                                                      \
    }                                                                                              \
    CUresult sim_cuGraphExecEvent##Name##NodeSetEvent(CUgraphExec exec, CUgraphNode node,          \
                                                      CUevent event)                               \
    {                                                                                              \
        CUgraphNodeParams p = from_event(TYPE, event);                                             \
        return exec_set(exec, node, &p);                                                           \
    }
EVENT_NODE(Record, CU_GRAPH_NODE_TYPE_EVENT_RECORD, eventRecord)
EVENT_NODE(Wait, CU_GRAPH_NODE_TYPE_WAIT_EVENT, eventWait)

/* -- Memory and memory operations -- */

CUresult sim_cuGraphAddMemAllocNode(CUgraphNode *out, CUgraph g, const CUgraphNode *deps, size_t n,
                                    CUDA_MEM_ALLOC_NODE_PARAMS *v)
{
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC};
    if (!v)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&p.alloc, v, sizeof p.alloc);
    CUresult r = add(out, g, deps, NULL, n, &p);
    if (r == CUDA_SUCCESS)
        v->dptr = p.alloc.dptr;
    return r;
}

CUresult sim_cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *v)
{
    CUgraphNodeParams p;
    if (!v)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = get(node, CU_GRAPH_NODE_TYPE_MEM_ALLOC, &p);
    if (r == CUDA_SUCCESS)
        memcpy(v, &p.alloc, sizeof *v);
    return r;
}

CUresult sim_cuGraphAddMemFreeNode(CUgraphNode *out, CUgraph g, const CUgraphNode *deps, size_t n,
                                   CUdeviceptr ptr)
{
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_MEM_FREE};
    p.free.dptr = ptr;
    return add(out, g, deps, NULL, n, &p);
}

CUresult sim_cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr *ptr)
{
    CUgraphNodeParams p;
    if (!ptr)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = get(node, CU_GRAPH_NODE_TYPE_MEM_FREE, &p);
    if (r == CUDA_SUCCESS)
        *ptr = p.free.dptr;
    return r;
}

static CUgraphNodeParams from_batch(const CUDA_BATCH_MEM_OP_NODE_PARAMS *v)
{
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP};
    p.memOp.ctx = v->ctx;
    p.memOp.count = v->count;
    p.memOp.paramArray = v->paramArray;
    return p;
}

CUresult sim_cuGraphAddBatchMemOpNode(CUgraphNode *out, CUgraph g, const CUgraphNode *deps,
                                      size_t n, const CUDA_BATCH_MEM_OP_NODE_PARAMS *v)
{
    if (!v)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams p = from_batch(v);
    return add(out, g, deps, NULL, n, &p);
}

CUresult sim_cuGraphBatchMemOpNodeSetParams(CUgraphNode node,
                                            const CUDA_BATCH_MEM_OP_NODE_PARAMS *v)
{
    if (!v)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams p = from_batch(v);
    return set(node, &p);
}

CUresult sim_cuGraphExecBatchMemOpNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                const CUDA_BATCH_MEM_OP_NODE_PARAMS *v)
{
    if (!v)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams p = from_batch(v);
    return exec_set(exec, node, &p);
}
