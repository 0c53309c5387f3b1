/* SPDX-License-Identifier: MIT */
/*
 * An op: what makes two stream operations the same but for their arguments.
 *
 * No CUDA here: the engine describes its calls in these terms, and trace/ only compares them.
 */
#ifndef AG_OP_H
#define AG_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* What the op does (kinds.def). */
enum ag_op_kind {
#define AG_KIND(id, word, addresses) AG_OP_##id,
#include "trace/kinds.def"
};

/* Where each argument of an op lies in one packed buffer. Owned by whoever describes ops; must
   outlive every op that points to it. */
struct ag_layout {
    uint32_t size;  /* bytes of the whole buffer */
    uint32_t count; /* arguments */
    uint64_t name;  /* of a kernel: hash of its name; 0: not known, or nobody wants it */
    struct ag_field {
        uint32_t offset;
        uint32_t size;
    } field[];
};

/* Words of an op's shape, as many as a kernel needs: grid, block, shared memory, attributes. */
#define AG_SHAPE_WORDS 8

/*
 * An op. Its structure is all but for the words of its shape that are `free`: another call with
 * other such words is an op of the same structure, and they are arguments like others. `extra` is
 * whatever else belongs to it, compared by bytes (a launch's attributes in a normal form).
 */
struct ag_op {
    uint64_t token;     /* hash of all the rest */
    uint64_t structure; /* hash of the structure */
    const void *func;
    const struct ag_layout *layout;
    const void *extra;
    uint32_t extra_size;
    uint16_t kind;
    uint16_t free; /* bit n: shape[n] is an argument */
    uint32_t shape[AG_SHAPE_WORDS];
};

/* A hash of `size` bytes that goes on from another. */
uint64_t ag_hash(uint64_t hash, const void *bytes, uint32_t size);

/* Sets the two hashes from the other fields. */
void ag_op_hash(struct ag_op *op);

/* Whether an op counts towards the length that a trace must have (trace.min_length): records of
   events and waits for events cost little by themselves. */
static inline unsigned ag_op_weight(const struct ag_op *op)
{
    return op->kind != AG_OP_RECORD && op->kind != AG_OP_WAIT;
}

/* One of 64 bits, by the op's kind and a kernel's function and grid. A set of such bits tells
   quickly that an op is not among a few others; if its bit is set it may be. */
static inline uint64_t ag_mark(enum ag_op_kind kind, const void *func, uint32_t grid)
{
    uint64_t hash = ((uintptr_t)func ^ (uint64_t)grid << 40 ^ kind) * 0x9e3779b97f4a7c15u;
    return (uint64_t)1 << (hash >> 58);
}

/* The mark of an op that is described. */
static inline uint64_t ag_op_mark(const struct ag_op *op)
{
    bool kernel = op->kind == AG_OP_KERNEL;
    return ag_mark((enum ag_op_kind)op->kind, kernel ? op->func : NULL, kernel ? op->shape[0] : 0);
}

/* Whether the words of their shapes that are not free are equal. */
static inline bool ag_shape_is_like(const struct ag_op *a, const struct ag_op *b)
{
    if (memcmp(a->shape, b->shape, sizeof a->shape) == 0)
        return true;
    uint32_t differs = 0;
    for (unsigned i = 0; i < AG_SHAPE_WORDS; i++)
        differs |= (uint32_t)(a->shape[i] != b->shape[i]) << i;
    return (differs & ~(uint32_t)a->free) == 0;
}

/* Whether two ops have one structure. */
static inline bool ag_op_is_like(const struct ag_op *a, const struct ag_op *b)
{
    return a->structure == b->structure && a->func == b->func && a->kind == b->kind &&
           a->free == b->free && a->layout == b->layout && a->extra_size == b->extra_size &&
           ag_shape_is_like(a, b) &&
           (a->extra_size == 0 || memcmp(a->extra, b->extra, a->extra_size) == 0);
}

/* Whether two ops are the same, free words included; their hashes are not looked at. */
static inline bool ag_op_alike(const struct ag_op *a, const struct ag_op *b)
{
    return a->func == b->func && a->kind == b->kind && a->free == b->free &&
           a->layout == b->layout && a->extra_size == b->extra_size &&
           memcmp(a->shape, b->shape, sizeof a->shape) == 0 &&
           (a->extra_size == 0 || memcmp(a->extra, b->extra, a->extra_size) == 0);
}

#endif
