/* SPDX-License-Identifier: MIT */
/* report_timed.c SCENARIO: the time between two events, as programs that tune themselves take it
 * (docs/reports.md has the reports). Prints what cannot be, and codes. A busy machine makes
 * some times too short without the library, too: a few of them are not told. The work is the same
 * in each run, whatever the times are. */
#include "live.h"

#include <time.h>

enum { ROUNDS = 150, FEW = ROUNDS / 3 };

static CUevent timed_event(void)
{
    CUevent event;
    OK(cuEventCreate(&event, CU_EVENT_DEFAULT));
    return event;
}

static double now_ms(void)
{
    struct timespec now;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static double pause_ms(unsigned us)
{
    double begun = now_ms();
    usleep(us);
    return now_ms() - begun;
}

static void few(const char *what, unsigned count)
{
    if (count > FEW)
        printf("%s: %u of %u\n", what, count, ROUNDS);
    else
        printf("%s: at most some\n", what);
}

/* -- The host pauses -- */

struct counts {
    unsigned shorter, longer;
};

/* Says how many there are. */
static void say(const char *what, struct counts (*count)(CUstream, CUstream, unsigned),
                CUstream first, CUstream last, unsigned us)
{
    struct counts found = count(first, last, us);
    char shorter[64];
    snprintf(shorter, sizeof shorter, "shorter than the %s", what);
    few(shorter, found.shorter);
    few("longer than all", found.longer);
}

/* The host pauses between two kernels, and an event is recorded before and behind both. `to` is
   recorded in `last`, which waits for `middle` if that is another stream. */
static struct counts count_pauses(CUstream first, CUstream last, unsigned us)
{
    CUevent from = timed_event(), to = timed_event(), middle = timed_event();
    struct counts found = {0, 0};
    for (uint32_t round = 0; round < ROUNDS; round++) {
        float ms = -1;
        body(first, buffer[0], round);
        double begun = now_ms();
        OK(cuEventRecord(from, first));
        OK(launch_mix(buffer[0], N, 9, first));
        if (first != last) {
            OK(cuEventRecord(middle, first));
            OK(cuStreamWaitEvent(last, middle, 0));
        }
        double paused = pause_ms(us);
        OK(launch_mix(buffer[0], N, 10, last));
        OK(cuEventRecord(to, last));
        body(last, buffer[0], round);
        OK(cuStreamSynchronize(last));
        double whole = now_ms() - begun;
        OK(cuEventElapsedTime(&ms, from, to));
        found.shorter += ms < 0.5 * paused;
        found.longer += ms > 1.1 * whole;
    }
    return found;
}

static void pause_between(CUstream first, CUstream last, unsigned us)
{
    say("pause", count_pauses, first, last, us);
}

static void pauses(void)
{
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    pause_between(s, s, 200);
    pause_between(s, s, 2000);
    pause_between(NULL, NULL, 200);
}

static void two_streams(void)
{
    pause_between(made(CU_STREAM_NON_BLOCKING), made(CU_STREAM_NON_BLOCKING), 200);
}

static uint32_t rounds; /* so far: the word that kernels wait for goes up */

/* The host lets a kernel between the events run on after a while. */
static struct counts count_waits(CUstream s, CUstream unused, unsigned us)
{
    static volatile uint32_t *word;
    CUevent from = timed_event(), to = timed_event();
    struct counts found = {0, 0};
    (void)unused;
    if (word == NULL)
        word = host_words(1);
    OK(launch_word(spin, word, rounds, s));
    OK(cuStreamSynchronize(s));
    for (uint32_t i = 0; i < ROUNDS; i++) {
        float ms = -1;
        body(s, buffer[0], ++rounds);
        double begun = now_ms();
        OK(cuEventRecord(from, s));
        OK(launch_word(spin, word, rounds, s));
        OK(cuEventRecord(to, s));
        double paused = pause_ms(us);
        set_word(word, rounds);
        body(s, buffer[0], rounds);
        OK(cuEventSynchronize(to));
        double whole = now_ms() - begun;
        OK(cuEventElapsedTime(&ms, from, to));
        found.shorter += ms < 0.5 * paused;
        found.longer += ms > 1.1 * whole;
    }
    return found;
}

static void kernel_waits(void)
{
    say("kernel", count_waits, made(CU_STREAM_NON_BLOCKING), NULL, 400);
}

/* -- A program tunes itself -- */

/* Records on both sides of each of three variants: a tuner throws away what took no time. */
static void tuner(void)
{
    enum { VARIANTS = 3 };
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    CUevent from[VARIANTS], to[VARIANTS];
    unsigned none = 0;
    for (unsigned i = 0; i < VARIANTS; i++) {
        from[i] = timed_event();
        to[i] = timed_event();
    }
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < VARIANTS; i++) {
            OK(cuEventRecord(from[i], s));
            for (uint32_t k = 0; k <= i; k++)
                OK(launch_mix(buffer[i], N, k, s));
            OK(cuEventRecord(to[i], s));
        }
        OK(cuEventSynchronize(to[VARIANTS - 1]));
        for (unsigned i = 0; i < VARIANTS; i++) {
            float ms = -1;
            OK(cuEventElapsedTime(&ms, from[i], to[i]));
            none += ms <= 0;
        }
    }
    printf("no time: %u\n", none);
}

/* -- Events that a graph of the program records -- */

static CUgraphExec captured(CUstream s, CUevent from, CUevent to, unsigned flags)
{
    CUgraph graph;
    CUgraphExec exec;
    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    OK(cuEventRecordWithFlags(from, s, flags));
    body(s, buffer[0], 1);
    OK(cuEventRecordWithFlags(to, s, flags));
    OK(cuStreamEndCapture(s, &graph));
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphDestroy(graph));
    return exec;
}

/* Timed events are recorded in a capture: outside they mean something only if they are external. A
   loop runs around the graph's launches. */
static void in_a_graph(void)
{
    static const unsigned flags[] = {CU_EVENT_RECORD_DEFAULT, CU_EVENT_RECORD_EXTERNAL};
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    for (unsigned way = 0; way < 2; way++) {
        CUevent from = timed_event(), to = timed_event();
        float ms = -1, whole = -1;
        CUevent before = timed_event(), behind = timed_event();
        CUgraphExec exec = captured(s, from, to, flags[way]);
        unsigned outside = 0;
        CUresult answer = CUDA_SUCCESS;
        for (uint32_t round = 0; round < ROUNDS; round++) {
            body(s, buffer[1], round);
            OK(cuEventRecord(before, s));
            OK(cuGraphLaunch(exec, s));
            OK(cuEventRecord(behind, s));
            body(s, buffer[1], round);
            OK(cuStreamSynchronize(s));
            answer = cuEventElapsedTime(&ms, from, to);
            OK(cuEventElapsedTime(&whole, before, behind));
            outside += answer == CUDA_SUCCESS && (ms <= 0 || ms > whole);
        }
        printf("%d: outside of the launch: %u\n", answer, outside);
        OK(cuGraphExecDestroy(exec));
        OK(cuEventRecord(from, s)); /* records outside of a graph are usual ones */
        OK(cuEventRecord(to, s));
        OK(cuStreamSynchronize(s));
        printf("%d\n", cuEventElapsedTime(&ms, from, to));
    }
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {
        {"pauses", pauses}, {"two_streams", two_streams}, {"kernel_waits", kernel_waits},
        {"tuner", tuner},   {"in_a_graph", in_a_graph},   {NULL, NULL}};
    run(all, argc, argv);
    show_all(argv[1]);
    return 0;
}
