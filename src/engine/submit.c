/* SPDX-License-Identifier: MIT */
/*
 * Submitting held ops: by replay, eagerly, or in another thread's name; and making traces.
 *
 * A per-thread default stream has no handle that another thread could use. When the watchdog or
 * another thread's barrier must submit what such a stream holds, it goes into the stream's `relay`,
 * a blocking stream of ours, behind the event `mark`, which the owner recorded when the hold began;
 * and before the owner uses its stream again, it records the event `done` there and makes its
 * stream wait for that, or waits itself where it cannot be recorded. (Not sooner: a record is a
 * further entry in a queue of the device, and would hold up those behind it.) Both streams are
 * blocking, so the legacy stream's implicit ordering is the same for either.
 */
#include "engine/submit.h"

#include <stdlib.h>

#include "config/config.h"
#include "driver/driver.h"
#include "engine/account.h"
#include "engine/aside.h"
#include "engine/audit.h"
#include "engine/credit.h"
#include "engine/engine.h"
#include "engine/event.h"
#include "engine/observe.h"
#include "engine/pace.h"
#include "engine/trial.h"
#include "engine/watchdog.h"
#include "graph/node.h"
#include "graph/variant.h"
#include "observe/log.h"
#include "trace/policy.h"

/* -- Failures ------------------------------------------------------------- */

/* One failed driver call of ours: the program does not see it, who asks for warnings does. */
static void note_error(struct ag_stream *stream, CUresult result, const char *what)
{
    if (__builtin_expect(result == CUDA_SUCCESS, 1))
        return;
    stream->counters.errors++;
    ag_log(AG_LOG_WARNING, "CUDA error %d when %s", (int)result, what);
}

/* A held op that the driver refused is lost, and the program was told that it succeeded: a later
   call tells of the first such error, as of one of asynchronous execution. */
static bool refused(struct ag_stream *stream, CUresult result, const char *what)
{
    if (__builtin_expect(result == CUDA_SUCCESS, 1))
        return false;
    note_error(stream, result, what);
    int none = CUDA_SUCCESS;
    if (atomic_compare_exchange_strong(&stream->context->refused, &none, (int)result))
        atomic_fetch_add(&ag_refused, 1);
    return true;
}

CUresult ag_engine_refusal(void)
{
    struct ag_context *context = ag_context_peek(ag_context_current());
    return context != NULL ? ag_context_refusal(context) : CUDA_SUCCESS;
}

/* -- Relay ---------------------------------------------------------------- */

static bool relay_make(struct ag_stream *stream)
{
    struct ag_context *context = stream->context;
    if (stream->relay != NULL)
        return true;
    if (ag_aside_waits())
        return false;
    if (atomic_fetch_add(&context->relays, 1) >= AG_RELAYS || !ag_context_reserve(context)) {
        atomic_fetch_sub(&context->relays, 1);
        return false;
    }
    struct ag_relay relay;
    CUresult result = ag_aside_relay(context, &relay);
    if (result == CUDA_ERROR_NOT_READY)
        return false;
    note_error(stream, result, "making a relay");
    if (result != CUDA_SUCCESS)
        atomic_fetch_sub(&context->relays, 1);
    stream->relay = relay.stream;
    stream->mark = relay.mark;
    stream->done = relay.done;
    return result == CUDA_SUCCESS;
}

/* Puts an event of ours before the next work of a stream; if need be, by waiting for it here. */
static void wait_for(struct ag_stream *stream, CUstream target, CUevent event)
{
    CUresult result = ag_real.cuStreamWaitEvent(target, event, 0);
    if (result == CUDA_SUCCESS)
        return;
    note_error(stream, result, "waiting for relayed work");
    note_error(stream, ag_real.cuEventSynchronize(event), "waiting for relayed work on the host");
}

static bool relayed(const struct ag_stream *stream)
{
    return stream->kind == AG_STREAM_PER_THREAD && stream->owner != &ag_self;
}

