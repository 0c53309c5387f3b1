/* SPDX-License-Identifier: MIT */
/* Ops: hold what matches, record what does not. */
#include "engine/replay/op.h"

#include "config/config.h"
#include "engine/decide/budget.h"
#include "engine/hot.h"
#include "engine/replay/execs.h"
#include "engine/replay/hold.h"
#include "engine/replay/staging.h"
#include "engine/stream/event.h"
#include "engine/stream/failure.h"
#include "engine/stream/issuer.h"
#include "engine/stream/pinned.h"
#include "engine/tell/account.h"
#include "engine/tell/observe.h"
#include "graph/function.h"
#include "mutant.h"
#include "policy/policy.h"

AG_HOLDS(struct ag_recorder, rounds.left, AG_MOST_LENGTH);

/* -- Where a sequence ends ------------------------------------------------------ */

bool ag_op_loops(struct ag_stream *stream)
{
    struct ag_recorder *rec = &stream->recorder;
    return ag_opt.trace_length == AG_LENGTH_AUTO && !ag_trials_are_eager(stream) &&
           rec->cursor->weight >= ag_opt.trace_min_length &&
           ag_recorder_loops(rec, ag_budget_hot(stream, rec->cursor) + 1);
}

/* -- Shapes ------------------------------------------------------------------------ */

/* Whether the driver takes any launch of this shape. */
static bool fits(const struct ag_op *op)
{
    const uint32_t *shape = op->shape;
    return ag_shape_fits(&ag_function_of(op->layout)->limits, &shape[AG_KERNEL_GRID],
                         &shape[AG_KERNEL_BLOCK], shape[AG_KERNEL_SHARED]);
}

/* -- Recording --------------------------------------------------------------------- */

/* The op goes out eagerly: records it. */
static INLINE void record(struct ag_stream *stream, const struct ag_described *call)
{
    struct ag_recorder *rec = &stream->recorder;
    stream->counters.ops++;
    struct ag_node *node = ag_recorder_step(rec, &call->op);
    ag_eager_is(stream, node);
    if (node == NULL) { /* the tree may have been pruned */
        (void)ag_execs_want_none(stream, NULL);
        ag_stream_end(stream, true, AG_REASON_SEQUENCE_END);
        return;
    }
    ag_sequence_open(stream);
    if (!ag_recorder_is_unseen(rec)) {
        if (call->op.free != 0 && ag_node_reshape(node, &call->op) &&
            call->op.kind == AG_OP_KERNEL && !fits(&call->op))
            node->blacklisted |= AG_BLACKLISTED_SHAPE; /* until the driver has taken it */
        /* Memset and copy nodes are made with addresses that are good now; kernels need none. */
        if (call->op.kind != AG_OP_KERNEL && ag_node_arguments(node))
            ag_node_store(node, call->from);
    }
    if (ag_op_ends(stream, node))
        ag_stream_end(stream, false, AG_REASON_SEQUENCE_END);
}

/* -- Holding ----------------------------------------------------------------------- */

void ag_op_pass_by(struct ag_stream *stream, enum ag_why why)
{
    bool open = stream->recorder.cursor->depth != 0;
    /* So it passes without the lock, too: passing.c. */
    bool again = why == AG_WHY_UNSEEN && !open && ag_eager_was_unrecorded(stream);
    if (!again)
        AG_ACCOUNT(ag_account_alone(stream, why, open));
    AG_NOTE(ag_note_why(why));
    ag_eager_is_unrecorded(stream, true);
    stream->counters.eager[why]++;
    if (!AG_MUTANT(eager_passes_held))
        ag_stream_end(stream, true, AG_REASON_STREAM_BARRIER);
    if (!again && atomic_load(&ag_pauses) == 0)
        ag_recorder_unrecordable(&stream->recorder);
    stream->counters.ops++;
    ag_eager_forget(stream);
}

