/* SPDX-License-Identifier: MIT */
/*
 * Forks: a lane's work goes on in branches, which wait for an event of it, and are joined by events
 * of their own.
 *
 * Values pass through memory of the lane that forks (the gift) and of the branches (out, a place
 * for each lane). The gift is written again once the branches that read it are joined; a branch
 * that never is gets a slot that is written once.
 */
#include "world.h"

enum { MOST_PARTS = 16, BYTES = BUFFER_WORDS * sizeof(uint32_t) };

/* A statement in a fork's block: a branch, or anything else. */
struct part {
    const struct statement *s;
    const struct statement *at; /* of a branch: what comes next */
    struct lane *from, *lane;   /* lane: of a branch, else NULL */
    CUdeviceptr gift;           /* 0: none */
};

/* -- A lane's own ------------------------------------------------------------ */

void fork_make(struct thread *t, struct lane *l)
{
    const size_t size = (1 + MOST_LANES) * (size_t)BYTES;
    unsigned flags = l->index % 4 == 3 ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING;
    MUST(t, l->api->cuEventCreate(&l->fork.event, flags));
    MUST(t, l->api->cuEventCreate(&l->fork.join, flags));
    MUST(t, l->api->cuMemAlloc(&l->fork.gift, size));
    MUST(t, l->sync->cuMemsetD8(l->fork.gift, 1, size));
    l->fork.out = l->fork.gift + BYTES;
    l->fork.open = false;
    l->fork.late = l->fork.owed = 0;
    for (struct lane *other = t->world->lane; other < t->world->lane + t->world->nlanes; other++) {
        other->fork.late &= ~(1u << l->index);
        other->fork.owed &= ~(1u << l->index);
    }
}

void fork_free(struct thread *t, struct lane *l)
{
    MUST(t, l->api->cuEventDestroy(l->fork.event));
    MUST(t, l->api->cuEventDestroy(l->fork.join));
    MUST(t, l->api->cuMemFree(l->fork.gift));
}

/* -- Values ------------------------------------------------------------------- */

struct hand {
    struct lane *lane;
    CUdeviceptr dst, src;
    uint32_t k;
    bool copies; /* since nothing is at dst yet */
};

static void hand_job(struct thread *t, const void *of)
{
    const struct hand *h = of;
    CUdeviceptr dst = h->dst, src = h->src;
    uint32_t n = BUFFER_WORDS, k = h->k;
    void *params[] = {&dst, &src, &n, &k};
    world_enter(t, h->lane->context);
    t->world->ops++;
    if (h->copies)
        MUST(t, h->lane->api->cuMemcpyDtoDAsync(dst, src, BYTES, h->lane->stream));
    else
        MUST(t, h->lane->api->cuLaunchKernel(h->lane->context->fork, 1, 1, 1, 1, 1, 1, 0,
                                             h->lane->stream, params, NULL));
}

static void hand(struct thread *t, const struct hand *h)
{
    bool owner = h->lane->kind == LANE_PER_THREAD;
    thread_call(t, owner ? h->lane->thread : t->index, hand_job, h);
}

/* The lane folds what is at src into dst. */
static void hand_on(struct thread *t, struct lane *l, CUdeviceptr dst, CUdeviceptr src, uint32_t k)
{
    hand(t, &(struct hand){l, dst, src, k, false});
}

static CUdeviceptr out_of(const struct lane *branch, const struct lane *to)
{
    return branch->fork.out + (CUdeviceptr)to->index * BYTES;
}

/* -- Branches ------------------------------------------------------------------ */

static void begin_job(struct thread *t, const void *of)
{
    const struct part *p = of;
    struct lane *l = p->lane;
    t->away = 0;
    order_await(t, l, p->from->fork.event);
    if (p->gift != 0)
        hand_on(t, l, l->state, p->gift, op_value(t, l, p->s));
}

static void end_job(struct thread *t, const void *of)
{
    const struct part *p = of;
    struct lane *l = p->lane;
    t->away = 0;
    if (p->s->mode != 1 && l->context == p->from->context)
        hand_on(t, l, out_of(l, p->from), l->state, op_value(t, l, p->s));
    order_record(t, l, l->fork.join);
}

/* By the thread that the branch names. */
static void by_its_thread(struct thread *t, const struct part *p,
                          void (*job)(struct thread *, const void *))
{
    int thread = p->s->thread;
    bool other = thread > 0 && thread <= t->world->nthreads && !t->par;
    thread_call(t, other ? thread - 1 : t->index, job, p);
}

static void begin(struct thread *t, const struct part *p, int twist)
{
    if (p->lane == NULL)
        return;
    by_its_thread(t, p, begin_job);
    if (twist == TWIST_JOIN_TWICE)
        order_record(t, p->lane, p->lane->fork.join);
}

static void join(struct thread *t, struct lane *to, struct lane *branch, bool gives)
{
    order_await(t, to, branch->fork.join);
    if (gives && to->context == branch->context)
        hand_on(t, to, to->state, out_of(branch, to), (uint32_t)branch->index);
}

static void end(struct thread *t, const struct part *p)
{
    if (p->lane == NULL || p->s->how == JOIN_NEVER)
        return;
    by_its_thread(t, p, end_job);
    if (p->s->how == JOIN_LATE) {
        p->from->fork.late |= 1u << p->lane->index;
        p->from->fork.owed |= (unsigned)(p->s->mode != 1) << p->lane->index;
    }
}

