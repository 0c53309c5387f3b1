/* SPDX-License-Identifier: MIT */
/*
 * odd_clock_preload.c: a library that gives any program an odd clock, as libraries that fake the
 * date do. AGTEST_CLOCK says which: "stands", "back", or how many times as fast as the machine's.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { NS_PER_S = 1000000000 };

static const long long start_s = 1000000;

/* In place of the C library's. */
int clock_gettime(clockid_t clock, struct timespec *time)
{
    static long long first[2];
    const char *kind = getenv("AGTEST_CLOCK");
    if (syscall(SYS_clock_gettime, clock, time) != 0)
        return -1;
    if (kind == NULL || (clock != CLOCK_MONOTONIC && clock != CLOCK_REALTIME))
        return 0;
    long long now = time->tv_sec * (long long)NS_PER_S + time->tv_nsec, none = 0;
    if (__atomic_compare_exchange_n(&first[clock], &none, now, 0, __ATOMIC_SEQ_CST,
                                    __ATOMIC_SEQ_CST))
        none = now;
    double speed = *kind == 's' ? 0 : *kind == 'b' ? -1 : atof(kind);
    now = start_s * NS_PER_S + (long long)((double)(now - none) * speed);
    time->tv_sec = now / NS_PER_S;
    time->tv_nsec = now % NS_PER_S;
    return 0;
}
