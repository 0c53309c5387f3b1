/* SPDX-License-Identifier: MIT */
/*
 * Barriers: which streams must submit before a call.
 *
 * A stream is flushed here only for what it held when the program's call began: calls that other
 * threads are making at the same time are not ordered against this one, and either order is one
 * that the program could have seen.
 */
#include "engine/order/barrier.h"

#include "driver/limits.h"
#include "engine/base/branch.h"
#include "engine/base/watchdog.h"
#include "engine/hot.h"
#include "engine/order/event_flush.h"
#include "engine/replay/registry.h"
#include "engine/replay/relay.h"
#include "engine/replay/submit.h"
#include "engine/stream/branches.h"
#include "engine/stream/issuer.h"
#include "graph/function.h"
#include "mutant.h"
#include "observe/callsite.h"
#include "observe/patience.h"

enum { AS_LONG_AS_IT_TAKES = -1 };

/* Whether a barrier has waited in vain for the lock since this hold began. The next one does not
   wait. */
static bool is_late(const struct ag_stream *stream)
{
    return atomic_load_explicit(&stream->order.overdue, memory_order_relaxed) ==
           atomic_load_explicit(&stream->seq.epoch, memory_order_relaxed);
}

/* Takes the lock of a stream that may hold ops. False: another thread has had it for `ns`. */
static bool lock_within(struct ag_stream *stream, int ns)
{
    if (ns == AS_LONG_AS_IT_TAKES) {
        ag_stream_lock(stream);
        return true;
    }
    if (ag_stream_lock_within(stream, is_late(stream) ? 0 : (uint64_t)ns))
        return true;
    if (ns != 0)
        stream->order.overdue = stream->seq.epoch;
    return false;
}

/* The calling thread issues the stream's ops, so the sequence ends: this barrier comes at the same
   place each time round, and a loop is to be cut at the same places. */
static void end_own(struct ag_stream *stream, enum ag_reason reason, int ns)
{
    ag_stream_end(stream, true, reason);
    /* Not before a call that uses no stream: the stream's wait for its relay would hold up other
       streams in the same queue. */
    if (stream->relay.used && stream->id.owner == &ag_self && ns == AS_LONG_AS_IT_TAKES)
        ag_relay_absorb(stream);
}

/* Another thread issues the stream's ops, so the sequence goes on. Ops for which this thread waits
   count as late. */
static void submit_others(struct ag_stream *stream, enum ag_reason reason, int ns)
{
    bool awaited =
        reason == AG_REASON_QUEUE || (reason == AG_REASON_HOST_WAIT && ns == AS_LONG_AS_IT_TAKES);
    if (stream->seq.held == 0)
        return;
    ag_stream_submit(stream, reason);
    if (awaited)
        ag_recorder_overdue(&stream->recorder, stream->recorder.cursor);
}

/* Submits the held ops of a stream, unless another thread has its lock for `ns`. */
static void flush_one(struct ag_stream *stream, enum ag_reason reason, int ns)
{
    bool own = ag_issuer_is_self(stream);
    if (!own && atomic_load_explicit(&stream->seq.held, memory_order_acquire) == 0)
        return;
    if (!lock_within(stream, own ? AS_LONG_AS_IT_TAKES : ns))
        return;
    if (own)
        end_own(stream, reason, ns);
    else
        submit_others(stream, reason, ns);
    ag_stream_unlock(stream);
    AG_CALLSITE();
}

/* Whether the call may give work to a stream that nobody counts. */
static bool is_unknown(enum ag_reason reason, int ns)
{
    return !AG_MUTANT(unknown_calls_pass) && reason != AG_REASON_HOST_WAIT &&
           ns == AS_LONG_AS_IT_TAKES;
}

/* A branch's held ops are in its origin's sequence, so that goes out first. */
static void flush_within(struct ag_stream *stream, enum ag_reason reason, int ns)
{
    struct ag_stream *origin = ag_branches_origin(stream);
    if (UNLIKELY(origin != NULL) && !AG_MUTANT(barrier_leaves_origin))
        flush_one(origin, reason, ns);
    if (is_unknown(reason, ns))
        ag_branches_forget(stream);
    flush_one(stream, reason, ns);
}

static void flush(struct ag_stream *stream, enum ag_reason reason)
{
    flush_within(stream, reason, AS_LONG_AS_IT_TAKES);
}

/* -- Implicit ordering ------------------------------------------------------- */

static struct ag_context *context_of(const struct ag_stream *stream)
{
    return __atomic_load_n(&stream->id.context, __ATOMIC_RELAXED);
}

static enum ag_stream_kind kind_of(const struct ag_stream *stream)
{
    return __atomic_load_n(&stream->id.kind, __ATOMIC_RELAXED);
}

