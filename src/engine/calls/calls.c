/* SPDX-License-Identifier: MIT */
/* Memsets, copies, words and events: calls that become ops. */
#include "engine/engine.h"

#include "engine/decide/trials.h"
#include "engine/hot.h"
#include "engine/order/enter.h"
#include "engine/order/fork.h"
#include "engine/order/event_flush.h"
#include "engine/replay/execs.h"
#include "engine/replay/limbo.h"
#include "engine/replay/op.h"
#include "engine/replay/staging.h"
#include "engine/stream/helper.h"
#include "engine/stream/copies.h"
#include "engine/stream/event.h"
#include "engine/stream/issuer.h"
#include "engine/tell/observe.h"
#include "mutant.h"
#include "observe/callsite.h"

typedef enum ag_why describer(struct ag_stream *stream, struct ag_described *to, const void *call);

/* -- Uploads ---------------------------------------------------------------------- */

/* All uploads of a trace need places at one time: a sequence that has many ends before this one. */
static void count_upload(struct ag_stream *stream, const struct ag_described *upload)
{
    size_t bytes = ag_words(&upload->op.shape[AG_COPY_BYTES_LOW]);
    if (stream->recorder.cursor->depth != 0 && ag_staging_cuts(stream, bytes))
        ag_stream_end(stream, false, AG_REASON_SEQUENCE_END);
    ag_staging_count(stream, bytes);
}

/*
 * The copy is an upload, and its stream is locked: whether it is held. Its pages, two at most, are
 * read with no lock first: a handler of SIGSEGV may get them by calls of its own, or jump away. (A
 * copy of the bytes would take 1 KiB of a stack that may be small.)
 */
static __attribute__((noinline)) bool decide_upload(struct ag_stream *stream,
                                                    struct ag_described *op,
                                                    const struct ag_copy_call *call,
                                                    CUcontext current, uint64_t began)
{
    const volatile unsigned char *bytes = op->upload;
    uint32_t life = stream->id.life;
    ag_stream_unlock(stream);
    (void)bytes[0];
    (void)bytes[ag_words(&op->op.shape[AG_COPY_BYTES_LOW]) - 1];
    ag_stream_lock(stream);
    if (UNLIKELY(stream->id.life != life || !ag_issuer_is_self(stream))) {
        ag_stream_unlock(stream);
        return ag_engine_copy(call);
    }
    AG_NOTE(ag_note_copy(stream, call));
    enum ag_why why = ag_op_forbidden(stream, current);
    if (why == AG_WHY_HELD)
        count_upload(stream, op);
    bool held = ag_op_step(stream, why, op);
    ag_trials_spent(stream, began);
    ag_stream_unlock(stream);
    AG_CALLSITE();
    return held;
}

/* A copy that passes has been counted before it is noted. */
static __attribute__((noinline)) void note_passing(struct ag_stream *stream,
                                                   const struct ag_copy_call *call)
{
    ag_note_uncounted(stream, -1);
    ag_note_copy(stream, call);
    ag_note_uncounted(stream, 1);
}

/* -- All --------------------------------------------------------------------------- */

/*
 * The op goes to the stream, which is entered; whether it is held. To be inlined into a function
 * that is not: what is described is large, and a thread that issues a few ops has as little of its
 * stack touched as without the library.
 */
static INLINE bool decide(struct ag_stream *stream, CUcontext current, enum ag_op_kind kind,
                          describer *describe, const void *call)
{
    struct ag_described op;
    uint64_t began = ag_trials_clock(stream);
    bool held = false;
    if (!ag_op_passes(stream, ag_mark(kind, NULL, 0))) {
        enum ag_why why = ag_op_forbidden(stream, current);
        if (why == AG_WHY_HELD)
            why = describe(stream, &op, call);
        if (kind == AG_OP_COPY && why == AG_WHY_HELD && op.upload != NULL)
            return decide_upload(stream, &op, call, current, began);
        if (kind == AG_OP_COPY)
            AG_NOTE(ag_note_copy(stream, call));
        held = ag_op_step(stream, why, &op);
    } else if (kind == AG_OP_COPY) {
        AG_NOTE(note_passing(stream, call));
    }
    ag_trials_spent(stream, began);
    ag_stream_unlock(stream);
    AG_CALLSITE();
    return held;
}

/* -- Memsets and copies --------------------------------------------------------- */