void ag_stream_absorb(struct ag_stream *stream)
{
    bool pushed;
    /* The handle means the stream of the context that is current. */
    if (ag_context_enter(stream->context, &pushed)) {
        CUresult result = ag_real.cuEventRecord(stream->done, stream->relay);
        note_error(stream, result, "relaying held ops");
        if (result == CUDA_SUCCESS)
            wait_for(stream, stream->handle, stream->done);
        else
            note_error(stream, ag_real.cuStreamSynchronize(stream->relay),
                       "waiting for relayed work on the host");
        ag_context_leave(pushed);
    }
    stream->relayed = false;
    if (!stream->open)
        atomic_fetch_sub(&ag_listeners, 1);
    ag_stream_update_busy(stream);
}

/* -- Holds and sequences --------------------------------------------------- */

/* The stream holds (1), or holds no more (-1): tells the streams whose ops come behind its ops. */
static void count_hold(struct ag_stream *stream, int change)
{
    struct ag_context *context = stream->context;
    enum ag_stream_kind kind = stream->kind;
    bool shares = atomic_load_explicit(&stream->counted, memory_order_relaxed) != 0;
    if (shares || kind == AG_STREAM_LEGACY)
        atomic_fetch_add(&context->ahead[AG_STREAM_BLOCKING], (unsigned)change);
    if (shares)
        atomic_fetch_add(&context->ahead[AG_STREAM_NONBLOCKING], (unsigned)change);
    if (shares || (kind != AG_STREAM_LEGACY && kind != AG_STREAM_NONBLOCKING))
        atomic_fetch_add(&context->ahead[AG_STREAM_LEGACY], (unsigned)change);
}

void ag_stream_open(struct ag_stream *stream)
{
    if (atomic_load_explicit(&stream->open, memory_order_relaxed))
        return;
    atomic_store_explicit(&stream->open, true, memory_order_relaxed);
    if (!stream->relayed)
        atomic_fetch_add(&ag_listeners, 1);
    ag_stream_update_busy(stream);
}

static void stream_close(struct ag_stream *stream)
{
    if (!atomic_load_explicit(&stream->open, memory_order_relaxed))
        return;
    atomic_store_explicit(&stream->open, false, memory_order_relaxed);
    if (!stream->relayed)
        atomic_fetch_sub(&ag_listeners, 1);
    ag_stream_update_busy(stream);
}

static bool capturing(const struct ag_stream *stream)
{
    CUstreamCaptureStatus status;
    return ag_real.cuStreamIsCapturing(stream->handle, &status) != CUDA_SUCCESS ||
           status != CU_STREAM_CAPTURE_STATUS_NONE;
}

bool ag_stream_keep(struct ag_stream *stream, struct ag_node *node, void *const *from)
{
    CUresult result = ag_keep_store(&stream->keep, node, from);
    note_error(stream, result, "keeping arguments");
    node->bad |= result != CUDA_SUCCESS;
    return result == CUDA_SUCCESS;
}

bool ag_stream_mark(struct ag_stream *stream)
{
    CUresult result = ag_real.cuEventRecord(stream->mark, stream->handle);
    note_error(stream, result, "marking what held ops come behind");
    return result == CUDA_SUCCESS;
}

/* Another thread may have to submit what this per-thread default stream holds from now on. Not
   where streams share queues: there who asks whether the stream is idle would wait with the relay,
   and so would what is behind that in a queue. */
static bool relay_prepare(struct ag_stream *stream)
{
    if (atomic_load(&stream->context->shares) || !relay_make(stream)) {
        stream->plain = !ag_aside_waits();
        return false;
    }
    return ag_stream_mark(stream);
}

/* Whether the stream can hold now, which has been prepared then. A single op is submitted before
   its call returns: no other thread will do it. */
static bool hold_prepare(struct ag_stream *stream, const struct ag_node *head)
{
    if (capturing(stream))
        return false;
    ag_stream_open(stream);
    if (ag_recorder_ends(&stream->recorder, head))
        return true;
    if (stream->kind == AG_STREAM_PER_THREAD && !relay_prepare(stream))
        return false;
    stream->watched = ag_watchdog_watch();
    return stream->watched;
}

