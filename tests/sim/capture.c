/* SPDX-License-Identifier: MIT */
/* capture.c: stream capture. A capturing stream has a set of nodes that its
 * next operation will depend on; events carry such sets between streams. */
#include "sim.h"

static struct capture *captures; /* active ones */
static uint64_t captures_made;

/* -- Dependency sets -- */

void capture_set_free(struct capture_set *set)
{
    free(set->nodes);
    free(set->data);
    *set = (struct capture_set){0};
}

static CUresult set_add(struct capture_set *set, CUgraphNode node, const CUgraphEdgeData *data)
{
    for (size_t i = 0; i < set->n; i++)
        if (set->nodes[i] == node)
            return CUDA_SUCCESS;
    if (set->n == set->cap) {
        size_t cap = set->cap ? 2 * set->cap : 4;
        CUgraphNode *nodes = realloc(set->nodes, cap * sizeof(CUgraphNode));
        if (nodes)
            set->nodes = nodes;
        CUgraphEdgeData *more = realloc(set->data, cap * sizeof *more);
        if (more)
            set->data = more;
        if (!nodes || !more)
            return CUDA_ERROR_OUT_OF_MEMORY;
        set->cap = cap;
    }
    set->data[set->n] = data ? *data : (CUgraphEdgeData){0};
    set->nodes[set->n++] = node;
    return CUDA_SUCCESS;
}

static CUresult set_join(struct capture_set *set, const struct capture_set *more)
{
    CUresult r = CUDA_SUCCESS;
    for (size_t i = 0; i < more->n && r == CUDA_SUCCESS; i++)
        r = set_add(set, more->nodes[i], &more->data[i]);
    return r;
}

/* -- Life -- */

static struct capture *capture_by_id(uint64_t id)
{
    struct capture *c = captures;
    while (c && c->id != id)
        c = c->next;
    return c;
}

void capture_invalidate(struct capture *c)
{
    c->invalid = true;
}

/* Lets all streams go and forgets the capture. */
static void capture_end(struct capture *c)
{
    for (struct stream *s = NULL; (s = obj_next(OBJ_STREAM, s));)
        if (s->capture == c) {
            s->capture = NULL;
            s->capture_deps.n = 0;
        }
    struct capture **p = &captures;
    while (*p != c)
        p = &(*p)->next;
    *p = c->next;
    c->graph->capturing = false;
    free(c);
}

void capture_stream_gone(struct stream *s)
{
    struct capture *c = s->capture;
    c->invalid = true;
    s->capture = NULL;
    if (c->origin != s)
        return;
    struct graph *g = c->own_graph ? c->graph : NULL;
    capture_end(c); /* nobody can end it any more */
    if (g)
        graph_free(g);
}

static CUresult begin(CUstream handle, struct graph *g, const CUgraphNode *deps,
                      const CUgraphEdgeData *data, size_t ndeps, CUstreamCaptureMode mode)
{
    struct stream *s;
    CUresult r = stream_get(handle, &s);
    if (r != CUDA_SUCCESS)
        return r;
    if (s->kind == STREAM_LEGACY)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (s->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    struct capture *c = calloc(1, sizeof *c);
    struct graph *made = c && !g ? graph_new() : NULL;
    if (!c || (!g && !made)) {
        free(c);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *c = (struct capture){.next = captures,
                          .id = ++captures_made,
                          .graph = g ? g : made,
                          .own_graph = !g,
                          .mode = mode,
                          .thread = pthread_self(),
                          .origin = s};
    c->graph->capturing = true;
    captures = c;
    s->capture = c;
    s->capture_deps.n = 0;
    for (size_t i = 0; i < ndeps && r == CUDA_SUCCESS; i++)
        r = set_add(&s->capture_deps, deps[i], data ? &data[i] : NULL);
    return r;
}

CUresult sim_cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
    if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = begin(stream, NULL, NULL, NULL, 0, mode);
    sim_unlock();
    return r;
}

CUresult sim_cuStreamBeginCapture(CUstream stream)
{
    return sim_cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult sim_cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *deps,
                                         const CUgraphEdgeData *data, size_t n,
                                         CUstreamCaptureMode mode)
{
    struct graph *g;
    if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED || (n && !deps))
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = graph_get(graph, &g);
    for (size_t i = 0; i < n && r == CUDA_SUCCESS; i++) {
        struct node *d;
        r = node_get(deps[i], &d);
        if (r == CUDA_SUCCESS && d->graph != g)
            r = CUDA_ERROR_INVALID_VALUE;
    }
    if (r == CUDA_SUCCESS && g->capturing)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        r = begin(stream, g, deps, data, n, mode);
    sim_unlock();
    return r;
}

