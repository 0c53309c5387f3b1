/* SPDX-License-Identifier: MIT */
/*
 * Live counters: a small file in shared memory that shows what the library does while the program
 * runs (docs/formats.md). One thread writes it.
 */
#ifndef AG_LIVE_H
#define AG_LIVE_H

#include <stdbool.h>

#include "observe/counters.h"

/* Makes the file. False: what failed has given one line on stderr. */
bool ag_live_open(void);

/* Shows these numbers; `region` may be NULL. */
void ag_live_update(const struct ag_counters *counters, uint64_t streams, uint64_t trace_bytes,
                    uint64_t trace_lost, const char *region);

/* Removes the file. */
void ag_live_close(void);

#endif
