/* SPDX-License-Identifier: MIT */
/* live_branch.c SCENARIO [one|brief|legacy]: streams that fork and join, and who looks at their
 * events and uses the streams in the middle. Prints what came out, which is the same with the
 * library as without it. */
#define _GNU_SOURCE
#include "live_fork.h"

/* -- Who looks at events --------------------------------------------------------- */

static CUstream looker;

static void until_passed(CUevent event, unsigned way, uint32_t value)
{
    CUresult got = CUDA_ERROR_NOT_READY;
    if (way == 2) { /* another stream waits for it, and lets the origin go on */
        OK(cuStreamWaitEvent(looker, event, 0));
        OK(launch_word(flag, word, value, looker));
        return;
    }
    while (way == 0 && got == CUDA_ERROR_NOT_READY)
        got = cuEventQuery(event);
    OK(way == 0 ? got : cuEventSynchronize(event));
    set_word(word, value);
}

/* The fork's event, one in the middle of a branch, and the join's event have passed before the
   origin's work behind the join, which spins until somebody has seen that. An event that only
   orders needs no record in a graph; one that somebody may still look at needs it at its place. */
static void watched(uint32_t step)
{
    const CUevent looked[] = {forked, middle, joined[0]};
    bool odd = is_odd(step);
    unsigned turn = step / EVERY;
    if (!odd)
        set_word(word, step + 1);
    begin(step);
    OK(launch_mix(buffer[1], N, step, branch[0]));
    OK(cuEventRecord(middle, branch[0]));
    work(0, step);
    work(1, step);
    end(step);
    OK(launch_word(spin, word, step + 1, origin));
    OK(launch_mix(buffer[0], N, step, origin));
    if (odd)
        until_passed(looked[turn % 3], turn / 3 % 3, step + 1);
    OK(cuStreamSynchronize(origin)); /* or the word would change too soon */
}

static void asked_behind(void)
{
    looker = made(CU_STREAM_NON_BLOCKING);
    steps(watched, watched);
}

/* The host sees that a branch has come to its middle, while the origin spins beside it. */
static void watched_in_the_middle(uint32_t step)
{
    begin(step);
    OK(launch_word(spin, word, step + 1, origin));
    work(0, step);
    OK(cuEventRecord(middle, branch[0]));
    until_passed(middle, step / EVERY % 2, step + 1);
    work(0, step);
    work(1, step);
    end(step);
}

static void asked_in_the_middle(void)
{
    steps(whole, watched_in_the_middle);
}

/* Only a kernel tells the host, which makes no call meanwhile; the fork is open. */
static void told(uint32_t step)
{
    begin(step);
    work(0, step);
    OK(launch_word(flag, word, step + 1, branch[0]));
    while (is_odd(step) && get_word(word) != step + 1)
        sched_yield();
    work(1, step);
    end(step);
}

static void host_spins(void)
{
    steps(told, told);
}

/* A pause of the host between two records of events with timing, in the middle of a branch. On a
   busy machine the device is late with the first one, so some steps more may have to tell. */
static CUevent stamp[2];
static unsigned paused, longer;

static void timed(uint32_t step)
{
    begin(step);
    OK(cuEventRecord(stamp[0], branch[0]));
    work(0, step);
    if (is_odd(step))
        usleep(4000);
    OK(cuEventRecord(stamp[1], branch[0]));
    work(1, step);
    end(step);
    if (is_odd(step)) {
        float ms;
        OK(cuStreamSynchronize(origin));
        OK(cuEventElapsedTime(&ms, stamp[0], stamp[1]));
        paused++;
        longer += ms > 2.0F;
    }
}

static void timed_events(void)
{
    for (unsigned i = 0; i < 2; i++)
        stamp[i] = new_event(CU_EVENT_DEFAULT);
    joined[0] = new_event(CU_EVENT_DEFAULT);
    steps(timed, timed);
    while (2 * longer <= paused && paused < 60)
        timed(ROUNDS - 1);
    printf("%s the pause\n", 2 * longer > paused ? "as long as" : "shorter than");
}

/* -- Who uses the streams --------------------------------------------------------- */

/* Another thread does it, and this one waits. */
static void elsewhere(void *(*what)(void *), uint32_t step)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, what, (void *)(uintptr_t)step) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

/* Work of another thread in a branch's stream keeps its place there. */
static void *mixes(void *arg)
{
    OK(cuCtxSetCurrent(ctx));
    OK(launch_mix(buffer[1], N, (uint32_t)(uintptr_t)arg, branch[0]));
    return NULL;
}