bool ag_stream_hold_begins(struct ag_stream *stream, struct ag_node *head)
{
    if (!ag_trial_holds(stream, head))
        return false;
    if (!hold_prepare(stream, head)) {
        stream->timed.head = NULL;
        return false;
    }
    atomic_store_explicit(&stream->epoch, stream->epoch + 1, memory_order_relaxed);
    atomic_store_explicit(&stream->late, false, memory_order_relaxed);
    ag_pace_begun(stream);
    atomic_store_explicit(&stream->counted, atomic_load(&stream->context->shares),
                          memory_order_relaxed);
    count_hold(stream, 1);
    return true;
}

static void hold_ends(struct ag_stream *stream)
{
    atomic_store_explicit(&stream->held, 0, memory_order_release);
    stream->holding = false;
    if (stream->watched)
        ag_watchdog_unwatch();
    stream->watched = false;
    count_hold(stream, -1);
    atomic_store_explicit(&stream->counted, 0, memory_order_relaxed);
}

/* -- Traces --------------------------------------------------------------- */

void ag_stream_drop_trace(struct ag_stream *stream, struct ag_trace *trace)
{
    struct ag_trace **link = &stream->traces;
    while (*link != trace) /* NOLINT(clang-analyzer-core.NullDereference): it is in the list */
        link = &(*link)->next;
    *link = trace->next;
    ag_node_set_trace(trace->leaf, ag_variant_leave(trace));
    note_error(stream, ag_aside_destroy(stream->context, trace), "destroying a trace");
}

void ag_stream_drop_traces(struct ag_stream *stream, const struct ag_node *head, uint64_t clock)
{
    ag_depth++;
    for (struct ag_trace *trace = stream->traces, *next; trace != NULL; trace = next) {
        next = trace->next;
        if ((head == NULL || ag_trial_head(trace->leaf) == head) && trace->used >= clock)
            ag_stream_drop_trace(stream, trace);
    }
    ag_depth--;
}

/*
 * A capture of the program on another thread, in global mode, forbids this thread calls that may be
 * unsafe in it, and is ended by them; ours touch no stream that it captures. False: the mode could
 * not be set, else `mode` is what it was.
 */
static bool relax(struct ag_stream *stream, CUstreamCaptureMode *mode)
{
    *mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUresult result = ag_real.cuThreadExchangeStreamCaptureMode(mode);
    note_error(stream, result, "setting the capture mode");
    return result == CUDA_SUCCESS;
}

static void unrelax(struct ag_stream *stream, CUstreamCaptureMode mode)
{
    note_error(stream, ag_real.cuThreadExchangeStreamCaptureMode(&mode),
               "setting the capture mode back");
}

bool ag_stream_is_done(struct ag_stream *stream)
{
    CUstreamCaptureMode mode;
    if (!relax(stream, &mode))
        return false;
    bool done = ag_real.cuStreamQuery(stream->handle) == CUDA_SUCCESS;
    unrelax(stream, mode);
    return done;
}

bool ag_stream_handle_is_done(CUstream handle)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    if (ag_real.cuThreadExchangeStreamCaptureMode(&mode) != CUDA_SUCCESS)
        return false;
    bool done = ag_real.cuStreamQuery(handle) == CUDA_SUCCESS;
    return ag_real.cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS && done;
}

/* Whether the trace makes room for one of `leaf`. Never if it has been used since `leaf` last found
   no room: in a loop with more sequences than there is room for, those that have room keep it. */
static bool is_stale(const struct ag_stream *stream, const struct ag_trace *trace,
                     const struct ag_node *leaf)
{
    return trace->starved < leaf->starved && (stream->clock - trace->used >= AG_STALE ||
                                              stream->starved - trace->starved >= AG_STARVED);
}

