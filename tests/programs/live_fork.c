/* SPDX-License-Identifier: MIT */
/* live_fork.c SCENARIO [one|brief|legacy]: streams that fork and join, and kernels that wait for
 * kernels or for the host. Prints what came out, which is the same with the library as without it.
 */
#define _GNU_SOURCE
#include "live_fork.h"

/* -- Kernels that wait for kernels --------------------------------------------- */

/* Each of two branches and the origin waits for a kernel that is launched later in another one. So
   the branches of a graph would have to run side by side, as streams do. */
static void across(uint32_t step)
{
    uint32_t now = step + 1;
    begin(step);
    OK(launch_word(spin, word, now, branch[0]));
    OK(launch_word(flag, word, now, branch[1]));
    OK(launch_word(spin, word + 1, now, branch[1]));
    OK(launch_word(spin, word + 2, now, origin));
    OK(launch_word(flag, word + 1, now, branch[0]));
    work(0, step);
    work(1, step);
    OK(launch_word(flag, word + 2, now, branch[0]));
    end(step);
}

static void spins_across(void)
{
    steps(across, across);
}

/* No kernel waits for one that is launched later, so this ends in a single queue of the device. A
   graph's branches need more than one. */
static void in_order(uint32_t step)
{
    uint32_t now = step + 1;
    begin(step);
    work(1, step);
    OK(launch_word(flag, word, now, branch[1]));
    OK(launch_word(spin, word, now, branch[0]));
    OK(launch_word(flag, word + 1, now, branch[0]));
    OK(launch_word(spin, word + 1, now, branch[1]));
    work(0, step);
    end(step);
}

static void spins_in_order(void)
{
    steps(in_order, in_order);
}

/* The branch's own work before the fork is not ordered before the origin. It spins until a kernel
   of the origin behind the fork: the origin must not wait for the branch first. */
static void before_spins(uint32_t step)
{
    OK(launch_word(spin, word, step + 1, branch[0]));
    begin(step);
    OK(launch_word(flag, word, step + 1, origin));
    work(0, step);
    work(1, step);
    end(step);
}

static void own_work_spins(void)
{
    steps(whole, before_spins);
}

/* Nor may what the branch does behind the fork pass its own work ahead, which lasts until the host
   has issued all. */
static void before_lasts(uint32_t step)
{
    OK(cuStreamSynchronize(origin));
    OK(launch_word(spin, word, step + 1, branch[0]));
    OK(launch_mix(buffer[1], N, step, branch[0]));
    OK(launch_mix(buffer[2], N, step, branch[1]));
    whole(step);
    usleep(2000);
    set_word(word, step + 1);
}

static void own_work_before(void)
{
    steps(whole, before_lasts);
}

/* Behind the join the origin spins until the branch's later work, which must not wait for the
   origin. The branch is given that behind the spinning kernel, or ahead of it. */
static void later(uint32_t step)
{
    bool ahead = step % 2;
    whole(step);
    if (ahead)
        OK(launch_word(flag, word, step + 1, branch[0]));
    OK(launch_word(spin, word, step + 1, origin));
    if (!ahead)
        OK(launch_word(flag, word, step + 1, branch[0]));
    OK(launch_mix(buffer[0], N, step, origin));
}

static void later_work(void)
{
    steps(later, later);
}

/* The first branch spins until later work of the second one, which must wait for its own branch
   alone. */
static void beside(uint32_t step)
{
    bool odd = is_odd(step);
    if (!odd)
        set_word(word, step + 1);
    begin(step);
    OK(launch_word(spin, word, step + 1, branch[0]));
    work(0, step);
    work(1, step);
    end(step);
    if (odd)
        OK(launch_word(flag, word, step + 1, branch[1]));
    OK(cuStreamSynchronize(origin)); /* or the word would change too soon */
}

static void later_beside(void)
{
    steps(beside, beside);
}

/* A branch waits for a word that the origin writes later, beside it. */
static void words(uint32_t step)
{
    CUdeviceptr at = (CUdeviceptr)(uintptr_t)word;
    begin(step);
    OK(cuStreamWaitValue32(branch[0], at, step + 1, CU_STREAM_WAIT_VALUE_EQ));
    work(0, step);
    work(1, step);
    OK(launch_mix(buffer[3], N, step, origin));
    OK(cuStreamWriteValue32(origin, at, step + 1, CU_STREAM_WRITE_VALUE_DEFAULT));
    end(step);
}

static void words_across(void)
{
    steps(words, words);
}

static void CUDA_CB sets(void *value)
{
    set_word(word, (uint32_t)(uintptr_t)value);
}

/* The origin waits for a host function of a branch. */
static void function(uint32_t step)
{
    begin(step);
    OK(launch_word(spin, word, step + 1, origin));
    work(0, step);
    OK(cuLaunchHostFunc(branch[0], sets, (void *)(uintptr_t)(step + 1)));
    work(0, step);
    work(1, step);
    end(step);
}

