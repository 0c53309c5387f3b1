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

#include "engine/context/fetch.h"
#include "engine/context/orphans.h"
#include "policy/backoff.h"
#include "policy/trial.h"

struct ag_trace;

/* Order of CUDA's implicit synchronization: CUDA driver API, "Stream synchronization behavior". */
enum ag_stream_kind {
    AG_STREAM_BLOCKING,    /* explicit; ordered with the legacy stream */
    AG_STREAM_NONBLOCKING, /* explicit; not ordered with it */
    AG_STREAM_LEGACY,
    AG_STREAM_PER_THREAD, /* a thread's default stream; blocking */
};

/* trials.c: held and eager blocks take turns. */
struct ag_trials {
    _Atomic(const void *) leader; /* the thread whose blocks are timed; NULL: there is no trial */
    _Atomic bool eager;           /* nothing is held at present */
    _Atomic int64_t left;         /* ops to be held before the next trial, about */
    _Atomic uint32_t lost;        /* trials that holding has lost */
    _Atomic uint32_t rest;        /* ops of each stream that pass after the last of these */

    _Atomic uint64_t gone; /* what states had issued in the context that are of others now */

    _Atomic bool busy; /* a thread is at the following */
    struct ag_trial trial;
    uint64_t began, ops; /* the block: when, ns, 0: not yet; and the context's ops by then */
    uint64_t apart;      /* the leader's `apart` by then */
    uint32_t mark;       /* waits and graphs of the leader when its last sequence began */
    struct ag_backoff again, rests; /* `left` after a trial, `rest` after one that is lost */
};

/* Execs that have been destroyed while their last launches ran: the launches have the memory still.
   Short ones, long ones. */
struct ag_running {
    long execs[2];
};

/* Whether there is any of them. */
static inline bool ag_context_any_run(const struct ag_running *running)
{
    return (running->execs[0] | running->execs[1]) != 0;
}

struct ag_pinned;

struct ag_context {
    struct ag_context *next;
    CUcontext ctx; /* written under the lock of context.c; barriers look at it without */
    CUdevice device;

    /* Under the lock of context.c. */
    long count;    /* the engine's execs in this context */
    long execs[2]; /* their paths: of short ones, of long ones (AG_EXEC_SHORT) */
    long grown[2]; /* of each, how many the device has given memory for besides: made at a safe
                      point */
    long shorts;   /* of short ones, at most at a time, among those that are made at any time */
    long made[2];  /* execs that the driver has now: short ones, long ones */
    long sure;     /* as `shorts`, but no more than the device has had for certain */
    long memory;   /* device memory that the execs take, KiB */
    _Atomic long running; /* places among `execs` of execs that ran when they were destroyed */
    struct ag_running left_execs;  /* of streams that are gone, among `execs` until */
    _Atomic unsigned execs_behind; /* what was left up to this number is settled (orphans.h) */

    /* Under the lock of registry.c. */
    uint32_t useless_lives;  /* short lives of streams in a row that gained nothing */
    struct ag_backoff rears; /* untracked streams: how many times as many as such lives are next */
    _Atomic uint32_t untracked; /* next new streams that are untracked */

    _Atomic unsigned relays;   /* relays in the context; see relay.h */
    _Atomic unsigned ahead[3]; /* for each kind of stream: how many streams hold ops that must go
                                  out before an op of this kind (ag_context_ahead()). A stream that
                                  is `counted` counts itself */
    _Atomic unsigned placed; /* streams made in the context, default streams that are used, and the
                                library's own streams */
    _Atomic unsigned used;   /* streams with a state, not vacant ones */
    _Atomic unsigned paths;  /* of graphs with branches that may run now: paths.h */
    unsigned queues;         /* queues of the device that the context has: constant */
    CUcontext was;           /* lock of context.c: `ctx` before it was forgotten */
    _Atomic bool shares;     /* there are more streams than queues, so any two may share a queue. A
                                queue begins its work in the order of submission */
    _Atomic int64_t
        overspent; /* ns that making graphs has taken, less what replays have saved since */
    struct ag_trials trials;   /* whether holding pays */
    _Atomic unsigned starved;  /* hot sequences that found no exec */
    struct ag_trace *buried;   /* lock of helper.c: traces to destroy while the device is idle */
    _Atomic(CUevent) grave;    /* the event that buried graphs name; NULL: not made yet */
    struct ag_orphans orphans; /* work of streams that are gone */
    _Atomic bool green;        /* it may be current to one thread at a time (CUDA driver API, Green
                                  Contexts): no other thread can submit what is held there */
    struct ag_fetch fetch;
    _Atomic bool resizes; /* only the library's execs have CU_CTX_LMEM_RESIZE_TO_MAX set there */
    _Atomic int refused; /* error of a held op that no call of the program has returned yet; or 0 */

    struct ag_pinned
        *_Atomic spare; /* of helper.c: pinned memory for uploads that nobody has got */

    /* Under the lock of staging.c. */
    struct ag_ring *rings; /* that no state has any more */
    unsigned ring_count;   /* all of the context's */
};

/* What making graphs in the context has taken and replays have not saved yet, ns; 0 or less:
   nothing. While something is owed, variants and longer traces of the same ops are not made. */
static inline int64_t ag_context_overspent(const struct ag_context *context)
{
    return atomic_load_explicit(&context->overspent, memory_order_relaxed);
}

