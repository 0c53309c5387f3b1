/* SPDX-License-Identifier: MIT */
/*
 * live_fork.h: streams that fork and join by events in each step. In some steps something else
 * happens, or kernels wait for others.
 *
 * Each scenario says what it guards: a step may become one graph over several streams only where
 * neither a wait nor an order comes with it that the program did not ask for.
 */
#ifndef LIVE_FORK_H
#define LIVE_FORK_H

#include "live.h"

enum { BRANCHES = 2, PART = 8, ROUNDS = 120, FROM = 40, EVERY = 8, TOGETHER = 4, SECONDS = 40 };

static CUstream origin, branch[BRANCHES];
static CUevent forked, joined[BRANCHES], middle;
static CUdeviceptr extra;       /* memory that no regular step uses */
static volatile uint32_t *word; /* of pinned memory */

/* -- A step ------------------------------------------------------------------ */

static CUevent new_event(unsigned flags)
{
    CUevent event;
    OK(cuEventCreate(&event, flags));
    return event;
}

static void copy(CUdeviceptr dst, CUdeviceptr src, uint32_t n, CUstream s)
{
    void *args[] = {&dst, &src, &n};
    OK(cuLaunchKernel(word_copy, 1, 1, 1, N, 1, 1, 0, s, args, NULL));
}

/* The event for a fork or a join: each has its own, or all have one, or they are new each time and
   destroyed once they have been waited for. */
static enum { EACH, ONE, BRIEF } events;

/* The origin is the legacy stream. */
static bool legacy;

static CUevent lent(CUevent own)
{
    CUevent event = events == ONE ? forked : own;
    return events == BRIEF ? new_event(CU_EVENT_DISABLE_TIMING) : event;
}

static void give_back(CUevent event)
{
    if (events == BRIEF)
        OK(cuEventDestroy(event));
}

/* The branches wait for the origin, */
static void fork_all(void)
{
    CUevent event = lent(forked);
    OK(cuEventRecord(event, origin));
    for (unsigned i = 0; i < BRANCHES; i++)
        OK(cuStreamWaitEvent(branch[i], event, 0));
    give_back(event);
}

/* take its values, */
static void take(unsigned i)
{
    copy(buffer[1 + i], buffer[0], N, branch[i]);
}

static void work(unsigned i, uint32_t step)
{
    OK(launch_mix(buffer[1 + i], N, step, branch[i]));
    OK(launch_mix(buffer[1 + i], N, i, branch[i]));
}

/* are waited for, */
static void join(unsigned i)
{
    CUevent event = lent(joined[i]);
    OK(cuEventRecord(event, branch[i]));
    OK(cuStreamWaitEvent(origin, event, 0));
    give_back(event);
}

/* and give some values back, once no branch reads the origin's any more. */
static void give(unsigned i)
{
    copy(buffer[0] + 4 * PART * i, buffer[1 + i] + 4 * PART * i, PART, origin);
}

static void begin(uint32_t step)
{
    OK(launch_mix(buffer[0], N, step, origin));
    fork_all();
    for (unsigned i = 0; i < BRANCHES; i++)
        take(i);
}

static void end(uint32_t step)
{
    for (unsigned i = 0; i < BRANCHES; i++)
        join(i);
    for (unsigned i = 0; i < BRANCHES; i++)
        give(i);
    OK(launch_mix(buffer[0], N, step, origin));
}

static inline void whole(uint32_t step)
{
    begin(step);
    for (unsigned i = 0; i < BRANCHES; i++)
        work(i, step);
    OK(launch_mix(buffer[3], N, step, origin)); /* beside them */
    end(step);
}

static inline bool is_odd(uint32_t step)
{
    return step >= FROM && step % EVERY == EVERY - 1;
}

/* Regular steps until a graph would have been made of them, and odd ones in between then. */
static void steps(void (*regular)(uint32_t), void (*odd)(uint32_t))
{
    for (uint32_t step = 0; step < ROUNDS; step++) {
        (is_odd(step) ? odd : regular)(step);
        if (step % TOGETHER == TOGETHER - 1)
            OK(cuStreamSynchronize(origin));
    }
    show_all("fork");
}

static void make_streams(unsigned flags)
{
    origin = legacy ? NULL : made(flags);
    for (unsigned i = 0; i < BRANCHES; i++)
        branch[i] = made(flags);
}

/* -- All ------------------------------------------------------------------------------- */

static void (*chosen)(void);

static void prepared(void)
{
    alarm(SECONDS);
    word = host_words(4);
    OK(cuMemAlloc(&extra, 4 * N));
    OK(cuMemsetD32(extra, 1, N));
    OK(cuCtxSynchronize()); /* these streams do not wait for the legacy one */
    make_streams(CU_STREAM_NON_BLOCKING);
    forked = new_event(CU_EVENT_DISABLE_TIMING);
    middle = new_event(CU_EVENT_DISABLE_TIMING);
    for (unsigned i = 0; i < BRANCHES; i++)
        joined[i] = new_event(CU_EVENT_DISABLE_TIMING);
    /* Loading a kernel waits for those that run. */
    OK(launch_word(flag, word, 0, origin));
    OK(launch_word(spin, word, 0, origin));
    copy(extra, extra, 1, origin);
    OK(cuCtxSynchronize());
    chosen();
}

/* The scenario that argv[1] names, with what argv[2] does. */
static int run_fork(const struct scenario *scenario, int argc, char **argv)
{
    const char *word = argc > 2 ? argv[2] : "";
    events = strcmp(word, "one") == 0 ? ONE : strcmp(word, "brief") == 0 ? BRIEF : EACH;
    legacy = strcmp(word, "legacy") == 0;
    CHECK(argc == 2 || argc == 3);
    while (scenario->name && strcmp(scenario->name, argv[1]))
        scenario++;
    CHECK(scenario->name);
    chosen = scenario->run;
    run((const struct scenario[]){{argv[1], prepared}, {NULL, NULL}}, 2, argv);
    return 0;
}

#endif
