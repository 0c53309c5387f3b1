/* SPDX-License-Identifier: MIT */
/*
 * From a call of the program to an op: its structure, and pointers to its arguments.
 */
#ifndef AG_DESCRIBE_H
#define AG_DESCRIBE_H

#include "engine/call.h"
#include "engine/context/memory.h"
#include "graph/function.h"
#include "graph/node.h"
#include "observe/counters.h"

enum { AG_MOST_ATTRIBUTES = 8 };

/* An op made of a call, without its token yet, with room for what it points to. Valid as long as
   the call's arguments and this struct. It lies on the program's stack, and is small therefore. */
struct ag_described {
    struct ag_op op;
    void *const *from; /* a pointer to each argument */
    void *fields[4];
    union {
        struct ag_memset_arguments memset;
        struct ag_copy_arguments copy;
        struct ag_event_arguments event;
        uint64_t word[4]; /* of other kinds */
    } arguments;
    union {
        CUlaunchAttribute attrs[AG_MOST_ATTRIBUTES];
        CUDA_MEMCPY3D params;
    };
    const void *upload; /* of a copy: the bytes of pageable memory that are taken when it is held;
                           NULL: it is no such copy */
};

/* Why the op cannot be held; AG_WHY_HELD: it can be, and is described. The context of the stream
   must be current. `function`: what is known of the call's function, or NULL. `answers`: what is
   known of memory. */
enum ag_why ag_describe_kernel(struct ag_described *to, const struct ag_kernel_call *call,
                               const struct ag_function *function);

/* A launch with its arguments in one buffer (`extra`). `fields`: room for AG_MOST_FIELDS pointers,
   which `to` points to. */
enum ag_why ag_describe_buffer(struct ag_described *to, const struct ag_kernel_call *call,
                               const struct ag_function *function, void **fields);

/* Of other kinds of op. `serial` of an event: 0 if it is not known in the context. */
enum ag_why ag_describe_memset(struct ag_described *to, const struct ag_memset_call *call,
                               struct ag_answers **answers);
enum ag_why ag_describe_copy(struct ag_described *to, const struct ag_copy_call *call,
                             struct ag_answers **answers);
enum ag_why ag_describe_event(struct ag_described *to, const struct ag_event_call *call,
                              uint64_t serial);

/*
 * Whether a memset is certain to succeed, given that its op has succeeded with other arguments: its
 * addresses are aligned, in one allocation that lives, and the device may write there. Every other
 * op that is described is certain: a copy's addresses were looked up to describe it.
 */
bool ag_memset_is_certain(const struct ag_described *call, struct ag_answers **answers);

#endif