static void used(struct ag_stream *stream, struct ag_trace *trace)
{
    trace->used = stream->clock;
    trace->starved = stream->starved;
}

/* What comes of asking for an exec. */
enum room { NO_ROOM, ROOM_WHEN_IDLE, ROOM };

/* An exec for one more trace: a free one, or in place of traces that are not in use any more, those
   first that were used longest ago. */
static enum room take_exec(struct ag_stream *stream, struct ag_node *leaf, bool idle)
{
    uint32_t ops = leaf->depth;
    while (!ag_context_take_exec(stream->context, ops, idle)) {
        if (ag_stream_kill_vacant(stream->context))
            continue;
        struct ag_trace *oldest = stream->traces;
        for (struct ag_trace *trace = oldest; trace != NULL; trace = trace->next)
            if (trace->used < oldest->used)
                oldest = trace;
        if (oldest == NULL || !is_stale(stream, oldest, leaf)) {
            if (!idle) { /* not each time that the same ones are tried again */
                leaf->starved = (uint32_t)++stream->starved;
                atomic_fetch_add(&stream->context->starved, 1);
            }
            return ag_context_allows(stream->context, ops) ? ROOM_WHEN_IDLE : NO_ROOM;
        }
        /* A launch that still runs keeps some of what its exec has taken. */
        if (!idle && !ag_stream_is_done(stream))
            return ROOM_WHEN_IDLE;
        ag_stream_drop_trace(stream, oldest);
        stream->counters.evictions++;
    }
    return ROOM;
}

/* A trace of a few rounds of the loop on the way to this leaf gives way to a longer one; whether
   there was one. */
static bool drop_rounds(struct ag_stream *stream, const struct ag_node *leaf)
{
    while (leaf != NULL && (leaf->trace == NULL || !leaf->trace->rounds))
        leaf = leaf->parent;
    if (leaf == NULL)
        return false;
    ag_stream_drop_trace(stream, leaf->trace);
    stream->counters.evictions++;
    return true;
}

/* An exec for a trace of this leaf; one of a few rounds makes room if its memory is enough. */
static enum room take_room(struct ag_stream *stream, struct ag_node *leaf, bool idle)
{
    enum room room = take_exec(stream, leaf, idle);
    if (room != ROOM && leaf->depth <= AG_EXEC_SHORT && drop_rounds(stream, leaf->parent))
        room = take_exec(stream, leaf, idle);
    return room;
}

static bool is_wanted(const struct ag_stream *stream, const struct ag_node *leaf)
{
    unsigned i = 0;
    while (i < stream->wanted_count && stream->wanted[i] != leaf)
        i++;
    return i < stream->wanted_count;
}

static void want(struct ag_stream *stream, struct ag_node *leaf)
{
    if (is_wanted(stream, leaf) || stream->wanted_count == AG_WANTED)
        return;
    stream->wanted[stream->wanted_count++] = leaf;
    atomic_fetch_add(&ag_wanted_traces, 1);
}

void ag_stream_want_none(struct ag_stream *stream)
{
    atomic_fetch_sub(&ag_wanted_traces, stream->wanted_count);
    stream->wanted_count = 0;
}

/* A trace of this leaf could not be made or replayed: memory may have been freed meanwhile, or be
   of another kind than its graph's. A trace is tried again, but not for ever. */
static void failed(struct ag_node *leaf)
{
    leaf->bad |= ++leaf->failures == AG_FAILURES;
}

/* The stream's event that stands for those that have been destroyed; NULL: it cannot be made. It is
   never recorded or waited for: a node that has it is given the program's event before a launch. */
static CUevent placeholder(struct ag_stream *stream)
{
    if (stream->placeholder == NULL) {
        CUresult result = ag_aside_event(stream->context, &stream->placeholder);
        stream->counters.errors += result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY;
    }
    return stream->placeholder;
}

