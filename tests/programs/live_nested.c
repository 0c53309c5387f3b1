/* SPDX-License-Identifier: MIT */
/* live_nested.c SCENARIO: a branch forks again, and kernels wait for kernels or for the host.
 * Prints what came out, which is the same with the library as without it. */
#define _GNU_SOURCE
#include "live_fork.h"

enum { OUTER, INNER, PAUSE_US = 2000 };
enum { COPIES = 600 }; /* after which the library has its kernel for read-backs */

static CUevent given;

/* The outer branch forks off the origin, */
static void fork_outer(uint32_t step)
{
    OK(launch_mix(buffer[0], N, step, origin));
    OK(cuEventRecord(forked, origin));
    OK(cuStreamWaitEvent(branch[OUTER], forked, 0));
    take(OUTER);
    work(OUTER, step);
}

/* and the inner one off the outer one, */
static void fork_inner(uint32_t step)
{
    fork_outer(step);
    OK(cuEventRecord(middle, branch[OUTER]));
    OK(cuStreamWaitEvent(branch[INNER], middle, 0));
    copy(buffer[1 + INNER], buffer[1 + OUTER], PART, branch[INNER]);
}

/* which joins it again. */
static void join_outer(uint32_t step)
{
    OK(cuEventRecord(joined[INNER], branch[INNER]));
    OK(cuStreamWaitEvent(branch[OUTER], joined[INNER], 0));
    copy(buffer[1 + OUTER] + 4 * PART, buffer[1 + INNER] + 4 * PART, PART, branch[OUTER]);
    join(OUTER);
    give(OUTER);
    OK(launch_mix(buffer[0], N, step, origin));
}

static void nested(uint32_t step)
{
    fork_inner(step);
    work(INNER, step);
    OK(launch_mix(buffer[3], N, step, origin));
    join_outer(step);
}

/* Work that the host lets go on once all of the step has been submitted. */
static void hold_back(CUstream stream)
{
    OK(cuCtxSynchronize());
    set_word(word, 0);
    OK(launch_word(spin, word, 1, stream));
}

static void let_go(void)
{
    kick(origin);
    usleep(PAUSE_US);
    set_word(word, 1);
}

/* -- The inner stream's own work ----------------------------------------------- */

/* Work of the inner stream is not ordered before the origin, and comes before the branch. */
static void own_lasts(uint32_t step)
{
    hold_back(branch[INNER]);
    OK(launch_mix(buffer[1 + INNER], N, step, branch[INNER]));
    nested(step);
    let_go();
}

static void own_work_before(void)
{
    steps(nested, own_lasts);
}

/* It spins until a kernel of the origin that comes behind the fork. */
static void own_spins(uint32_t step)
{
    OK(launch_word(spin, word, step + 1, branch[INNER]));
    fork_inner(step);
    OK(launch_word(flag, word, step + 1, origin));
    work(INNER, step);
    join_outer(step);
}

static void own_work_spins(void)
{
    steps(nested, own_spins);
}

/* Only the outer branch forks. */
static void one_branch(uint32_t step)
{
    fork_outer(step);
    OK(launch_mix(buffer[3], N, step, origin));
    join(OUTER);
    give(OUTER);
    OK(launch_mix(buffer[0], N, step, origin));
}

static void joined_by_both(uint32_t step)
{
    join(INNER);
    one_branch(step);
}

/* The inner stream waits for the outer one's own work, and the origin has not waited for the inner
   one since. */
static void passes_on(uint32_t step)
{
    hold_back(branch[OUTER]);
    OK(launch_mix(buffer[1 + OUTER], N, step, branch[OUTER]));
    OK(cuEventRecord(given, branch[OUTER]));
    OK(cuStreamWaitEvent(branch[INNER], given, 0));
    one_branch(step);
    let_go();
}

static void by_way_of_another(void)
{
    given = new_event(CU_EVENT_DISABLE_TIMING);
    steps(joined_by_both, passes_on);
}

/* The outer branch waits for work of the inner stream, which forks off the origin behind that. */
static void meets(uint32_t step)
{
    OK(launch_mix(buffer[1 + INNER], N, step, branch[INNER]));
    OK(cuEventRecord(given, branch[INNER]));
    OK(launch_mix(buffer[0], N, step, origin));
    OK(cuEventRecord(forked, origin));
    OK(cuStreamWaitEvent(branch[OUTER], forked, 0));
    take(OUTER);
    OK(cuStreamWaitEvent(branch[OUTER], given, 0));
    work(OUTER, step);
    OK(cuEventRecord(middle, origin));
    OK(cuStreamWaitEvent(branch[INNER], middle, 0));
    work(INNER, step);
    join(OUTER);
    join(INNER);
    give(OUTER);
    give(INNER);
}

static void meets_late(uint32_t step)
{
    hold_back(branch[INNER]);
    meets(step);
    let_go();
}

