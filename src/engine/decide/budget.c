/* SPDX-License-Identifier: MIT */
/* How often a sequence must be seen before it gets a graph: see budget.h. */
#include "engine/decide/budget.h"

#include "config/config.h"
#include "driver/limits.h"
#include "graph/node.h"
#include "policy/policy.h"

/* What making the graph of a single op has taken of late, ns. */
static _Atomic uint32_t single_ns;

AG_HOLDS(struct ag_node, ways, AG_MOST_HOT << AG_CREDIT_DOUBLED);

/* Whether the one op of this path that has a weight is a copy from the host. */
static bool is_upload(const struct ag_node *leaf)
{
    while (ag_op_weight(&leaf->op) == 0)
        leaf = leaf->parent;
    return leaf->op.kind == AG_OP_COPY && ag_op_is_from_host(&leaf->op);
}

uint32_t ag_budget_hot(const struct ag_stream *stream, const struct ag_node *leaf)
{
    uint32_t times = (uint32_t)ag_opt.trace_hot;
    int64_t overspent = ag_context_overspent(stream->id.context);
    if (__builtin_expect(overspent > 0, 0)) {
        int64_t doubled = overspent / (ag_opt.graph_credit_ms * 1000000);
        times <<= doubled < AG_CREDIT_DOUBLED ? doubled : AG_CREDIT_DOUBLED;
    }
    if (leaf->weight != 1)
        return times;
    if (is_upload(leaf))
        return UINT32_MAX; /* the call costs no more than a graph */
    uint32_t paid = atomic_load_explicit(&single_ns, memory_order_relaxed) / AG_GAIN_NS;
    return paid < AG_SINGLE_TIMES * times ? AG_SINGLE_TIMES * times : paid;
}

void ag_budget_spend(struct ag_stream *stream, const struct ag_node *leaf, uint64_t ns)
{
    stream->counters.making_ns += ns;
    atomic_fetch_add_explicit(&stream->id.context->overspent, (int64_t)ns, memory_order_relaxed);
    if (leaf->weight != 1)
        return;
    uint32_t before = atomic_load_explicit(&single_ns, memory_order_relaxed);
    uint32_t now = ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX;
    atomic_store_explicit(&single_ns, before - before / 4 + now / 4, memory_order_relaxed);
}