bool ag_engine_follows_default(bool ptsz)
{
    if (ag_stream_peek(NULL, ptsz, ag_context_current()) != NULL)
        return true;
    AG_NOTE(ag_note_no_op());
    return false;
}

static enum ag_why describe_memset(struct ag_stream *stream, struct ag_described *to,
                                   const void *call)
{
    return ag_describe_memset(to, call, &stream->answers);
}

static __attribute__((noinline)) bool
decide_memset(struct ag_stream *stream, const struct ag_memset_call *call, CUcontext current)
{
    return decide(stream, current, AG_OP_MEMSET, describe_memset, call);
}

bool ag_engine_memset(const struct ag_memset_call *call)
{
    CUcontext current = ag_engine_current(call->stream);
    struct ag_stream *stream = ag_enter_op(call->stream, call->ptsz, current);
    AG_NOTE(ag_note_memset(stream, call));
    return stream != NULL && decide_memset(stream, call, current);
}

static enum ag_why describe_copy(struct ag_stream *stream, struct ag_described *to,
                                 const void *call)
{
    if (ag_copies_skip(stream))
        return AG_WHY_UNSEEN;
    enum ag_why why = ag_describe_copy(to, call, &stream->answers);
    if (why == AG_WHY_HELD && to->upload != NULL && ag_staging_is_barred(stream))
        why = AG_WHY_STAGING;
    bool described = why == AG_WHY_HELD;
    bool begins = described && stream->recorder.cursor->depth == 0 && ag_op_is_from_host(&to->op);
    ag_copies_seen(stream, described, begins);
    return why;
}

static __attribute__((noinline)) bool
decide_copy(struct ag_stream *stream, const struct ag_copy_call *call, CUcontext current)
{
    return decide(stream, current, AG_OP_COPY, describe_copy, call);
}

/* Whether the copy may be one between two devices: in the default stream it comes behind all work
   of both (CUDA Programming Guide, "Peer-to-Peer Memory Copy"). */
static bool may_change_device(const struct ag_copy_call *call)
{
    return call->params.srcMemoryType != CU_MEMORYTYPE_HOST &&
           call->params.dstMemoryType != CU_MEMORYTYPE_HOST;
}

bool ag_engine_copy(const struct ag_copy_call *call)
{
    if (atomic_load(&ag_many_devices) && !AG_MUTANT(devices_unordered) &&
        ag_stream_name(call->stream, call->ptsz) == CU_STREAM_LEGACY && may_change_device(call) &&
        ag_anything_held())
        ag_order_behind_all(ag_stream_peek(CU_STREAM_LEGACY, false, ag_context_current()));
    CUcontext current = ag_engine_current(call->stream);
    struct ag_stream *stream = ag_enter_op(call->stream, call->ptsz, current);
    if (stream == NULL)
        AG_NOTE(ag_note_copy(NULL, call));
    return stream != NULL && decide_copy(stream, call, current);
}

/* -- Words ----------------------------------------------------------------------- */

/*
 * A wait goes to the GPU behind all that preceded it in the program: two streams may share one of
 * the GPU's queues, where a write that comes behind the wait for it would never be reached.
 */
static bool waits(const struct ag_value_call *call)
{
    return call->operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 ||
           call->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
}

static enum ag_why describe_value(struct ag_stream *stream, struct ag_described *to, const void *of)
{
    static const struct ag_layout layout = {8, 1, 0, {{0, 8}}};
    const struct ag_value_call *call = of;
    bool wide = call->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64 ||
                call->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
    uint64_t buffer;
    CUmemorytype type = ag_memory_at(&stream->answers, call->address, wide ? 8 : 4,
                                     AG_ACCESS_BOTH | AG_ACCESS_OWN, &buffer);
    if (type != CU_MEMORYTYPE_DEVICE && type != CU_MEMORYTYPE_HOST)
        return AG_WHY_MEMORY;
    to->op = (struct ag_op){
        .kind = AG_OP_VALUE,
        .func = (const void *)call->address,
        .layout = &layout,
    };
    to->op.shape[AG_VALUE_OPERATION] = call->operation;
    to->op.shape[AG_VALUE_FLAGS] = call->flags;
    to->arguments.word[0] = call->value;
    to->fields[0] = &to->arguments.word[0];
    to->from = to->fields;
    return AG_WHY_HELD;
}

static __attribute__((noinline)) void note_value(const struct ag_stream *stream,
                                                 const struct ag_value_call *call)
{
    AG_NOTE_WORDS(stream, AG_OP_VALUE, call->operation, call->address, call->value, call->flags);
}

