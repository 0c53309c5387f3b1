/* SPDX-License-Identifier: MIT */
/*
 * Replays as ranges of NVTX, for profilers (the option report.nvtx). NVTX is headers only: they
 * load the library of the tool that runs the program, which NVTX_INJECTION64_PATH names. Without
 * such a tool there are no ranges.
 *
 * A tool may do anything in its callbacks: take locks, under which another of its threads calls
 * CUDA, call CUDA itself, or wait. So a thread of the library's own loads the tool and tells it of
 * ranges, and nobody waits for that thread for long. Whoever replays a trace leaves a note, and
 * takes no lock.
 */
#ifndef AG_RANGE_H
#define AG_RANGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Whether notes of replays are wanted. Goes on once at most, and off for good. */
extern _Atomic bool ag_ranges;

/* Whether the option says so, and there is a way to tell: then ag_range_work() is to be called now
   and then. */
bool ag_range_begin(void);

/* What the thread that tells does each time: looks for the tool at first, then makes ranges of the
   notes that there are. */
void ag_range_work(bool last);

/* A graph of so many ops was launched. The range has the name of the calling thread's region, if it
   is in one. While the tool is slow notes are left out, and counted. */
void ag_range_note(uint32_t ops);

/* Around a fork: the child must not find a lock of the tool taken by a thread that it does not
   have. Waits for the tool's callback, a second at most. */
void ag_range_before_fork(void);
void ag_range_behind_fork(void);

/* In a forked child, where the thread is not. */
void ag_range_child(void);

#endif
