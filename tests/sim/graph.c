/* SPDX-License-Identifier: MIT */
/* graph.c: graphs as containers: nodes, edges, cloning. */
#include "sim.h"

/* -- Life -- */

struct graph *graph_new(void)
{
    return obj_new(OBJ_GRAPH);
}

static void node_free(struct node *n)
{
    work_clear(&n->work);
    free(n->params);
    obj_free(n);
}

void graph_free(struct graph *g)
{
    while (g->nnodes)
        node_free(g->nodes[--g->nnodes]);
    free(g->nodes);
    free(g->edges);
    obj_free(g);
}

CUresult graph_get(CUgraph handle, struct graph **out)
{
    *out = obj_get(OBJ_GRAPH, handle);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult node_get(CUgraphNode handle, struct node **out)
{
    *out = obj_get(OBJ_NODE, handle);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static bool grow(void **array, unsigned *cap, unsigned used, size_t size)
{
    if (used < *cap)
        return true;
    unsigned more = *cap ? 2 * *cap : 16;
    void *p = realloc(*array, more * size);
    if (!p)
        return false;
    *array = p;
    *cap = more;
    return true;
}

static struct edge *edge_find(const struct graph *g, const struct node *from, const struct node *to)
{
    /* The last edges are the likeliest. */
    for (unsigned i = g->nedges; i-- > 0;)
        if (g->edges[i].from == from && g->edges[i].to == to)
            return &g->edges[i];
    return NULL;
}

static CUresult edge_add(struct graph *g, struct node *from, struct node *to,
                         const CUgraphEdgeData *data)
{
    if (!grow((void **)&g->edges, &g->cap_edges, g->nedges, sizeof *g->edges))
        return CUDA_ERROR_OUT_OF_MEMORY;
    g->edges[g->nedges++] =
        (struct edge){.from = from, .to = to, .data = data ? *data : (CUgraphEdgeData){0}};
    return CUDA_SUCCESS;
}

static bool edge_data_valid(const CUgraphEdgeData *d, const struct node *from)
{
    if (!d)
        return true;
    for (unsigned i = 0; i < sizeof d->reserved; i++)
        if (d->reserved[i])
            return false;
    if (d->type > CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC)
        return false;
    bool kernel = from->type == CU_GRAPH_NODE_TYPE_KERNEL;
    if (d->type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC || d->from_port)
        return kernel && d->from_port <= CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER;
    return !d->to_port;
}

static CUgraphNodeType work_node_type(const struct work *w)
{
    switch (w->kind) {
    case WORK_KERNEL:
        return CU_GRAPH_NODE_TYPE_KERNEL;
    case WORK_MEMSET:
        return CU_GRAPH_NODE_TYPE_MEMSET;
    case WORK_COPY:
        return CU_GRAPH_NODE_TYPE_MEMCPY;
    case WORK_HOST:
        return CU_GRAPH_NODE_TYPE_HOST;
    case WORK_RECORD:
        return CU_GRAPH_NODE_TYPE_EVENT_RECORD;
    case WORK_WAIT:
        return CU_GRAPH_NODE_TYPE_WAIT_EVENT;
    case WORK_MEM_OP:
        return CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
    case WORK_ALLOC:
        return CU_GRAPH_NODE_TYPE_MEM_ALLOC;
    case WORK_FREE:
        return CU_GRAPH_NODE_TYPE_MEM_FREE;
    case WORK_GRAPH:
        return CU_GRAPH_NODE_TYPE_GRAPH;
    default:
        return CU_GRAPH_NODE_TYPE_EMPTY;
    }
}

static CUresult deps_check(struct graph *g, const CUgraphNode *deps, const CUgraphEdgeData *data,
                           size_t n)
{
    if (n && !deps)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < n; i++) {
        struct node *d;
        if (node_get(deps[i], &d) != CUDA_SUCCESS || d->graph != g ||
            !edge_data_valid(data ? &data[i] : NULL, d))
            return CUDA_ERROR_INVALID_VALUE;
        for (size_t j = 0; j < i; j++)
            if (deps[i] == deps[j])
                return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult graph_add(struct graph *g, struct work *w, const CUgraphNode *deps,
                   const CUgraphEdgeData *data, size_t ndeps, struct node **out)
{
    CUresult r = deps_check(g, deps, data, ndeps);
    struct node *n = NULL;
    if (r == CUDA_SUCCESS &&
        (!grow((void **)&g->nodes, &g->cap_nodes, g->nnodes, sizeof *g->nodes) ||
         !(n = obj_new(OBJ_NODE))))
        r = CUDA_ERROR_OUT_OF_MEMORY;
    if (r != CUDA_SUCCESS) {
        work_clear(w);
        return r;
    }
    n->graph = g;
    n->type = work_node_type(w);
    n->work = *w;
    n->index = g->nnodes;
    g->nodes[g->nnodes++] = n;
    g->has_memory_nodes |= w->kind == WORK_ALLOC || w->kind == WORK_FREE;
    for (size_t i = 0; i < ndeps && r == CUDA_SUCCESS; i++)
        r = edge_add(g, (struct node *)deps[i], n, data ? &data[i] : NULL);
    if (r == CUDA_SUCCESS)
        *out = n;
    return r;
}

CUresult graph_clone(const struct graph *from, struct graph **out)
{
    struct graph *g = graph_new();
    CUresult r = g ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    for (unsigned i = 0; i < from->nnodes && r == CUDA_SUCCESS; i++) {
        struct work w;
        struct node *n;
        r = work_copy(&w, &from->nodes[i]->work);
        if (r == CUDA_SUCCESS)
            r = graph_add(g, &w, NULL, NULL, 0, &n);
        if (r == CUDA_SUCCESS)
            n->copy_of = from->nodes[i]->o.id;
        if (r == CUDA_SUCCESS && n->work.kind == WORK_GRAPH && n->work.graph.graph)
            n->work.graph.graph->inner = true;
    }
    for (unsigned i = 0; i < from->nedges && r == CUDA_SUCCESS; i++)
        r = edge_add(g, g->nodes[from->edges[i].from->index], g->nodes[from->edges[i].to->index],
                     &from->edges[i].data);
    if (r == CUDA_SUCCESS)
        *out = g;
    else if (g)
        graph_free(g);
    return r;
}

/* -- Doors: graphs -- */

CUresult sim_cuGraphCreate(CUgraph *out, unsigned flags)
{
    if (!out || flags)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct graph *g = graph_new();
    sim_unlock();
    *out = (CUgraph)g;
    return g ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_cuGraphDestroy(CUgraph handle)
{
    struct graph *g;
    sim_lock();
    CUresult r = graph_get(handle, &g);
    if (r == CUDA_SUCCESS && g->capturing)
        r = CUDA_ERROR_ILLEGAL_STATE;
    if (r == CUDA_SUCCESS && g->inner)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        graph_free(g);
    sim_unlock();
    return r;
}

CUresult sim_cuGraphClone(CUgraph *out, CUgraph handle)
{
    struct graph *g, *clone;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = graph_get(handle, &g);
    if (r == CUDA_SUCCESS && g->has_memory_nodes)
        r = CUDA_ERROR_NOT_SUPPORTED;
    if (r == CUDA_SUCCESS)
        r = graph_clone(g, &clone);
    if (r == CUDA_SUCCESS)
        *out = (CUgraph)clone;
    sim_unlock();
    return r;
}

CUresult sim_cuGraphNodeFindInClone(CUgraphNode *out, CUgraphNode original, CUgraph handle)
{
    struct graph *g;
    struct node *n;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = graph_get(handle, &g);
    if (r == CUDA_SUCCESS)
        r = node_get(original, &n);
    if (r == CUDA_SUCCESS) {
        r = CUDA_ERROR_INVALID_VALUE;
        for (unsigned i = 0; i < g->nnodes; i++)
            if (g->nodes[i]->copy_of == n->o.id) {
                *out = (CUgraphNode)g->nodes[i];
                r = CUDA_SUCCESS;
            }
    }
    sim_unlock();
    return r;
}

CUresult sim_cuGraphGetNodes(CUgraph handle, CUgraphNode *out, size_t *n)
{
    struct graph *g;
    if (!n)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = graph_get(handle, &g);
    if (r == CUDA_SUCCESS) {
        for (size_t i = 0; out && i < *n; i++)
            out[i] = i < g->nnodes ? (CUgraphNode)g->nodes[i] : NULL;
        if (!out || *n > g->nnodes)
            *n = g->nnodes;
    }
    sim_unlock();
    return r;
}

CUresult sim_cuGraphGetRootNodes(CUgraph handle, CUgraphNode *out, size_t *n)
{
    struct graph *g;
    if (!n)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = graph_get(handle, &g);
    if (r == CUDA_SUCCESS) {
        size_t found = 0;
        for (unsigned i = 0; i < g->nnodes; i++) {
            bool root = true;
            for (unsigned e = 0; e < g->nedges && root; e++)
                root = g->edges[e].to != g->nodes[i];
            if (root && out && found < *n)
                out[found] = (CUgraphNode)g->nodes[i];
            found += root;
        }
        for (size_t i = found; out && i < *n; i++)
            out[i] = NULL;
        if (!out || *n > found)
            *n = found;
    }
    sim_unlock();
    return r;
}

/* -- Doors: edges -- */

/* Writes the edges that a filter lets through; without edge data to write to,
 * data that is not zero must not get lost. */
static CUresult list_edges(const struct graph *g, const struct node *from, const struct node *to,
                           CUgraphNode *out_from, CUgraphNode *out_to, CUgraphEdgeData *data,
                           size_t *n)
{
    static const CUgraphEdgeData zero;
    size_t found = 0, room = out_from || out_to ? *n : 0;
    for (unsigned i = 0; i < g->nedges; i++) {
        const struct edge *e = &g->edges[i];
        if ((from && e->from != from) || (to && e->to != to))
            continue;
        if (found < room) {
            if (!data && memcmp(&e->data, &zero, sizeof zero))
                return CUDA_ERROR_LOSSY_QUERY;
            if (out_from)
                out_from[found] = (CUgraphNode)e->from;
            if (out_to)
                out_to[found] = (CUgraphNode)e->to;
            if (data)
                data[found] = e->data;
        }
        found++;
    }
    for (size_t i = found; i < room; i++) {
        if (out_from)
            out_from[i] = NULL;
        if (out_to)
            out_to[i] = NULL;
    }
    if (!room || found < room)
        *n = found;
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphGetEdges_v2(CUgraph handle, CUgraphNode *from, CUgraphNode *to,
                                CUgraphEdgeData *data, size_t *n)
{
    struct graph *g;
    if (!n || !from != !to || (data && !from))
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = graph_get(handle, &g);
    if (r == CUDA_SUCCESS)
        r = list_edges(g, NULL, NULL, from, to, data, n);
    sim_unlock();
    return r;
}

CUresult sim_cuGraphGetEdges(CUgraph g, CUgraphNode *from, CUgraphNode *to, size_t *n)
{
    return sim_cuGraphGetEdges_v2(g, from, to, NULL, n);
}

CUresult sim_cuGraphNodeGetDependencies_v2(CUgraphNode handle, CUgraphNode *deps,
                                           CUgraphEdgeData *data, size_t *n)
{
    struct node *node;
    if (!n || (data && !deps))
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = node_get(handle, &node);
    if (r == CUDA_SUCCESS)
        r = list_edges(node->graph, NULL, node, deps, NULL, data, n);
    sim_unlock();
    return r;
}

CUresult sim_cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *deps, size_t *n)
{
    return sim_cuGraphNodeGetDependencies_v2(node, deps, NULL, n);
}

CUresult sim_cuGraphNodeGetDependentNodes_v2(CUgraphNode handle, CUgraphNode *out,
                                             CUgraphEdgeData *data, size_t *n)
{
    struct node *node;
    if (!n || (data && !out))
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = node_get(handle, &node);
    if (r == CUDA_SUCCESS)
        r = list_edges(node->graph, node, NULL, NULL, out, data, n);
    sim_unlock();
    return r;
}

CUresult sim_cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *out, size_t *n)
{
    return sim_cuGraphNodeGetDependentNodes_v2(node, out, NULL, n);
}

static CUresult change_edges(CUgraph handle, const CUgraphNode *from, const CUgraphNode *to,
                             const CUgraphEdgeData *data, size_t n, bool add)
{
    struct graph *g;
    if (n && (!from || !to))
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = graph_get(handle, &g);
    if (r == CUDA_SUCCESS && g->has_memory_nodes && !add)
        r = CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < n && r == CUDA_SUCCESS; i++) {
        struct node *a, *b;
        if (node_get(from[i], &a) != CUDA_SUCCESS || node_get(to[i], &b) != CUDA_SUCCESS ||
            a->graph != g || b->graph != g || a == b ||
            !edge_data_valid(data ? &data[i] : NULL, a) || !edge_find(g, a, b) != add)
            r = CUDA_ERROR_INVALID_VALUE;
    }
    for (size_t i = 0; i < n && r == CUDA_SUCCESS; i++) {
        struct edge *e = edge_find(g, (struct node *)from[i], (struct node *)to[i]);
        if (add && !e)
            r = edge_add(g, (struct node *)from[i], (struct node *)to[i], data ? &data[i] : NULL);
        else if (!add && e)
            memmove(e, e + 1, (size_t)(g->edges + --g->nedges - e) * sizeof *e);
        else
            r = CUDA_ERROR_INVALID_VALUE; /* the same twice in one call */
    }
    sim_unlock();
    return r;
}

CUresult sim_cuGraphAddDependencies_v2(CUgraph g, const CUgraphNode *from, const CUgraphNode *to,
                                       const CUgraphEdgeData *data, size_t n)
{
    return change_edges(g, from, to, data, n, true);
}

CUresult sim_cuGraphAddDependencies(CUgraph g, const CUgraphNode *from, const CUgraphNode *to,
                                    size_t n)
{
    return change_edges(g, from, to, NULL, n, true);
}

CUresult sim_cuGraphRemoveDependencies_v2(CUgraph g, const CUgraphNode *from, const CUgraphNode *to,
                                          const CUgraphEdgeData *data, size_t n)
{
    return change_edges(g, from, to, data, n, false);
}

CUresult sim_cuGraphRemoveDependencies(CUgraph g, const CUgraphNode *from, const CUgraphNode *to,
                                       size_t n)
{
    return change_edges(g, from, to, NULL, n, false);
}

CUresult sim_cuGraphDestroyNode(CUgraphNode handle)
{
    struct node *n;
    sim_lock();
    CUresult r = node_get(handle, &n);
    if (r == CUDA_SUCCESS && n->graph->has_memory_nodes)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS) {
        struct graph *g = n->graph;
        unsigned kept = 0;
        for (unsigned i = 0; i < g->nedges; i++)
            if (g->edges[i].from != n && g->edges[i].to != n)
                g->edges[kept++] = g->edges[i];
        g->nedges = kept;
        for (unsigned i = n->index + 1; i < g->nnodes; i++) {
            g->nodes[i]->index--;
            g->nodes[i - 1] = g->nodes[i];
        }
        g->nnodes--;
        node_free(n);
    }
    sim_unlock();
    return r;
}
