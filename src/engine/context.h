/* SPDX-License-Identifier: MIT */
/*
 * The engine's view of contexts: what is held in each, and what each may have of execs. States of
 * contexts are never freed, only used again.
 */
#ifndef AG_CONTEXT_H
#define AG_CONTEXT_H

#include <cuda.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Order of CUDA's implicit synchronization: CUDA driver API, "Stream synchronization behavior". */
enum ag_stream_kind {
    AG_STREAM_BLOCKING,    /* explicit; ordered with the legacy stream */
    AG_STREAM_NONBLOCKING, /* explicit; not ordered with it */
    AG_STREAM_LEGACY,
    AG_STREAM_PER_THREAD, /* a thread's default stream; blocking */
};

struct ag_context {
    struct ag_context *next;
    CUcontext ctx; /* written under the lock of context.c; barriers look at it without */
    CUdevice device;

    /* Under the lock of context.c. */
    long execs[2]; /* that the engine has in this context: short ones, long ones */
    long grown[2]; /* execs that were ever made while the device was idle, likewise */
    long shorts;   /* the most short ones at a time in what the context gives at any time */
    long memory;   /* of the device, that they take, KiB */

    /* Under the registry lock of stream.c. */
    uint32_t barren;        /* short lives of streams in a row that gained nothing */
    uint32_t young_last;    /* new streams that were young the last time */
    _Atomic uint32_t young; /* and from now on; see young.h */

    _Atomic unsigned relays;   /* streams of the engine's own; see submit.c */
    _Atomic unsigned ahead[3]; /* by kind, see ag_context_ahead(): streams that hold what an op of
                                  such a stream comes behind, itself included if it is `counted` */
    _Atomic unsigned placed;   /* streams that have been made in it, with default streams that are
                                  used, and the library's own */
    unsigned queues;           /* of the device, that it has: constant */
    CUcontext was;             /* lock of context.c: `ctx` before it was forgotten */
    _Atomic bool shares;  /* more streams have been made than it has queues: any two may share one,
                             where the order of submission is the order in which work begins */
    _Atomic int64_t owed; /* for graphs that were made, ns, less what replays have saved since */
    _Atomic unsigned starved; /* hot sequences that found no exec */
    _Atomic unsigned left;    /* streams that have gone, and may have left work behind */
    _Atomic unsigned settled; /* of these, before the program last waited for the context */
    _Atomic bool green;       /* it may be current to one thread at a time (CUDA driver API, Green
                                 Contexts), so that no other can submit what is held there */
    _Atomic int refused; /* of a held op, and no call of the program has returned it yet; or 0 */
};

/* What the context's graphs have taken and replays have not saved yet, ns; not above 0: nothing. A
   variant, and a longer trace where there is one already, can wait for that. */
static inline int64_t ag_context_owes(const struct ag_context *context)
{
    return atomic_load_explicit(&context->owed, memory_order_relaxed);
}

/* The count that an op of such a stream looks at. */
static inline _Atomic unsigned *ag_context_ahead(struct ag_context *context,
                                                 enum ag_stream_kind kind)
{
    return &context->ahead[kind == AG_STREAM_PER_THREAD ? AG_STREAM_BLOCKING : kind];
}

/* Before any is found: the driver is initialised. */
void ag_contexts_start(void);

/* One more stream has been made in the context. Whether its streams share queues since. */
bool ag_context_place(struct ag_context *context);

/* The same for one of the library's own, if it need not share a queue. */
bool ag_context_reserve(struct ag_context *context);

/* Whether the next one has to share a queue. */
static inline bool ag_context_is_full(const struct ag_context *context)
{
    return atomic_load_explicit(&context->placed, memory_order_relaxed) >= context->queues;
}

/* Makes the context current on the calling thread if it is not; leave undoes it. False: it is gone.
 */
bool ag_context_enter(const struct ag_context *context, bool *pushed);
void ag_context_leave(bool pushed);

/* The context of this thread, NULL if there is none. */
CUcontext ag_context_current(void);

/* Whether this thread is inside a host function of a stream, where the driver refuses to launch and
   to change contexts (CUDA_ERROR_NOT_PERMITTED); else its context, or NULL. */
bool ag_context_refused(CUcontext *current);

/* The state of a context, made when it is new; NULL: the context is gone, or no memory. And: the
   state if there is one. */
struct ag_context *ag_context_find(CUcontext ctx);
struct ag_context *ag_context_peek(CUcontext ctx);

/* A context that lives on the device, behind `last` (NULL: the first); NULL: there is none. */
struct ag_context *ag_context_of_device(CUdevice device, const struct ag_context *last);

/* Takes the error of a held op that the driver refused; CUDA_SUCCESS: there was none. */
CUresult ag_context_refusal(struct ag_context *context);

/* The context is going away; its streams are dead. */
void ag_context_forget(struct ag_context *context);

/*
 * Takes one of the execs that may be made in this context, with so many ops: of those that it gives
 * without a wait, or, while the device is `idle`, of all that the budgets allow. False: none is
 * left.
 */
bool ag_context_take_exec(struct ag_context *context, uint32_t ops, bool idle);
void ag_context_give_exec(struct ag_context *context, uint32_t ops);

/* Whether the budgets allow one more, if only while the device is idle. */
bool ag_context_allows(struct ag_context *context, uint32_t ops);

/* The process sees more than one device. */
extern _Atomic bool ag_many_devices;

/* The most device memory that execs have taken in one context at any time, KiB. */
extern _Atomic long ag_most_graph_memory;

/* Whether all work is done that streams of any context left behind when they went. */
bool ag_contexts_settled(void);

extern _Atomic int ag_program_execs;       /* live graph execs of the program's own */
extern _Atomic unsigned ag_context_errors; /* contexts that could not be entered or left */

#endif