void ag_stream_forget_event(struct ag_stream *stream, CUevent event)
{
    bool pushed;
    if (!ag_stream_lock_within(stream, AG_PATIENCE_EVENT_NS))
        return;
    if (stream->live && ag_context_enter(stream->context, &pushed)) {
        ag_depth++;
        for (struct ag_trace *trace = stream->traces, *next; trace != NULL; trace = next) {
            next = trace->next;
            if (!trace->events)
                continue;
            if (placeholder(stream) == NULL)
                ag_stream_drop_trace(stream, trace);
            else
                stream->counters.errors +=
                    ag_trace_replace_event(trace, event, placeholder(stream)) != CUDA_SUCCESS;
        }
        ag_depth--;
        ag_context_leave(pushed);
    }
    ag_stream_unlock(stream);
}

/*
 * The program may have destroyed an event since it was recorded or waited for, and the driver makes
 * no node of it. A variant can wait until there is another one. False: no graph can be made now.
 */
static bool avoid_destroyed(struct ag_stream *stream, struct ag_node *leaf)
{
    for (struct ag_node *node = leaf; node->parent != NULL; node = node->parent) {
        struct ag_event_arguments arguments;
        if (!ag_node_is_event(node) || !ag_node_arguments(node))
            continue;
        memcpy(&arguments, node->args, sizeof arguments);
        if (ag_event_is(arguments.event, arguments.serial))
            continue;
        if (leaf->trace != NULL || placeholder(stream) == NULL)
            return false;
        arguments = (struct ag_event_arguments){.event = placeholder(stream)};
        memcpy(node->args, &arguments, sizeof arguments);
        node->version++;
    }
    return true;
}

/* Where streams share queues the first launch has to do it: an upload waits for the stream's work,
   and that may wait for what the program submits next, which the queue would not get to. */
static CUresult upload(const struct ag_stream *stream, struct ag_trace *trace)
{
    return atomic_load(&stream->context->shares) ? CUDA_SUCCESS
                                                 : ag_trace_upload(trace, stream->handle);
}

/* Makes the exec of a trace that has been built; on an error the trace is gone, NULL, and its exec
   given back. */
static CUresult complete(struct ag_stream *stream, struct ag_trace **trace)
{
    CUresult result = ag_aside_instantiate(stream->context, *trace);
    bool ready = result != CUDA_ERROR_NOT_READY; /* or it is not ours */
    if (result == CUDA_SUCCESS)
        result = upload(stream, *trace);
    if (result == CUDA_SUCCESS)
        return result;
    if (ready)
        (void)ag_aside_destroy(stream->context, *trace); /* the first error is the one to tell */
    *trace = NULL;
    return result;
}

/* There is room for a trace of this leaf. */
static void build(struct ag_stream *stream, struct ag_node *leaf, bool idle)
{
    CUresult result = CUDA_SUCCESS;
    stream->timed.head = NULL; /* what follows takes its time */
    uint64_t began = ag_pace_now();
    struct ag_trace *trace = NULL;
    if (avoid_destroyed(stream, leaf))
        trace = ag_trace_build(leaf, stream->context->ctx, stream->handle, &result);
    if (trace != NULL)
        result = complete(stream, &trace);
    else
        ag_context_give_exec(stream->context, leaf->depth);
    ag_credit_owe(stream, leaf, ag_pace_now() - began);
    if (result == CUDA_ERROR_NOT_READY)
        ag_log(AG_LOG_NOTE, "no trace in stream %p: another thread's launch waits for room",
               (void *)stream->handle);
    else
        note_error(stream, result, "making a trace");
    if (trace == NULL) {
        if (leaf->trace != NULL)
            ag_variant_refused(leaf->trace);
        else if (result != CUDA_ERROR_NOT_READY)
            failed(leaf);
        return;
    }
    static _Atomic uint32_t number;
    trace->number = atomic_fetch_add(&number, 1) + 1;
    AG_TRACE(ag_note_trace(stream, trace));
    AG_ACCOUNT(ag_account_trace(stream, trace));
    trace->rounds = stream->recorder.rounded && !idle;
    used(stream, trace);
    trace->next = stream->traces;
    stream->traces = trace;
    if (leaf->trace != NULL) {
        ag_variant_join(leaf->trace, trace);
    } else {
        drop_rounds(stream, leaf->parent);
        ag_node_set_trace(leaf, trace);
        ag_trial_made(stream, trace);
    }
    ag_recorder_has_trace(&stream->recorder, ag_trial_head(leaf));
    stream->counters.traces++;
    ag_log(AG_LOG_NOTE, "made a trace of %u ops in stream %p", trace->length,
           (void *)stream->handle);
}

