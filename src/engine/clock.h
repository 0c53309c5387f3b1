/* SPDX-License-Identifier: MIT */
/* The time, as the engine measures it. */
#ifndef AG_CLOCK_H
#define AG_CLOCK_H

#include <stdint.h>

/* The time now, ns. The second, in builds with AG_TURNS only: the time since `since` does not
   count, since nothing was timed meanwhile. */
uint64_t ag_clock_now(void);
void ag_clock_skip(uint64_t since);

#endif
