/* SPDX-License-Identifier: MIT */
/* plan.c: what an exec runs. A plan never changes while anybody else holds it:
 * a launch keeps the plan of its moment, and the first patch after a launch
 * copies the plan (the shape is shared). */
#include "sim.h"

/* -- Shape -- */

static void shape_drop(struct shape *s)
{
    if (!s || --s->refs)
        return;
    free(s->edges);
    free(s->indegree);
    free(s->first);
    free(s);
}

static bool acyclic(const struct shape *s)
{
    unsigned *left = malloc((s->nnodes + 1) * sizeof *left);
    unsigned *ready = malloc((s->nnodes + 1) * sizeof *ready);
    unsigned n = 0, done = 0;
    if (!left || !ready) {
        free(left);
        free(ready);
        return false;
    }
    memcpy(left, s->indegree, s->nnodes * sizeof *left);
    for (unsigned i = 0; i < s->nnodes; i++)
        if (!left[i])
            ready[n++] = i;
    for (; done < n; done++)
        for (unsigned e = s->first[ready[done]]; e < s->first[ready[done] + 1]; e++)
            if (!--left[s->edges[e].to])
                ready[n++] = s->edges[e].to;
    free(left);
    free(ready);
    return done == s->nnodes;
}

/* Whether a kernel lets another one begin early. */
static bool lets_begin(const struct shape *s, unsigned i)
{
    unsigned e = s->first[i];
    while (e < s->first[i + 1] && s->edges[e].data.type != CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC)
        e++;
    return e < s->first[i + 1];
}

/* A node goes on the path of the first node that leads to it, unless another one does already
   (driver 580, about: docs/measurements.md, "Why are execs scarce?"). What such a graph takes where
   kernels begin early was not measured: here they are one path with the kernel before. */
static unsigned count_paths(const struct shape *s)
{
    bool *taken = calloc(s->nnodes + 1, sizeof *taken);
    unsigned paths = 0;
    for (unsigned i = 0; taken && i < s->nnodes; i++) {
        bool goes_on = false;
        paths += !taken[i];
        for (unsigned e = s->first[i]; e < s->first[i + 1]; e++) {
            unsigned to = s->edges[e].to;
            if (lets_begin(s, i) && s->edges[e].data.type != CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC)
                continue;
            paths += !taken[to] && goes_on;
            goes_on |= !taken[to];
            taken[to] = true;
        }
    }
    free(taken);
    return paths;
}

/* Finds the node behind `i` on its path; one that has it may take another. before[to]: the node
   before that, plus 1. */
static bool takes_next(const struct shape *s, unsigned i, unsigned *before, bool *seen)
{
    for (unsigned e = s->first[i]; e < s->first[i + 1]; e++) {
        unsigned to = s->edges[e].to;
        if (seen[to])
            continue;
        seen[to] = true;
        if (!before[to] || takes_next(s, before[to] - 1, before, seen)) {
            before[to] = i + 1;
            return true;
        }
    }
    return false;
}

/* Paths that are enough, however the driver chooses them. */
static unsigned count_fewest(const struct shape *s)
{
    unsigned *before = calloc(s->nnodes + 1, sizeof *before), paths = s->nnodes;
    bool *seen = malloc(s->nnodes + 1);
    for (unsigned i = 0; before && seen && i < s->nnodes; i++) {
        memset(seen, 0, s->nnodes);
        paths -= takes_next(s, i, before, seen);
    }
    free(seen);
    free(before);
    return paths;
}

static struct shape *shape_new(const struct graph *g)
{
    struct shape *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->refs = 1;
    s->nnodes = g->nnodes;
    s->nedges = g->nedges;
    s->edges = calloc(g->nedges + 1, sizeof *s->edges);
    s->indegree = calloc(g->nnodes + 1, sizeof *s->indegree);
    s->first = calloc(g->nnodes + 2, sizeof *s->first);
    if (!s->edges || !s->indegree || !s->first) {
        shape_drop(s);
        return NULL;
    }
    for (unsigned i = 0; i < g->nedges; i++) {
        s->indegree[g->edges[i].to->index]++;
        s->first[g->edges[i].from->index + 2]++;
    }
    for (unsigned i = 2; i <= g->nnodes + 1; i++)
        s->first[i] += s->first[i - 1];
    for (unsigned i = 0; i < g->nedges; i++) { /* counting sort by origin */
        const struct edge *e = &g->edges[i];
        s->edges[s->first[e->from->index + 1]++] =
            (struct shape_edge){e->from->index, e->to->index, e->data};
    }
    s->chain = s->nedges + 1 == s->nnodes;
    for (unsigned i = 0; s->chain && i < s->nedges; i++)
        s->chain = s->edges[i].from == i && s->edges[i].to == i + 1;
    s->paths = count_paths(s);
    s->fewest = s->paths > 1 ? count_fewest(s) : s->paths;
    return s;
}

