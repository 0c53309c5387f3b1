/* SPDX-License-Identifier: MIT */
/* report_clock.c SCENARIO: the program's clocks are not the machine's, as under a preloaded library
 * that fakes the date (docs/reports.md has their addresses). A loop runs while another thread
 * allocates. Prints what came out, which is the same with the library as without it. */
#define _GNU_SOURCE
#include "live.h"

#include <sys/syscall.h>
#include <time.h>

enum { ROUNDS = 120, TOLD = 4, NS_PER_S = 1000000000 };

/* What the clocks say, from the machine's time in ns. */
typedef uint64_t clock_fn(uint64_t ns);
static clock_fn *_Atomic faked;

/* In place of the C library's, for every library in the process. A clock that fails says nothing.
 */
int clock_gettime(clockid_t clock, struct timespec *time)
{
    clock_fn *fake = faked;
    int result = (int)syscall(SYS_clock_gettime, clock, time);
    if (fake == NULL || result != 0 || (clock != CLOCK_MONOTONIC && clock != CLOCK_REALTIME))
        return result;
    uint64_t ns = fake((uint64_t)time->tv_sec * NS_PER_S + (uint64_t)time->tv_nsec);
    time->tv_sec = (time_t)(ns / NS_PER_S);
    time->tv_nsec = (long)(ns % NS_PER_S);
    return ns == 0 ? -1 : 0;
}

static uint64_t one_date(uint64_t ns)
{
    (void)ns;
    return 1700000000ull * NS_PER_S;
}

static uint64_t backwards(uint64_t ns)
{
    return (1ull << 62) - ns;
}

static uint64_t slowly(uint64_t ns)
{
    return ns / 1000;
}

static uint64_t quickly(uint64_t ns)
{
    return ns * 1000 % (1ull << 62);
}

static uint64_t not_at_all(uint64_t ns)
{
    (void)ns;
    return 0;
}

/* A second back, and another second forth, at every other look. */
static uint64_t leaping(uint64_t ns)
{
    static _Atomic unsigned looks;
    return ns - (looks++ % 2) * NS_PER_S;
}

static volatile uint32_t begun; /* rounds that the loop has submitted */

static void *allocates(void *arg)
{
    OK(cuCtxSetCurrent(ctx));
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        CUdeviceptr at;
        while (get_word(&begun) < round)
            sched_yield();
        OK(cuMemAlloc(&at, 256));
        OK(cuMemFree(at));
    }
    return arg;
}

/* The host waits for what kernels write and calls nothing: all that is held must go out by itself,
   and an allocation beside it must not wait for ever. */
static void beside(clock_fn *fake)
{
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    volatile uint32_t *words = host_words(TOLD);
    pthread_t thread;
    faked = fake;
    set_word(&begun, 0);
    CHECK(pthread_create(&thread, NULL, allocates, NULL) == 0);
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        for (uint32_t step = 0; step < 3; step++)
            body(s, buffer[0], step);
        for (unsigned i = 0; i < TOLD; i++)
            OK(launch_word(flag, words + i, round, s));
        set_word(&begun, round);
        while (get_word(words + TOLD - 1) != round)
            sched_yield();
    }
    CHECK(pthread_join(thread, NULL) == 0);
    OK(cuStreamSynchronize(s));
    faked = NULL;
}

static void stands_still(void)
{
    beside(one_date);
}

static void goes_back(void)
{
    beside(backwards);
}

static void other_speeds(void)
{
    beside(slowly);
    beside(quickly);
}

static void fails(void)
{
    beside(not_at_all);
}

/* The date is set while the program runs, and set right again. */
static void changes(void)
{
    static clock_fn *const fakes[] = {NULL, one_date, leaping, slowly, NULL, backwards, quickly};
    for (unsigned i = 0; i < sizeof fakes / sizeof *fakes; i++)
        beside(fakes[i]);
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {{"stands_still", stands_still}, {"goes_back", goes_back},
                                          {"other_speeds", other_speeds}, {"fails", fails},
                                          {"changes", changes},           {NULL, NULL}};
    run(all, argc, argv);
    show_all(argv[1]);
    return 0;
}
