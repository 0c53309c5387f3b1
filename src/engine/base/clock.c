/* SPDX-License-Identifier: MIT */
/* The time, less what does not count. */
#include "engine/base/clock.h"

#include <time.h>

#ifdef AG_TURNS
static _Atomic uint64_t skipped; /* ns */

void ag_clock_skip(uint64_t since)
{
    skipped += ag_clock_now() - since;
}
#else
enum { skipped = 0 };
#endif

uint64_t ag_clock_now(void)
{
    struct timespec t;
    return clock_gettime(CLOCK_MONOTONIC, &t) == 0
               ? (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec - skipped
               : 0;
}
