/* SPDX-License-Identifier: MIT */
/* live_rule.c SCENARIO [one|brief|legacy]: streams that fork and join, and work in a branch's
 * stream between the steps that must come behind a branch, or before the next one. Prints what came
 * out, which is the same with the library as without it. */
#define _GNU_SOURCE
#include "live_fork.h"

enum { PAUSE_US = 2000 };

/* A step in which the first branch waits for a word and then takes another one from the host. */
static void begin_with_words(uint32_t step)
{
    begin(step);
    OK(launch_word(spin, word, 1, branch[0]));
    work(0, step);
    OK(cuMemcpyHtoDAsync(extra, (const void *)(word + 1), 4, branch[0]));
    OK(launch_mix(extra, N, step, branch[0]));
    work(1, step);
    OK(launch_mix(buffer[3], N, step, origin));
}

static void with_words(uint32_t step)
{
    begin_with_words(step);
    end(step);
}

/* Kernels that wait for the word do so until it is released. */
static void hold_word(void)
{
    OK(cuCtxSynchronize());
    set_word(word, 0);
}

static void release_word(void)
{
    set_word(word, 1);
}

static void show_extra(void)
{
    OK(cuCtxSynchronize());
    show("extra", extra);
}

/* The branch's stream reads what its branch has written, which lasts until the host has issued
   that. */
static void read_behind(uint32_t step)
{
    hold_word();
    with_words(step);
    kick(origin);
    copy(extra, buffer[1], N, branch[0]);
    kick(branch[0]);
    usleep(PAUSE_US);
    release_word();
}

static void behind(void)
{
    release_word();
    steps(with_words, read_behind);
    show_extra();
}

/* A host function in the branch's stream writes a word that the next branch takes. */
static void write_late(void *step)
{
    usleep(PAUSE_US);
    set_word(word + 1, (uint32_t)(uintptr_t)step);
}

static void call_host(uint32_t step)
{
    with_words(step);
    OK(cuLaunchHostFunc(branch[0], write_late, (void *)(uintptr_t)step));
}

static void host_function(void)
{
    release_word();
    steps(with_words, call_host);
    show_extra();
}

/* The same behind a record in the branch's stream, for which the origin waits only then. In every
   other such step no stream listens by then, and the library does not hear of the call. */
static void call_host_early(uint32_t step)
{
    CUdeviceptr none;
    OK(cuMemAlloc(&none, 4));
    with_words(step);
    OK(cuMemFree(none)); /* as a call that the library does not know */
    OK(launch_mix(extra, N, step, branch[0]));
    OK(cuEventRecord(middle, branch[0]));
    if (step / EVERY % 2)
        OK(cuStreamSynchronize(branch[0]));
    OK(cuLaunchHostFunc(branch[0], write_late, (void *)(uintptr_t)step));
    OK(cuStreamWaitEvent(origin, middle, 0));
    OK(cuEventRecord(joined[1], branch[1]));
    OK(cuStreamWaitEvent(origin, joined[1], 0));
    kick(origin);
    with_words(step);
    show_extra();
}

static void host_function_early(void)
{
    release_word();
    steps(with_words, call_host_early);
}

/* The branch's stream records an event behind a host function, and then another stream records it,
   which the library does not follow. So the origin does not wait for the host function. */
static CUstream unfollowed;

static void record_twice(uint32_t step)
{
    with_words(step);
    kick(origin);
    OK(cuLaunchHostFunc(branch[0], write_late, (void *)(uintptr_t)step));
    OK(launch_mix(extra, N, step, branch[0]));
    OK(cuEventRecord(middle, branch[0]));
    OK(cuEventRecord(middle, unfollowed));
    OK(cuStreamWaitEvent(origin, middle, 0));
    kick(origin);
    with_words(step);
    show_extra();
}

static void make_stateless(void)
{
    CUstreamAttrValue value = {.syncPolicy = CU_SYNC_POLICY_AUTO};
    unfollowed = made(CU_STREAM_NON_BLOCKING);
    OK(cuStreamSetAttribute(unfollowed, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
}

static void recorded_elsewhere(void)
{
    make_stateless();
    release_word();
    steps(with_words, record_twice);
}

/* A call that the library does not know, made by another thread while nothing is held, has the
   branch's stream wait for the host. */
static void *wait_batched(void *arg)
{
    uint32_t step = (uint32_t)(uintptr_t)arg;
    CUstreamBatchMemOpParams wait = {.waitValue = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32,
                                                   .address = (CUdeviceptr)(uintptr_t)(word + 2),
                                                   .value = step,
                                                   .flags = CU_STREAM_WAIT_VALUE_GEQ}};
    OK(cuCtxSetCurrent(ctx));
    OK(cuStreamBatchMemOp(branch[0], 1, &wait, 0));
    return NULL;
}

static void wait_beside(uint32_t step)
{
    pthread_t beside;
    with_words(step);
    OK(cuCtxSynchronize());
    CHECK(pthread_create(&beside, NULL, wait_batched, (void *)(uintptr_t)step) == 0);
    CHECK(pthread_join(beside, NULL) == 0);
    with_words(step);
    kick(origin);
    usleep(PAUSE_US);
    set_word(word + 1, step);
    set_word(word + 2, step);
}

static void unknown_call(void)
{
    release_word();
    steps(with_words, wait_beside);
    show_extra();
}

/* A launch records the event in a stream that the library does not follow yet, since others have
   come for an op. So the origin waits for the launch. */
enum { SHORT_LIVES = 8 };

static void live_shortly(void)
{
    for (unsigned i = 0; i < SHORT_LIVES; i++) {
        CUstream s = made(CU_STREAM_NON_BLOCKING);
        copy(buffer[3], buffer[3], 1, s);
        OK(cuStreamSynchronize(s));
        OK(cuStreamDestroy(s));
    }
}

static void launch_with(CUevent event, CUstream s)
{
    CUlaunchAttribute attr = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT};
    attr.value.programmaticEvent.event = event;
    CUlaunchConfig config = one_block(1, &attr, 1, s);
    OK(cuLaunchKernelEx(&config, nop, NULL, NULL));
}