static void waited_for_within(void)
{
    given = new_event(CU_EVENT_DISABLE_TIMING);
    steps(meets, meets_late);
}

/* -- Branches side by side ------------------------------------------------------- */

/* Each stream spins until a kernel that is launched later in another one. */
static void across(uint32_t step)
{
    uint32_t now = step + 1;
    fork_inner(step);
    OK(launch_word(spin, word, now, branch[INNER]));
    OK(launch_word(spin, word + 1, now, origin));
    OK(launch_word(flag, word, now, branch[OUTER]));
    OK(launch_word(flag, word + 1, now, branch[INNER]));
    work(INNER, step);
    join_outer(step);
}

static void spins_across(void)
{
    steps(across, across);
}

/* Behind the join the origin spins until later work of the inner stream. */
static void later(uint32_t step)
{
    nested(step);
    OK(launch_word(flag, word, step + 1, branch[INNER]));
    OK(launch_word(spin, word, step + 1, origin));
    OK(launch_mix(buffer[0], N, step, origin));
}

static void later_work(void)
{
    steps(later, later);
}

/* The inner branch is never joined. It spins until the host, which waits for the origin first. */
static void ahead(uint32_t step)
{
    fork_inner(step);
    OK(launch_word(spin, word, step + 1, branch[INNER]));
    work(INNER, step);
    OK(cuEventRecord(joined[INNER], branch[INNER]));
    join(OUTER);
    give(OUTER);
    OK(cuStreamSynchronize(origin));
    set_word(word, step + 1);
    OK(cuStreamSynchronize(branch[INNER])); /* or the word would change too soon */
}

static void runs_ahead(void)
{
    steps(ahead, ahead);
}

/* A branch is joined behind a wait of the host, until which it spins. A graph that ended there,
   with the branch in it, would not end. */
static void late(uint32_t step)
{
    OK(launch_mix(buffer[0], N, step, origin));
    OK(cuEventRecord(forked, origin));
    OK(cuStreamWaitEvent(branch[OUTER], forked, 0));
    OK(launch_word(spin, word, step + 1, branch[OUTER]));
    take(OUTER);
    work(OUTER, step);
    OK(cuEventRecord(joined[OUTER], branch[OUTER]));
    OK(launch_mix(buffer[3], N, step, origin));
    OK(cuStreamSynchronize(origin));
    set_word(word, step + 1);
    OK(cuStreamWaitEvent(origin, joined[OUTER], 0));
    give(OUTER);
}

static void joined_behind_a_wait(void)
{
    steps(late, late);
}

/* -- Read-backs ----------------------------------------------------------------- */

static volatile uint32_t
    beside; /* how often the library's kernel for them met a kernel that spins */
static volatile uint32_t spinning;

/* The simulated driver runs this in its place. */
void agsim_kernel_autograph_fetch(const struct agsim_launch *launch, void **params)
{
    uint32_t *place = *(uint32_t **)params[1];
    (void)launch;
    beside += spinning;
    memcpy(place + 4, *(void **)params[0], *(uint32_t *)params[2]);
    *place = 1;
}

static void read_origin(void)
{
    uint32_t host[PART];
    OK(cuMemcpyDtoHAsync(host, buffer[0], sizeof host, origin));
}

static void branch_and_read(uint32_t step, bool joins)
{
    OK(launch_mix(buffer[0], N, step, origin));
    OK(cuEventRecord(forked, origin));
    OK(cuStreamWaitEvent(branch[OUTER], forked, 0));
    OK(launch_word(spin, word, 1, branch[OUTER]));
    work(OUTER, step);
    OK(cuEventRecord(joined[OUTER], branch[OUTER]));
    if (joins)
        OK(cuStreamWaitEvent(origin, joined[OUTER], 0));
    read_origin();
    OK(launch_mix(buffer[0], N, step, origin));
    read_origin();
}

static void reads(uint32_t step)
{
    branch_and_read(step, true);
}

/* While a branch spins another stream must not read back by a kernel: it may find no room. */
static void reads_beside(uint32_t step)
{
    OK(cuCtxSynchronize());
    set_word(word, 0);
    spinning = 1;
    branch_and_read(step, false);
    spinning = 0;
    set_word(word, 1);
    OK(cuStreamWaitEvent(origin, joined[OUTER], 0));
}

static void read_back(void)
{
    set_word(word, 1);
    for (unsigned i = 0; i < COPIES; i++)
        read_origin();
    steps(reads, reads_beside);
    printf("beside %u\n", beside);
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {{"own_work_before", own_work_before},
                                          {"own_work_spins", own_work_spins},
                                          {"by_way_of_another", by_way_of_another},
                                          {"waited_for_within", waited_for_within},
                                          {"spins_across", spins_across},
                                          {"later_work", later_work},
                                          {"runs_ahead", runs_ahead},
                                          {"joined_behind_a_wait", joined_behind_a_wait},
                                          {"read_back", read_back},
                                          {NULL, NULL}};
    return run_fork(all, argc, argv);
}
