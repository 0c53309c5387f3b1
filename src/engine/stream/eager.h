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
    atomic_store_explicit(&stream->eager.bare, true, memory_order_relaxed);
}

/* The driver has taken the op at that node: its shape is good. */
static inline void ag_eager_taken(struct ag_node *node)
{
    node->taken = true;
    node->bad &= (uint8_t)~AG_BAD_SHAPE;
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

/* Whether an op came last that cannot be held. */
static inline void ag_eager_is_bare(struct ag_stream *stream, bool bare)
{
    atomic_store_explicit(&stream->eager.bare, bare, memory_order_relaxed);
}

#endif
