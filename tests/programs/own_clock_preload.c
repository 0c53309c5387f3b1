/* SPDX-License-Identifier: MIT */
/*
 * own_clock_preload.c: a library that gives any program a clock of its own, in which each look of
 * any thread takes 100 ns and nothing else takes time. What the simulated driver is told to take
 * (AGSIM_LAUNCH_US, ...) it takes by that clock. So how fast the machine is makes no difference.
 *
 * A thread that sleeps for a millisecond at most, and is not woken, takes time by the clock as
 * well: it waits until the clock says that some time has passed, for a lock for example. It would
 * take thousands of sleeps otherwise.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_NS = 100, PAUSE_NS = 1000000 };

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

/* In place of the C library's, which the library's waits go through (src/observe/futex.h). */
long syscall(long number, ...)
{
    static long (*_Atomic real)(long, ...);
    long argument[6];
    va_list all;
    va_start(all, number);
    for (int i = 0; i < 6; i++)
        argument[i] = va_arg(all, long);
    va_end(all);
    if (real == NULL)
        real = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    long result =
        real(number, argument[0], argument[1], argument[2], argument[3], argument[4], argument[5]);
    if (number == SYS_futex && argument[1] == FUTEX_WAIT_PRIVATE && argument[3] != 0 &&
        result == -1 && errno == ETIMEDOUT) {
        const struct timespec *time = (const void *)argument[3];
        if (time->tv_sec == 0 && time->tv_nsec <= PAUSE_NS)
            now += (uint64_t)time->tv_nsec;
    }
    return result;
}
