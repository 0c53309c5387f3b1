/* SPDX-License-Identifier: MIT */
/*
 * The best plan that knows the future: what a program could take at best, by the same costs.
 *
 * A piece is ops of one stream between two calls before which they must be submitted. It ends
 * before: a call of the stream's thread that waits, or that anything is ordered against; a call of
 * any thread that is ordered in this stream; a wait of another stream for an event that the piece
 * records. It ends behind a read-back, and when it has as many ops as pieces have at most. An op
 * that can be held by the library's rules is in a piece. A copy to pinned memory is one if the
 * thread's next call waits for its stream. (The plan does not know the limits of kernels, what
 * drivers refuse, nor what else is at work during a read-back.)
 *
 * Pieces of equal tokens have one graph. It is made when the piece comes for the second time, if
 * all later ones together save more CPU time than making it takes. Then each of them is one launch,
 * when its last op comes. Arguments that differ from the last launch's are set by the cheaper way.
 * Where up to eight sets of arguments come in turn, each has a graph. There is room for all graphs,
 * and no noise. Pieces have as many ops at most as is fastest for the program, of 2, 4, 8, ... 128,
 * and of the ops of a round and as many twice, four times, ... Of the four graphs that replay most,
 * those are left out without which the program is faster.
 *
 * Not in it: one graph for several streams, and a first piece that is shorter than the others.
 */
#ifndef PLAY_PLAN_H
#define PLAY_PLAN_H

#include <stdint.h>

#include "policy/program.h"

enum { PLAY_PLAN_MOST = 128, PLAY_PLAN_LENGTHS = 16 };

/* How many ops pieces may have at most, in a plan for the program. Returns how many plans. */
unsigned play_plan_lengths(const struct play_program *program, uint32_t lengths[PLAY_PLAN_LENGTHS]);

/* Makes a plan of pieces with so many ops at most. */
void play_plan_make(const struct play_program *program, uint32_t most);

/* Leaves out the graph that would replay most ops; the next time the one after it. False: there is
   none. And takes that back. */
bool play_plan_leave_out(void);
void play_plan_take_back(void);

/* The program begins, and makes this call. */
void play_plan_begins(const struct play_program *program);
void play_plan_door(const struct play_program *program, uint64_t line);

/* What became of the ops. */
void play_plan_counts(uint64_t *replayed, uint64_t *replays, uint64_t *patches, uint64_t *graphs);

#endif
