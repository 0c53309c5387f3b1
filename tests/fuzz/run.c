/* SPDX-License-Identifier: MIT */
/* Running a list of statements: loops, threads, and which lane may do what when. */
#include "world.h"

#include <string.h>

static void run_job(struct thread *t, const void *list)
{
    run(t, list);
}

/* -- Blocks --------------------------------------------------------------- */

static void loop(struct thread *t, const struct statement *s)
{
    int outer = t->depth > 0 ? t->trip[t->depth - 1] : 0;
    int trips = s->n + (s->more > 0 ? outer % (s->more + 1) : 0);
    if (t->depth == MOST_DEPTH)
        return;
    t->depth++;
    for (int i = 0; i < trips; i++) {
        t->trip[t->depth - 1] = i;
        run(t, s->body);
    }
    t->depth--;
}

static bool holds(const struct thread *t, const struct statement *s)
{
    int trip = t->depth > 0 ? t->trip[t->depth - 1] : 0, n = s->n < 1 ? 1 : s->n;
    if (s->how == 1)
        return hash_mix((uint64_t)trip, (uint64_t)s->k) % (unsigned)n == 0;
    return trip % n == s->k % n;
}

static void par(struct thread *t, const struct statement *s)
{
    struct world *w = t->world;
    struct call call[MOST_THREADS] = {{0}};
    const struct statement *mine = NULL;
    if (t->par || captures(t) != 0)
        return;
    for (const struct statement *on = s->body; on != NULL; on = on->next) {
        if (on->kind != S_ON || on->thread >= w->nthreads || on->thread < 0)
            continue;
        if (on->thread == t->index && mine == NULL)
            mine = on;
        else if (on->thread != t->index && call[on->thread].job == NULL)
            call[on->thread] = (struct call){.job = run_job, .of = on->body, .par = true};
    }
    for (int i = 0; i < w->nthreads; i++)
        if (call[i].job != NULL)
            thread_begin(t, &call[i], i);
    t->par = true;
    if (mine != NULL)
        run(t, mine->body);
    t->par = false;
    for (int i = 0; i < w->nthreads; i++)
        if (call[i].job != NULL)
            thread_end(t, &call[i]);
}

static void temp(struct thread *t, struct lane *l, const struct statement *s)
{
    const size_t bytes = BUFFER_WORDS * 4;
    const struct api *call = l->api;
    bool nested = l->temp != 0 || l->capturing;
    unsigned generation = l->context->generation;
    CUresult result = CUDA_ERROR_UNKNOWN;
    if (!nested) {
        result = s->how == 1 ? call->cuMemAlloc(&l->temp, bytes)
                             : call->cuMemAllocAsync(&l->temp, bytes, l->stream);
        must_succeed(t, result, "allocation");
        if (result == CUDA_SUCCESS)
            MUST(t, call->cuMemsetD32Async(l->temp, op_value(t, l, s), BUFFER_WORDS, l->stream));
        else
            l->temp = 0;
    }
    run(t, s->body);
    if (nested || l->temp == 0 || generation != l->context->generation)
        return;
    world_enter(t, l->context);
    if (s->how == 2) /* cuMemFree does not wait for those who use stream-ordered memory */
        order_wait(t, l, EDGE_HOST);
    if (s->how == 0)
        MUST(t, call->cuMemFreeAsync(l->temp, l->stream));
    else
        MUST(t, call->cuMemFree(l->temp));
    l->temp = 0;
}

/* -- Lanes ---------------------------------------------------------------- */

/* Whether it names the lane's stream, and nothing else that depends on the current context. */
static bool may_be_away(const struct statement *s)
{
    return s->kind == S_KERNEL || (s->kind == S_MEMSET && s->how != 2) ||
           (s->kind == S_COPY && s->how < COPY_DTOD_SYNC) || s->kind == S_VALUE ||
           s->kind == S_HOST || s->kind == S_EXCHANGE || s->kind == S_PASS || s->kind == S_SYNC;
}

static void lane_statement(struct thread *t, const void *of)
{
    const struct statement *s = of;
    struct world *w = t->world;
    struct lane *l = &w->lane[s->lane];
    t->statement = s;
    t->away = may_be_away(s) ? s->away : 0;
    lane_enter(t, l);
    switch (s->kind) {
    case S_TEMP:
        temp(t, l, s);
        break;
    case S_CAPTURE:
    case S_REPLAY:
    case S_GRAPH:
        graph_run(t, l, s);
        break;
    case S_TIME:
        time_run(t, l, s);
        break;
    case S_WATCH:
        watch_run(t, l, s);
        break;
    case S_GATE:
        gate_run(t, l, s);
        break;
    case S_FILL:
        fill_run(t, l, s);
        break;
    case S_EXCHANGE:
    case S_PASS:
    case S_SYNC:
    case S_READ:
    case S_POKE:
    case S_SPIN:
    case S_RENEW:
        order_run(t, l, s);
        break;
    default:
        op_run(t, l, s);
    }
}

/*
 * In PAR a thread has its own lanes only, and while the program captures a lane, the others see
 * nothing but ops: all else would depend on the capture's mode, or on chance.
 */
static void on_lane(struct thread *t, const struct statement *s)
{
    const struct world *w = t->world;
    if (s->lane < 0 || s->lane >= w->nlanes)
        return;
    const struct lane *l = &w->lane[s->lane];
    if (!may_use(t, l))
        return;
    if (captures(t) != 0 && !l->capturing && s->kind != S_KERNEL && s->kind != S_MEMSET &&
        s->kind != S_EXCHANGE)
        return;
    bool owner = l->kind == LANE_PER_THREAD && s->kind != S_EXCHANGE && s->kind != S_PASS;
    int thread = owner ? l->thread : t->index;
    if (!owner && !t->par && s->thread > 0 && s->thread <= w->nthreads && captures(t) == 0)
        thread = s->thread - 1;
    thread_call(t, thread, lane_statement, s);
}

void run(struct thread *t, const struct statement *list)
{
    struct world *w = t->world;
    for (const struct statement *s = list; s != NULL; s = s->next) {
        switch (s->kind) {
        case S_LOOP:
            loop(t, s);
            break;
        case S_IF:
            if (holds(t, s))
                run(t, s->body);
            break;
        case S_ON:
            if (!t->par && s->thread >= 0 && s->thread < w->nthreads)
                thread_call(t, s->thread, run_job, s->body);
            break;
        case S_PAR:
            par(t, s);
            break;
        case S_TURNS:
            turns_run(t, s);
            break;
        case S_LEAVE:
            leave_run(t, s);
            break;
        case S_FORK:
            fork_run(t, s);
            break;
        case S_BRANCH: /* of no fork */
            run(t, s->body);
            break;
        case S_PAUSE:
            host_pauses(s->n);
            break;
        case S_RESET:
            if (!t->par && captures(t) == 0 && w->forks == 0)
                context_reset(t, s->n, s->how);
            break;
        default:
            on_lane(t, s);
        }
    }
}
