/* SPDX-License-Identifier: MIT */
/*
 * Threads that use the lanes of others, and threads that end.
 *
 * In TURNS the threads run at the same time, each with its lanes, as in PAR. Some lanes are
 * nobody's: the threads take turns to use these, one behind another, so what they do there has an
 * order.
 *
 * Whoever ends may leave work behind, of its own default stream too. Another thread goes on in its
 * place, and the work of that in the new thread's default stream comes behind.
 */
#include "world.h"

/* -- Turns ------------------------------------------------------------------------ */

struct part {
    const struct statement *turns, *own; /* own: what the thread does between its turns, or NULL */
};

static void turn_begin(struct world *w, unsigned number)
{
    pthread_mutex_lock(&w->lock);
    while (w->turn != number)
        pthread_cond_wait(&w->turned, &w->lock);
    pthread_mutex_unlock(&w->lock);
}

static void turn_end(struct world *w)
{
    pthread_mutex_lock(&w->lock);
    w->turn++;
    pthread_cond_broadcast(&w->turned);
    pthread_mutex_unlock(&w->lock);
}

static void take_part(struct thread *t, const void *of)
{
    const struct part *part = of;
    struct world *w = t->world;
    if (t->depth == MOST_DEPTH)
        return;
    t->depth++;
    for (int i = 0; i < part->turns->n; i++) {
        unsigned turn = (unsigned)(i * w->nthreads + t->index);
        t->trip[t->depth - 1] = i;
        if (part->own != NULL)
            run(t, part->own);
        turn_begin(w, turn);
        t->turn = true;
        run(t, part->turns->body); /* but for the ON blocks */
        t->turn = false;
        turn_end(w);
    }
    t->depth--;
}

static unsigned lane_bit(const struct world *w, int lane)
{
    bool handle = lane >= 0 && lane < w->nlanes && w->lane[lane].kind != LANE_PER_THREAD;
    return handle ? 1u << lane : 0;
}

void turns_run(struct thread *t, const struct statement *s)
{
    struct world *w = t->world;
    struct part part[MOST_THREADS];
    struct call call[MOST_THREADS] = {{0}};
    if (t->par || captures(t) != 0)
        return;
    for (int i = 0; i < w->nthreads; i++)
        part[i] = (struct part){s, NULL};
    for (const struct statement *on = s->body; on != NULL; on = on->next)
        if (on->kind == S_ON && on->thread >= 0 && on->thread < w->nthreads &&
            part[on->thread].own == NULL)
            part[on->thread].own = on->body;
    w->shared = lane_bit(w, s->lane) | lane_bit(w, s->other);
    w->turn = 0;
    for (int i = 0; i < w->nthreads; i++) {
        call[i] = (struct call){.job = take_part, .of = &part[i], .par = true};
        if (i != t->index)
            thread_begin(t, &call[i], i);
    }
    t->par = true;
    take_part(t, &part[t->index]);
    t->par = false;
    for (int i = 0; i < w->nthreads; i++)
        if (i != t->index)
            thread_end(t, &call[i]);
    w->shared = 0;
}

/* -- Threads that end --------------------------------------------------------------- */

/* What the lane has done in the default stream that goes is done before what it does from now on.
 */
static void before_end(struct thread *t, struct lane *l, int how)
{
    if (how == 0 || l->stray)
        order_wait(t, l, EDGE_HOST);
    else if (how == 1)
        order_record(t, l, l->left);
}

static void behind_end(struct thread *t, struct lane *l, int how)
{
    if (how == 1) {
        order_await(t, l, l->left);
    } else if (how == 2) {
        world_enter(t, l->context);
        MUST(t, l->api->cuCtxSynchronize());
    }
}

static bool lives_in(const struct lane *l, int thread)
{
    return l->kind == LANE_PER_THREAD && l->thread == thread;
}

void leave_run(struct thread *t, const struct statement *s)
{
    struct world *w = t->world;
    int index = s->thread - 1;
    if (t->par || captures(t) != 0 || index < 0 || index > w->nthreads ||
        thread_is_busy(&w->thread[index]))
        return;
    t->statement = s;
    for (struct lane *l = w->lane; l < w->lane + w->nlanes; l++)
        if (lives_in(l, index))
            before_end(t, l, s->how);
    thread_renew(&w->thread[index], s->mode != 1);
    for (struct lane *l = w->lane; l < w->lane + w->nlanes; l++)
        if (lives_in(l, index))
            behind_end(t, l, s->how);
}
