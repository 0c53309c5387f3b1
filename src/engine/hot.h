/* SPDX-License-Identifier: MIT */
/*
 * The words that doors and thunks read before they call the engine, and those that several files of
 * the engine raise. A door pays a load and a branch for each word that it reads.
 *
 * A word that one file raises, and that no door reads, is in that file's header.
 */
#ifndef AG_HOT_H
#define AG_HOT_H

#include <cuda.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Each reader knows that a word is in the library: it takes no address from a table first. */
#pragma GCC visibility push(hidden)

/* -- Whether a door calls the engine at all ---------------------------------- */

/*
 * False: every door passes straight through.
 * Set: when the engine starts with a driver that has all functions (process.c).
 * Cleared: when the engine stops for good (process.c), and in a forked child (preload/start.c).
 * Builds with AG_TURNS set and clear it at will (api.c).
 */
extern _Atomic bool ag_engine_on;

/*
 * Above 0 while the calling thread makes driver calls of the library's own.
 * Raised and lowered: around these calls. A thread that exits amid the engine never lowers it.
 */
extern _Thread_local unsigned ag_depth __attribute__((tls_model("initial-exec")));

/* -- Who wants to hear of barriers ------------------------------------------- */

/*
 * The number of subscribers: those that must hear of every barrier. They are the trace file and the
 * streams that have an open sequence, or whose ops went out through a relay. While the word is zero
 * a barrier door has nothing to do: this load and its branch are all that a pass-through call pays.
 * Raised: by ag_stream_update() (stream.c), when a sequence opens or a relay is used; by the trace
 * file (watch.c).
 * Lowered: by ag_stream_update(), when no sequence is open and the relay is absorbed or forgotten.
 * Zero in a forked child (preload/start.c).
 */
extern _Atomic unsigned ag_subscribers;

/* 1 while the trace file is one of ag_subscribers. Set once, before the first op (watch.c). */
extern _Atomic unsigned ag_file_listens;

/*
 * The number of streams that want to hear of the next barrier even though they hold nothing: the
 * barrier shows how often the program waits, and where its sequences begin.
 * Raised and lowered: by ag_sequence_subscribe() (sequence.c).
 * Zero in a forked child (preload/start.c).
 */
extern _Atomic unsigned ag_next_subscribers;

/* Whether the engine wants to hear of a barrier. */
static inline bool ag_engine_listens(void)
{
    return atomic_load(&ag_subscribers) != 0 ||
           atomic_load_explicit(&ag_next_subscribers, memory_order_relaxed) != 0;
}

/* Whether something may be held: some stream listens. */
static inline bool ag_anything_held(void)
{
    return atomic_load(&ag_subscribers) >
           atomic_load_explicit(&ag_file_listens, memory_order_relaxed);
}

/*
 * The number of streams whose open sequence has records of events or waits for events.
 * Raised: by the first such op of a sequence (sequence.c).
 * Lowered: when the sequence ends (sequence.h).
 */
extern _Atomic unsigned ag_event_streams;

/*
 * The program's own graphs may wait for a word in memory: all that is held is submitted before
 * them. Set: when the program waits for a word during a capture (calls.c), or makes a graph node
 * that does (preload/life.c). Never cleared.
 */
extern _Atomic bool ag_graphs_wait;

/*
 * The program's own graphs may allocate or free memory: a launch of one ends what is known of
 * memory (memory.h). Set: before the program does so during a capture (preload/ops.c), or makes a
 * graph node that may (preload/life.c). Never cleared.
 */
extern _Atomic bool ag_graphs_free;

/* -- What a door does after the driver's call -------------------------------- */

/*
 * The number of contexts in which the driver refused a held op, and the program does not know yet.
 * While it is not 0, a door whose call succeeded returns ag_engine_refusal() instead.
 * Raised: by the first refusal in a context (failure.c).
 * Lowered: when the program is told, or the context goes (context.c).
 */
extern _Atomic unsigned ag_refused;

/*
 * The number of hot sequences that have no graph yet, because making another exec might wait for
 * running kernels, and of traces that are buried, because destroying theirs might. While it is not
 * 0, doors call ag_engine_waited() after the host has waited.
 * Raised: when a sequence finds no room (execs.c), or a trace is buried (helper.c).
 * Lowered: when the stream's list is emptied (execs.c), or the trace destroyed (helper.c).
 */
extern _Atomic unsigned ag_wanted_traces;

/*
 * The number of places in the contexts' lists of what was left behind (orphans.h). While it is not
 * 0, doors call ag_engine_orphans() and ag_engine_orphans_done() around waits for a context.
 * Raised: when a stream goes with work, or a thread launches unseen (orphans.c).
 * Lowered: when that work is done, or the context goes (orphans.c).
 */
extern _Atomic unsigned ag_any_orphans;

/* Streams go that have a state: doors tell of waits. Set: when the first such stream is destroyed
   (life.c), or a default stream of a thread gets a state (registry.c). Never cleared. */
extern _Atomic bool ag_streams_go;

/* -- What holds for now ------------------------------------------------------ */