static void join_late(struct thread *t, struct lane *from)
{
    unsigned late = from->fork.late, owed = from->fork.owed;
    from->fork.late = from->fork.owed = 0;
    for (int i = 0; i < t->world->nlanes; i++)
        if (late >> i & 1)
            join(t, from, &t->world->lane[i], owed >> i & 1);
}

/* -- Forks ---------------------------------------------------------------------- */

static void ask(struct thread *t, CUresult result, const char *what)
{
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY) /* which one depends on chance */
        must_succeed(t, result, what);
}

static void twist(struct thread *t, struct lane *from, const struct part *part, int parts, int how)
{
    const struct api *call = from->api;
    if (t->par && t->world->par_captures)
        return;
    world_enter(t, from->context);
    if (how == TWIST_QUERY) {
        ask(t, call->cuEventQuery(from->fork.event), "cuEventQuery");
    } else if (how == TWIST_SYNCHRONIZE) {
        MUST(t, call->cuEventSynchronize(from->fork.event));
    } else if (how == TWIST_STREAM) {
        for (int i = 0; i < parts; i++)
            if (part[i].lane != NULL && part[i].lane->kind != LANE_PER_THREAD &&
                part[i].lane->context == from->context)
                ask(t, call->cuStreamQuery(part[i].lane->stream), "cuStreamQuery");
    }
}

/* Behind all waits for it. */
static void renew(struct thread *t, struct lane *from)
{
    if (t->par && t->world->par_captures)
        return;
    world_enter(t, from->context);
    MUST(t, from->api->cuEventDestroy(from->fork.event));
    MUST(t, from->api->cuEventCreate(&from->fork.event, CU_EVENT_DISABLE_TIMING));
}

static int parts_of(struct thread *t, struct lane *from, const struct statement *s,
                    struct part *part)
{
    struct world *w = t->world;
    int n = 0;
    for (const struct statement *one = s->body; one != NULL && n < MOST_PARTS; one = one->next) {
        struct lane *l = NULL;
        if (one->kind == S_BRANCH) {
            if (one->lane < 0 || one->lane >= w->nlanes || &w->lane[one->lane] == from ||
                !may_use(t, &w->lane[one->lane]))
                continue;
            l = &w->lane[one->lane];
        }
        part[n++] = (struct part){one, one->body, from, l, 0};
    }
    return n;
}

/* The lane gives its values, and records its event. */
static void give(struct thread *t, struct lane *from, const struct statement *s, struct part *part,
                 int parts)
{
    bool never = false;
    for (int i = 0; i < parts; i++)
        never |= part[i].lane != NULL && part[i].s->how == JOIN_NEVER;
    bool slot = never && from->slots_used < SLOTS;
    CUdeviceptr gift = from->fork.gift;
    if (slot)
        gift = from->slots + (CUdeviceptr)from->slots_used++ * BYTES;
    if (s->n == TWIST_TWICE)
        order_record(t, from, from->fork.event);
    if (s->mode != 1) {
        hand(t, &(struct hand){from, gift, from->state, op_value(t, from, s), slot});
        for (int i = 0; i < parts; i++)
            if (part[i].lane != NULL && part[i].lane->context == from->context &&
                (slot || part[i].s->how != JOIN_NEVER))
                part[i].gift = gift;
    }
    order_record(t, from, from->fork.event);
}

static void run_alone(struct thread *t, const struct statement *s)
{
    struct statement alone = *s;
    alone.next = NULL;
    run(t, &alone);
}

/* One statement of the part; false: there is none left. */
static bool run_next(struct thread *t, struct part *p)
{
    const struct statement *s = p->lane != NULL ? p->at : p->s;
    if (s == NULL)
        return false;
    if (p->lane != NULL)
        p->at = s->next;
    else
        p->s = NULL;
    run_alone(t, s);
    return true;
}

static void run_parts(struct thread *t, struct lane *from, const struct statement *s,
                      struct part *part, int parts)
{
    bool in_turn = s->how == 1, any = true;
    for (int i = 0; i < parts; i++) {
        begin(t, &part[i], s->n);
        while (!in_turn && run_next(t, &part[i]))
            continue;
        if (!in_turn)
            end(t, &part[i]);
        if (i == (in_turn ? parts - 1 : 0))
            twist(t, from, part, parts, s->n);
    }
    if (s->n == TWIST_RENEW)
        renew(t, from);
    while (in_turn && any) {
        any = false;
        for (int i = 0; i < parts; i++)
            any |= run_next(t, &part[i]);
    }
    for (int i = 0; in_turn && i < parts; i++)
        end(t, &part[i]);
}

void fork_run(struct thread *t, const struct statement *s)
{
    struct world *w = t->world;
    struct part part[MOST_PARTS];
    if (s->lane < 0 || s->lane >= w->nlanes || captures(t) != 0)
        return;
    struct lane *from = &w->lane[s->lane];
    if (!may_use(t, from) || from->fork.open)
        return;
    int parts = parts_of(t, from, s, part);
    t->statement = s;
    t->away = 0;
    from->fork.open = true;
    if (!t->par)
        w->forks++;
    join_late(t, from);
    give(t, from, s, part, parts);
    run_parts(t, from, s, part, parts);
    t->statement = s;
    t->away = 0;
    for (int i = 0; i < parts; i++)
        if (part[i].lane != NULL && part[i].s->how == JOIN_NOW)
            join(t, from, part[i].lane, part[i].s->mode != 1);
    from->fork.open = false;
    if (!t->par)
        w->forks--;
}
