/* SPDX-License-Identifier: MIT */
/*
 * own_clock_preload.c: a library that gives any program a clock of its own, in which each look of
 * any thread takes 100 ns and nothing else takes time. What the simulated driver is told to take
 * (AGSIM_LAUNCH_US, ...) it takes by that clock. So how fast the machine is makes no difference.
 */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_NS = 100 };

/* An hour ahead: where the C library waits until a time of this clock, it waits for the event. */
static _Atomic uint64_t now;

__attribute__((constructor)) static void start(void)
{
    struct timespec time;
    (void)syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &time);
    now = ((uint64_t)time.tv_sec + 3600) * 1000000000;
}

/* In place of the C library's. */
int clock_gettime(clockid_t clock, struct timespec *time)
{
    if (clock != CLOCK_MONOTONIC)
        return (int)syscall(SYS_clock_gettime, clock, time);
    uint64_t ns = atomic_fetch_add(&now, LOOK_NS) + LOOK_NS;
    time->tv_sec = (time_t)(ns / 1000000000);
    time->tv_nsec = (long)(ns % 1000000000);
    return 0;
}