/*
 * The version of what the engine knows about memory (memory.h). Odd: the driver has been asked
 * since the last call that may free memory. Such a call makes an odd version even, which
 * invalidates all answers. It leaves an even version alone, so that it only reads one word where
 * nobody has asked.
 * Made odd: when the driver is asked (memory.c). Made even: by ag_memory_changed().
 */
extern _Atomic uint64_t ag_memory_state;

/* Before a call that may free, unmap or unregister memory. */
static inline void ag_memory_changed(void)
{
    uint64_t state = atomic_load(&ag_memory_state);
    if (state % 2 != 0) /* on failure another thread has just raised it */
        (void)atomic_compare_exchange_strong(&ag_memory_state, &state, state + 1);
}

/*
 * The calling thread's current context, as the driver last said. It counts only while ag_changes
 * has not moved.
 */
extern _Thread_local struct ag_current {
    CUcontext context; /* NULL: not known, ask the driver */
    unsigned changes;  /* ag_changes when the driver was asked */
} ag_current __attribute__((tls_model("initial-exec")));

/* Raised: before and after a function or a context goes away or changes (preload/life.c). Never
   lowered. */
extern _Atomic unsigned ag_changes;

/* A function or a context is about to go away or change, or has. */
static inline void ag_engine_changed(void)
{
    atomic_fetch_add(&ag_changes, 1);
}

/* The calling thread may have, or be about to get, another current context. */
static inline void ag_engine_forget_current(void)
{
    ag_current.context = NULL;
}

/* The driver function that the calling thread is in, a constant string: the report blames it for a
   cut. A launch of a kernel that is not held sets it to ag_cause_kernel; one that is held sets
   nothing. */
extern _Thread_local const char *ag_cause __attribute__((tls_model("initial-exec")));
extern const char ag_cause_kernel[];

/*
 * What the calling thread has done that says where its blocks begin (trials.h), and whether a door
 * is to call the engine. Raised: by the doors of such calls (preload/) and by read.c, pinned.c.
 * Lowered: `reads`, by read.c; `told`, by poll.c.
 */
extern _Thread_local struct ag_done {
    uint32_t waits;  /* calls for which the host may wait */
    uint32_t graphs; /* launches of the program's own graphs while a sequence is open */
    uint32_t told;   /* questions that were answered "not ready" */
    bool reads; /* the engine is to hear how the thread's wait for a stream has ended (read.c) */
} ag_done __attribute__((tls_model("initial-exec")));

/*
 * What ag_engine_passes() found out about the stream whose op the calling thread let pass last: it
 * makes the next ops cheap. A stale entry does no harm. Where nothing is held and no sequence is
 * open any op may pass; only its stream may learn less.
 */
struct ag_passing {
    uintptr_t key;                  /* ag_passing_key() of the stream; 0: none */
    uint32_t life;                  /* *living at that time */
    const _Atomic uint32_t *living; /* the `life` of the stream's state */
    uint64_t heads; /* ag_mark()s of ops that do not pass; AG_COPIES_PASS: only copies pass */
    _Atomic uint32_t *left;   /* ops that may still pass */
    _Atomic uint64_t *passed; /* ops that passed in the stream */
};
#define AG_COPIES_PASS UINT64_MAX
extern _Thread_local struct ag_passing ag_passing __attribute__((tls_model("initial-exec")));

/* -- What forbids to hold, and to ask ---------------------------------------- */

/*
 * The number of bans: reasons to hold nothing in the process. While it is above 0 nothing is held.
 * Raised: when a capture of the program begins; by a pause; while the stack size changes; and for
 * good when the engine stops, the process exits, a thread is missing, or the attributes of a stream
 * without a state are changed (process.c, life.c, api.c).
 * Lowered: when the capture ends (registry.c), the pause ends (api.c), the stack size is set
 * (life.c).
 */
extern _Atomic int ag_hold_bans;

/* Pauses that the program asked for (api.c); each is one of ag_hold_bans, too. */
extern _Atomic int ag_pauses;

/*
 * The driver ends a capture of the program if the library asks about the captured stream or uploads
 * a graph to it. So a thread that is about to do this first counts itself in ag_capture_breakers,
 * and then looks for captures. A thread that is about to begin a capture counts that in
 * ag_captures_beginning, and then waits until ag_capture_breakers is 0, for a second at most.
 * Raised and lowered: the first around making a graph and asking whether all is idle (make.c,
 * grow.c); the second by the doors of captures (life.c).
 */
extern _Atomic unsigned ag_capture_breakers;
extern _Atomic unsigned ag_captures_beginning;

/* Whether the program captures, or is about to. Then the driver must not be asked. */
static inline bool ag_captures_about(void)
{
    return atomic_load(&ag_hold_bans) != 0 || atomic_load(&ag_captures_beginning) != 0;
}

/* -- What the engine does not follow ----------------------------------------- */

/* Ops in streams that have no state. Raised: by each (enter.c), or when an untracked stream gets a
   state or goes (untracked.c). Never lowered. */
extern _Atomic uint64_t ag_stateless_ops;

/* A thread has launched where no door sees it (orphans.h), and any may do so again: another thread
   makes graphs (helper.c). Set: issuer.c. Never cleared. */
extern _Atomic bool ag_stateless_kernels;

#pragma GCC visibility pop

#endif
