/* SPDX-License-Identifier: MIT */
/*
 * Untracked streams: those that are not tracked yet.
 *
 * A program may make thousands of streams for a few ops each, of which nothing is ever replayed.
 * The ops may differ, or cannot be held, or there are more streams than vacant states. Then it is
 * all loss to find a state for each stream and to record its ops. So after many such lives in a row
 * (ag_lives_end()) new streams of the context are untracked: their ops go straight to the driver,
 * behind what CUDA orders before them implicitly, and are only counted. A stream that lasts gets
 * its state with its 17th op. Some new streams are tracked from their first op on all the same.
 * One replay in any life, and no new stream is untracked.
 *
 * More graphs are made only while nothing runs (grow.c). So an untracked stream of another thread
 * forbids that; the calling thread's own untracked streams are asked.
 *
 * Untracked streams are in a table of fixed size, without a lock. The thread that issues a stream's
 * first op enters it. The stream leaves the table when it gets a state, or before it is destroyed.
 * A thread that is about to destroy one waits while another thread makes graphs
 * (ag_issuer_wait_for_growth()), since that one may have read its name.
 *
 * No stream is untracked while a trace file is written: it shows each op's stream.
 */
#ifndef AG_UNTRACKED_H
#define AG_UNTRACKED_H

#include "engine/stream/stream.h"

/* The place of an untracked stream in the table; NULL: the stream is not untracked. */
struct ag_untracked *ag_untracked_find(CUstream handle);

/* A stream of the context is untracked from now on. NULL: there is no room. The caller looks for a
   state of the stream before and behind. Whoever gives it one at the same time takes its place
   away, or the caller sees the state. */
struct ag_untracked *ag_untracked_begin(CUstream handle, struct ag_context *context, bool blocking);

/* Whether the untracked stream does not last yet: counts the op, and the caller lets it pass, after
   what is held and must precede it. *behind, if the op passes: something of that kind is held. No
   lock may be held. */
bool ag_untracked_op(struct ag_untracked *untracked, CUstream handle, bool *behind);

/* The stream has got a state: it is not untracked any more. */
void ag_untracked_leave(CUstream handle);

/* The stream is about to be destroyed: it is not untracked any more, and work that it may leave is
   counted. False: it was not untracked, or may have a state. */
bool ag_untracked_destroy(CUstream handle);

/* The ops of an untracked stream that this thread remembers, or 0. */
uint32_t ag_untracked_issued(CUstream handle);

/* The program has waited for so many of them. */
void ag_untracked_waited_for(CUstream handle, uint32_t issued);

/* Whether the stream is untracked. */
bool ag_untracked_has(CUstream handle);

/* All untracked streams. */
bool ag_untracked_others(void); /* whether another thread has one */
/* Whether nothing is at work in those of the context (NULL: in any), and no other thread has one of
   them. */
bool ag_untracked_rest(const struct ag_context *context);
void ag_untracked_forget(const struct ag_context *context); /* their context is going away */
void ag_untracked_thread_leaves(void); /* the calling thread ends: its own are nobody's */

/* Streams that are untracked, in any context. */
unsigned ag_untracked_count(void);

/* Ops that were issued in streams that are untracked. */
uint64_t ag_untracked_ops(void);

#endif