static __attribute__((noinline)) bool
decide_value(struct ag_stream *stream, const struct ag_value_call *call, CUcontext current)
{
    return decide(stream, current, AG_OP_VALUE, describe_value, call);
}

bool ag_engine_value(const struct ag_value_call *call)
{
    if (waits(call) && atomic_load(&ag_hold_bans) != 0)
        atomic_store(&ag_graphs_wait, true);
    if (waits(call) && atomic_load(&ag_subscribers) != 0 && !AG_MUTANT(word_wait_leaves_held))
        ag_order_behind_all(ag_stream_peek(call->stream, call->ptsz, ag_context_current()));
    CUcontext current = ag_engine_current(call->stream);
    struct ag_stream *stream = ag_enter_op(call->stream, call->ptsz, current);
    AG_NOTE(note_value(stream, call));
    return stream != NULL && decide_value(stream, call, current);
}

/* -- Events ---------------------------------------------------------------------- */

/* The stream's last op is a record of the event or a wait for it, in the `open` sequence or at its
   end. False: other threads were faster, and nobody would find it there. */
static bool note(struct ag_stream *stream, const struct ag_event_call *call, bool open)
{
    if (!ag_event_hold(call->event, stream, call->wait, 0))
        return false;
    if (open)
        ag_sequence_has_events(stream);
    return true;
}

/* Ends the sequence behind the op where it cannot be `known` to others, or records a time: what is
   held goes out with it. Held or not, since sequences must be cut at the same places either way. A
   wait that is `linked` to a record of the sequence needs not be known. */
static void end_at_event(struct ag_stream *stream, const struct ag_event_call *call, bool linked,
                         const struct ag_event_known *known)
{
    bool open = stream->recorder.cursor->depth != 0;
    if (known->serial != 0 && !linked && UNLIKELY(!note(stream, call, open)) && open)
        ag_stream_end(stream, true, AG_REASON_EVENT);
    if (call->wait || !known->timed || AG_MUTANT(time_is_held))
        return;
    ag_stream_end(stream, true, AG_REASON_EVENT);
    ag_sequence_subscribe(stream, stream->id.live); /* the host often waits next */
}

/* Where a stream is to fork the sequence ends, and the next one begins with the record. */
static void begin_fork(struct ag_stream *stream, struct ag_op *op)
{
    if (!ag_branches_begin(stream))
        return;
    ag_op_hash(op);
    ag_recorder_ends_once(&stream->recorder);
    ag_stream_end(stream, false, AG_REASON_SEQUENCE_END);
    ag_recorder_cut_at(&stream->recorder, op->token);
}

/* The op of a branch (NULL: it cannot be held) in its origin's sequence. */
static enum ag_outcome step_in_branch(struct ag_stream *stream, const struct ag_event_call *call,
                                      struct ag_described *op, const struct ag_event_known *known)
{
    bool times = !call->wait && known->timed;
    enum ag_outcome outcome = ag_op_in_branch(stream, op != NULL && !times, op);
    if (UNLIKELY(outcome == AG_OP_LOST) && !call->wait)
        ag_event_goes_unnoted(call->event);
    if (outcome != AG_OP_LEFT && call->wait && op != NULL && op->op.shape[AG_EVENT_LINK] == 0 &&
        known->by != NULL)
        ag_branches_follow(stream, known);
    return outcome;
}

/* Why the op of an event cannot be held, nor the event be known. */
static __attribute__((noinline)) enum ag_why event_forbidden(const struct ag_stream *stream,
                                                             CUcontext current,
                                                             const struct ag_event_known *known)
{
    enum ag_why why = ag_op_forbidden(stream, current);
    if (why != AG_WHY_HELD)
        return why;
    bool elsewhere = known->context != NULL && known->context != stream->id.context;
    return elsewhere ? AG_WHY_EVENT_ELSEWHERE : AG_WHY_EVENT_NEW;
}

/* What the op is, in a stream that is locked; or why it cannot be held, nor the event be known. */
static enum ag_why describe(struct ag_stream *stream, const struct ag_event_call *call,
                            CUcontext current, struct ag_event_known *known,
                            struct ag_described *op)
{
    bool mine = known->context == stream->id.context || AG_MUTANT(contexts_mixed);
    bool good = mine && ag_op_is_eligible(stream, current);
    known->serial = good ? known->serial : 0;
    if (LIKELY(ag_describe_event(op, call, known->serial) == AG_WHY_HELD))
        return AG_WHY_HELD;
    if (!call->wait)
        ag_event_goes_unnoted(call->event);
    return event_forbidden(stream, current, known);
}