/* Whether the stream may share a queue of the device with others of its context. */
static bool shares(const struct ag_stream *stream)
{
    return atomic_load_explicit(&context_of(stream)->shares, memory_order_relaxed);
}

/* Whether CUDA orders a call on a stream of that kind behind what `stream` holds, which is of the
   call's context. Its lock is not held, and it may get another life meanwhile: then nothing is held
   any more that had to go first. */
static bool goes_before(const struct ag_stream *stream, enum ag_stream_kind kind)
{
    enum ag_stream_kind of = kind_of(stream);
    if (kind == AG_STREAM_LEGACY)
        return (of == AG_STREAM_BLOCKING || of == AG_STREAM_PER_THREAD) && !AG_MUTANT(legacy_alone);
    return of == AG_STREAM_LEGACY && !AG_MUTANT(blocking_alone);
}

/* `all`: the call's stream may share a queue with any of the context. */
static void order_before(const struct ag_stream *before, const struct ag_context *context,
                         enum ag_stream_kind kind, bool all)
{
    for (struct ag_stream *stream = NULL; (stream = ag_stream_next_busy(stream)) != NULL;) {
        if (stream == before ||
            atomic_load_explicit(&stream->seq.held, memory_order_acquire) == 0 ||
            (context != NULL && context_of(stream) != context))
            continue;
        if (goes_before(stream, kind))
            flush(stream, AG_REASON_LEGACY);
        else if ((all || shares(stream)) && !AG_MUTANT(queues_alone))
            flush_within(stream, AG_REASON_QUEUE, AG_PATIENCE_NS);
    }
}

void ag_order_place(struct ag_context *context)
{
    CUcontext current;
    if (!ag_context_place(context) || ag_context_refused(&current))
        return;
    /* What is held has not been counted as it is from now on. */
    for (struct ag_stream *stream = ag_stream_all(); stream != NULL; stream = stream->place.next) {
        if (!atomic_load(&stream->id.live) || context_of(stream) != context)
            continue;
        ag_stream_lock(stream);
        if (stream->id.live && stream->id.context == context && stream->seq.held != 0)
            ag_stream_submit(stream, AG_REASON_QUEUE);
        ag_stream_unlock(stream);
    }
}

void ag_order_place_own(struct ag_context *context)
{
    if (ag_self.placed == context)
        return;
    ag_self.placed = context;
    ag_order_place(context);
}

void ag_order_before_slow(const struct ag_stream *before)
{
    order_before(before, context_of(before), kind_of(before), false);
}

void ag_order_before_unknown(CUstream handle, bool ptsz, CUcontext current)
{
    CUstream name = ag_stream_name(handle, ptsz);
    struct ag_context *context = NULL;
    bool is_default = ag_stream_is_default(name), legacy = name == CU_STREAM_LEGACY;
    if (is_default && (context = ag_context_peek(current)) == NULL)
        return;
    if (is_default && !legacy)
        ag_order_place_own(context);
    order_before(NULL, context, legacy ? AG_STREAM_LEGACY : AG_STREAM_BLOCKING,
                 is_default && ag_context_is_full(context));
}

void ag_order_behind_all(const struct ag_stream *last)
{
    CUcontext current;
    if (ag_context_refused(&current)) {
        (void)ag_watchdog_flush(AG_REASON_BARRIER);
        return;
    }
    for (struct ag_stream *stream = NULL; (stream = ag_stream_next_busy(stream)) != NULL;)
        if (stream != last)
            flush(stream, AG_REASON_BARRIER);
}

/* -- Barriers ---------------------------------------------------------------- */

/* The state of the stream, if it has one, and may be asked for. */
static struct ag_stream *barrier_stream(CUstream handle, bool ptsz, enum ag_reason reason)
{
    CUcontext current;
    if (ag_context_refused(&current)) {
        (void)ag_watchdog_flush(AG_REASON_BARRIER);
        return NULL;
    }
    struct ag_stream *stream = ag_stream_peek(handle, ptsz, current);
    if (stream == NULL) {
        ag_order_before_unknown(handle, ptsz, current);
        return NULL;
    }
    ag_order_before(stream);
    flush(stream, reason);
    return stream;
}

void ag_barrier_stream(CUstream handle, bool ptsz, enum ag_reason reason)
{
    (void)barrier_stream(handle, ptsz, reason);
}

void ag_barrier_attach(CUstream handle, bool ptsz)
{
    struct ag_stream *stream = barrier_stream(handle, ptsz, AG_REASON_STREAM_BARRIER);
    /* Another thread may have its lock, and wait for the GPU. */
    if (stream == NULL || ag_issuer_is_another(stream))
        return;
    ag_stream_lock(stream);
    ag_recorder_rest(&stream->recorder, AG_ATTACHED, 0);
    ag_stream_unlock(stream);
}

