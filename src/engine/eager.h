/* SPDX-License-Identifier: MIT */
/* Ops that went out eagerly, each to be told of if it fails. Wants the stream's lock. */
#ifndef AG_EAGER_H
#define AG_EAGER_H

#include "engine/stream.h"
#include "graph/function.h"
#include "graph/words.h"

/* For a new life of the state. */
static inline void ag_eager_start(struct ag_stream *stream)
{
    atomic_store_explicit(&stream->eager.bare, true, memory_order_relaxed);
}

/* The last op that went out eagerly is at this node; NULL: the op has none. The driver has taken
   the op before it, which has not been forgotten. */
static inline void ag_eager_is(struct ag_stream *stream, struct ag_node *node)
{
    struct ag_node *before = stream->eager.last;
    if (before != NULL && __builtin_expect(!before->taken, 0)) {
        before->taken = true;
        if (before->op.kind == AG_OP_KERNEL && before->op.layout != NULL)
            ag_limits_launched(&ag_function_of(before->op.layout)->limits,
                               &before->op.shape[AG_KERNEL_BLOCK]);
    }
    stream->eager.last = node;
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
