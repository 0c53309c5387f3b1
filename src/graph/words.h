/* SPDX-License-Identifier: MIT */
/*
 * What an op's shape, extra bytes and arguments mean, for describing and for submitting alike.
 *
 *   kind     shape                      extra                            arguments
 *   kernel   enum ag_kernel_word        CUlaunchAttribute[], normalised  the kernel's parameters
 *   memset   enum ag_memset_word        -                                struct ag_memset_arguments
 *   copy     enum ag_copy_word          CUDA_MEMCPY3D                    struct ag_copy_arguments
 *   record   -                          -                                struct ag_event_arguments
 *   wait     enum ag_event_word         -                                struct ag_event_arguments
 *   value    enum ag_value_word         -                                the value
 */
#ifndef AG_WORDS_H
#define AG_WORDS_H

#include <cuda.h>
#include <stdint.h>

#include "trace/op.h"

/*
 * The free words: what an exec takes anew for each launch (docs/measurements.md, "What does it take
 * to change a shape?"). A launch with attributes has none, since attributes may depend on its
 * shape; nor has one whose arguments the driver keeps.
 */
enum {
    AG_KERNEL_FREE = 0x7f,   /* grid, block, shared memory */
    AG_MEMSET_FREE = 0x7,    /* elements of a single row, and their width */
    AG_COPY_FREE = 0x3 << 4, /* bytes of a copy of one dimension */
};

enum ag_kernel_word {
    AG_KERNEL_GRID = 0, /* three words */
    AG_KERNEL_BLOCK = 3,
    AG_KERNEL_SHARED = 6,
    AG_KERNEL_FLAGS = 7, /* number of attributes in the call, and: */
};

/* From this bit on: the number of the function's settings (graph/setting.h), 0 if it has none of
   its own. No call has such a number either. */
enum { AG_KERNEL_SETTING = 16, AG_MOST_SETTINGS = 15 };

/* That number. */
static inline uint32_t ag_kernel_setting(const struct ag_op *op)
{
    return op->shape[AG_KERNEL_FLAGS] >> AG_KERNEL_SETTING & AG_MOST_SETTINGS;
}

/*
 * Streams that fork and join (graph/fork.h): the ops of a branch stand in the sequence of the
 * stream that forked. From this bit on the last word of any op has the number of its branch, 0 for
 * the stream that forked. No call has such a number.
 */
enum { AG_OP_BRANCH = 20, AG_BRANCHES = 8 };

/* The number of the branch that the op is in. */
static inline unsigned ag_op_branch(const struct ag_op *op)
{
    return op->shape[AG_SHAPE_WORDS - 1] >> AG_OP_BRANCH & (AG_BRANCHES - 1);
}

/* Puts the op into that branch. */
static inline void ag_op_set_branch(struct ag_op *op, unsigned branch)
{
    op->shape[AG_SHAPE_WORDS - 1] &= ~((uint32_t)(AG_BRANCHES - 1) << AG_OP_BRANCH);
    op->shape[AG_SHAPE_WORDS - 1] |= (uint32_t)branch << AG_OP_BRANCH;
}

enum ag_memset_word {
    AG_MEMSET_COUNT_LOW, /* elements of a row */
    AG_MEMSET_COUNT_HIGH,
    AG_MEMSET_WIDTH,  /* bytes of an element */
    AG_MEMSET_HEIGHT, /* rows */
    AG_MEMSET_PITCH_LOW,
    AG_MEMSET_PITCH_HIGH,
    AG_MEMSET_VALUE, /* of more than one row; else it is an argument */
};

struct ag_memset_arguments {
    uint64_t dst;
    uint32_t value;
};

struct ag_copy_arguments {
    uint64_t dst;
    uint64_t src;
    uint64_t dst_buffer; /* CU_POINTER_ATTRIBUTE_BUFFER_ID */
    uint64_t src_buffer;
};

enum ag_copy_word {
    /* Of more than one dimension; else the allocations are arguments. */
    AG_COPY_DST_BUFFER_LOW,
    AG_COPY_DST_BUFFER_HIGH,
    AG_COPY_SRC_BUFFER_LOW,
    AG_COPY_SRC_BUFFER_HIGH,
    /* Of one dimension; else the size is in the extra bytes. */
    AG_COPY_BYTES_LOW,
    AG_COPY_BYTES_HIGH,
    AG_COPY_UPLOAD, /* 1: of pageable memory, of which the bytes are taken at the call; src is where
                       they are while the op is held, or 0: it has never been held */
};

enum ag_value_word { AG_VALUE_OPERATION /* CUstreamBatchMemOpType */, AG_VALUE_FLAGS };

enum ag_event_word {
    AG_EVENT_LINK, /* of a wait: the record that it waits for stands so many ops before it, in the
                      same sequence; 0: somewhere else */
};

struct ag_event_arguments {
    CUevent event;   /* first */
    uint64_t serial; /* which event of that handle: a node must be given it anew */
};

/* In place of the serial: the program has destroyed the event, so nobody can ask for the record. */
#define AG_EVENT_GONE UINT64_MAX

#endif
