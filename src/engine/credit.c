/* SPDX-License-Identifier: MIT */
/* How often a sequence must be seen before it gets a graph: see credit.h. */
#include "engine/credit.h"

#include "config/config.h"
#include "policy/policy.h"

/* What making the graph of a single op has taken of late, ns. */
static _Atomic uint32_t single_ns;

AG_HOLDS(struct ag_node, ways, AG_MOST_HOT << AG_CREDIT_DOUBLED);

/* Whether it is a copy from the host, and nothing else: a call that costs no more than a graph. */
static bool is_upload(const struct ag_node *leaf)
{
    const CUDA_MEMCPY3D *params = leaf->op.extra;
    return leaf->depth == 1 && leaf->op.kind == AG_OP_COPY &&
           params->srcMemoryType == CU_MEMORYTYPE_HOST;
}

uint32_t ag_credit_hot(const struct ag_stream *stream, const struct ag_node *leaf)
{
    uint32_t times = (uint32_t)ag_opt.trace_hot;
    int64_t owed = ag_context_owes(stream->id.context);
    if (__builtin_expect(owed > 0, 0)) {
        int64_t doubled = owed / (ag_opt.graph_credit_ms * 1000000);
        times <<= doubled < AG_CREDIT_DOUBLED ? doubled : AG_CREDIT_DOUBLED;
    }
    if (leaf->weight != 1)
        return times;
    if (is_upload(leaf))
        return UINT32_MAX;
    uint32_t paid = atomic_load_explicit(&single_ns, memory_order_relaxed) / AG_GAIN_NS;
    return paid < AG_SINGLE_TIMES * times ? AG_SINGLE_TIMES * times : paid;
}

void ag_credit_owe(struct ag_stream *stream, const struct ag_node *leaf, uint64_t ns)
{
    stream->counters.making_ns += ns;
    atomic_fetch_add_explicit(&stream->id.context->owed, (int64_t)ns, memory_order_relaxed);
    if (leaf->weight != 1)
        return;
    uint32_t before = atomic_load_explicit(&single_ns, memory_order_relaxed);
    uint32_t now = ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX;
    atomic_store_explicit(&single_ns, before - before / 4 + now / 4, memory_order_relaxed);
}
