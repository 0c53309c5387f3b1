/* SPDX-License-Identifier: MIT */
/*
 * Budget: what graphs have cost in a context, and what their replays have saved since.
 *
 * A program that goes on to something else whenever it has repeated something a few times must not
 * pay for graphs each time. All functions want the stream's lock.
 */
#ifndef AG_ENGINE_BUDGET_H
#define AG_ENGINE_BUDGET_H

#include "engine/context/context.h"
#include "driver/limits.h"
#include "engine/stream/stream.h"

/*
 * How often a sequence that ends at this node must be seen before it gets a graph: trace.hot times,
 * doubled for each graph.credit_ms that the context owes. A single op must be seen more often:
 * until its replays would have saved as much as its graph costs. A copy from the host that
 * has but records and waits beside it never gets one (UINT32_MAX): it is no faster as a graph.
 */
uint32_t ag_budget_hot(const struct ag_stream *stream, const struct ag_node *leaf);

/* Making a graph of `leaf` took so long, whether it succeeded or not. */
void ag_budget_spend(struct ag_stream *stream, const struct ag_node *leaf, uint64_t ns);

/* Ops of so much weight (ag_op_weight()) have been replayed: records and waits save next to
 * nothing. */
static inline void ag_budget_earn(struct ag_context *context, uint32_t weight)
{
    if (__builtin_expect(ag_context_overspent(context) > 0, 0))
        atomic_fetch_sub_explicit(&context->overspent, (int64_t)weight * AG_GAIN_NS,
                                  memory_order_relaxed);
}

#endif
