/* SPDX-License-Identifier: MIT */
/* The time, as the engine measures it. */
#ifndef AG_CLOCK_H
#define AG_CLOCK_H

#include <stdint.h>

/* The time now, ns, by the program's clock, which may do anything: what is measured with it decides
   nothing but what is faster, and no wait ends by it (patience.h). */
uint64_t ag_clock_now(void);

/* What is left of a time without a part of it, or of the time until `ns` without the time before
   `less`; 0 if the clock went back meanwhile. */
static inline uint64_t ag_clock_less(uint64_t ns, uint64_t less)
{
    return ns > less ? ns - less : 0;
}

/* The time from `began` until now, ns. */
static inline uint64_t ag_clock_since(uint64_t began)
{
    return ag_clock_less(ag_clock_now(), began);
}

/* In builds with AG_TURNS only: the time from `since` until now does not count, since the engine
   was out of use. */
void ag_clock_skip(uint64_t since);

#endif