void ag_barrier_wait(CUstream handle, bool ptsz, enum ag_reason reason)
{
    ag_barrier_stream(handle, ptsz, reason);
    if (AG_MUTANT(wait_leaves_others))
        return;
    if (!ag_watchdog_watches()) /* this thread holds nothing either, and has hundreds perhaps */
        return;
    for (struct ag_stream *stream = NULL; (stream = ag_stream_next_touched(stream)) != NULL;)
        if (atomic_load_explicit(&stream->seq.held, memory_order_relaxed) != 0 &&
            atomic_load_explicit(&stream->issuer.thread, memory_order_relaxed) == &ag_self)
            flush(stream, reason);
}

void ag_barrier_copy(bool ptsz, enum ag_reason reason)
{
    ag_barrier_wait(NULL, ptsz, reason);
    if (atomic_load(&ag_many_devices))
        ag_order_behind_all(NULL);
}

/* One wait is for all locks that have been biased to other threads. */
static void revoke_all(void)
{
    for (struct ag_stream *stream = NULL; (stream = ag_stream_next_busy(stream)) != NULL;)
        if (atomic_load_explicit(&stream->seq.held, memory_order_relaxed) != 0)
            ag_lock_revoke(&stream->lock, &ag_self);
}

/* False: this thread may not submit, and the watchdog has done it. */
static bool barrier(enum ag_reason reason, int ns)
{
    CUcontext current;
    if (ag_context_refused(&current)) {
        ag_branches_forget_all();
        (void)ag_watchdog_flush(AG_REASON_BARRIER);
        return false;
    }
    if (is_unknown(reason, ns))
        ag_branches_forget_all();
    struct ag_stream *stream = NULL;
    bool any = ag_watchdog_watches(); /* or nothing is held, and only this thread's sequences end */
    if (any && ag_issuer_are_many() && ns != 0)
        revoke_all();
    while ((stream = any ? ag_stream_next_busy(stream) : ag_stream_next_touched(stream)) != NULL)
        flush_within(stream, reason, ns);
    return true;
}

void ag_barrier_all(enum ag_reason reason)
{
    (void)barrier(reason, AS_LONG_AS_IT_TAKES);
}

void ag_barrier_most(enum ag_reason reason)
{
    (void)barrier(reason, AG_PATIENCE_NS);
}

/* The lock of each stream is had once: who looked for captures before there was one has gone. What
   another thread submits for longer than patience lasts is left to that thread. */
bool ag_barrier_last(void)
{
    CUcontext current;
    if (ag_stream_all() == NULL)
        return true;
    if (ag_depth != 0) /* it has a stream's lock */
        return false;
    if (ag_context_refused(&current)) { /* this thread may not submit */
        (void)ag_watchdog_flush(AG_REASON_BARRIER);
        return false;
    }
    ag_branches_forget_all();
    bool all = true;
    for (struct ag_stream *stream = ag_stream_all(); stream != NULL; stream = stream->place.next) {
        if (!ag_stream_lock_within(stream, AG_PATIENCE_NS)) {
            all = false;
            continue;
        }
        ag_stream_end(stream, true, AG_REASON_BARRIER);
        if (stream->relay.used && stream->id.owner == &ag_self)
            ag_relay_absorb(stream);
        all = all && !stream->relay.used;
        ag_stream_unlock(stream);
    }
    return all;
}

/* What the event was recorded behind has been submitted if the record has: that goes first, since
   sequences may come to end with it. The rest goes only so that nobody polls for what nobody
   submits, and not where another thread is at it. */
void ag_barrier_event(CUevent event, enum ag_reason reason)
{
    if (AG_MUTANT(event_wait_leaves_held))
        return;
    if (atomic_load(&ag_event_streams) != 0)
        (void)ag_event_flush(event, false, reason);
    (void)barrier(reason, 0);
}

/*
 * The driver waits until every running kernel has ended, and makes the launches of other threads
 * wait meanwhile. A running kernel may wait for what is held, which the program believes submitted.
 */
void ag_barrier_load(CUfunction func)
{
    CUcontext current = ag_context_current();
    if (atomic_load(&ag_hold_bans) >
            atomic_load(&ag_pauses) || /* nothing is held, or may be asked */
        ag_function_find(func, current) != NULL)
        return;
    if (ag_anything_held() && !AG_MUTANT(load_leaves_held))
        ag_barrier_most(AG_REASON_BARRIER);
    if (current == NULL)
        return;
    ag_depth++;
    ag_function_learn(func, current); /* this loads it; the next time it is known */
    ag_depth--;
}
