/* SPDX-License-Identifier: MIT */
/*
 * Young streams: such as are not followed yet.
 *
 * A program may make a stream for a few ops, thousands of times, of which nothing is ever replayed:
 * because they are not the same, because nothing among them can be held, or because the streams are
 * more than there are vacant states. Finding a state for each, recording its ops and taking leave
 * of it is then all loss. So where many such lives have come in a row (ag_lives_end()), new streams
 * of the context are young at first: their ops go straight to the driver, behind what CUDA orders
 * before them implicitly, and are only counted. A stream that lasts gets its state with its 17th
 * op. Some streams are followed from their first op on all the same, and one replay in any life
 * ends it.
 *
 * What runs in a young stream must be known when a moment for more graphs is looked for (grow.c):
 * one of another thread forbids it, and this thread's own get their states then and are asked.
 *
 * A table of fixed size, without a lock. A stream is entered by the thread that issues its first
 * op, and leaves it once it has a state, or before it is destroyed; whoever is about to destroy one
 * waits while graphs are made behind such a moment (ag_growths), for its name may have been read
 * there.
 * Streams are not young where the trace file wants to see each op's stream.
 */
#ifndef AG_YOUNG_H
#define AG_YOUNG_H

#include "engine/stream.h"

/* Some streams have been young. */
extern _Atomic bool ag_any_young;

/*
 * Whether an op of this stream, which it counts, needs no state: the caller lets it pass. What is
 * held and must precede it has been submitted. No lock held.
 */
bool ag_young_op_slow(CUstream handle, bool ptsz, CUcontext current);

static inline bool ag_young_op(CUstream handle, bool ptsz, CUcontext current)
{
    return __builtin_expect(atomic_load_explicit(&ag_any_young, memory_order_relaxed), 0) &&
           ag_young_op_slow(handle, ptsz, current);
}

/* The stream has got a state: it is not young any more. */
void ag_young_leave(CUstream handle);

/* The stream is about to be destroyed: the same, and counts what it may leave behind. False: it was
   not young, or may have a state. */
bool ag_young_destroy(CUstream handle);

/* What has been issued in a young stream that this thread remembers, or 0; and that it has waited
   for so much. */
uint32_t ag_young_issued(CUstream handle);
void ag_young_waited_for(CUstream handle, uint32_t issued);

/* Whether the stream is young. */
bool ag_young_has(CUstream handle);

/* Whether another thread has a young stream; gives this thread's their states, false: some stream
   is young still, for want of memory perhaps; and their context is going away, or a thread ends,
   whose own they are no longer. */
bool ag_young_others(void);
bool ag_young_promote(void);
void ag_young_forget(const struct ag_context *context);
void ag_young_thread_leaves(void);

/* Ops that were issued in streams that are young. */
uint64_t ag_young_ops(void);

/* A life is over that had a state: whether it was short, and had one from its first op on, and
   whether it gained anything. Registry lock held. And: whether a stream that begins now is young,
   or would be if it had a handle; takes one of those that are. */
void ag_lives_end(struct ag_context *context, bool is_short, bool gained);
bool ag_lives_take(struct ag_context *context);

#endif