/* The node that is predicted for the op, if the op is as the node says; else NULL. */
static struct ag_node *predict(const struct ag_recorder *rec, struct ag_op *op)
{
    struct ag_node *node = rec->cursor->next;
    if (node != NULL && ag_op_alike(&node->op, op)) {
        op->token = node->op.token;
        op->structure = node->op.structure;
        return node;
    }
    ag_op_hash(op);
    return NULL;
}

/* A sequence begins with the op, which can be held at `node` unless `why` says why not; why it is
   not held. */
static enum ag_why begin(struct ag_stream *stream, struct ag_node *node, enum ag_why why,
                         const struct ag_op *op)
{
    struct ag_recorder *rec = &stream->recorder;
    if (UNLIKELY(rec->ended != NULL) && ag_context_overspent(stream->id.context) > 0)
        ag_recorder_stays(rec);
    ag_recorder_head(rec, op->token);
    return why == AG_WHY_HELD ? ag_hold_begins(stream, node) : why;
}

/* Why the driver may refuse the op at a node that leads to a trace, where it may have taken another
   shape. What else it might refuse is looked at by uncertain(). */
static enum ag_why refuses(const struct ag_node *node, bool predicted, const struct ag_op *op)
{
    bool equal = predicted || memcmp(node->op.shape, op->shape, sizeof op->shape) == 0;
    if (UNLIKELY(node->blacklisted != 0) && !AG_MUTANT(refused_is_held) &&
        (equal || node->blacklisted != AG_BLACKLISTED_SHAPE))
        return node->blacklisted != AG_BLACKLISTED_SHAPE ? AG_WHY_REFUSED : AG_WHY_SHAPE;
    bool takes =
        LIKELY(equal) || op->kind != AG_OP_KERNEL || fits(op) || AG_MUTANT(shapes_unchecked);
    return takes ? AG_WHY_HELD : AG_WHY_SHAPE;
}

static inline bool is_upload(const struct ag_described *call)
{
    return call->op.kind == AG_OP_COPY && call->upload != NULL;
}

/* Why the driver may refuse the op with these arguments, or the bytes of an upload find no place.
 */
static enum ag_why uncertain(struct ag_stream *stream, const struct ag_described *call)
{
    if (call->op.kind == AG_OP_MEMSET)
        return ag_memset_is_certain(call, &stream->answers) || AG_MUTANT(memset_unchecked)
                   ? AG_WHY_HELD
                   : AG_WHY_MEMORY;
    return LIKELY(!is_upload(call)) || ag_staging_has_room(stream, call) ? AG_WHY_HELD
                                                                         : AG_WHY_STAGING;
}

/* Why the op cannot be held at that node (NULL: it has none) behind what is held. */
static enum ag_why cannot_hold(struct ag_stream *stream, struct ag_node *node, bool predicted,
                               const struct ag_described *call)
{
    if (node == NULL || !ag_node_leads(node))
        return AG_WHY_NOVEL;
    enum ag_why why = refuses(node, predicted, &call->op);
    return LIKELY(why == AG_WHY_HELD) ? uncertain(stream, call) : why;
}

/* Why the op is not held, as a head or behind what is held. `predicted`: its node there, or NULL:
 * not known. */
static enum ag_why hold(struct ag_stream *stream, struct ag_node *predicted,
                        struct ag_described *call)
{
    struct ag_recorder *rec = &stream->recorder;
    bool head = rec->cursor->depth == 0;
    if (!head && ag_pinned_holds(stream))
        return AG_WHY_FLUSHED;
    struct ag_node *node = predicted;
    if (node == NULL || node != rec->cursor->next)
        node = ag_recorder_find(rec, &call->op);
    enum ag_why why = cannot_hold(stream, node, node == predicted, call);
    if (head)
        why = begin(stream, node, why, &call->op);
    if (why == AG_WHY_HELD) {
        if (node != predicted)
            (void)ag_node_reshape(node, &call->op);
        if (UNLIKELY(is_upload(call)))
            ag_staging_take(stream, call);
        ag_node_store(node, call->from);
        ag_op_hold(stream, node);
    }
    return why;
}

/* The op does not continue what is held, which goes out; whether the sequence ends before the op.
 */
