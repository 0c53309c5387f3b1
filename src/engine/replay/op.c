/* SPDX-License-Identifier: MIT */
/* Ops: hold what matches, record what does not. */
#include "engine/replay/op.h"

#include "config/config.h"
#include "engine/decide/credit.h"
#include "engine/hot.h"
#include "engine/replay/execs.h"
#include "engine/replay/hold.h"
#include "engine/replay/staging.h"
#include "engine/stream/event.h"
#include "engine/stream/failure.h"
#include "engine/stream/issuer.h"
#include "engine/stream/pinned.h"
#include "engine/tell/account.h"
#include "graph/function.h"
#include "mutant.h"
#include "policy/policy.h"

AG_HOLDS(struct ag_recorder, rounds.left, AG_MOST_LENGTH);

/* -- Where a sequence ends ------------------------------------------------------ */

bool ag_op_loops(struct ag_stream *stream)
{
    struct ag_recorder *rec = &stream->recorder;
    return ag_opt.trace_length == AG_LENGTH_AUTO && !ag_turns_are_eager(stream) &&
           rec->cursor->weight >= ag_opt.trace_min_length &&
           ag_recorder_loops(rec, ag_credit_hot(stream, rec->cursor) + 1);
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
            node->bad |= AG_BAD_SHAPE; /* until the driver has taken it */
        /* Memset and copy nodes are made with addresses that are good now; kernels need none. */
        if (call->op.kind != AG_OP_KERNEL && ag_node_arguments(node))
            ag_node_store(node, call->from);
    }
    if (ag_op_ends(stream, node))
        ag_stream_end(stream, false, AG_REASON_SEQUENCE_END);
}

/* -- Holding ----------------------------------------------------------------------- */

