/* SPDX-License-Identifier: MIT */
/*
 * Pace: how long a stream's sequences are.
 *
 * A piece of n ops is launched when the last of them has been issued. That delays the GPU by up to
 * n times the program's own time between two ops, c, once between two barriers; and each piece
 * costs one graph launch, K. With N ops between two barriers the sum, n c + (N / n) K, is least at
 * n = sqrt(K N / c): long pieces for a program that issues fast or seldom waits, short ones for one
 * that computes between its launches and waits often. So the tail before a wait is short, too.
 * Where N is no more than n all is one piece, and lengths differ for the odd longer run only.
 *
 * A thread that deals its ops out to S streams takes S times as long between two of one stream, but
 * each piece more is one in each of them, for all of which it has the CPU time alone: n is that for
 * c between any two of its ops.
 *
 * Behind a wait the GPU is idle. A program that issues faster than any GPU executes has it start on
 * a short first piece, while it issues the rest.
 *
 * c is measured on held ops (for a start twice, lest a pause decide), N at barriers; until
 * something has been held, eager sequences tell how many ops can be held at all. Lengths are powers
 * of two, so that a loop of identical ops is cut at the same arguments, and change only when
 * another one has been clearly better for a while, since sequences of another length have to get
 * hot anew. Pieces that were late, by pauses that c does not show, are shorter for some time,
 * longer each time. With `trace.length = fixed` this is all that is done.
 *
 * All functions want the stream's lock.
 */
#ifndef AG_PACE_H
#define AG_PACE_H

#include "engine/stream.h"

/* For a new stream. */
void ag_pace_start(struct ag_stream *stream);

/* A hold begins. */
void ag_pace_begun(struct ag_stream *stream);

/* What is held is about to be submitted; `late`: by the watchdog, or else by this thread `now`. */
void ag_pace_submitted(struct ag_stream *stream, uint32_t held, bool late, uint64_t now);

/* Now, in ns. And, with AG_TURNS only: the time since then, in which nothing was timed, does not
   count. */
uint64_t ag_pace_now(void);
void ag_pace_skip(uint64_t since);

/* The same; 0 if nobody wants to know. And: this thread has been submitting since then, which is
   no time of the program's own; `whole`: by one replay. */
uint64_t ag_pace_clock(void);
void ag_pace_spent(struct ag_stream *stream, uint64_t began, bool whole);

/* A sequence of so many ops has ended, with a barrier or without. */
void ag_pace_ended(struct ag_stream *stream, uint32_t ops, bool barrier);

#endif
