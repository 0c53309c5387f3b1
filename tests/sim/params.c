/* SPDX-License-Identifier: MIT */
/* params.c: node parameters between their public forms and `struct work`, with
 * the checks that the real driver makes when a node gets them. */
#include "sim.h"

/* A context that a parameter names; none named: the current one. */
static CUresult ctx_named(CUcontext handle, struct ctx **ctx)
{
    if (!handle)
        return ctx_current(ctx);
    return ctx_get(handle, ctx) == CUDA_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult kernel_work(const CUDA_KERNEL_NODE_PARAMS_v3 *p, struct work *w)
{
    const unsigned grid[3] = {p->gridDimX, p->gridDimY, p->gridDimZ};
    const unsigned block[3] = {p->blockDimX, p->blockDimY, p->blockDimZ};
    struct function *f = NULL;
    struct kernel *k = NULL;
    struct ctx *ctx = NULL;
    CUresult r;
    if (p->func) {             /* kern does not count then */
        r = ctx_current(&ctx); /* without one a real driver crashes */
        if (r == CUDA_SUCCESS)
            r = function_get(p->func, &f, NULL); /* a CUkernel, cast: 400 (H100, driver 580) */
    } else {
        k = obj_get(OBJ_KERNEL, p->kern);
        r = k ? ctx_named(p->ctx, &ctx) : CUDA_ERROR_INVALID_HANDLE;
        if (r == CUDA_SUCCESS)
            r = function_of_kernel(k, ctx, &f);
    }
    if (r == CUDA_SUCCESS) {
        const struct func_attrs a = function_attrs(f);
        r = kernel_prepare(w, f->ctx, f->def, &a, grid, block, p->sharedMemBytes, p->kernelParams,
                           p->extra);
    }
    if (r == CUDA_SUCCESS) {
        w->kernel.func = f;
        w->kernel.func_gen = f->o.gen;
        w->kernel.kern = k;
    }
    return r;
}

static CUresult memset_work(const CUDA_MEMSET_NODE_PARAMS_v2 *p, struct work *w)
{
    struct ctx *ctx;
    CUresult r = ctx_named(p->ctx, &ctx);
    if (r == CUDA_SUCCESS && (!p->width || !p->height))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        r = memset_prepare(w, p->dst, p->pitch, p->value, p->elementSize, p->width, p->height);
    if (r == CUDA_SUCCESS && !work_is_open(w, ctx->device))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        w->memset.ctx = ctx;
    return r;
}

static CUresult copy_work(const CUDA_MEMCPY_NODE_PARAMS *p, struct work *w)
{
    struct ctx *ctx;
    CUresult r = ctx_named(p->copyCtx, &ctx);
    if (r == CUDA_SUCCESS &&
        (!p->copyParams.WidthInBytes || !p->copyParams.Height || !p->copyParams.Depth))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        r = copy_prepare(w, &p->copyParams);
    if (r == CUDA_SUCCESS && !work_is_open(w, ctx->device))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        w->copy.ctx = ctx_handle(ctx);
    return r;
}

static CUresult event_work(CUevent handle, enum work_kind kind, struct work *w)
{
    struct event *e = obj_get(OBJ_EVENT, handle);
    *w = (struct work){.kind = kind, .event = {.event = e, .gen = e ? e->o.id : 0}};
    w->event.own = e && e->own;
    return e ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult child_work(CUgraph handle, struct work *w)
{
    struct graph *g, *copy;
    CUresult r = graph_get(handle, &g);
    if (r == CUDA_SUCCESS && g->has_memory_nodes)
        r = CUDA_ERROR_NOT_SUPPORTED;
    if (r == CUDA_SUCCESS)
        r = graph_clone(g, &copy);
    if (r == CUDA_SUCCESS) {
        copy->inner = true;
        *w = (struct work){.kind = WORK_GRAPH, .graph = {.graph = copy}};
    }
    return r;
}

static CUresult alloc_work(const CUDA_MEM_ALLOC_NODE_PARAMS_v2 *p, struct work *w)
{
    struct ctx *ctx;
    struct alloc *a;
    if (!p->bytesize || p->poolProps.allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
        p->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = ctx_current(&ctx);
    if (r == CUDA_SUCCESS)
        r = alloc_new(ctx, ALLOC_DEVICE, p->bytesize, &a);
    if (r == CUDA_SUCCESS) {
        a->graph = true;
        a->holders = 1;
        *w = (struct work){.kind = WORK_ALLOC,
                           .mem = {.ptr = a->base,
                                   .size = p->bytesize,
                                   .id = a->id,
                                   .of_graph = true,
                                   .props = p->poolProps}};
    }
    return r;
}

static CUresult free_work(CUdeviceptr p, struct work *w)
{
    struct alloc *a = alloc_find(p, 0);
    if (!a || a->base != p || !a->graph)
        return CUDA_ERROR_INVALID_VALUE;
    *w = (struct work){.kind = WORK_FREE, .mem = {.ptr = p}};
    return CUDA_SUCCESS;
}

/* One operation of a batch. */
CUresult mem_op_prepare(struct work *w, const CUstreamBatchMemOpParams *m)
{
    bool wide = m->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 ||
                m->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
    bool wait = m->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 ||
                m->operation == CU_STREAM_MEM_OP_WAIT_VALUE_32;
    *w = (struct work){.kind = WORK_EMPTY};
    if (m->operation == CU_STREAM_MEM_OP_BARRIER ||
        m->operation == CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES)
        return CUDA_SUCCESS; /* all memory here is coherent */
    if (!wide && !wait && m->operation != CU_STREAM_MEM_OP_WRITE_VALUE_32)
        return CUDA_ERROR_INVALID_VALUE;
    CUdeviceptr addr = wait ? m->waitValue.address : m->writeValue.address;
    unsigned flags = wait ? m->waitValue.flags : m->writeValue.flags;
    uint64_t v64 = wait ? m->waitValue.value64 : m->writeValue.value64;
    uint32_t v32 = wait ? m->waitValue.value : m->writeValue.value;
    if (addr % (wide ? 8 : 4) || !range_is_device(addr, wide ? 8 : 4) ||
        (flags & ~(unsigned)CU_STREAM_WAIT_VALUE_FLUSH) > (wait ? 3u : 1u))
        return CUDA_ERROR_INVALID_VALUE;
    *w = (struct work){.kind = WORK_MEM_OP,
                       .mem_op = {.addr = addr,
                                  .value = wide ? v64 : v32,
                                  .flags = flags & 3,
                                  .wait = wait,
                                  .wide = wide,
                                  .flush = flags & CU_STREAM_WAIT_VALUE_FLUSH}};
    return CUDA_SUCCESS;
}

static CUresult mem_op_work(const CUDA_BATCH_MEM_OP_NODE_PARAMS *p, struct work *w)
{
    if (!p->count || !p->paramArray)
        return CUDA_ERROR_INVALID_VALUE;
    /* One operation per node is modelled. */
    CUresult r = p->count == 1 ? mem_op_prepare(w, p->paramArray) : CUDA_ERROR_NOT_SUPPORTED;
    struct ctx *ctx;
    if (r == CUDA_SUCCESS)
        r = ctx_named(p->ctx, &ctx);
    return r == CUDA_SUCCESS && !work_is_open(w, ctx->device) ? CUDA_ERROR_INVALID_VALUE : r;
}

CUresult params_to_work(const CUgraphNodeParams *p, struct work *w)
{
    *w = (struct work){.kind = WORK_EMPTY};
    if ((unsigned)p->type > CU_GRAPH_NODE_TYPE_CONDITIONAL)
        return CUDA_ERROR_INVALID_VALUE;
    switch ((int)p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return kernel_work(&p->kernel, w);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return copy_work(&p->memcpy, w);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return memset_work(&p->memset, w);
    case CU_GRAPH_NODE_TYPE_HOST:
        *w = (struct work){.kind = WORK_HOST, .host = {.fn = p->host.fn, .data = p->host.userData}};
        return p->host.fn ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return child_work(p->graph.graph, w);
    case CU_GRAPH_NODE_TYPE_EMPTY:
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return event_work(p->eventWait.event, WORK_WAIT, w);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return event_work(p->eventRecord.event, WORK_RECORD, w);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        return alloc_work(&p->alloc, w);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return free_work(p->free.dptr, w);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: {
        CUDA_BATCH_MEM_OP_NODE_PARAMS m = {
            .ctx = p->memOp.ctx, .count = p->memOp.count, .paramArray = p->memOp.paramArray};
        return mem_op_work(&m, w);
    }
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

/* -- Back -- */

static CUresult kernel_params(struct node *n, CUDA_KERNEL_NODE_PARAMS_v3 *p)
{
    const struct work *w = &n->work;
    const struct kernel_def *def = w->kernel.def;
    if (!n->params && !(n->params = malloc((def->nparams + 1) * sizeof *n->params)))
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (unsigned i = 0; i < def->nparams; i++)
        n->params[i] = w->kernel.args + def->param[i].offset;
    *p = (CUDA_KERNEL_NODE_PARAMS_v3){
        .func = (CUfunction)w->kernel.func,
        .gridDimX = w->kernel.grid[0],
        .gridDimY = w->kernel.grid[1],
        .gridDimZ = w->kernel.grid[2],
        .blockDimX = w->kernel.block[0],
        .blockDimY = w->kernel.block[1],
        .blockDimZ = w->kernel.block[2],
        .sharedMemBytes = w->kernel.shared,
        .kernelParams = def->nparams ? n->params : NULL,
        .kern = (CUkernel)w->kernel.kern,
        .ctx = ctx_handle(w->kernel.ctx),
    };
    return CUDA_SUCCESS;
}

static void copy_params(const struct work *w, CUDA_MEMCPY_NODE_PARAMS *p)
{
    const struct copy_side *s = &w->copy.src, *d = &w->copy.dst;
    *p = (CUDA_MEMCPY_NODE_PARAMS){
        .copyCtx = w->copy.ctx,
        .copyParams = {.srcXInBytes = s->x,
                       .srcY = s->y,
                       .srcZ = s->z,
                       .srcMemoryType = s->type,
                       .srcHost = s->type == CU_MEMORYTYPE_HOST ? (void *)s->base : NULL,
                       .srcDevice = s->type == CU_MEMORYTYPE_DEVICE ? s->base : 0,
                       .srcPitch = s->pitch,
                       .srcHeight = s->rows,
                       .dstXInBytes = d->x,
                       .dstY = d->y,
                       .dstZ = d->z,
                       .dstMemoryType = d->type,
                       .dstHost = d->type == CU_MEMORYTYPE_HOST ? (void *)d->base : NULL,
                       .dstDevice = d->type == CU_MEMORYTYPE_DEVICE ? d->base : 0,
                       .dstPitch = d->pitch,
                       .dstHeight = d->rows,
                       .WidthInBytes = w->copy.width,
                       .Height = w->copy.height,
                       .Depth = w->copy.depth}};
}

CUresult params_from_work(struct node *n, CUgraphNodeParams *p)
{
    const struct work *w = &n->work;
    memset(p, 0, sizeof *p);
    p->type = n->type;
    switch ((int)n->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return kernel_params(n, &p->kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        copy_params(w, &p->memcpy);
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_MEMSET:
        p->memset = (CUDA_MEMSET_NODE_PARAMS_v2){.dst = w->memset.dst,
                                                 .pitch = w->memset.pitch,
                                                 .value = w->memset.value,
                                                 .elementSize = w->memset.elem,
                                                 .width = w->memset.width,
                                                 .height = w->memset.height,
                                                 .ctx = ctx_handle(w->memset.ctx)};
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_HOST:
        p->host.fn = w->host.fn;
        p->host.userData = w->host.data;
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_GRAPH:
        p->graph.graph = (CUgraph)w->graph.graph;
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        p->eventWait.event = (CUevent)w->event.event;
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        p->eventRecord.event = (CUevent)w->event.event;
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        p->alloc.poolProps = w->mem.props;
        p->alloc.bytesize = w->mem.size;
        p->alloc.dptr = w->mem.ptr;
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        p->free.dptr = w->mem.ptr;
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_EMPTY:
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}
