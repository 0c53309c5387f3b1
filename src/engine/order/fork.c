/* SPDX-License-Identifier: MIT */
/* Streams that become branches, and leave. */
#include "engine/order/fork.h"

#include "engine/hot.h"
#include "engine/replay/execs.h"
#include "engine/replay/registry.h"
#include "engine/replay/submit.h"
#include "engine/stream/issuer.h"
#include "engine/tell/observe.h"

/* Whether nothing but its origin could stand in the way of a branch, which is locked. */
static bool may_branch(const struct ag_stream *stream, const struct ag_stream *origin)
{
    return ag_branches_origin(stream) == NULL && stream->id.live && ag_issuer_is_self(stream) &&
           stream->branching.waited.given == ag_issuer_given(stream) &&
           ag_branches_may_come(stream, origin) && !stream->seq.barred &&
           !ag_recorder_rests(&stream->recorder) && !stream->trials.rests;
}

/* The stream waits for the event, whose record is in the other's open sequence. Whether it is a
   branch now. */
static bool begin_branch(struct ag_stream *stream, struct ag_stream *origin, CUevent event)
{
    bool admitted = false;
    ag_stream_lock(stream);
    if (may_branch(stream, origin)) {
        if (stream->recorder.cursor->depth != 0)
            ag_stream_end(stream, false, AG_REASON_EVENT);
        if (ag_stream_trylock(origin)) {
            admitted = ag_branches_admit(origin, stream, event);
            ag_stream_unlock(origin);
        }
    }
    ag_stream_unlock(stream);
    return admitted;
}

/* Whether all of them are that one. */
static bool are_all(struct ag_stream *const holders[], unsigned count,
                    const struct ag_stream *origin)
{
    while (count > 0 && holders[count - 1] == origin)
        count--;
    return count == 0;
}

/* The stream's call is one of the origin's sequence, where streams have forked. */
static bool is_within(const struct ag_stream *stream, const struct ag_stream *origin)
{
    return stream == origin ? ag_branches_any(origin) : ag_branches_origin(stream) == origin;
}

bool ag_fork_keeps(const struct ag_event_call *call, CUcontext current,
                   struct ag_stream *const holders[], unsigned count,
                   const struct ag_event_known *known)
{
    struct ag_stream *origin = holders[0];
    if (!ag_opt.trace_forks || AG_NOTING() || known->timed || !are_all(holders, count, origin) ||
        !ag_issuer_is_self(origin))
        return false;
    struct ag_stream *stream = ag_stream_peek(call->stream, call->ptsz, current);
    if (stream == NULL)
        return false;
    if (is_within(stream, origin))
        return call->wait || !known->awaited; /* by that event it has waited for another record */
    return stream != origin && call->wait && begin_branch(stream, origin, call->event);
}

/* The last sequence has ended with a record and been replayed: the next one goes on behind it. */
static void drop_last(struct ag_stream *origin)
{
    struct ag_node *node = origin->recorder.ended;
    if (node == NULL || node->op.kind != AG_OP_RECORD || origin->recorder.cursor->depth != 0)
        return;
    ag_depth++;
    while (node->trace != NULL)
        ag_execs_drop(origin, node->trace);
    ag_depth--;
}

void ag_fork_misses(const struct ag_event_call *call, CUcontext current,
                    const struct ag_event_known *known)
{
    struct ag_stream *origin = known->by;
    struct ag_stream *stream = ag_stream_peek(call->stream, call->ptsz, current);
    if (stream == NULL || stream == origin || !ag_opt.trace_forks || AG_NOTING())
        return;
    ag_stream_lock(stream);
    if (may_branch(stream, origin) && ag_stream_trylock(origin)) {
        if (origin->id.life == known->life && ag_issuer_given(origin) == known->given &&
            ag_branches_would_come(origin, stream))
            drop_last(origin);
        ag_stream_unlock(origin);
    }
    ag_stream_unlock(stream);
}

void ag_fork_leave(struct ag_stream *stream, enum ag_reason reason)
{
    struct ag_stream *origin = ag_branches_origin(stream);
    if (origin == NULL)
        return;
    ag_stream_lock(origin);
    if (ag_branches_origin(stream) == origin)
        ag_stream_end(origin, true, reason);
    ag_stream_unlock(origin);
}