/* The count that an op of such a stream looks at. */
static inline _Atomic unsigned *ag_context_ahead(struct ag_context *context,
                                                 enum ag_stream_kind kind)
{
    return &context->ahead[kind == AG_STREAM_PER_THREAD ? AG_STREAM_BLOCKING : kind];
}

/* Before any is found: the driver is initialised. */
void ag_contexts_start(void);

/* One more stream has been made in the context. True: its streams share queues from now on. */
bool ag_context_place(struct ag_context *context);

/* Counts one more stream of the library's own. False: it would have to share a queue, and is not
   counted. */
bool ag_context_reserve(struct ag_context *context);

/* Whether the next stream has to share a queue. */
static inline bool ag_context_is_full(const struct ag_context *context)
{
    return atomic_load_explicit(&context->placed, memory_order_relaxed) >= context->queues;
}

/* Makes the context current on the calling thread, if it is not. False: the context is gone.
   `pushed` is for ag_context_leave(), which undoes it. */
bool ag_context_enter(const struct ag_context *context, bool *pushed);
void ag_context_leave(bool pushed);

/* The context of this thread, NULL if there is none. */
CUcontext ag_context_current(void);

/* Whether this thread is inside a host function of a stream, where the driver refuses to launch and
   to change contexts (CUDA_ERROR_NOT_PERMITTED); else its context, or NULL. */
bool ag_context_refused(CUcontext *current);

/* The state of a context, made when it is new; NULL: the context is gone, or no memory. */
struct ag_context *ag_context_find(CUcontext ctx);

/* The stream `handle` of the context goes, with work left in it. NULL: the stream cannot be asked
   any more. Returns the number in the list of what is left. The context is current if there is a
   handle. */
unsigned ag_context_leave_behind(struct ag_context *context, CUstream handle, bool blocking);

/* The calling thread is about to launch where no door sees it, in the current context. */
void ag_context_unseen(void);

/* The calling thread ends. */
void ag_context_thread_ends(void);

/* A thread has launched unseen, without a context: nobody knows where that runs. */
extern _Atomic bool ag_context_unknown;

/* The state behind `last` (NULL: the first), which may be of a context that is gone; NULL: there is
   none. */
struct ag_context *ag_context_next(const struct ag_context *last);

/* The state of a context; NULL: it has none. */
struct ag_context *ag_context_peek(CUcontext ctx);

/* A context that lives on the device, behind `last` (NULL: the first); NULL: there is none. */
struct ag_context *ag_context_of_device(CUdevice device, const struct ag_context *last);

/* Takes the error of a held op that the driver refused; CUDA_SUCCESS: there was none. */
CUresult ag_context_refusal(struct ag_context *context);

/* The context is going away; its streams are dead. */
void ag_context_forget(struct ag_context *context);

/*
 * Reserves an exec of `ops` ops and so many paths in the context. While the device is `idle`, any
 * that the budgets allow; otherwise only one that can be made without a wait for running kernels.
 * False: none is left. *grows: the device gives memory for it once it is made, which
 * ag_context_made_exec() is told.
 */
bool ag_context_take_exec(struct ag_context *context, uint32_t ops, unsigned paths, bool idle,
                          bool *grows);

/* Such an exec has been made. If it grows the context may have memory for one more path at any time
   from now on. */
void ag_context_made_exec(struct ag_context *context, uint32_t ops, bool grows);

/* Gives such an exec back; `made`: it has been. */
void ag_context_give_exec(struct ag_context *context, uint32_t ops, unsigned paths, bool made);

/* One more exec of one path runs, and is about to be destroyed: its place is kept besides. */
void ag_context_keep_exec(struct ag_context *context, struct ag_running *running, uint32_t ops);

/* The launches of those execs have ended: the places are given back. False: there were none. */
bool ag_context_have_run(struct ag_context *context, struct ag_running *running);

/* The same once all is settled that has been left in the context by now: their stream goes. */
void ag_context_leave_execs(struct ag_context *context, struct ag_running *running);

/* Gives back the places of such execs whose launches have ended. False: of none. */
bool ag_context_settle_execs(struct ag_context *context);

/* Whether the budgets allow one more exec, even if it can be made only while the device is idle. */
bool ag_context_allows(struct ag_context *context, uint32_t ops);

/* Some streams have been untracked (untracked.h). */
extern _Atomic bool ag_any_untracked;

/* The life of a stream with a state is over. `is_short`: it had few ops, and the state from the
   first of them on. `gained`: some op was replayed. The lock of registry.c is held. */
void ag_lives_end(struct ag_context *context, bool is_short, bool gained);

/* Whether a stream that begins now is untracked, or would be if it had a handle. Counts it. */
bool ag_lives_take(struct ag_context *context);

/* The process sees more than one device. */
extern _Atomic bool ag_many_devices;

/* The most device memory that execs have taken in one context at any time, KiB. */
extern _Atomic long ag_most_graph_memory;

/* Graph execs of the program's own: live ones, and destroyed ones whose launches may still run. */
extern _Atomic int ag_program_execs;
extern _Atomic int ag_program_execs_gone;  /* of these, the destroyed ones */
extern _Atomic unsigned ag_context_errors; /* errors that belong to no stream */

/* Asks the driver, and remembers the answer for the calling thread. NULL: there is none. */
CUcontext ag_context_ask_current(void);

#endif
