/* SPDX-License-Identifier: MIT */
/* One op of a stream that is tracked: to hold it, to replay with it, or to record it. */
#ifndef AG_ENGINE_OP_H
#define AG_ENGINE_OP_H

#include "config/config.h"
#include "engine/base/branch.h"
#include "engine/decide/trials.h"
#include "engine/replay/submit.h"
#include "engine/stream/describe.h"
#include "engine/stream/eager.h"
#include "engine/stream/branches.h"
#include "engine/stream/sequence.h"

/* Whether some trace leads through or ends at this node, so that holding it can pay. */
static inline bool ag_op_is_promising(const struct ag_node *node)
{
    return ag_node_leads(node) && !node->blacklisted;
}

/* The op at `node`, the cursor's child, has been stored there: holds it, or replays with it. */
static INLINE void ag_op_hold(struct ag_stream *stream, struct ag_node *node)
{
    ag_sequence_hold(stream, node);
    stream->recorder.cursor->next = node;
    stream->recorder.cursor = node;
    stream->counters.ops++;
    ag_self.ops++;
    if (ag_recorder_ends(&stream->recorder, node))
        ag_stream_end(stream, false, AG_REASON_SEQUENCE_END);
}

/* Whether an op with this mark passes unseen. It is counted. Its failure, if it fails, is held
   against no other op. */
static INLINE bool ag_op_passes(struct ag_stream *stream, uint64_t mark)
{
    if (!ag_recorder_passes(&stream->recorder, mark) &&
        (LIKELY(!stream->trials.rests) || !ag_trials_pass(stream, mark)))
        return false;
    if (UNLIKELY(ag_branches_origin(stream) != NULL)) /* a branch's ops are its origin's */
        return false;
    stream->counters.ops++;
    stream->counters.eager[AG_WHY_REST]++;
    ag_eager_set_why(stream, AG_WHY_REST);
    ag_eager_forget(stream);
    return true;
}

/* Why ops of this stream, called with this context, may not be held at all; AG_WHY_HELD: they may.
   While the program captures, the driver is not even asked about them: a question can end a
   capture. */
static inline enum ag_why ag_op_forbidden(const struct ag_stream *stream, CUcontext current)
{
    const struct ag_context *context = stream->id.context;
    if (UNLIKELY(stream->seq.barred != AG_WHY_HELD))
        return (enum ag_why)stream->seq.barred;
    if (UNLIKELY(context->ctx != current))
        return AG_WHY_CONTEXT;
    if (UNLIKELY(atomic_load(&ag_hold_bans) != 0))
        return atomic_load(&ag_pauses) != 0 ? AG_WHY_PAUSED : AG_WHY_BANNED;
    return UNLIKELY(atomic_load_explicit(&context->green, memory_order_relaxed)) ? AG_WHY_GREEN
                                                                                 : AG_WHY_HELD;
}

/* Whether nothing but the op itself can say that it is not held. */
static inline bool ag_op_is_eligible(const struct ag_stream *stream, CUcontext current)
{
    return ag_op_forbidden(stream, current) == AG_WHY_HELD;
}

/* What becomes of an op:
   LEFT   the open sequence has ended before it, and the caller goes on with it alone;
   EAGER  the program's own call makes it, and the recorder knows;
   HELD   its call returns success;
   LOST   the program's own call makes it, and the recorder does not know. */
enum ag_outcome { AG_OP_LEFT, AG_OP_EAGER, AG_OP_HELD, AG_OP_LOST };

/* An op of a stream that may be a branch (branches.h) is one of the origin's sequence. AG_OP_LEFT:
   the origin's sequence has ended, and the op belongs to the branch's own stream. AG_OP_LOST:
   besides, another thread has taken over the branch's stream, or a ban on holding has begun. */
enum ag_outcome ag_op_in_branch(struct ag_stream *stream, bool described,
                                struct ag_described *call);

/* An op of one stream's sequence. `linked`: the op refers to the open sequence, so it cannot begin
   the next one. Where the open sequence ends before it the answer is AG_OP_LEFT. */
enum ag_outcome ag_op_step_alone(struct ag_stream *stream, struct ag_described *call, bool linked);

/* The op cannot be held: it is a barrier to its stream. */
void ag_op_pass_by(struct ag_stream *stream, enum ag_why why);

/* An op of one stream's sequence, or one that cannot be held. True: it is held. */
static inline bool ag_op_step_own(struct ag_stream *stream, enum ag_why why,
                                  struct ag_described *call)
{
    if (LIKELY(why == AG_WHY_HELD))
        return ag_op_step_alone(stream, call, false) == AG_OP_HELD;
    ag_op_pass_by(stream, why);
    return false;
}

/* An op of a stream that is a branch, or has branches. True: it is held. */
bool ag_op_step_forked(struct ag_stream *stream, enum ag_why why, struct ag_described *call);

/* An op that the hot path could not hold. `why`: why it cannot be held; AG_WHY_HELD: it can be, and
   is described. True: it is held. False: it goes out eagerly. */
static inline bool ag_op_step(struct ag_stream *stream, enum ag_why why, struct ag_described *call)
{
    if (UNLIKELY(ag_branches_origin(stream) != NULL) || ag_branches_any(stream))
        return ag_op_step_forked(stream, why, call);
    return ag_op_step_own(stream, why, call);
}

/* The op goes out eagerly, and the open sequence is not held: records it as one of that. */
void ag_op_record(struct ag_stream *stream, struct ag_described *call);

/* Whether the open sequence, which goes out eagerly, is of equal rounds at its last op, and ends.
 */
bool ag_op_loops(struct ag_stream *stream);

/* Whether the open sequence, which goes out eagerly, ends at `node`: where any does, and if all is
   eager in turn, where its ops would be replayed if they were held. */
static inline bool ag_op_ends(struct ag_stream *stream, const struct ag_node *node)
{
    const struct ag_recorder *rec = &stream->recorder;
    if (ag_recorder_awaits(node))
        return false;
    return (ag_trials_are_eager(stream) ? ag_recorder_ends(rec, node)
                                        : ag_recorder_full(rec, node)) ||
           (ag_recorder_looks(rec, node) && !ag_recorder_knows(node) && ag_op_loops(stream));
}

/* The op goes out eagerly, as the op at `node`, which came here the last time too: what
   ag_op_step() would do. False: that is needed. */
static inline bool ag_op_record_again(struct ag_stream *stream, struct ag_node *node,
                                      CUcontext current)
{
    struct ag_recorder *rec = &stream->recorder;
    if (rec->cursor->depth == 0 || ag_sequence_holds(stream) || ag_recorder_rests(rec) ||
        ag_recorder_cuts(rec, &node->op) || ag_recorder_awaits(rec->cursor) ||
        !ag_op_is_eligible(stream, current))
        return false;
    rec->cursor = node;
    stream->counters.ops++;
    ag_eager_is(stream, node);
    if (ag_op_ends(stream, node))
        ag_stream_end(stream, false, AG_REASON_SEQUENCE_END);
    return true;
}

/* The eager call that this thread was just told to make has failed. */
void ag_op_failed(void);

#endif