/* The op of a stream that is locked; of the event that is `known`. Whether it is held. */
static bool decide_event(struct ag_stream *stream, const struct ag_event_call *call,
                         CUcontext current, struct ag_event_known *known)
{
    struct ag_described op;
    enum ag_why why = describe(stream, call, current, known, &op);
    if (UNLIKELY(ag_branches_origin(stream) != NULL)) {
        enum ag_outcome outcome =
            step_in_branch(stream, call, why == AG_WHY_HELD ? &op : NULL, known);
        if (outcome != AG_OP_LEFT)
            return outcome == AG_OP_HELD;
    }
    if (UNLIKELY(stream->forked.next != NULL) && why == AG_WHY_HELD && !call->wait)
        begin_fork(stream, &op.op);
    bool held = ag_op_step(stream, why, &op);
    bool linked = call->wait && why == AG_WHY_HELD && op.op.shape[AG_EVENT_LINK] != 0;
    end_at_event(stream, call, linked, known);
    if (call->wait && !linked && known->by != NULL)
        ag_branches_follow(stream, known);
    return held;
}

/* What has to be submitted before a record or a wait. Where streams fork and join it need not be.
 */
static struct ag_event_known settle(const struct ag_event_call *call, CUcontext current)
{
    struct ag_stream *holders[AG_EVENT_HOLDERS];
    struct ag_event_known known;
    unsigned count = ag_event_holders(call->event, !call->wait, holders, &known);
    if (call->wait && count == 0 && known.by != NULL && known.branch == 0)
        ag_fork_misses(call, current, &known);
    if (count != 0 && !ag_fork_keeps(call, current, holders, count, &known))
        ag_event_flush_holders(call->event, holders, count, AG_REASON_EVENT);
    return known;
}

/* The call goes out, and nobody follows its stream. */
static __attribute__((noinline)) void leave_alone(const struct ag_event_call *call)
{
    if (call->wait)
        return;
    ag_event_unseen();
    if (atomic_load(&ag_event_streams) != 0)
        ag_event_goes_unnoted(call->event);
}

/*
 * An event's first record in a context goes out eagerly, and with it the driver has said that the
 * event is good there; so has the record, for a wait.
 */
bool ag_engine_event(const struct ag_event_call *call)
{
    CUcontext current = ag_engine_current(call->stream);
    struct ag_event_known known = settle(call, current);
    struct ag_stream *stream = ag_enter_op(call->stream, call->ptsz, current);
    AG_NOTE(ag_note_event(stream, call));
    if (stream == NULL) {
        leave_alone(call);
        return false;
    }
    const struct ag_context *context = stream->id.context;
    bool held = false;
    if (!ag_op_passes(stream, ag_mark(call->wait ? AG_OP_WAIT : AG_OP_RECORD, NULL, 0)))
        held = decide_event(stream, call, current, &known);
    else
        leave_alone(call);
    ag_stream_unlock(stream);
    if (!held && !call->wait && known.context != context)
        (void)ag_event_recorded(call->event, context); /* without room it is never held */
    return held;
}

/* False: a graph may still name the event. */
static bool forget(CUevent event, const struct ag_event_users *users)
{
    bool all = true;
    for (unsigned i = 0; !users->many && i < users->count; i++)
        all &= ag_execs_forget_event(users->stream[i], event);
    for (struct ag_stream *stream = users->many ? ag_stream_all() : NULL; stream != NULL;
         stream = stream->place.next)
        all &= ag_execs_forget_event(stream, event);
    return all;
}

/* Whether graphs can be changed: no capture is about, and no graph is in the making that nobody
   waits for. */
static bool can_change(void)
{
    CUcontext current;
    return atomic_load(&ag_hold_bans) <= atomic_load(&ag_pauses) && !ag_helper_waits() &&
           !ag_context_refused(&current);
}

bool ag_engine_event_destroy(CUevent event)
{
    struct ag_event_users users;
    bool later = ag_event_outlives(event);
    ag_event_forget(event, &users);
    if (users.count == 0)
        return later;
    bool able = can_change();
    if (able)
        ag_limbo_settle();
    if (able && forget(event, &users))
        return later;
    return ag_limbo_add(event, users.context, later) || later;
}
