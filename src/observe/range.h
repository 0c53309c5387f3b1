/* SPDX-License-Identifier: MIT */
/*
 * Replays as ranges of NVTX, for profilers (the option report.nvtx). NVTX is headers only: they
 * load the library of the tool that runs the program, which NVTX_INJECTION64_PATH names. Without
 * such a tool there are no ranges.
 */
#ifndef AG_RANGE_H
#define AG_RANGE_H

#include <stdbool.h>
#include <stdint.h>

/* Whether replays are to be ranges; constant once CUDA is initialised. */
extern bool ag_ranges;

/* Looks for the tool, if the option says so. */
void ag_range_open(void);

/* Around the launch of a graph of so many ops, on one thread. The range has the name of the
   thread's region, if it is in one. */
void ag_range_begin(uint32_t ops);
void ag_range_end(void);

#endif