static bool leaves(struct ag_stream *stream, const struct ag_op *op)
{
    struct ag_recorder *rec = &stream->recorder;
    bool behind_copy = ag_pinned_holds(stream);
    bool ends = ag_stream_submit(stream, AG_REASON_SIDE_EXIT) || behind_copy ||
                ag_recorder_cuts(rec, op) || ag_recorder_restarts(rec, op);
    ag_recorder_leaves(rec);
    return ends;
}

/* Whether the open sequence, which goes out eagerly, ends before this op whatever becomes of it. */
static bool ends_before(struct ag_stream *stream, const struct ag_op *op)
{
    struct ag_recorder *rec = &stream->recorder;
    /* Of equal rounds it may have a trace at once, or go on to the end of a round. */
    if (ag_recorder_cuts(rec, op) && (ag_op_loops(stream) || ag_recorder_cuts(rec, op)))
        return true;
    if (LIKELY(!ag_recorder_awaits(rec->cursor)))
        return false;
    ag_eager_settle(stream);
    return ag_recorder_completes(rec, op);
}

/* The op is not held, nor will those behind it be. `ends`: the sequence ends before it, and it may
   be held as the head of the next one. */
static void begins_eagerly(struct ag_stream *stream, enum ag_why why, bool ends)
{
    ag_eager_begins(stream, why);
    if (!ends)
        AG_ACCOUNT(ag_account_eager(stream, why));
}

enum ag_outcome ag_op_step_alone(struct ag_stream *stream, struct ag_described *call, bool linked)
{
    struct ag_recorder *rec = &stream->recorder;
    enum ag_why why = AG_WHY_HELD;
    ag_eager_is_unrecorded(stream, false);
    struct ag_node *predicted = predict(rec, &call->op);
    bool records = rec->cursor->depth != 0 && !ag_sequence_holds(stream);
    if (records && ends_before(stream, &call->op)) {
        ag_stream_end(stream, false, AG_REASON_SEQUENCE_END);
        if (linked)
            return AG_OP_LEFT;
        records = false;
    }
    while (records || (why = hold(stream, predicted, call)) != AG_WHY_HELD) {
        bool ends = stream->seq.held != 0 ? leaves(stream, &call->op)
                                          : ag_recorder_restarts(rec, &call->op);
        if (!records)
            begins_eagerly(stream, why, ends && !linked);
        if (!ends || linked) {
            record(stream, call);
            return AG_OP_EAGER;
        }
        ag_stream_end(stream, false, AG_REASON_SEQUENCE_END); /* the op begins the next one */
        records = false;
    }
    return AG_OP_HELD;
}

/* -- Streams that fork and join ------------------------------------------------------ */

static bool is_event(const struct ag_op *op)
{
    return op->kind == AG_OP_RECORD || op->kind == AG_OP_WAIT;
}

/* An op of a branch, or an event's, in a stream that has branches. A wait for a record of the open
   sequence is linked to it. AG_OP_LEFT: the sequence has ended before the op, which is linked to
   nothing. */
static __attribute__((noinline)) enum ag_outcome step_linked(struct ag_stream *stream,
                                                             struct ag_described *call)
{
    struct ag_op *op = &call->op;
    CUevent event = is_event(op) ? call->arguments.event.event : NULL;
    uint32_t depth = stream->recorder.cursor->depth + 1;
    uint32_t record = op->kind == AG_OP_WAIT ? ag_event_depth(event, stream) : 0;
    op->shape[AG_EVENT_LINK] = record != 0 ? depth - record : op->shape[AG_EVENT_LINK];
    ag_branches_take(stream, op);
    enum ag_outcome outcome = ag_op_step_alone(stream, call, true);
    if (outcome == AG_OP_LEFT && record != 0)
        op->shape[AG_EVENT_LINK] = 0;
    return outcome;
}

