/* SPDX-License-Identifier: MIT */
/* Who issues the ops of a stream: threads that take over, and how far they have come. */
#ifndef AG_ISSUER_H
#define AG_ISSUER_H

#include "engine/stream/stream.h"

#include "driver/limits.h"

/* Ops and graphs that were issued there in all lives. Wants the lock. */
static inline uint64_t ag_issuer_issued(const struct ag_stream *stream)
{
    return stream->counters.ops +
           atomic_load_explicit(&stream->issuer.passed, memory_order_relaxed) +
           atomic_load_explicit(&stream->issuer.used, memory_order_relaxed) +
           atomic_load_explicit(&stream->issuer.branched, memory_order_relaxed);
}

/* Without a lock: the stream may be given work that nobody counts. */
static inline void ag_issuer_is_given(struct ag_stream *stream)
{
    atomic_fetch_add_explicit(&stream->issuer.untold, 1, memory_order_relaxed);
}

/* Calls that may have given any stream such work. */
extern _Atomic uint64_t ag_issuer_unknown_calls;

/* A number that goes up whenever the stream is given work, or may be. Wants the lock. */
static inline uint64_t ag_issuer_given(const struct ag_stream *stream)
{
    return ag_issuer_issued(stream) + stream->place.times_idle +
           atomic_load_explicit(&stream->issuer.untold, memory_order_relaxed) +
           atomic_load(&ag_issuer_unknown_calls);
}

/* A sequence has ended: other threads may know how many ops there were. Wants the lock. */
static inline void ag_issuer_counts(struct ag_stream *stream)
{
    atomic_store_explicit(&stream->issuer.recorded, stream->counters.ops, memory_order_relaxed);
}

/* Whether the calling thread issued the last op there. */
static inline bool ag_issuer_is_self(const struct ag_stream *stream)
{
    return atomic_load_explicit(&stream->issuer.thread, memory_order_relaxed) == &ag_self;
}

/* Whether another thread issued the last op there, and so may issue the next. */
static inline bool ag_issuer_is_another(const struct ag_stream *stream)
{
    const void *thread = atomic_load(&stream->issuer.thread); /* see ag_issuer_takes_over() */
    return thread != NULL && thread != &ag_self;
}

/* Ops of a stream passed, and the calling thread has issued the one before. */
static inline void ag_issuer_passed(struct ag_stream *stream)
{
    atomic_store_explicit(&stream->issuer.passed,
                          atomic_load_explicit(&stream->issuer.passed, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

/* Another stream's sequence takes an op of this one. Wants the lock of this one. */
static inline void ag_issuer_branches(struct ag_stream *stream)
{
    atomic_store_explicit(&stream->issuer.branched,
                          atomic_load_explicit(&stream->issuer.branched, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

/* The calling thread issues the stream's ops from now on, where another thread did. It may have the
   stream's lock. Waits while another thread makes more execs: these wait for running kernels, and
   this thread must bring no further kernel meanwhile. Waits for a read-back, too (fetch.h). */
void ag_issuer_takes_over(struct ag_stream *stream);

/* The calling thread is about to issue an op. True: it is the first one, and a setter has left ops
   held. */
bool ag_issuer_begins(void);

/* Threads that live and have taken over a stream. */
extern _Atomic unsigned ag_issuer_threads;

/* Whether more than one thread issues work. */
static inline bool ag_issuer_are_many(void)
{
    return atomic_load(&ag_issuer_threads) > 1;
}

/* A setter of functions has left ops held, while one thread issued work. */
extern _Atomic bool ag_setters_pass;

/* The calling thread ends. */
void ag_issuer_thread_ends(void);

/* The thread has gone on to another stream, or has come back. */
static inline void ag_issuer_leaves(struct ag_stream *stream, bool leaves)
{
    atomic_store_explicit(&stream->issuer.elsewhere, leaves, memory_order_relaxed);
}

/* The thread (NULL: any) has not issued the last op any more: the thread ends, or the state's life
   does. */
void ag_issuer_ends(struct ag_stream *stream, const void *thread);

/* The program launches a graph of its own in the stream. */
static inline void ag_issuer_launches(struct ag_stream *stream)
{
    atomic_fetch_add_explicit(&stream->issuer.used, 1, memory_order_relaxed);
}

/* The calling thread is about to issue work in a stream without a state, or one that is not known.
 */
void ag_issuer_launches_unseen(void);

/* The program has waited for the first `issued` of the stream's ops and graphs. */
static inline void ag_issuer_waited(struct ag_stream *stream, uint64_t issued)
{
    atomic_store_explicit(&stream->issuer.waited, issued, memory_order_relaxed);
}

/* Whether one more call of the library finds room in the stream: the program has waited for all but
   a few ops. A call that has to wait for room may wait for the program. Calls that are no ops are
   not counted (docs/semantics.md, "Known gaps"). Wants the lock. */
static inline bool ag_issuer_has_room(const struct ag_stream *stream)
{
    return ag_issuer_issued(stream) - atomic_load(&stream->issuer.waited) <= AG_LEFT_MOST;
}

/* From the first call until the second the calling thread makes more execs. Who takes over a stream
   waits meanwhile. */
void ag_issuer_grows(void);
void ag_issuer_has_grown(void);

/* The number of calls of these two so far. */
uint32_t ag_issuer_growths(void);

/* Waits while another thread makes more execs. */
void ag_issuer_wait_for_growth(void);

#endif
