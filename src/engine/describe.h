/* SPDX-License-Identifier: MIT */
/*
 * From a call of the program to an op: its structure, and pointers to its arguments.
 */
#ifndef AG_DESCRIBE_H
#define AG_DESCRIBE_H

#include "engine/engine.h"
#include "trace/op.h"

enum { AG_MOST_ATTRIBUTES = 8, AG_MOST_EXTRA_FIELDS = 256 };

/* An op as described, with room for what it points to. Valid as long as the call and itself. */
struct ag_described {
    struct ag_op op;
    void *const *from; /* a pointer to each argument */
    CUlaunchAttribute attrs[AG_MOST_ATTRIBUTES];
    void *fields[AG_MOST_EXTRA_FIELDS];
    uint64_t dst;
    uint32_t value;
};

/* False: an op that cannot be held. The context of the stream must be current. */
bool ag_describe_kernel(struct ag_described *to, const struct ag_kernel_call *call, CUcontext ctx);
bool ag_describe_memset(struct ag_described *to, const struct ag_memset_call *call);

/* Whether a memset to these bytes can only succeed: the range lies in one living allocation. */
bool ag_memset_valid(CUdeviceptr dst, size_t bytes);

#endif
