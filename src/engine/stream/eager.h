/* SPDX-License-Identifier: MIT */
/* Ops that went out eagerly, each to be told of if it fails. Wants the stream's lock. */
#ifndef AG_EAGER_H
#define AG_EAGER_H

#include "engine/stream/stream.h"
#include "graph/function.h"
#include "graph/words.h"

/* For a new life of the state. */
static inline void ag_eager_start(struct ag_stream *stream)
{
    atomic_store_explicit(&stream->eager.unrecorded, true, memory_order_relaxed);
}

/* The driver has taken the op at that node: its shape is good. */
static inline void ag_eager_taken(struct ag_node *node)
{
    node->taken = true;
    node->blacklisted &= (uint8_t)~AG_BLACKLISTED_SHAPE;
    if (node->op.kind == AG_OP_KERNEL && node->op.layout != NULL)
        ag_limits_launched(&ag_function_of(node->op.layout)->limits,
                           &node->op.shape[AG_KERNEL_BLOCK]);
}

/* The driver has taken the last op, if this thread issued it: its call is over. */
static inline void ag_eager_settle(struct ag_stream *stream)
{
    const struct ag_eager *eager = &stream->eager;
    if (eager->last != NULL && __builtin_expect(!eager->last->taken, 0) &&
        eager->thread == &ag_self)
        ag_eager_taken(eager->last);
}

/* The last op that went out eagerly is at this node; NULL: the op has none. The driver has taken
   the op before it, which has not been forgotten, if this thread issued it: the call of another
   thread may still be under way, and fail. */
static inline void ag_eager_is(struct ag_stream *stream, struct ag_node *node)
{
    ag_eager_settle(stream);
    stream->eager.last = node;
    stream->eager.thread = &ag_self;
}

/* The last op has failed, its node goes, or whether it fails says nothing of any other. */
static inline void ag_eager_forget(struct ag_stream *stream)
{
    stream->eager.last = NULL;
}

/* Why the last op that went out eagerly is not held. Also without the lock. */
static inline enum ag_why ag_eager_why(const struct ag_stream *stream)
{
    return (enum ag_why)atomic_load_explicit(&stream->eager.why, memory_order_relaxed);
}

/* Sets that reason. Wants the lock. */
static inline void ag_eager_set_why(struct ag_stream *stream, enum ag_why why)
{
    atomic_store_explicit(&stream->eager.why, why, memory_order_relaxed);
}

/* The next op of a sequence is not held, nor are those behind it. */
static inline void ag_eager_begins(struct ag_stream *stream, enum ag_why why)
{
    ag_eager_set_why(stream, why);
    stream->eager.from = stream->counters.ops;
}

/* The ops of the open sequence that were not held, so far. */
static inline uint64_t ag_eager_open(const struct ag_stream *stream)
{
    return stream->seq.state == AG_RECORDING ? stream->counters.ops - stream->eager.from : 0;
}

/* Whether the last op was one that cannot be held. Also without the lock. */
static inline bool ag_eager_was_unrecorded(const struct ag_stream *stream)
{
    return atomic_load_explicit(&stream->eager.unrecorded, memory_order_relaxed);
}

/* The op that comes now is one that cannot be held, or one that can be. */
static inline void ag_eager_is_unrecorded(struct ag_stream *stream, bool unrecorded)
{
    atomic_store_explicit(&stream->eager.unrecorded, unrecorded, memory_order_relaxed);
}

#endif
