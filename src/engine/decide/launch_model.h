/* SPDX-License-Identifier: MIT */
/*
 * Launch model: how long a stream's sequences are.
 *
 * A piece of n ops is launched when the last of them has been issued. That delays the GPU by up to
 * n times the program's own time between two ops, c, once between two barriers; and each piece
 * costs one graph launch, K. With N ops between two barriers the sum, n c + (N / n) K, is least at
 * n = sqrt(K N / c): long pieces for a program that issues fast or seldom waits, short ones for one
 * that computes between its launches and waits often. So the tail before a wait is short, too.
 * Where N is no more than n all is one piece, and lengths differ for the odd longer run only.
 *
 * A thread may deal its ops out to S streams. Between two ops of one stream it takes S times as
 * long. But one more piece means one more in each of the S streams, all on the CPU time of this
 * thread. So c is the time between any two ops of the thread.
 *
 * Behind a wait the GPU is idle. If it would wait for long the first piece there is half as long:
 * the GPU starts on it while the program issues the rest.
 *
 * How it is measured: c on held ops, N at barriers. Until something has been held, eager sequences
 * tell how many ops can be held at all, and how long the first piece behind a wait is to be.
 *
 * Lengths are powers of two, so that a loop of identical ops is cut at the same arguments. A length
 * changes only when another one is clearly better, since sequences of another length have to get
 * hot anew. With `trace.length = fixed` nothing is done.
 *
 * All functions want the stream's lock.
 */
#ifndef AG_LAUNCH_MODEL_H
#define AG_LAUNCH_MODEL_H

#include "engine/stream/stream.h"

/* For a new stream. */
void ag_model_start(struct ag_stream *stream);

/* Sequences have at most so many ops from now on, or the next lower power of two. */
void ag_model_bound(struct ag_stream *stream, uint32_t ops);

/* A hold begins. */
void ag_model_begun(struct ag_stream *stream);

/* `held` ops are about to be submitted: by the watchdog (`overdue`), or by this thread, at the time
   `now` (ag_model_clock()). */
void ag_model_submitted(struct ag_stream *stream, uint32_t held, bool overdue, uint64_t now);

/* The time now, ns; 0 if nobody wants to know. */
uint64_t ag_model_clock(void);

/* This thread has been submitting for so many ns (0: not known), which is not the program's own
   time; `whole`: by one replay. */
void ag_model_spent(struct ag_stream *stream, uint64_t ns, bool whole);

/* A sequence of so many ops has ended, with a barrier or without. */
void ag_model_ended(struct ag_stream *stream, uint32_t ops, bool barrier);

#endif
