/* SPDX-License-Identifier: MIT */
/* How a memset is an op: which words of its shape mean what, and its arguments. */
#ifndef AG_GRAPH_NODE_H
#define AG_GRAPH_NODE_H

#include "trace/op.h"

enum { AG_MEMSET_COUNT_LOW, AG_MEMSET_COUNT_HIGH, AG_MEMSET_WIDTH };

struct ag_memset_arguments {
    uint64_t dst;
    uint32_t value;
};

static inline size_t ag_memset_count(const struct ag_op *op)
{
    return (size_t)op->shape[AG_MEMSET_COUNT_HIGH] << 32 | op->shape[AG_MEMSET_COUNT_LOW];
}

#endif
