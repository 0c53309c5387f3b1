/* SPDX-License-Identifier: MIT */
/* Everything that tells of the run: report, trace file, live counters. Started, and ended. */
#ifndef AG_WATCH_H
#define AG_WATCH_H

#include <stdatomic.h>
#include <stdbool.h>

/* After CUDA was initialised: starts what the options ask for. */
void ag_watch_start(void);

/* At exit, after ag_engine_leave(): ends it and writes the report. */
void ag_watch_stop(void);

/* In a forked child: report and trace are the parent's. Sets ag_unwatched: from now on nothing
   takes a lock that a thread of the parent may have held at the fork. */
void ag_watch_child(void);
extern _Atomic bool ag_unwatched;

#endif