static void try_to_make(struct ag_stream *stream, struct ag_node *leaf, bool idle)
{
    if (ag_trial_rests(leaf, ag_credit_hot(stream, leaf)) || relayed(stream) || ag_aside_waits() ||
        ag_captures_about() || capturing(stream))
        return;
    CUstreamCaptureMode mode;
    if (!relax(stream, &mode))
        return;
    enum room room = take_room(stream, leaf, idle);
    if (room == ROOM)
        build(stream, leaf, idle);
    else if (room == ROOM_WHEN_IDLE && !idle) /* or each wait would look at all streams for it */
        want(stream, leaf);
    else if (leaf->trace != NULL) /* or each replay would ask for a variant */
        ag_variant_refused(leaf->trace);
    unrelax(stream, mode);
}

static void make(struct ag_stream *stream, struct ag_node *leaf, bool idle)
{
    atomic_fetch_add(&ag_capture_breakers, 1);
    try_to_make(stream, leaf, idle);
    atomic_fetch_sub(&ag_capture_breakers, 1);
}

void ag_stream_grow(struct ag_stream *stream)
{
    struct ag_node *wanted[AG_WANTED];
    unsigned count = stream->wanted_count;
    memcpy(wanted, stream->wanted, sizeof wanted);
    ag_stream_want_none(stream);
    for (unsigned i = 0; i < count; i++)
        if (!wanted[i]->bad && (wanted[i]->trace == NULL || ag_variant_wanted(wanted[i]->trace)))
            make(stream, wanted[i], true);
}

/* -- Submission ----------------------------------------------------------- */

/* Replays the longest trace that begins the held ops; returns its length, 0 without one. */
static uint32_t submit_prefix(struct ag_stream *stream, uint32_t held, CUstream target)
{
    uint32_t length = held;
    while (length > 0 && stream->path[length]->trace == NULL)
        length--;
    if (length == 0)
        return 0;
    struct ag_trace *trace = ag_variant_choose(stream->path[length]->trace);
    trace->leaf->trace = trace; /* the one in use */
    CUresult result = ag_trace_replay(trace, target, &stream->counters);
    if (result != CUDA_SUCCESS) {
        note_error(stream, result, "replaying a trace");
        failed(trace->leaf);
        ag_stream_drop_trace(stream, trace);
        return 0;
    }
    stream->clock++;
    used(stream, trace);
    stream->counters.replays++;
    stream->counters.replayed += length;
    ag_recorder_paid(&stream->recorder, length);
    ag_credit_pay(stream->context, length);
    return length;
}