/* The branch's op, a record or a wait, is one of the origin's open sequence. */
static void note_event(struct ag_stream *origin, const struct ag_described *call)
{
    const struct ag_op *op = &call->op;
    bool wait = op->kind == AG_OP_WAIT, linked = wait && op->shape[AG_EVENT_LINK] != 0;
    bool open = origin->recorder.cursor->depth != 0;
    if (linked)
        return;
    if (!ag_event_hold(call->arguments.event.event, origin, wait, ag_op_branch(op)) && open)
        ag_stream_end(origin, true, AG_REASON_EVENT);
    else if (open)
        ag_sequence_has_events(origin);
}

/* Whether a ban has begun, maybe while the thread had no lock: since the op was described. */
static inline bool is_banned(void)
{
    return atomic_load(&ag_hold_bans) != 0;
}

/* The op in the sequence of the origin, which is locked. */
static enum ag_outcome step_in_origin(struct ag_stream *stream, struct ag_stream *origin,
                                      bool described, struct ag_described *call)
{
    if (ag_branches_origin(stream) != origin)
        return AG_OP_LEFT;
    if (!described || is_banned() || is_upload(call) || !ag_issuer_is_self(origin)) {
        ag_stream_end(origin, true, AG_REASON_STREAM_BARRIER);
        return AG_OP_LEFT;
    }
    ag_op_set_branch(&call->op, stream->branching.number);
    enum ag_outcome outcome = step_linked(origin, call);
    if (outcome != AG_OP_LEFT && is_event(&call->op))
        note_event(origin, call);
    if (outcome == AG_OP_LEFT)
        ag_op_set_branch(&call->op, 0);
    return outcome;
}

/* The stream's lock is given back meanwhile. */
__attribute__((noinline)) enum ag_outcome ag_op_in_branch(struct ag_stream *stream, bool described,
                                                          struct ag_described *call)
{
    struct ag_stream *origin = ag_branches_origin(stream);
    uint32_t life = stream->id.life;
    if (origin == NULL)
        return AG_OP_LEFT;
    ag_issuer_branches(stream);
    ag_stream_unlock(stream);
    ag_stream_lock(origin);
    enum ag_outcome outcome = step_in_origin(stream, origin, described, call);
    if (outcome != AG_OP_LEFT) {
        ag_issuer_leaves(origin, false);
        ag_self.eager = origin;
    }
    enum ag_why why = ag_eager_why(origin);
    ag_stream_unlock(origin);
    ag_stream_lock(stream);
    if (outcome == AG_OP_EAGER && ag_eager_open(stream) == 0)
        ag_eager_set_why(stream, why);
    bool lost = stream->id.life != life || !ag_issuer_is_self(stream) || (described && is_banned());
    return outcome == AG_OP_LEFT && lost ? AG_OP_LOST : outcome;
}

bool ag_op_step_forked(struct ag_stream *stream, enum ag_why why, struct ag_described *call)
{
    bool described = why == AG_WHY_HELD;
    enum ag_outcome outcome = AG_OP_LEFT;
    if (ag_branches_origin(stream) != NULL)
        outcome = ag_op_in_branch(stream, described, call);
    else if (described && is_event(&call->op))
        outcome = step_linked(stream, call);
    if (outcome == AG_OP_LEFT)
        return ag_op_step_own(stream, why, call);
    return outcome == AG_OP_HELD;
}

void ag_op_record(struct ag_stream *stream, struct ag_described *call)
{
    ag_op_hash(&call->op);
    record(stream, call);
}

/* The op at that node has failed. Where its shape is the reason the node may still be of use for
   others. */
static void fail(struct ag_stream *stream, struct ag_node *node)
{
    bool shape = node->op.free == AG_KERNEL_FREE && !fits(&node->op);
    if (shape)
        node->blacklisted |= AG_BLACKLISTED_SHAPE;
    else
        ag_failure_spoil(stream, node);
    ag_eager_forget(stream);
    ag_stream_end(stream, true, AG_REASON_FAILURE);
}

void ag_op_failed(void)
{
    struct ag_stream *stream = ag_self.eager;
    if (stream == NULL)
        return;
    ag_stream_lock(stream);
    if (stream->eager.last != NULL)
        fail(stream, stream->eager.last);
    ag_stream_unlock(stream);
}