/* -- Plans -- */

void plan_drop(struct plan *p)
{
    if (!p || --p->refs)
        return;
    if (p->keeps)
        exec_gives(p->keeps, p);
    for (unsigned i = 0; i < p->shape->nnodes; i++)
        work_clear(&p->nodes[i].work);
    shape_drop(p->shape);
    free(p->nodes);
    free(p);
}

static struct plan *plan_empty(struct shape *shape)
{
    struct plan *p = calloc(1, sizeof *p);
    struct plan_node *nodes = calloc(shape->nnodes + 1, sizeof *nodes);
    if (!p || !nodes) {
        free(p);
        free(nodes);
        return NULL;
    }
    p->refs = 1;
    p->shape = shape;
    p->nodes = nodes;
    shape->refs++;
    return p;
}

/* What the node's attributes make of its shape is known now. */
static CUresult shape_check(const struct work *w)
{
    if (w->kind != WORK_KERNEL)
        return CUDA_SUCCESS;
    const struct func_attrs f = function_attrs(w->kernel.func);
    return kernel_exec_check(w, &f);
}

static bool stale(const struct work *w)
{
    if (w->kind == WORK_KERNEL)
        return !w->kernel.func->o.alive || w->kernel.func->o.gen != w->kernel.func_gen;
    if (w->kind == WORK_RECORD || w->kind == WORK_WAIT)
        return !event_lives(w);
    return false;
}

/* A node's payload as a plan wants it: a child graph as a plan of its own. */
static CUresult plan_work(struct work *to, const struct work *from, struct node **bad)
{
    if (from->kind != WORK_GRAPH)
        return work_copy(to, from);
    *to = (struct work){.kind = WORK_EMPTY};
    struct plan *child;
    CUresult r = plan_new(from->graph.graph, &child, bad);
    if (r == CUDA_SUCCESS)
        *to = (struct work){.kind = WORK_GRAPH, .graph = {.plan = child}};
    return r;
}

CUresult plan_new(const struct graph *g, struct plan **out, struct node **bad)
{
    struct shape *s = shape_new(g);
    struct plan *p = s ? plan_empty(s) : NULL;
    CUresult r = p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    *bad = NULL;
    if (r == CUDA_SUCCESS && !acyclic(s))
        r = CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < g->nnodes && r == CUDA_SUCCESS; i++) {
        struct node *n = g->nodes[i];
        r = stale(&n->work) ? CUDA_ERROR_INVALID_VALUE : shape_check(&n->work);
        if (r != CUDA_SUCCESS) {
            *bad = n;
            break;
        }
        p->nodes[i].origin = n;
        p->nodes[i].origin_gen = n->o.gen;
        r = plan_work(&p->nodes[i].work, &n->work, bad);
        if (n->work.kind == WORK_KERNEL)
            n->work.kernel.func->settled = true;
    }
    shape_drop(s); /* the plan has its own reference */
    if (r == CUDA_SUCCESS)
        *out = p;
    else
        plan_drop(p);
    return r;
}

static CUresult plan_copy(struct plan **p)
{
    struct plan *old = *p, *copy = plan_empty(old->shape);
    CUresult r = copy ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    for (unsigned i = 0; i < old->shape->nnodes && r == CUDA_SUCCESS; i++) {
        copy->nodes[i] = old->nodes[i];
        r = work_copy(&copy->nodes[i].work, &old->nodes[i].work);
    }
    if (r == CUDA_SUCCESS) {
        plan_drop(old);
        *p = copy;
    } else {
        plan_drop(copy);
    }
    return r;
}

static bool made_from(const struct plan_node *n, const struct node *origin)
{
    return n->origin == origin && n->origin_gen == origin->o.gen;
}

static bool plan_has(const struct plan *p, const struct node *origin, unsigned *at)
{
    unsigned n = p->shape->nnodes, guess = origin->index;
    if (guess < n && made_from(&p->nodes[guess], origin)) {
        *at = guess;
        return true;
    }
    for (unsigned i = 0; i < n; i++) {
        unsigned inside;
        const struct work *w = &p->nodes[i].work;
        if (made_from(&p->nodes[i], origin) ||
            (w->kind == WORK_GRAPH && plan_has(w->graph.plan, origin, &inside))) {
            *at = i;
            return true;
        }
    }
    return false;
}

struct plan_node *plan_writable(struct plan **p, struct node *origin)
{
    unsigned at;
    if (!plan_has(*p, origin, &at) || ((*p)->refs > 1 && plan_copy(p) != CUDA_SUCCESS))
        return NULL;
    struct plan_node *n = &(*p)->nodes[at];
    return made_from(n, origin) ? n : plan_writable(&n->work.graph.plan, origin);
}

