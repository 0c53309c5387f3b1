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

/* Of two words, the bits of those that are not free, by which are: the first, the second. */
static const uint64_t fixed[4] = {UINT64_MAX, UINT64_MAX << 32, UINT32_MAX, 0};

void ag_op_hash(struct ag_op *op)
{
    uint64_t token = mix((uint64_t)op->kind << 16 | op->free, (uintptr_t)op->func);
    if (op->extra_size != 0)
        token = ag_hash(token, op->extra, op->extra_size);
    uint64_t structure = token;
    for (unsigned i = 0; i < AG_SHAPE_WORDS; i += 2)
        token = mix(token, (uint64_t)op->shape[i + 1] << 32 | op->shape[i]);
    op->token = op->structure = token;
    if (op->free == 0)
        return;
    for (unsigned i = 0; i < AG_SHAPE_WORDS; i += 2) {
        uint64_t words = (uint64_t)op->shape[i + 1] << 32 | op->shape[i];
        structure = mix(structure, words & fixed[op->free >> i & 3]);
    }
    op->structure = structure;
}
