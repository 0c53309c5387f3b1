/* SPDX-License-Identifier: MIT */
/* exec.c: executable graphs: instantiation, patching, launch. */
#include "sim.h"

#include <stdio.h>

static CUresult exec_get(CUgraphExec handle, struct exec **e)
{
    *e = obj_get(OBJ_EXEC, handle);
    return *e ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Whether its kernels have the priorities of their nodes: the environment is above the flag. */
static bool by_node(const struct exec *e)
{
    if (sim.node_priorities >= 0)
        return sim.node_priorities != 0;
    return e->flags & CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
}

/* -- Instantiation -- */

/* As the library has it: the driver's memory for execs of more nodes is larger. */
static bool is_long(const struct plan *plan)
{
    return plan->shape->nnodes > 64;
}

/* Seen on driver 580: the graph of more copies within the device ran no more while a kernel of
 * another stream waited for the host. Here the instantiation waits. */
static bool has_many_copies(const struct plan *plan)
{
    unsigned copies = 0;
    for (unsigned i = 0; i < plan->shape->nnodes; i++)
        copies += plan->nodes[i].work.kind == WORK_COPY &&
                  plan->nodes[i].work.copy.src.type != CU_MEMORYTYPE_HOST;
    return copies > 8;
}

static void wait_for_memory(void)
{
    strict_quiet();
    if (sim.graphs_wait)
        sim_wait_quiet();
}

static bool lacks_memory(const struct ctx *ctx)
{
    const unsigned *n = ctx->nexecs, *memory = ctx->exec_memory;
    return n[1] + (n[0] > memory[0] ? n[0] - memory[0] : 0) > memory[1];
}

/* A context has device memory for some paths of execs of any length, and keeps it when they go, for
 * such as are no longer: that it would do for longer ones, too, was never measured. For one more,
 * or a longer one, it must ask the device, and that waits. An exec that is destroyed while its last
 * launch runs has its memory until that ends. */
static void take_exec_memory(struct ctx *ctx, const struct plan *plan)
{
    bool more = is_long(plan), waits = false;
    if (!sim.graph_free)
        return;
    ctx->nexecs[more] += plan->shape->paths;
    for (; lacks_memory(ctx); ctx->exec_memory[more]++) {
        waits |= ctx->exec_fresh == 0;
        ctx->exec_fresh -= ctx->exec_fresh != 0;
    }
    if (waits)
        wait_for_memory();
}

static CUresult instantiate(CUgraphExec *out, CUgraph handle, cuuint64_t flags,
                            CUDA_GRAPH_INSTANTIATE_PARAMS *params, CUgraphNode *error_node)
{
    struct graph *g;
    struct ctx *ctx;
    struct plan *plan;
    struct node *bad = NULL;
    if (!out || flags & ~(cuuint64_t)15)
        return CUDA_ERROR_INVALID_VALUE;
    sim_busy(sim.instantiate_us);
    sim_lock();
    CUresult r = graph_get(handle, &g);
    if (r == CUDA_SUCCESS && g->capturing)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        r = ctx_current(&ctx);
    if (r == CUDA_SUCCESS)
        r = capture_check_unsafe();
    if (r == CUDA_SUCCESS && flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH)
        r = CUDA_ERROR_NOT_SUPPORTED;
    if (r == CUDA_SUCCESS) {
        ctx_alone(ctx);
        r = graph_get(handle, &g);
    }
    if (r == CUDA_SUCCESS)
        r = plan_new(g, &plan, &bad);
    struct exec *e = NULL;
    if (r == CUDA_SUCCESS && !(e = obj_new(OBJ_EXEC))) {
        plan_drop(plan);
        r = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (e) {
        e->ctx = ctx;
        e->flags = flags;
        e->plan = plan;
        e->stack = ctx->limit[CU_LIMIT_STACK_SIZE];
        ctx->flags |= CU_CTX_LMEM_RESIZE_TO_MAX; /* driver 580 */
        if (sim.graph_free && has_many_copies(plan))
            wait_for_memory();
        take_exec_memory(ctx, plan);
        *out = (CUgraphExec)e;
    }
    if (error_node)
        *error_node = (CUgraphNode)bad;
    if (params) {
        params->hErrNode_out = (CUgraphNode)bad;
        params->result_out = r == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS
                             : bad             ? CUDA_GRAPH_INSTANTIATE_ERROR
                                               : CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE;
    }
    sim_unlock();
    return r;
}

CUresult sim_cuGraphInstantiate(CUgraphExec *out, CUgraph g, CUgraphNode *error_node, char *log,
                                size_t size)
{
    if (log && size)
        log[0] = 0;
    return instantiate(out, g, 0, NULL, error_node);
}

CUresult sim_cuGraphInstantiate_v2(CUgraphExec *out, CUgraph g, CUgraphNode *error_node, char *log,
                                   size_t size)
{
    return sim_cuGraphInstantiate(out, g, error_node, log, size);
}

CUresult sim_cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph g, unsigned long long flags)
{
    return instantiate(out, g, flags, NULL, NULL);
}

CUresult sim_cuGraphInstantiateWithParams(CUgraphExec *out, CUgraph g,
                                          CUDA_GRAPH_INSTANTIATE_PARAMS *p)
{
    return p ? instantiate(out, g, p->flags, p, NULL) : CUDA_ERROR_INVALID_VALUE;
}

void exec_gives(struct ctx *ctx, const struct plan *plan)
{
    if (sim.graph_free)
        ctx->nexecs[is_long(plan)] -= plan->shape->paths;
}

/* Launches on their way have their own hold of the plan, and of the exec's memory. */
static void exec_free(struct exec *e)
{
    e->plan->keeps = e->ctx;
    plan_drop(e->plan);
    obj_free(e);
}

void exec_release_ctx(struct ctx *ctx)
{
    for (struct exec *e = NULL; (e = obj_next(OBJ_EXEC, e));)
        if (e->ctx == ctx)
            exec_free(e);
}

/* Driver 580 died of a wait for an event, after the library had destroyed such an exec (H200). */
static void check_events(const struct plan *p)
{
    for (unsigned i = 0; i < p->shape->nnodes; i++) {
        const struct work *w = &p->nodes[i].work;
        bool of_event = w->kind == WORK_RECORD || w->kind == WORK_WAIT;
        if (of_event && !event_lives(w) && sim_called_by_library()) {
            fprintf(stderr, "simulated driver: the library destroys a graph that names an event "
                            "which is gone\n");
            abort();
        }
    }
}

CUresult sim_cuGraphExecDestroy(CUgraphExec handle)
{
    struct exec *e;
    sim_lock();
    CUresult r = exec_get(handle, &e);
    if (r == CUDA_SUCCESS)
        ctx_alone(e->ctx);
    if (r == CUDA_SUCCESS && (r = exec_get(handle, &e)) == CUDA_SUCCESS) {
        if (sim.graph_free && e->plan->shape->paths > 1) /* seen of some such graphs (H200) */
            sim_wait_quiet();
        check_events(e->plan);
        exec_free(e);
    }
    sim_unlock();
    return r;
}

CUresult sim_cuGraphExecGetFlags(CUgraphExec handle, cuuint64_t *flags)
{
    struct exec *e;
    if (!flags)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = exec_get(handle, &e);
    if (r == CUDA_SUCCESS)
        *flags = e->flags;
    sim_unlock();
    return r;
}

/* -- Patching -- */

static bool one_dimensional(const struct work *w)
{
    return w->copy.height == 1 && w->copy.depth == 1;
}

static bool of_two_contexts(const struct ctx *a, const struct ctx *b)
{
    return a && b && a != b;
}

CUgraphExecUpdateResult work_may_become(const struct work *old, const struct work *now,
                                        bool priorities)
{
    switch (old->kind) {
    case WORK_KERNEL:
        if (old->kernel.ctx != now->kernel.ctx)
            return CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE;
        if (old->kernel.attrs.cooperative != now->kernel.attrs.cooperative ||
            (priorities && old->kernel.attrs.priority != now->kernel.attrs.priority))
            return CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED;
        return CU_GRAPH_EXEC_UPDATE_SUCCESS;
    case WORK_MEMSET: /* of one row: any width and element (H100, driver 580) */
        if (of_two_contexts(old->memset.owner, now->memset.owner) ||
            old->memset.device != now->memset.device || old->memset.height != now->memset.height)
            return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
        if (old->memset.height > 1 &&
            (old->memset.width != now->memset.width || old->memset.elem != now->memset.elem ||
             old->memset.pitch != now->memset.pitch))
            return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
        return CU_GRAPH_EXEC_UPDATE_SUCCESS;
    case WORK_COPY: /* of one row: any size; no change between host and device (H100, driver 580) */
        if (old->copy.ctx != now->copy.ctx || old->copy.src.type != now->copy.src.type ||
            old->copy.dst.type != now->copy.dst.type ||
            of_two_contexts(old->copy.src.owner, now->copy.src.owner) ||
            of_two_contexts(old->copy.dst.owner,
                            now->copy.dst.owner)) /* cuGraphExecMemcpyNodeSetParams */
            return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
        if ((old->copy.src.type == CU_MEMORYTYPE_DEVICE &&
             (old->copy.src.device != now->copy.src.device ||
              old->copy.src.pooled != now->copy.src.pooled)) ||
            (old->copy.dst.type == CU_MEMORYTYPE_DEVICE &&
             (old->copy.dst.device != now->copy.dst.device ||
              old->copy.dst.pooled != now->copy.dst.pooled)))
            return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
        return CU_GRAPH_EXEC_UPDATE_SUCCESS;
    case WORK_MEM_OP: /* cuGraphExecBatchMemOpNodeSetParams: but for these, all may change */
        return old->mem_op.wait == now->mem_op.wait && old->mem_op.wide == now->mem_op.wide &&
                       old->mem_op.flush == now->mem_op.flush
                   ? CU_GRAPH_EXEC_UPDATE_SUCCESS
                   : CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
    case WORK_ALLOC:
    case WORK_FREE:
        return old->mem.ptr == now->mem.ptr ? CU_GRAPH_EXEC_UPDATE_SUCCESS
                                            : CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
    case WORK_RECORD:
    case WORK_WAIT: /* driver 580 looks whether some event has the old one's handle */
        return old->event.event->o.alive ? CU_GRAPH_EXEC_UPDATE_SUCCESS
                                         : CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
    default:
        return CU_GRAPH_EXEC_UPDATE_SUCCESS;
    }
}

/* Whether both wait for events, which are of two GPUs. */
static bool of_two_devices(const struct work *a, const struct work *b)
{
    return a->kind == WORK_WAIT && b->kind == WORK_WAIT && event_lives(a) && event_lives(b) &&
           a->event.event->ctx->device != b->event.event->ctx->device;
}

static CUresult replace(struct plan_node *n, struct work *w)
{
    if (of_two_devices(&n->work, w))
        return CUDA_ERROR_INVALID_VALUE;
    if (w->kind != n->work.kind || w->kind == WORK_ALLOC || w->kind == WORK_FREE)
        return CUDA_ERROR_INVALID_VALUE;
    if (w->kind == WORK_KERNEL)
        w->kernel.attrs = n->work.kernel.attrs; /* no call changes these in an exec */
    if (w->kind == WORK_COPY && (!one_dimensional(w) || !one_dimensional(&n->work)))
        return CUDA_ERROR_INVALID_VALUE;
    if (w->kind == WORK_GRAPH) { /* the old plan, updated, takes the new one's place */
        CUgraphExecUpdateResultInfo info;
        return plan_update(&n->work.graph.plan, w->graph.graph, false, &info) == CUDA_SUCCESS
                   ? CUDA_SUCCESS
                   : CUDA_ERROR_INVALID_VALUE;
    }
    if (work_may_become(&n->work, w, false) != CU_GRAPH_EXEC_UPDATE_SUCCESS)
        return CUDA_ERROR_INVALID_VALUE;
    work_clear(&n->work);
    n->work = *w;
    w->kind = WORK_EMPTY; /* its contents have moved */
    return CUDA_SUCCESS;
}

CUresult exec_set(CUgraphExec handle, CUgraphNode node, const CUgraphNodeParams *p)
{
    struct exec *e;
    struct node *origin;
    struct plan_node *n = NULL;
    struct work w = {.kind = WORK_EMPTY};
    sim_lock();
    CUresult r = exec_get(handle, &e);
    if (r == CUDA_SUCCESS)
        r = node_get(node, &origin);
    if (r == CUDA_SUCCESS && p->type == CU_GRAPH_NODE_TYPE_KERNEL) {
        /* Without a context a real driver crashes. */
        struct ctx *ctx;
        r = ctx_current(&ctx);
        r = r == CUDA_ERROR_NOT_PERMITTED ? CUDA_ERROR_INVALID_VALUE : r;
    }
    if (r == CUDA_SUCCESS && (origin->type != p->type || p->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        r = params_to_work(p, &w);
    if (r == CUDA_SUCCESS && !(n = plan_writable(&e->plan, origin)))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS && w.kind == WORK_KERNEL) {
        const struct func_attrs f = function_attrs(w.kernel.func);
        r = kernel_attrs_check(&w, &n->work.kernel.attrs, &f, false);
    }
    if (r == CUDA_SUCCESS && w.kind == WORK_KERNEL)
        function_settle(w.kernel.func);
    if (r == CUDA_SUCCESS)
        r = replace(n, &w);
    work_clear(&w);
    sim_unlock();
    return r;
}

static CUresult enabled(CUgraphExec handle, CUgraphNode node, unsigned *get, unsigned set)
{
    struct exec *e;
    struct node *origin;
    struct plan_node *n = NULL;
    sim_lock();
    CUresult r = exec_get(handle, &e);
    if (r == CUDA_SUCCESS)
        r = node_get(node, &origin);
    if (r == CUDA_SUCCESS &&
        (origin->type > CU_GRAPH_NODE_TYPE_MEMSET || !(n = plan_writable(&e->plan, origin))))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS && get)
        *get = !n->disabled;
    else if (r == CUDA_SUCCESS)
        n->disabled = !set;
    sim_unlock();
    return r;
}

CUresult sim_cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned on)
{
    return enabled(exec, node, NULL, on);
}