/* -- Launch and execution -- */

unsigned plan_events(const struct plan *p)
{
    unsigned n = 0;
    for (unsigned i = 0; i < p->shape->nnodes; i++) {
        const struct work *w = &p->nodes[i].work;
        if (w->kind == WORK_GRAPH)
            n += plan_events(w->graph.plan);
        else
            n += w->kind == WORK_RECORD || w->kind == WORK_WAIT;
    }
    return n;
}

static struct marker *marker_of(const struct event *e, struct stream *s)
{
    return marker_new(s, !(e->flags & CU_EVENT_DISABLE_TIMING));
}

/* In the order of plan_execute's own numbering: nodes by index, children inside. */
static CUresult make_markers(const struct plan *p, struct stream *s, struct marker **m,
                             unsigned *at)
{
    for (unsigned i = 0; i < p->shape->nnodes; i++) {
        const struct work *w = &p->nodes[i].work;
        if (w->kind == WORK_GRAPH) {
            CUresult r = make_markers(w->graph.plan, s, m, at);
            if (r != CUDA_SUCCESS)
                return r;
        } else if (w->kind == WORK_RECORD || w->kind == WORK_WAIT) {
            struct event *e = w->event.event;
            bool alive = event_lives(w);
            struct marker *now = alive ? e->marker : NULL;
            if (w->kind == WORK_RECORD && alive) {
                now = marker_of(e, s);
                if (!now)
                    return CUDA_ERROR_OUT_OF_MEMORY;
                marker_drop(e->marker);
                e->marker = now;
                e->capture_id = 0;
            }
            if (now)
                now->refs++;
            m[(*at)++] = now;
        }
    }
    return CUDA_SUCCESS;
}

/* -- Events by edges -- */

static bool leads(const struct shape *shape, unsigned from, unsigned to, unsigned char *seen)
{
    seen[from] = 1;
    for (unsigned e = shape->first[from]; e < shape->first[from + 1]; e++) {
        unsigned next = shape->edges[e].to;
        if (next == to || (!seen[next] && leads(shape, next, to, seen)))
            return true;
    }
    return false;
}

static bool ordered(const struct plan *p, unsigned from, unsigned to)
{
    unsigned char *seen = calloc(p->shape->nnodes, 1);
    bool is = !seen || leads(p->shape, from, to, seen);
    free(seen);
    return is;
}

static bool concerns(const struct plan *p, unsigned i, enum work_kind kind, const struct work *w)
{
    const struct work *other = &p->nodes[i].work;
    return other->kind == kind && event_lives(other) && other->event.event == w->event.event;
}

/* The last record of the wait's event that the edges order before it; nnodes: none. */
static unsigned record_before(const struct plan *p, unsigned wait)
{
    for (unsigned i = p->shape->nnodes; i-- > 0;)
        if (concerns(p, i, WORK_RECORD, &p->nodes[wait].work) && ordered(p, i, wait))
            return i;
    return p->shape->nnodes;
}

/* Whether another record of the event is not ordered before this one, which therefore does not take
   its place. */
static bool rivals(const struct plan *p, unsigned record)
{
    for (unsigned i = 0; i < record; i++)
        if (concerns(p, i, WORK_RECORD, &p->nodes[record].work) && !ordered(p, i, record))
            return true;
    return false;
}

static void replace_marker(struct marker **at, struct marker *by)
{
    marker_drop(*at);
    *at = by;
    if (by)
        by->refs++;
}

/* Nodes run in any order that the edges allow: what no edge orders must not be relied upon. A wait
   is for a record of the same launch only if that is ordered before it, and else for the one before
   the launch. Of two records of an event that are not ordered the first one counts. No
   documentation says what a driver does there; the library must not need to know. */
static CUresult markers_by_edges(const struct plan *p, struct stream *s, struct marker **m)
{
    unsigned n = p->shape->nnodes, at = 0;
    unsigned *number = calloc(n + 1, sizeof *number);
    CUresult r = number ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    for (unsigned i = 0; number && i < n; i++) {
        const struct work *w = &p->nodes[i].work;
        number[i] = at;
        if (w->kind == WORK_WAIT && event_lives(w))
            replace_marker(&m[at], w->event.event->marker);
        at += w->kind == WORK_GRAPH                            ? plan_events(w->graph.plan)
              : w->kind == WORK_RECORD || w->kind == WORK_WAIT ? 1
                                                               : 0;
    }
    for (unsigned i = 0; r == CUDA_SUCCESS && i < n; i++) {
        const struct work *w = &p->nodes[i].work;
        if (w->kind == WORK_RECORD && event_lives(w)) {
            struct marker *mine = marker_of(w->event.event, s);
            m[number[i]] = mine;
            if (!mine)
                r = CUDA_ERROR_OUT_OF_MEMORY;
            else if (!rivals(p, i))
                replace_marker(&w->event.event->marker, mine);
            if (mine)
                w->event.event->capture_id = 0;
        } else if (w->kind == WORK_GRAPH) {
            unsigned inside = number[i];
            r = make_markers(w->graph.plan, s, m, &inside);
        }
    }
    for (unsigned i = 0; r == CUDA_SUCCESS && i < n; i++) {
        unsigned before = n;
        if (p->nodes[i].work.kind == WORK_WAIT && event_lives(&p->nodes[i].work))
            before = record_before(p, i);
        if (before < n)
            replace_marker(&m[number[i]], m[number[before]]);
    }
    free(number);
    return r;
}

