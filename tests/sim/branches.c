/* SPDX-License-Identifier: MIT */
/*
 * branches.c: how a launch of a graph executes. Nodes run in an order that the edges allow, at
 * random, and those that no edge orders run side by side: as many as a context has queues. So a
 * node that waits for another branch holds up nobody, unless there is one queue only.
 * Where other work has taken the queues a launch comes behind what waits in these.
 *
 * Whoever runs nodes takes those that are ready. A helper may hesitate, so that one branch comes
 * far ahead of another one as often as not.
 *
 * With AGSIM_EARLY kernels behind a programmatic edge do not wait for the kernel before: it has
 * begun, and may end after them.
 */
#include "sim.h"

#include <time.h>

enum { HESITATES_NS = 300000 };

struct run {
    struct stream *s;
    const struct plan *p;
    struct marker **markers;
    _Atomic unsigned *unbegun; /* nodes of the whole launch that have not begun */
    unsigned *left, *ready, *marker, *begun;
    unsigned nready, width;
    unsigned helpers, idle; /* idle: of them, those that have not taken a node yet */
    uint64_t random;
    pthread_mutex_t lock; /* of all of it but the nodes */
    pthread_cond_t changed;
};

static void run_plan(struct stream *s, const struct plan *p, struct marker **markers, unsigned base,
                     _Atomic unsigned *unbegun, uint64_t random);

/* -- Nodes -- */

static void run_event(struct work *w, struct marker *m)
{
    pthread_mutex_lock(&sim.lock);
    if (m && w->kind == WORK_RECORD)
        marker_complete(m);
    else if (m)
        marker_wait(m);
    pthread_mutex_unlock(&sim.lock);
}

static bool is_programmatic(const struct shape_edge *e)
{
    return e->data.type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
}

/* Kernels that lets others begin before its end, as the program says: whether it has any. */
static bool lets_begin(const struct shape *shape, unsigned i)
{
    bool any = false;
    for (unsigned e = shape->first[i]; sim.early && e < shape->first[i + 1]; e++)
        any |= is_programmatic(&shape->edges[e]);
    return any;
}

static void run_node(const struct run *r, unsigned i, uint64_t random)
{
    struct work *w = &r->p->nodes[i].work;
    if (r->p->nodes[i].disabled) /* an empty node, for now */
        return;
    if (w->kind == WORK_GRAPH) {
        run_plan(r->s, w->graph.plan, r->markers, r->marker[i], r->unbegun, random);
        return;
    }
    if (atomic_fetch_sub(r->unbegun, 1) == 1)
        stream_graph_begun(r->s);
    stream_pause(r->s, sim_pause_us(&random));
    work_execute(r->s, w, true);
    if (w->kind == WORK_RECORD || w->kind == WORK_WAIT)
        run_event(w, r->markers[r->marker[i]]);
}

static void edge_done(struct run *r, const struct shape_edge *e)
{
    if (!--r->left[e->to])
        r->ready[r->nready++] = e->to;
}

/* -- Who runs them: with the lock -- */

static void *helper_main(void *arg);

static unsigned take(struct run *r)
{
    unsigned pick = r->nready > 1 ? sim_random(&r->random) % r->nready : 0, i = r->ready[pick];
    r->ready[pick] = r->ready[--r->nready];
    return i;
}

static void run_ready(struct run *r)
{
    const struct shape *shape = r->p->shape;
    while (r->nready) {
        unsigned i = take(r);
        if (!r->begun[i] && lets_begin(shape, i)) {
            r->begun[i] = 1;
            for (unsigned e = shape->first[i]; e < shape->first[i + 1]; e++)
                if (is_programmatic(&shape->edges[e]))
                    edge_done(r, &shape->edges[e]);
            r->ready[r->nready++] = i;
            continue;
        }
        if (r->nready > r->idle && r->helpers + 1 < r->width && sim_thread(helper_main, r)) {
            r->helpers++;
            r->idle++;
        }
        uint64_t random = (uint64_t)sim_random(&r->random) << 1 | 1;
        pthread_mutex_unlock(&r->lock);
        run_node(r, i, random);
        pthread_mutex_lock(&r->lock);
        for (unsigned e = shape->first[i]; e < shape->first[i + 1]; e++)
            if (!(r->begun[i] && is_programmatic(&shape->edges[e])))
                edge_done(r, &shape->edges[e]);
    }
    pthread_cond_broadcast(&r->changed);
}

static void *helper_main(void *arg)
{
    struct run *r = arg;
    pthread_mutex_lock(&r->lock);
    if (sim_random(&r->random) % 2) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += HESITATES_NS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        while (r->nready && pthread_cond_timedwait(&r->changed, &r->lock, &until) == 0)
            continue;
    }
    r->idle--;
    run_ready(r);
    r->helpers--;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock); /* the last that it does with it */
    return NULL;
}

static void run_all(struct run *r)
{
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->changed, NULL);
    pthread_mutex_lock(&r->lock);
    run_ready(r);
    while (r->helpers || r->nready) {
        pthread_cond_wait(&r->changed, &r->lock);
        run_ready(r);
    }
    pthread_mutex_unlock(&r->lock);
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->lock);
}