bool ag_stream_submit(struct ag_stream *stream, enum ag_reason reason)
{
    uint32_t held = stream->held;
    if (held == 0)
        return true;
    bool pushed, relay = relayed(stream);
    CUstream target = relay ? stream->relay : stream->handle;
    uint64_t clock = ag_pace_clock();
    ag_pace_submitted(stream, held, reason == AG_REASON_WATCHDOG, clock);
    uint64_t began = ag_trace_now(), patches = stream->counters.patches;
    ag_depth++;
    bool entered = ag_context_enter(stream->context, &pushed);
    if (relay)
        wait_for(stream, target, stream->mark);
    /* Without a context the driver crashes when a node's arguments are set (driver 580). */
    uint32_t replayed = entered ? submit_prefix(stream, held, target) : 0;
    for (uint32_t i = replayed + 1; i <= held; i++)
        if (refused(stream, ag_node_submit(stream->path[i], target), "submitting a held op"))
            stream->path[i]->bad = true;
    for (unsigned i = 0; i < stream->free_count; i++)
        refused(stream, ag_real.cuMemFreeAsync(stream->frees[i], target), "freeing memory");
    stream->free_count = 0;
    if (relay) {
        if (!stream->relayed && !stream->open)
            atomic_fetch_add(&ag_listeners, 1);
        stream->relayed = true;
        ag_stream_update_busy(stream);
    }
    ag_context_leave(pushed);
    ag_depth--;
    AG_TRACE(ag_note_submit(stream, replayed, reason, began, patches));
    if (replayed != 0)
        AG_ACCOUNT(ag_account_replay(stream, stream->path[replayed]->trace,
                                     stream->counters.patches - patches));
    if (replayed < held) {
        stream->counters.flushes[reason]++;
        AG_ACCOUNT(ag_account_cut(stream, reason, held - replayed));
    }
    ag_trial_submitted(stream->path[1], replayed != 0);
    hold_ends(stream);
    ag_pace_spent(stream, clock, replayed == held);
    return replayed == held;
}

void ag_stream_be_curious(struct ag_stream *stream, bool curious)
{
    if (atomic_load_explicit(&stream->curious, memory_order_relaxed) == curious)
        return;
    atomic_store_explicit(&stream->curious, curious, memory_order_relaxed);
    if (curious)
        atomic_fetch_add(&ag_curious_streams, 1);
    else
        atomic_fetch_sub(&ag_curious_streams, 1);
    ag_stream_update_busy(stream);
}

void ag_stream_end(struct ag_stream *stream, bool barrier, enum ag_reason reason)
{
    struct ag_node *wanted = NULL;
    ag_stream_be_curious(stream, !barrier && stream->live);
    if (stream->held != 0) {
        bool whole = ag_stream_submit(stream, reason);
        struct ag_node *leaf = stream->recorder.cursor;
        if (whole && leaf->trace != NULL && leaf->depth >= stream->recorder.max_length)
            leaf->trace->rounds = false; /* no longer one will come */
        if (whole && leaf->trace != NULL && !leaf->trace->rounds &&
            ag_variant_wanted(leaf->trace) && !is_wanted(stream, leaf) &&
            ag_context_owes(stream->context) <= 0)
            wanted = leaf;
    } else if (stream->recorder.cursor->trace != NULL &&
               ag_trial_prevents(stream, stream->recorder.cursor)) {
        used(stream, stream->recorder.cursor->trace); /* but for the trial it would have been */
    } else if (ag_accounting && barrier && stream->recorder.cursor->depth != 0 &&
               !ag_trial_prevents(stream, stream->recorder.cursor)) {
        ag_account_cut(stream, reason, stream->recorder.cursor->depth);
    }
    if (stream->events) { /* they have been submitted, and are no longer looked for */
        atomic_store_explicit(&stream->sequence, stream->sequence + 1, memory_order_release);
        atomic_fetch_sub(&ag_event_streams, 1);
        stream->events = false;
    }
    if (stream->live) {
        stream->timed.ops += stream->recorder.cursor->depth;
        ag_pace_ended(stream, stream->recorder.cursor->depth, barrier);
        struct ag_node *leaf = ag_recorder_end(&stream->recorder, barrier,
                                               ag_credit_hot(stream, stream->recorder.cursor),
                                               (uint32_t)ag_opt.trace_min_length);
        if (barrier && reason == AG_REASON_HOST_WAIT)
            ag_recorder_waited(&stream->recorder, stream->pace.first);
        wanted = leaf != NULL ? leaf : wanted;
        bool pushed;
        ag_depth++;
        if (wanted != NULL && ag_context_enter(stream->context, &pushed)) {
            make(stream, wanted, false);
            ag_context_leave(pushed);
        }
        ag_depth--;
        if (barrier && __builtin_expect(ag_audit_is_due(stream), 0))
            ag_audit_look(stream);
    }
    stream_close(stream);
}
