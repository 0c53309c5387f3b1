/* SPDX-License-Identifier: MIT */
/*
 * Credit: what graphs have cost in a context, and what their replays have saved since.
 *
 * A program that goes on to something else whenever it has repeated something a few times must not
 * pay for graphs each time. All functions want the stream's lock.
 */
#ifndef AG_ENGINE_CREDIT_H
#define AG_ENGINE_CREDIT_H

#include "engine/context/context.h"
#include "driver/limits.h"
#include "engine/stream/stream.h"

/*
 * How often a sequence that ends at this node must be seen before it gets a graph: trace.hot times,
 * doubled for each graph.credit_ms that the context owes. A single op must be seen more often:
 * until its replays would have saved as much as its graph costs. A copy from the host by itself
 * never gets one (UINT32_MAX): it is no faster as a graph.
 */
uint32_t ag_credit_hot(const struct ag_stream *stream, const struct ag_node *leaf);

/* Making a graph of `leaf` took so long, whether it succeeded or not. */
void ag_credit_owe(struct ag_stream *stream, const struct ag_node *leaf, uint64_t ns);

/* So many ops have been replayed. */
static inline void ag_credit_pay(struct ag_context *context, uint32_t ops)
{
    if (__builtin_expect(ag_context_owes(context) > 0, 0))
        atomic_fetch_sub_explicit(&context->owed, (int64_t)ops * AG_GAIN_NS, memory_order_relaxed);
}

#endif