/* A launch's record nodes are records at the moment of the launch. */
CUresult plan_markers(const struct plan *p, struct stream *s, struct work *launch)
{
    unsigned n = plan_events(p), at = 0;
    if (!n)
        return CUDA_SUCCESS;
    launch->graph.markers = calloc(n, sizeof *launch->graph.markers);
    if (!launch->graph.markers)
        return CUDA_ERROR_OUT_OF_MEMORY;
    launch->graph.nmarkers = n;
    if (!p->shape->chain)
        return markers_by_edges(p, s, launch->graph.markers);
    return make_markers(p, s, launch->graph.markers, &at);
}

/* -- Update of a whole exec -- */

static bool same_edges(const struct shape *a, const struct shape *b)
{
    if (a->nedges != b->nedges || memcmp(a->first, b->first, (a->nnodes + 1) * sizeof *a->first))
        return false;
    for (unsigned i = 0; i < a->nedges; i++)
        if (a->edges[i].to != b->edges[i].to ||
            memcmp(&a->edges[i].data, &b->edges[i].data, sizeof a->edges[i].data))
            return false;
    return true;
}

/* An exec's copy may go on with pinned memory where it had pageable memory, and the other way
 * round, if its parameters are set (H100, driver 580). What an update does was not measured. */
static bool other_host_memory(const struct work *a, const struct work *b)
{
    return a->kind == WORK_COPY && (a->copy.pageable_src != b->copy.pageable_src ||
                                    a->copy.pageable_dst != b->copy.pageable_dst);
}

static CUgraphExecUpdateResult compare(const struct plan *old, const struct plan *now,
                                       bool priorities, struct node **bad)
{
    if (old->shape->nnodes != now->shape->nnodes)
        return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    for (unsigned i = 0; i < now->shape->nnodes; i++) {
        const struct work *a = &old->nodes[i].work, *b = &now->nodes[i].work;
        CUgraphExecUpdateResult r;
        *bad = now->nodes[i].origin;
        if (old->shape->indegree[i] != now->shape->indegree[i])
            return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
        if (a->kind != b->kind)
            return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
        if (a->kind == WORK_GRAPH)
            r = compare(a->graph.plan, b->graph.plan, priorities, bad);
        else
            r = other_host_memory(a, b) ? CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED
                                        : work_may_become(a, b, priorities);
        if (r != CU_GRAPH_EXEC_UPDATE_SUCCESS)
            return r;
    }
    *bad = NULL;
    return same_edges(old->shape, now->shape) ? CU_GRAPH_EXEC_UPDATE_SUCCESS
                                              : CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
}

/* The exec's nodes stay those of the graph that it was instantiated from. */
static void keep_origins(struct plan *now, const struct plan *old)
{
    for (unsigned i = 0; i < now->shape->nnodes; i++) {
        now->nodes[i].origin = old->nodes[i].origin;
        now->nodes[i].origin_gen = old->nodes[i].origin_gen;
        now->nodes[i].disabled = old->nodes[i].disabled;
        if (now->nodes[i].work.kind == WORK_GRAPH)
            keep_origins(now->nodes[i].work.graph.plan, old->nodes[i].work.graph.plan);
    }
}

CUresult plan_update(struct plan **p, const struct graph *g, bool priorities,
                     CUgraphExecUpdateResultInfo *info)
{
    struct plan *now;
    struct node *bad;
    CUresult r = plan_new(g, &now, &bad);
    *info = (CUgraphExecUpdateResultInfo){.result = CU_GRAPH_EXEC_UPDATE_ERROR,
                                          .errorNode = (CUgraphNode)bad};
    if (r != CUDA_SUCCESS)
        return r;
    info->result = compare(*p, now, priorities, &bad);
    info->errorNode = (CUgraphNode)bad;
    if (info->result != CU_GRAPH_EXEC_UPDATE_SUCCESS) {
        plan_drop(now);
        return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    }
    keep_origins(now, *p);
    plan_drop(*p);
    *p = now;
    return CUDA_SUCCESS;
}
