/* SPDX-License-Identifier: MIT */
/* Pauses of the host, and the times of events. */
#include "world.h"

#include <time.h>

void host_pauses(int us)
{
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - start.tv_sec) * 1000000L + (now.tv_nsec - start.tv_nsec) / 1000 < us);
}

/* Only an error becomes part of the result: how often it is tried depends on chance. */
static void works(struct thread *t, CUresult result, const char *what)
{
    if (result != CUDA_SUCCESS)
        must_succeed(t, result, what);
}

static void stamp(struct thread *t, struct lane *l, int which)
{
    works(t, l->api->cuEventRecord(l->stamp[which], l->stream), "record of a time");
}

/* What it writes is no result. */
static void some_kernel(struct thread *t, struct lane *l)
{
    works(t, word_launch(l, l->context->set, word_address(l, WORD_TIME), 1), "kernel of a time");
}

static float time_between(struct thread *t, struct lane *l, const struct statement *s)
{
    float ms = 0;
    stamp(t, l, 0);
    if (s->how & 1)
        some_kernel(t, l);
    nanosleep(&(struct timespec){.tv_nsec = s->n * 1000L}, NULL); /* other threads' CPU, too */
    if (s->how & 2)
        some_kernel(t, l);
    stamp(t, l, 1);
    works(t, l->api->cuEventSynchronize(l->stamp[1]), "wait for a time");
    works(t, l->api->cuStreamSynchronize(l->stream), "wait behind a time");
    works(t, l->api->cuEventElapsedTime(&ms, l->stamp[0], l->stamp[1]), "cuEventElapsedTime");
    return ms;
}

/* Whether the times that are long enough come to outnumber the others. */
static bool has_pauses(struct thread *t, struct lane *l, const struct statement *s)
{
    enum { TIMES = 60 };
    int more = 0;
    for (int i = 0; i < TIMES && more <= 0; i++)
        more += time_between(t, l, s) >= (float)s->n * .9e-3F ? 1 : -1;
    return more > 0;
}

/* Where others use the machine or the device, that may be late with the first event, which makes
   the time shorter. If it is so half of the time, one round in ten has too few that are long
   enough. Where other threads give a GPU work meanwhile it may be so nearly each time. */
void time_run(struct thread *t, struct lane *l, const struct statement *s)
{
    enum { ROUNDS = 5 };
    bool has = false;
    if (captures(t) != 0 || (t->par && t->world->par_captures))
        return;
    t->world->ops++;
    for (int i = 0; i < ROUNDS && !has; i++)
        has = has_pauses(t, l, s);
    if (!has && !(t->world->gpu && t->par))
        must_succeed(t, CUDA_ERROR_TIMEOUT, "the time of a pause is shorter than the pause");
}
