/* SPDX-License-Identifier: MIT */
/* The token of an op: a 64-bit hash of its structure. */
#include "trace/op.h"

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    return hash ^ (hash >> 32);
}

void ag_op_hash(struct ag_op *op)
{
    uint64_t hash = mix(op->kind, (uintptr_t)op->func);
    for (unsigned i = 0; i < AG_SHAPE_WORDS; i += 2)
        hash = mix(hash, (uint64_t)op->shape[i] << 32 | op->shape[i + 1]);
    const unsigned char *extra = op->extra;
    uint32_t i = 0;
    for (; i + 8 <= op->extra_size; i += 8) {
        uint64_t word;
        memcpy(&word, extra + i, 8);
        hash = mix(hash, word);
    }
    for (; i < op->extra_size; i++)
        hash = mix(hash, extra[i]);
    op->token = hash;
}