/* Has every stream of the capture come back to its origin? */
static bool joined(const struct capture *c)
{
    const struct graph *g = c->graph;
    bool *reached = calloc(g->nnodes + 1, sizeof *reached), ok = reached != NULL, more = ok;
    for (size_t i = 0; ok && i < c->origin->capture_deps.n; i++)
        reached[((struct node *)c->origin->capture_deps.nodes[i])->index] = true;
    while (more) {
        more = false;
        for (unsigned i = g->nedges; i-- > 0;)
            if (reached[g->edges[i].to->index] && !reached[g->edges[i].from->index])
                more = reached[g->edges[i].from->index] = true;
    }
    for (struct stream *s = NULL; ok && (s = obj_next(OBJ_STREAM, s));)
        for (size_t i = 0; s->capture == c && i < s->capture_deps.n; i++)
            ok &= reached[((struct node *)s->capture_deps.nodes[i])->index];
    free(reached);
    return ok;
}

CUresult sim_cuStreamEndCapture(CUstream stream, CUgraph *out)
{
    struct stream *s;
    if (out)
        *out = NULL;
    sim_lock();
    CUresult r = stream_get(stream, &s);
    struct capture *c = r == CUDA_SUCCESS ? s->capture : NULL;
    if (r == CUDA_SUCCESS && !c)
        r = CUDA_ERROR_ILLEGAL_STATE;
    if (r == CUDA_SUCCESS && c->origin != s) {
        c->invalid = true;
        r = CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    } else if (r == CUDA_SUCCESS) {
        struct graph *g = c->graph;
        bool own = c->own_graph, other_thread = c->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
                                                !pthread_equal(c->thread, pthread_self());
        r = other_thread ? CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD
            : c->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
            : !joined(c) ? CUDA_ERROR_STREAM_CAPTURE_UNJOINED
                         : CUDA_SUCCESS;
        capture_end(c);
        if (r == CUDA_SUCCESS && out)
            *out = (CUgraph)g;
        else if (own)
            graph_free(g);
    }
    sim_unlock();
    return r;
}

/* -- Operations on a capturing stream -- */