static void launch_twice(uint32_t step)
{
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    with_words(step);
    kick(origin);
    OK(cuLaunchHostFunc(branch[0], write_late, (void *)(uintptr_t)step));
    OK(launch_mix(extra, N, step, branch[0]));
    OK(cuEventRecord(middle, branch[0]));
    launch_with(middle, s);
    OK(cuStreamWaitEvent(origin, middle, 0));
    kick(origin);
    with_words(step);
    show_extra();
    OK(cuStreamDestroy(s));
}

static void launched_elsewhere(void)
{
    live_shortly();
    release_word();
    steps(with_words, launch_twice);
}

/* The event by which a branch joins is recorded again by another thread, in a stream that the
   library does not follow, before the origin waits for it. So the origin does not wait for the
   branch, and the next branch comes behind this one only because its stream says so. */
static void *record_again(void *event)
{
    OK(cuCtxSetCurrent(ctx));
    OK(cuEventRecord(event, unfollowed));
    return NULL;
}

static void join_nothing(uint32_t step)
{
    pthread_t beside;
    CUevent event = lent(joined[0]);
    hold_word();
    begin_with_words(step);
    OK(cuEventRecord(event, branch[0]));
    CHECK(pthread_create(&beside, NULL, record_again, event) == 0);
    CHECK(pthread_join(beside, NULL) == 0);
    OK(cuStreamWaitEvent(origin, event, 0));
    give_back(event);
    join(1);
    give(1);
    OK(launch_mix(buffer[0], N, step, origin));
    OK(cuStreamSynchronize(origin)); /* a sequence begins behind it */
    with_words(step);
    kick(origin);
    usleep(PAUSE_US);
    release_word();
}

static void recorded_beside(void)
{
    make_stateless();
    release_word();
    steps(with_words, join_nothing);
    show_extra();
}

/* A stream that is no branch waits for a record in the middle of the step. Mostly the event is
   recorded again later in the step, which is what the stream then waits for. In some steps it is
   not. */
static CUstream outsider;
static CUevent early, seen;

static void middle_of(uint32_t step, CUevent event)
{
    OK(cuStreamWaitEvent(origin, seen, 0));
    OK(launch_word(spin, word, 1, origin));
    OK(launch_mix(buffer[3], N, step, origin));
    OK(cuEventRecord(event, origin));
    OK(cuEventRecord(forked, origin));
    OK(cuStreamWaitEvent(branch[0], forked, 0));
    work(0, step);
    join(0);
    OK(cuEventRecord(middle, origin));
    OK(cuStreamWaitEvent(outsider, event, 0));
    copy(extra, buffer[3], N, outsider);
    OK(launch_mix(extra, N, step, outsider));
    OK(cuEventRecord(seen, outsider));
}

static void recorded_again(uint32_t step)
{
    middle_of(step, middle);
}

static void recorded_once(uint32_t step)
{
    hold_word();
    middle_of(step, early);
    kick(outsider);
    usleep(PAUSE_US);
    release_word();
}

static void patterns(void)
{
    outsider = made(CU_STREAM_DEFAULT); /* of another kind than the others: never a branch */
    early = new_event(CU_EVENT_DISABLE_TIMING);
    seen = new_event(CU_EVENT_DISABLE_TIMING);
    OK(cuEventRecord(early, origin));
    release_word();
    steps(recorded_again, recorded_once);
    show_extra();
}

/* A step that is one graph, and others that are new each time: the recorder runs out of room. The
   last op of a new one spins in the branch's stream until the step behind it has been looked at,
   which must not have ended. */
static void one_branch(uint32_t step)
{
    OK(launch_mix(buffer[0], N, step, origin));
    OK(cuEventRecord(forked, origin));
    OK(cuStreamWaitEvent(branch[0], forked, 0));
    work(0, step);
    join(0);
}

static void novel(uint32_t random)
{
    for (unsigned i = 0; i < 6; i++)
        if (random >> i & 1)
            OK(launch_mix(buffer[3], N, i, origin));
        else
            copy(buffer[3], buffer[3], N, origin);
    OK(cuEventRecord(forked, origin));
    OK(cuStreamWaitEvent(branch[0], forked, 0));
    join(0);
    OK(launch_word(spin, word, 1, branch[0]));
}

static void new_steps(void)
{
    unsigned early = 0;
    uint32_t random = 1;
    for (unsigned i = 0; i < 4000; i++) {
        set_word(word, 0);
        for (unsigned j = 0; j < 3; j++)
            one_branch(j);
        random = random * 1664525 + 1013904223;
        novel(random >> 8);
        one_branch(i);
        kick(origin);
        usleep(100);
        early += cuStreamQuery(origin) == CUDA_SUCCESS;
        release_word();
        OK(cuStreamSynchronize(origin));
    }
    printf("%u steps ended early\n", early);
    show_all("new");
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {{"behind", behind},
                                          {"host_function", host_function},
                                          {"host_function_early", host_function_early},
                                          {"recorded_elsewhere", recorded_elsewhere},
                                          {"recorded_beside", recorded_beside},
                                          {"launched_elsewhere", launched_elsewhere},
                                          {"unknown_call", unknown_call},
                                          {"patterns", patterns},
                                          {"new_steps", new_steps},
                                          {NULL, NULL}};
    return run_fork(all, argc, argv);
}