static void run_plan(struct stream *s, const struct plan *p, struct marker **markers, unsigned base,
                     _Atomic unsigned *unbegun, uint64_t random)
{
    const struct shape *shape = p->shape;
    unsigned n = shape->nnodes, at = base;
    unsigned *left = calloc(4 * n + 1, sizeof *left);
    if (!left)
        abort(); /* half a graph cannot be undone */
    struct run r = {.s = s,
                    .p = p,
                    .markers = markers,
                    .unbegun = unbegun,
                    .left = left,
                    .ready = left + n,
                    .marker = left + 2 * n,
                    .begun = left + 3 * n,
                    .width = sim.connections,
                    .random = random};
    for (unsigned i = 0; i < n; i++) {
        const struct work *w = &p->nodes[i].work;
        left[i] = shape->indegree[i];
        r.marker[i] = at;
        if (w->kind == WORK_GRAPH)
            at += plan_events(w->graph.plan);
        else
            at += w->kind == WORK_RECORD || w->kind == WORK_WAIT;
        if (!left[i])
            r.ready[r.nready++] = i;
    }
    run_all(&r);
    free(left);
}

/* -- Queues -- */

static bool has_work(const struct stream *s)
{
    const struct op *op = s->head;
    while (op && (op->work.kind == WORK_EMPTY || op->work.kind == WORK_RECORD ||
                  op->work.kind == WORK_WAIT))
        op = op->next;
    return op != NULL;
}

static unsigned paths_of(const struct shape *shape, bool fewest)
{
    return fewest ? shape->fewest : shape->paths;
}

/* Paths of graphs that have been launched and not ended, each graph's once. Their execs may be gone
   by now. */
static unsigned paths_taken(const struct ctx *ctx, const struct shape *but, bool fewest)
{
    static uint64_t look;
    unsigned n = 0;
    look++;
    for (const struct stream *t = ctx->streams; t; t = t->next_in_ctx)
        for (const struct op *op = t->head; op; op = op->next) {
            struct shape *shape = op->work.kind == WORK_GRAPH ? op->work.graph.plan->shape : NULL;
            if (!shape || shape == but || shape->look == look)
                continue;
            shape->look = look;
            n += shape->paths > 1 ? paths_of(shape, fewest) : 0;
        }
    return n;
}

/* Queues that are needed where that graph is launched, with the launch's own. */
static unsigned queues_needed(const struct shape *shape, const struct stream *s,
                              bool (*has_queue)(const struct stream *), bool fewest)
{
    unsigned n = 1 + paths_of(shape, fewest) + paths_taken(s->ctx, shape, fewest);
    for (const struct stream *t = s->ctx->streams; t; t = t->next_in_ctx)
        n += t != s && has_queue(t);
    return n;
}

static bool has_worked(const struct stream *s)
{
    return s->worked;
}

/* As has_work, but that a driver may leave a stream the queue that it once had. */
static bool keeps_queue(const struct stream *s)
{
    return s->worked || has_work(s);
}

unsigned branches_lack(const struct shape *shape, const struct stream *s)
{
    unsigned n = shape->paths > 1 ? queues_needed(shape, s, has_worked, true) : 0;
    return n > sim.connections ? n - sim.connections : 0;
}

/* The last operation that has not begun. */
static const struct op *last_waiting(const struct stream *s)
{
    const struct op *last = NULL;
    for (const struct op *op = s->head; op; op = op->next)
        if (op->queue)
            last = op;
    return last;
}

/* Each path has a queue of its own while there is one (H200, CUDA_DEVICE_MAX_CONNECTIONS). Which
   one it shares then is not known: here it is all of them. */
unsigned branches_behind(const struct exec *e, const struct stream *s, struct dep *deps)
{
    const struct op *op;
    const struct shape *shape = e->plan->shape;
    unsigned n = 0;
    if (shape->paths <= 1 ||
        queues_needed(shape, s, sim.deal ? keeps_queue : has_work, false) <= sim.connections)
        return 0;
    for (struct stream *t = s->ctx->streams; t; t = t->next_in_ctx)
        if (t != s && (op = last_waiting(t)))
            deps[n++] = (struct dep){.stream = t, .seq = op->seq};
    return n;
}

/* Nodes that execute, with those of child graphs. */
static unsigned count_nodes(const struct plan *p)
{
    unsigned n = 0;
    for (unsigned i = 0; i < p->shape->nnodes; i++)
        if (!p->nodes[i].disabled)
            n += p->nodes[i].work.kind == WORK_GRAPH ? count_nodes(p->nodes[i].work.graph.plan) : 1;
    return n;
}

void plan_execute(struct stream *s, struct work *launch)
{
    _Atomic unsigned unbegun = count_nodes(launch->graph.plan);
    s->graph_priority = launch->graph.priority;
    s->graph_stack = launch->graph.stack;
    if (unbegun == 0)
        stream_graph_begun(s);
    run_plan(s, launch->graph.plan, launch->graph.markers, 0, &unbegun,
             (uint64_t)stream_random(s) << 1 | 1);
}