CUresult capture_add(struct stream *s, struct work *w)
{
    struct capture *c = s->capture;
    struct capture_set *set = &s->capture_deps;
    struct node *n;
    if (c->invalid) {
        work_clear(w);
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    CUgraphEdgeData after = {0};
    if (w->kind == WORK_KERNEL && w->kernel.attrs.programmatic) {
        /* On a kernel it is a programmatic edge, after anything else a full one. */
        for (size_t i = 0; i < set->n; i++)
            if (((struct node *)set->nodes[i])->type == CU_GRAPH_NODE_TYPE_KERNEL) {
                set->data[i].type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
                set->data[i].from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
            }
    }
    CUresult r = graph_add(c->graph, w, set->nodes, set->data, set->n, &n);
    if (r == CUDA_SUCCESS) {
        set->n = 0;
        r = set_add(set, (CUgraphNode)n, &after);
    }
    if (r != CUDA_SUCCESS)
        c->invalid = true;
    return r;
}

CUresult capture_record(struct stream *s, struct event *e, unsigned flags)
{
    struct capture *c = s->capture;
    if (c->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (flags & CU_EVENT_RECORD_EXTERNAL) {
        struct work w = {.kind = WORK_RECORD, .event = {.event = e, .gen = e->o.id, .own = e->own}};
        return capture_add(s, &w);
    }
    e->capture_deps.n = 0;
    CUresult r = set_join(&e->capture_deps, &s->capture_deps);
    e->capture_id = c->id;
    return r;
}

CUresult capture_wait(struct stream *s, struct event *e, unsigned flags)
{
    struct capture *c = s->capture, *from = capture_by_id(e->capture_id);
    if (c && c->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (c && flags & CU_EVENT_WAIT_EXTERNAL) {
        struct work w = {.kind = WORK_WAIT, .event = {.event = e, .gen = e->o.id}};
        return capture_add(s, &w);
    }
    if (!e->capture_id) {
        if (!e->marker || !c)
            return CUDA_SUCCESS;
        c->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    if (!from) { /* of a capture that has ended */
        if (c)
            c->invalid = true;
        return c ? CUDA_ERROR_STREAM_CAPTURE_ISOLATION : CUDA_ERROR_INVALID_VALUE;
    }
    if (c && c != from) {
        c->invalid = from->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    if (from->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (s->kind == STREAM_LEGACY) {
        from->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    if (!c) {
        s->capture = from;
        s->capture_deps.n = 0;
    }
    return set_join(&s->capture_deps, &e->capture_deps);
}

/* -- What capture forbids -- */

CUresult capture_check_unsafe(void)
{
    CUresult r = CUDA_SUCCESS;
    if (!captures || sim_tls.capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return r;
    for (struct capture *c = captures; c; c = c->next) {
        bool mine = pthread_equal(c->thread, pthread_self());
        bool hit = mine ? c->mode != CU_STREAM_CAPTURE_MODE_RELAXED
                        : c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                              sim_tls.capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
        if (hit) {
            c->invalid = true;
            r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    }
    return r;
}

static bool captures_blocking(const struct capture *c, const struct ctx *ctx)
{
    for (struct stream *s = ctx->streams; s; s = s->next_in_ctx)
        if (s->capture == c && stream_blocking(s))
            return true;
    return false;
}

CUresult capture_check_legacy(struct stream *s)
{
    CUresult r = CUDA_SUCCESS;
    if (!captures || s->kind != STREAM_LEGACY)
        return r;
    for (struct capture *c = captures; c; c = c->next)
        if (captures_blocking(c, s->ctx)) {
            c->invalid = true;
            r = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        }
    return r;
}

CUresult capture_check_ctx_sync(struct ctx *ctx)
{
    CUresult r = CUDA_SUCCESS;
    for (struct stream *s = captures ? ctx->streams : NULL; s; s = s->next_in_ctx)
        if (s->capture) {
            s->capture->invalid = true;
            r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    return r;
}

CUresult capture_check_event_sync(struct event *e)
{
    if (!e->capture_id)
        return capture_check_unsafe();
    struct capture *c = capture_by_id(e->capture_id);
    if (!c)
        return CUDA_ERROR_INVALID_VALUE; /* of a capture that has ended */
    c->invalid = true;
    return CUDA_ERROR_CAPTURED_EVENT;
}

CUresult sim_cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    if (!mode || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    CUstreamCaptureMode before = sim_tls.capture_mode;
    sim_tls.capture_mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}

/* -- Questions -- */

/* The legacy stream cannot say while a blocking one captures; that harms nothing. */
static CUresult get_asked(CUstream handle, struct stream **s)
{
    CUresult r = stream_get(handle, s);
    if (r != CUDA_SUCCESS || (*s)->kind != STREAM_LEGACY)
        return r;
    for (struct capture *c = captures; c; c = c->next)
        if (captures_blocking(c, (*s)->ctx))
            return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    return r;
}

static CUstreamCaptureStatus status_of(const struct stream *s)
{
    return !s->capture           ? CU_STREAM_CAPTURE_STATUS_NONE
           : s->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                 : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

CUresult sim_cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
    struct stream *s;
    if (!status)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = get_asked(stream, &s);
    if (r == CUDA_SUCCESS)
        *status = status_of(s);
    sim_unlock();
    return r;
}

CUresult sim_cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus *status,
                                       cuuint64_t *id, CUgraph *graph, const CUgraphNode **deps,
                                       const CUgraphEdgeData **data, size_t *n)
{
    static const CUgraphEdgeData zero;
    struct stream *s;
    if (!status || (data && !deps))
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = get_asked(stream, &s);
    if (r == CUDA_SUCCESS) {
        *status = status_of(s);
        if (*status == CU_STREAM_CAPTURE_STATUS_ACTIVE) {
            const struct capture_set *set = &s->capture_deps;
            for (size_t i = 0; deps && !data && i < set->n; i++)
                if (memcmp(&set->data[i], &zero, sizeof zero))
                    r = CUDA_ERROR_LOSSY_QUERY;
            if (id)
                *id = s->capture->id;
            if (graph)
                *graph = (CUgraph)s->capture->graph;
            if (deps)
                *deps = set->nodes;
            if (data)
                *data = set->data;
            if (n)
                *n = set->n;
        }
    }
    sim_unlock();
    return r;
}

CUresult sim_cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus *status,
                                       cuuint64_t *id, CUgraph *graph, const CUgraphNode **deps,
                                       size_t *n)
{
    return sim_cuStreamGetCaptureInfo_v3(stream, status, id, graph, deps, NULL, n);
}

CUresult sim_cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id)
{
    return sim_cuStreamGetCaptureInfo_v3(stream, status, id, NULL, NULL, NULL, NULL);
}

CUresult sim_cuStreamUpdateCaptureDependencies_v2(CUstream stream, CUgraphNode *deps,
                                                  const CUgraphEdgeData *data, size_t n,
                                                  unsigned flags)
{
    struct stream *s;
    if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES || (n && !deps))
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = stream_get(stream, &s);
    if (r == CUDA_SUCCESS && !s->capture)
        r = CUDA_ERROR_ILLEGAL_STATE;
    if (r == CUDA_SUCCESS && s->capture->invalid)
        r = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    for (size_t i = 0; i < n && r == CUDA_SUCCESS; i++) {
        struct node *d;
        r = node_get(deps[i], &d);
        if (r == CUDA_SUCCESS && d->graph != s->capture->graph)
            r = CUDA_ERROR_INVALID_VALUE;
    }
    if (r == CUDA_SUCCESS && flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES)
        s->capture_deps.n = 0;
    for (size_t i = 0; i < n && r == CUDA_SUCCESS; i++)
        r = set_add(&s->capture_deps, deps[i], data ? &data[i] : NULL);
    sim_unlock();
    return r;
}

CUresult sim_cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode *deps, size_t n,
                                               unsigned flags)
{
    return sim_cuStreamUpdateCaptureDependencies_v2(stream, deps, NULL, n, flags);
}

/* -- Captures to a graphics interface: cuStreamBeginCaptureToCig -- */

CUresult sim_cuStreamBeginCaptureToCig(CUstream handle, CUstreamCigCaptureParams *params)
{
    struct stream *s;
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = stream_get(handle, &s);
    if (r == CUDA_SUCCESS && s->kind == STREAM_LEGACY)
        r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (r == CUDA_SUCCESS && !s->ctx->cig)
        r = CUDA_ERROR_INVALID_CONTEXT;
    if (r == CUDA_SUCCESS && (s->cig || s->capture))
        r = CUDA_ERROR_ILLEGAL_STATE;
    if (r == CUDA_SUCCESS)
        s->cig = true;
    sim_unlock();
    return r;
}

CUresult sim_cuStreamEndCaptureToCig(CUstream handle)
{
    struct stream *s;
    sim_lock();
    CUresult r = stream_get(handle, &s);
    if (r == CUDA_SUCCESS && !s->cig)
        r = CUDA_ERROR_ILLEGAL_STATE;
    if (r == CUDA_SUCCESS)
        s->cig = false;
    sim_unlock();
    return r;
}
