/* SPDX-License-Identifier: MIT */
/* The time, as the engine measures it. */
#ifndef AG_CLOCK_H
#define AG_CLOCK_H

#include <stdint.h>

/* The time now, ns. It never goes back. */
uint64_t ag_clock_now(void);

/* In builds with AG_TURNS only: the time from `since` until now does not count, since the engine
   was out of use. */
void ag_clock_skip(uint64_t since);

#endif
