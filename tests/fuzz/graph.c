/* SPDX-License-Identifier: MIT */
/* Statements with the program's own graphs: captured, updated, built by hand. */
#include "world.h"

#include <string.h>

/* -- Launches ------------------------------------------------------------- */

/* The lanes that were joined to the capture take part in the launch. */
static void launch(struct thread *t, struct lane *l)
{
    struct world *w = t->world;
    for (int i = 0; i < w->nlanes; i++)
        if (l->joined & 1u << i && !may_use(t, &w->lane[i]))
            return; /* captured before PAR, with a lane that is another thread's now */
    for (int i = 0; i < w->nlanes; i++)
        if (l->joined & 1u << i)
            order_edge(t, &w->lane[i], l, EDGE_EVENT);
    w->ops++;
    MUST(t, l->api->cuGraphLaunch(l->exec, l->stream));
    for (int i = 0; i < w->nlanes; i++)
        if (l->joined & 1u << i)
            order_edge(t, l, &w->lane[i], EDGE_EVENT);
}

static void drop(struct thread *t, struct lane *l)
{
    if (l->exec != NULL)
        MUST(t, l->api->cuGraphExecDestroy(l->exec));
    l->exec = NULL;
}

/* -- Capture -------------------------------------------------------------- */

static bool may_capture(const struct thread *t, const struct lane *l)
{
    if (captures(t) != 0)
        return false;
    return !t->par || (t->world->par_captures && l->kind == LANE_NONBLOCKING);
}

/* An exec of the graph: the last one updated, or a new one. */
static void renew(struct thread *t, struct lane *l, CUgraph graph, bool update)
{
    if (update && l->exec != NULL) {
        CUgraphExecUpdateResultInfo info;
        memset(&info, 0, sizeof info);
        CUresult result = l->api->cuGraphExecUpdate(l->exec, graph, &info);
        note(t, result, "cuGraphExecUpdate");
        note(t, (CUresult)info.result, "its result");
        if (result == CUDA_SUCCESS)
            return;
    }
    drop(t, l);
    MUST(t, l->api->cuGraphInstantiateWithFlags(&l->exec, graph, 0));
}

static void capture(struct thread *t, struct lane *l, const struct statement *s)
{
    struct world *w = t->world;
    if (!may_capture(t, l) || l->share != NULL || l->shared)
        return;
    int mode = t->par && s->mode % 3 == 0 ? 1 : s->mode % 3;
    CUresult result = l->api->cuStreamBeginCapture(l->stream, (CUstreamCaptureMode)mode);
    note(t, result, "cuStreamBeginCapture");
    if (result != CUDA_SUCCESS)
        return; /* the legacy stream cannot */
    CUgraph graph = NULL;
    unsigned joined = l->joined;
    l->joined = 0;
    l->capturing = true;
    l->origin = l;
    int *count = t->par ? &t->capturing : &w->capturing;
    ++*count;
    run(t, s->body);
    world_enter(t, l->context);
    result = l->api->cuStreamEndCapture(l->stream, &graph);
    --*count;
    for (int i = 0; i < w->nlanes; i++)
        if (l->joined & 1u << i)
            w->lane[i].capturing = false;
    l->capturing = false;
    note(t, result, "cuStreamEndCapture");
    note(t, (CUresult)(graph != NULL), "there is a graph");
    if (result != CUDA_SUCCESS || graph == NULL) {
        l->joined = joined;
        return;
    }
    renew(t, l, graph, s->how == 1);
    MUST(t, l->api->cuGraphDestroy(graph));
    for (int i = 0; i < s->n && l->exec != NULL; i++)
        launch(t, l);
    if (s->more == 0)
        drop(t, l);
}

/* -- By hand ---------------------------------------------------------------- */

struct node_arguments {
    CUdeviceptr dst, src;
    uint32_t n, k;
    void *params[4];
};

static CUDA_KERNEL_NODE_PARAMS kernel_node(const struct lane *l, struct node_arguments *a,
                                           uint32_t k)
{
    *a = (struct node_arguments){.dst = l->state, .src = l->a, .n = BUFFER_WORDS, .k = k};
    a->params[0] = &a->dst;
    a->params[1] = &a->src;
    a->params[2] = &a->n;
    a->params[3] = &a->k;
    return (CUDA_KERNEL_NODE_PARAMS){.func = l->context->function[KERNEL_PLAIN],
                                     .gridDimX = 1,
                                     .gridDimY = 1,
                                     .gridDimZ = 1,
                                     .blockDimX = 32,
                                     .blockDimY = 1,
                                     .blockDimZ = 1,
                                     .kernelParams = a->params};
}

static void explicit(struct thread *t, struct lane *l, const struct statement *s)
{
    enum { MOST_NODES = 32 };
    const struct api *call = l->api;
    int n = s->n < 1 ? 1 : s->n > MOST_NODES ? MOST_NODES : s->n;
    uint32_t k = op_value(t, l, s);
    struct node_arguments a;
    CUgraph graph = NULL;
    CUgraphExec exec;
    CUgraphNode node[MOST_NODES];
    MUST(t, call->cuGraphCreate(&graph, 0));
    if (graph == NULL)
        return;
    for (int i = 0; i < n; i++) {
        const CUgraphNode *before = i > 0 ? &node[i - 1] : NULL;
        if (i % 2) {
            CUDA_MEMSET_NODE_PARAMS set = {.dst = l->a + (CUdeviceptr)(i % BUFFER_WORDS) * 4,
                                           .value = k + (uint32_t)i,
                                           .elementSize = 4,
                                           .width = 1,
                                           .height = 1};
            MUST(t, call->cuGraphAddMemsetNode(&node[i], graph, before, i > 0, &set,
                                               l->context->handle));
            continue;
        }
        CUDA_KERNEL_NODE_PARAMS params = kernel_node(l, &a, k + (uint32_t)i);
        MUST(t, call->cuGraphAddKernelNode(&node[i], graph, before, i > 0, &params));
    }
    CUresult result = call->cuGraphInstantiateWithFlags(&exec, graph, 0);
    must_succeed(t, result, "cuGraphInstantiateWithFlags");
    if (result == CUDA_SUCCESS) {
        t->world->ops += 2;
        MUST(t, call->cuGraphLaunch(exec, l->stream));
        CUDA_KERNEL_NODE_PARAMS params = kernel_node(l, &a, ~k);
        MUST(t, call->cuGraphExecKernelNodeSetParams(exec, node[0], &params));
        MUST(t, call->cuGraphLaunch(exec, l->stream));
        MUST(t, call->cuGraphExecDestroy(exec));
    }
    MUST(t, call->cuGraphDestroy(graph));
}

void graph_run(struct thread *t, struct lane *l, const struct statement *s)
{
    if (l->capturing)
        return;
    if (s->kind == S_CAPTURE)
        capture(t, l, s);
    else if (s->kind == S_GRAPH)
        explicit(t, l, s);
    else
        for (int i = 0; i < s->n && l->exec != NULL; i++)
            launch(t, l);
}