/* The op cannot be held: it is a barrier to its stream. */
static void pass_by(struct ag_stream *stream)
{
    AG_ACCOUNT(ag_account_alone(stream, stream->recorder.cursor->depth != 0));
    if (!AG_MUTANT(eager_passes_held))
        ag_stream_end(stream, true, AG_REASON_STREAM_BARRIER);
    if (atomic_load(&ag_pauses) == 0)
        ag_recorder_foreign(&stream->recorder);
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

/* A sequence begins with the op, which can be held at `node` (NULL: cannot be); whether it is. */
static bool begin(struct ag_stream *stream, struct ag_node *node, const struct ag_op *op)
{
    struct ag_recorder *rec = &stream->recorder;
    if (UNLIKELY(rec->ended != NULL) && ag_context_owes(stream->id.context) > 0)
        ag_recorder_stays(rec);
    ag_recorder_head(rec, op->token);
    return node != NULL && ag_hold_begins(stream, node);
}

/* Whether the driver takes the op at a node that leads to a trace, where it may have taken another
   shape. What else it might refuse is looked at by is_certain(). */
static bool takes(const struct ag_node *node, bool predicted, const struct ag_op *op)
{
    bool equal = predicted || memcmp(node->op.shape, op->shape, sizeof op->shape) == 0;
    if (UNLIKELY(node->bad != 0) && !AG_MUTANT(refused_is_held) &&
        (equal || node->bad != AG_BAD_SHAPE))
        return false;
    return LIKELY(equal) || op->kind != AG_OP_KERNEL || fits(op) || AG_MUTANT(shapes_unchecked);
}

static inline bool is_upload(const struct ag_described *call)
{
    return call->op.kind == AG_OP_COPY && call->upload != NULL;
}

/* Whether the driver takes the op with these arguments; and the bytes of an upload find a place. */
static bool is_certain(struct ag_stream *stream, const struct ag_described *call)
{
    if (call->op.kind == AG_OP_MEMSET)
        return ag_memset_is_certain(call, &stream->answers) || AG_MUTANT(memset_unchecked);
    return LIKELY(!is_upload(call)) || ag_staging_has_room(stream, call);
}

/* Whether the op can be held at that node (NULL: it has none) behind what is held. */
static bool can_hold(struct ag_stream *stream, struct ag_node *node, bool predicted,
                     const struct ag_described *call)
{
    return node != NULL && ag_node_leads(node) && takes(node, predicted, &call->op) &&
           is_certain(stream, call);
}

/* Whether the op is held behind the cursor. `predicted`: its node there, or NULL: not known. */
static bool hold(struct ag_stream *stream, struct ag_node *predicted, struct ag_described *call)
{
    struct ag_recorder *rec = &stream->recorder;
    bool head = rec->cursor->depth == 0;
    if (!head && (!ag_sequence_holds(stream) || ag_pinned_holds(stream)))
        return false;
    struct ag_node *node = predicted;
    if (node == NULL || node != rec->cursor->next)
        node = ag_recorder_find(rec, &call->op);
    bool able = can_hold(stream, node, node == predicted, call);
    if (head)
        able = begin(stream, able ? node : NULL, &call->op);
    if (able) {
        if (node != predicted)
            (void)ag_node_reshape(node, &call->op);
        if (UNLIKELY(is_upload(call)))
            ag_staging_take(stream, call);
        ag_node_store(node, call->from);
        ag_op_hold(stream, node);
    }
    return able;
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

enum ag_outcome ag_op_step_alone(struct ag_stream *stream, bool described,
                                 struct ag_described *call, bool linked)
{
    struct ag_recorder *rec = &stream->recorder;
    ag_eager_is_bare(stream, !described);
    if (!described) {
        pass_by(stream);
        return AG_OP_EAGER;
    }
    struct ag_node *predicted = predict(rec, &call->op);
    if (rec->cursor->depth != 0 && !ag_sequence_holds(stream) && ends_before(stream, &call->op)) {
        ag_stream_end(stream, false, AG_REASON_SEQUENCE_END);
        if (linked)
            return AG_OP_LEFT;
    }
    while (!hold(stream, predicted, call)) {
        bool ends = stream->seq.held != 0 ? leaves(stream, &call->op)
                                          : ag_recorder_restarts(rec, &call->op);
        if (!ends || linked) {
            record(stream, call);
            return AG_OP_EAGER;
        }
        ag_stream_end(stream, false, AG_REASON_SEQUENCE_END); /* the op begins the next one */
    }
    return AG_OP_HELD;
}

/* -- Streams that fork and join ------------------------------------------------------ */

static bool is_event(const struct ag_op *op)
{
    return op->kind == AG_OP_RECORD || op->kind == AG_OP_WAIT;
}

/* An op of a branch, or an event's, in a stream that has guests. A wait for a record of the open
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
    ag_guests_take(stream, op);
    enum ag_outcome outcome = ag_op_step_alone(stream, true, call, true);
    if (outcome == AG_OP_LEFT && record != 0)
        op->shape[AG_EVENT_LINK] = 0;
    return outcome;
}

/* The branch's op, a record or a wait, is one of the host's open sequence. */
static void note_event(struct ag_stream *host, const struct ag_described *call)
{
    const struct ag_op *op = &call->op;
    bool wait = op->kind == AG_OP_WAIT, linked = wait && op->shape[AG_EVENT_LINK] != 0;
    bool open = host->recorder.cursor->depth != 0;
    if (linked)
        return;
    if (!ag_event_hold(call->arguments.event.event, host, wait, ag_op_branch(op)) && open)
        ag_stream_end(host, true, AG_REASON_EVENT);
    else if (open)
        ag_sequence_has_events(host);
}

/* Whether a ban has begun, maybe while the thread had no lock: since the op was described. */
static inline bool is_banned(void)
{
    return atomic_load(&ag_hold_bans) != 0;
}

/* The op in the sequence of the host, which is locked. */
static enum ag_outcome step_in_host(struct ag_stream *stream, struct ag_stream *host,
                                    bool described, struct ag_described *call)
{
    if (ag_guests_host(stream) != host)
        return AG_OP_LEFT;
    if (!described || is_banned() || is_upload(call) || !ag_issuer_is_self(host)) {
        ag_stream_end(host, true, AG_REASON_STREAM_BARRIER);
        return AG_OP_LEFT;
    }
    ag_op_set_branch(&call->op, stream->visit.branch);
    enum ag_outcome outcome = step_linked(host, call);
    if (outcome != AG_OP_LEFT && is_event(&call->op))
        note_event(host, call);
    if (outcome == AG_OP_LEFT)
        ag_op_set_branch(&call->op, 0);
    return outcome;
}

/* The stream's lock is given back meanwhile. */
__attribute__((noinline)) enum ag_outcome ag_op_visit(struct ag_stream *stream, bool described,
                                                      struct ag_described *call)
{
    struct ag_stream *host = ag_guests_host(stream);
    uint32_t life = stream->id.life;
    if (host == NULL)
        return AG_OP_LEFT;
    ag_issuer_visits(stream);
    ag_stream_unlock(stream);
    ag_stream_lock(host);
    enum ag_outcome outcome = step_in_host(stream, host, described, call);
    if (outcome != AG_OP_LEFT) {
        ag_issuer_leaves(host, false);
        ag_self.eager = host;
    }
    ag_stream_unlock(host);
    ag_stream_lock(stream);
    bool lost = stream->id.life != life || !ag_issuer_is_self(stream) || (described && is_banned());
    return outcome == AG_OP_LEFT && lost ? AG_OP_LOST : outcome;
}

bool ag_op_step_forked(struct ag_stream *stream, bool described, struct ag_described *call)
{
    enum ag_outcome outcome = AG_OP_LEFT;
    if (ag_guests_host(stream) != NULL)
        outcome = ag_op_visit(stream, described, call);
    else if (described && is_event(&call->op))
        outcome = step_linked(stream, call);
    if (outcome == AG_OP_LEFT)
        outcome = ag_op_step_alone(stream, described, call, false);
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
        node->bad |= AG_BAD_SHAPE;
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