static void host_function(void)
{
    steps(whole, function);
}

/* In its middle a branch waits for another stream, which goes on once the host has heard of the
   origin's kernel beside it: only that branch may wait, and not the fork as a whole. */
static CUstream outside;

static void awaiting(uint32_t step)
{
    bool odd = is_odd(step);
    if (!odd)
        set_word(word, step + 1);
    OK(launch_word(spin, word, step + 1, outside));
    OK(cuEventRecord(middle, outside));
    begin(step);
    work(0, step);
    OK(cuStreamWaitEvent(branch[1], middle, 0));
    work(1, step);
    OK(launch_word(flag, word + 1, step + 1, origin));
    end(step);
    while (odd && get_word(word + 1) != step + 1)
        sched_yield();
    set_word(word, step + 1);
    OK(cuStreamSynchronize(origin)); /* or the word would change too soon */
}

static void outside_event(void)
{
    outside = made(CU_STREAM_NON_BLOCKING);
    steps(awaiting, awaiting);
}

/* -- Branches that are not joined ----------------------------------------------- */

/* The second branch runs ahead: it is never joined, and its kernel spins until the host, which
   waits for the origin first. A graph with that branch in it would not end before. */
static void ahead(uint32_t step, CUstream waits)
{
    bool odd = is_odd(step);
    if (!odd)
        set_word(word, step + 1);
    OK(launch_mix(buffer[0], N, step, origin));
    fork_all();
    take(0);
    work(0, step);
    OK(launch_word(spin, word, step + 1, branch[1]));
    work(1, step);
    join(0);
    give(0);
    OK(launch_mix(buffer[0], N, step, origin));
    if (waits != origin)
        OK(launch_mix(buffer[3], N, step, waits));
    if (odd) {
        OK(cuStreamSynchronize(waits));
        set_word(word, step + 1);
    }
    OK(cuStreamSynchronize(branch[1])); /* or the word would change too soon */
}

static void ahead_of_origin(uint32_t step)
{
    ahead(step, origin);
}

static void runs_ahead(void)
{
    steps(ahead_of_origin, ahead_of_origin);
}

/* The host waits for the legacy stream, which waits for the origin but not for that branch. */
static void ahead_of_legacy(uint32_t step)
{
    ahead(step, CU_STREAM_LEGACY);
}

static void legacy_beside(void)
{
    origin = made(CU_STREAM_DEFAULT);
    branch[0] = made(CU_STREAM_DEFAULT);
    steps(ahead_of_legacy, ahead_of_legacy);
}

/* A branch is joined in the next step. The host sees what it has, and not the origin. */
static void late(uint32_t step)
{
    if (step > 0) {
        OK(cuStreamWaitEvent(origin, joined[1], 0));
        give(1);
    }
    OK(launch_mix(buffer[0], N, step, origin));
    fork_all();
    take(0);
    work(0, step);
    work(1, step);
    join(0);
    give(0);
    OK(cuEventRecord(joined[1], branch[1]));
    OK(launch_mix(buffer[0], N, step, origin));
    if (is_odd(step))
        OK(cuEventSynchronize(joined[1]));
}

static void joined_late(void)
{
    steps(late, late);
}

/* -- The program's own graph ---------------------------------------------------------- */

/* Its branches wait for each other, as those of `across` do: whether it ends says whether a device
   runs the branches of a graph side by side. */
static void by_hand(void)
{
    CUgraph graph;
    CUgraphExec exec;
    if (legacy)
        origin = made(CU_STREAM_NON_BLOCKING); /* the legacy stream cannot be captured */
    OK(cuStreamBeginCapture(origin, CU_STREAM_CAPTURE_MODE_RELAXED));
    across(0);
    OK(cuStreamEndCapture(origin, &graph));
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (uint32_t step = 0; step < ROUNDS; step++) {
        for (unsigned i = 0; i < 3; i++)
            set_word(word + i, 0);
        OK(cuGraphLaunch(exec, origin));
        OK(cuStreamSynchronize(origin));
    }
    show_all("by hand");
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {{"spins_across", spins_across},
                                          {"spins_in_order", spins_in_order},
                                          {"own_work_spins", own_work_spins},
                                          {"own_work_before", own_work_before},
                                          {"later_work", later_work},
                                          {"later_beside", later_beside},
                                          {"words_across", words_across},
                                          {"host_function", host_function},
                                          {"outside_event", outside_event},
                                          {"runs_ahead", runs_ahead},
                                          {"legacy_beside", legacy_beside},
                                          {"joined_late", joined_late},
                                          {"by_hand", by_hand},
                                          {NULL, NULL}};
    return run_fork(all, argc, argv);
}