/* It waits for a branch's stream, and sees the work that is there. */
static void *waits(void *arg)
{
    OK(cuCtxSetCurrent(ctx));
    OK(cuStreamSynchronize(branch[0]));
    CHECK(get_word(word) == (uint32_t)(uintptr_t)arg + 1);
    return NULL;
}

static void shared(uint32_t step)
{
    begin(step);
    work(0, step);
    OK(launch_word(flag, word, step + 1, branch[0]));
    elsewhere(step / EVERY % 2 ? mixes : waits, step);
    work(0, step);
    work(1, step);
    end(step);
}

static void other_thread(void)
{
    steps(whole, shared);
}

static void *joins(void *arg)
{
    OK(cuCtxSetCurrent(ctx));
    end((uint32_t)(uintptr_t)arg);
    return NULL;
}

static void joined_there(uint32_t step)
{
    begin(step);
    work(0, step);
    work(1, step);
    elsewhere(joins, step);
}

static void joined_elsewhere(void)
{
    steps(whole, joined_there);
}

/* A kernel in the legacy stream comes between two of a branch, and so does a blocking copy. */
static void with_legacy(uint32_t step)
{
    begin(step);
    work(0, step);
    OK(launch_mix(buffer[1], N, step, CU_STREAM_LEGACY));
    work(0, step);
    if (step / EVERY % 2)
        show("legacy", buffer[1]);
    work(1, step);
    end(step);
}

static void legacy_between(void)
{
    make_streams(CU_STREAM_DEFAULT);
    steps(whole, with_legacy);
}

/* Each kernel has the priority of the stream that the program launched it in. */
static void priorities(void)
{
    int least, greatest;
    OK(cuCtxGetStreamPriorityRange(&least, &greatest));
    OK(cuStreamCreateWithPriority(&branch[1], CU_STREAM_NON_BLOCKING, greatest));
    steps(whole, whole);
}

/* -- What ends and begins ----------------------------------------------------------- */

/* Events and streams go as soon as CUDA allows it. */
static void passing(uint32_t step)
{
    begin(step);
    OK(cuEventDestroy(forked));
    forked = new_event(CU_EVENT_DISABLE_TIMING);
    work(0, step);
    work(1, step);
    OK(cuEventRecord(joined[0], branch[0]));
    OK(cuStreamDestroy(branch[0]));
    OK(cuStreamWaitEvent(origin, joined[0], 0));
    OK(cuEventDestroy(joined[0]));
    joined[0] = new_event(CU_EVENT_DISABLE_TIMING);
    branch[0] = made(CU_STREAM_NON_BLOCKING);
    join(1);
    give(0);
    give(1);
}

static void destroyed(void)
{
    steps(whole, passing);
}

/* The work may be cut off, as it may without the library; the process must end. */
static void leaving(uint32_t step)
{
    begin(step);
    work(0, step);
    if (step > ROUNDS / 2) {
        printf("leaves\n");
        exit(7);
    }
    work(1, step);
    end(step);
}

static void leaves(void)
{
    steps(whole, leaving);
}

static void capture_in(CUstream s, CUdeviceptr at, uint32_t step)
{
    CUgraph graph;
    CUgraphExec exec;
    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(launch_mix(at, N, step, s));
    OK(cuStreamEndCapture(s, &graph));
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphLaunch(exec, s));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
}

/* Another stream is captured while the fork is open, or a branch's, between two of its ops. */
static void captured(uint32_t step)
{
    begin(step);
    work(0, step);
    if (step / EVERY % 2)
        capture_in(branch[0], buffer[1], step);
    else
        capture_in(looker, extra, step);
    work(0, step);
    work(1, step);
    end(step);
}

static void captures(void)
{
    looker = made(CU_STREAM_NON_BLOCKING);
    steps(whole, captured);
    OK(cuStreamSynchronize(looker));
    show("captured", extra);
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {{"asked_behind", asked_behind},
                                          {"asked_in_the_middle", asked_in_the_middle},
                                          {"host_spins", host_spins},
                                          {"timed_events", timed_events},
                                          {"other_thread", other_thread},
                                          {"joined_elsewhere", joined_elsewhere},
                                          {"legacy_between", legacy_between},
                                          {"priorities", priorities},
                                          {"destroyed", destroyed},
                                          {"leaves", leaves},
                                          {"captures", captures},
                                          {NULL, NULL}};
    return run_fork(all, argc, argv);
}
