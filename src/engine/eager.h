/* SPDX-License-Identifier: MIT */
/* Ops that went out eagerly, each to be told of if it fails. Wants the stream's lock. */
#ifndef AG_EAGER_H
#define AG_EAGER_H

#include "engine/stream.h"

/* For a new life of the state. */
static inline void ag_eager_start(struct ag_stream *stream)
{
    atomic_store_explicit(&stream->eager.bare, true, memory_order_relaxed);
}

/* The last op that went out eagerly is at this node; NULL: the op has none. */
static inline void ag_eager_is(struct ag_stream *stream, struct ag_node *node)
{
    stream->eager.last = node;
}

/* Whether the last op fails says nothing of any other, or its node goes. */
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