CUresult sim_cuGraphNodeGetEnabled(CUgraphExec exec, CUgraphNode node, unsigned *on)
{
    return on ? enabled(exec, node, on, 0) : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuGraphExecUpdate_v2(CUgraphExec handle, CUgraph graph,
                                  CUgraphExecUpdateResultInfo *info)
{
    struct exec *e;
    struct graph *g;
    if (!info)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = exec_get(handle, &e);
    if (r == CUDA_SUCCESS)
        r = graph_get(graph, &g);
    if (r == CUDA_SUCCESS)
        r = plan_update(&e->plan, g, by_node(e), info);
    sim_unlock();
    return r;
}

CUresult sim_cuGraphExecUpdate(CUgraphExec exec, CUgraph g, CUgraphNode *error_node,
                               CUgraphExecUpdateResult *result)
{
    CUgraphExecUpdateResultInfo info = {.result = CU_GRAPH_EXEC_UPDATE_ERROR};
    CUresult r = sim_cuGraphExecUpdate_v2(exec, g, &info);
    if (error_node)
        *error_node = info.errorNode;
    if (result)
        *result = info.result;
    return r;
}

/* -- Launch -- */

CUresult sim_cuGraphUpload(CUgraphExec handle, CUstream stream)
{
    struct exec *e;
    struct stream *s;
    sim_lock();
    CUresult r = exec_get(handle, &e);
    if (r == CUDA_SUCCESS)
        r = stream_get(stream, &s);
    if (r == CUDA_SUCCESS && s->capture)
        r = stream_check_sync(s);
    if (r == CUDA_SUCCESS)
        r = capture_check_legacy(s);
    if (r == CUDA_SUCCESS) {
        struct work w = {.kind = WORK_EMPTY};
        r = stream_enqueue(s, &w, NULL, 0);
    }
    sim_unlock();
    return r;
}

static bool stale(const struct plan *p)
{
    for (unsigned i = 0; i < p->shape->nnodes; i++) {
        const struct work *w = &p->nodes[i].work;
        if (p->nodes[i].disabled)
            continue;
        if ((w->kind == WORK_COPY && copy_is_stale(w)) ||
            (w->kind == WORK_WAIT && !event_lives(w)) ||
            (w->kind == WORK_GRAPH && w->graph.plan && stale(w->graph.plan)))
            return true;
    }
    return false;
}

/* How long a launch keeps its thread busy. */
static unsigned launch_us(CUgraphExec handle)
{
    enum { LONG = 8 };
    static CUgraphExec last;
    struct exec *e;
    sim_lock();
    bool other = exec_get(handle, &e) == CUDA_SUCCESS && last != handle;
    bool slow = other && e->plan->shape->nnodes >= LONG;
    last = handle;
    sim_unlock();
    return sim.graph_launch_us + (slow ? sim.switch_us : 0);
}

/* Behind its last launch. */
static CUresult launch(const struct exec *e, struct stream *s, struct work *w)
{
    struct dep *deps = malloc((s->ctx->placed + 1) * sizeof *deps);
    if (!deps) {
        work_clear(w);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    unsigned n = branches_behind(e, s, deps);
    struct dep last = {.stream = e->last_stream, .seq = e->last_seq};
    strict_launch(s, e->plan->shape, &last);
    if (e->last_stream)
        deps[n++] = last;
    CUresult r = stream_enqueue(s, w, deps, n);
    free(deps);
    return r;
}

CUresult sim_cuGraphLaunch(CUgraphExec handle, CUstream stream)
{
    struct exec *e;
    struct stream *s;
    sim_busy(launch_us(handle));
    sim_lock();
    CUresult r = exec_get(handle, &e);
    if (r == CUDA_SUCCESS && stale(e->plan)) {
        /* Driver 580 dies of a node between host and device whose memory has gone, be the same
           address in use again or not, until its parameters are set anew. Other copies and memsets
           it forgives. It also dies of a wait for an event that has been destroyed, or waits for
           ever, and forgives a record of it. */
        fprintf(stderr, "simulated driver: a graph with a copy of freed memory, or a wait for an "
                        "event that is gone, is launched\n");
        abort();
    }
    if (r == CUDA_SUCCESS)
        r = stream_get(stream, &s);
    if (r == CUDA_SUCCESS && s->cig)
        r = CUDA_ERROR_NOT_SUPPORTED;
    if (r == CUDA_SUCCESS) /* a launch cannot be captured */
        r = s->capture ? stream_check_sync(s) : capture_check_legacy(s);
    if (r == CUDA_SUCCESS) {
        size_t stack = e->ctx->limit[CU_LIMIT_STACK_SIZE];
        struct work w = {.kind = WORK_GRAPH,
                         .graph = {.plan = e->plan,
                                   .priority = by_node(e) ? PRIORITY_OF_NODES : s->priority,
                                   .stack = e->stack < stack ? e->stack : stack}};
        e->plan->refs++;
        r = plan_markers(e->plan, s, &w);
        if (r == CUDA_SUCCESS)
            r = launch(e, s, &w);
        else
            work_clear(&w);
        if (r == CUDA_SUCCESS) {
            e->last_stream = s;
            e->last_seq = s->submitted;
        }
        if (r == CUDA_SUCCESS && e->stack > stack) /* it fails, whatever its kernels need (H200) */
            agsim_fail(CUDA_ERROR_LAUNCH_FAILED);
    }
    sim_unlock();
    return r;
}
