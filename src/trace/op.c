/* SPDX-License-Identifier: MIT */
/* The token of an op: a 64-bit hash of its structure. */
#include "trace/op.h"

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    return hash ^ (hash >> 32);
}

uint64_t ag_hash(uint64_t hash, const void *bytes, uint32_t size)
{
    const unsigned char *from = bytes;
    uint32_t i = 0;
    for (; i + 8 <= size; i += 8) {
        uint64_t word;
        memcpy(&word, from + i, 8);
        hash = mix(hash, word);
    }
    for (; i < size; i++)
        hash = mix(hash, from[i]);
    return hash;
}

void ag_op_hash(struct ag_op *op)
{
    uint64_t hash = ag_hash(mix((uint64_t)op->kind << 16 | op->free, (uintptr_t)op->func),
                            op->extra, op->extra_size);
    uint64_t free = 0;
    for (unsigned i = 0; i < AG_SHAPE_WORDS; i++)
        if ((op->free >> i & 1) != 0)
            free = mix(free, op->shape[i]);
        else
            hash = mix(hash, op->shape[i]);
    op->structure = hash;
    op->token = op->free != 0 ? mix(hash, free) : hash;
}
