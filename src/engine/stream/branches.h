/* SPDX-License-Identifier: MIT */
/*
 * Streams that fork and join: an origin, and its branches.
 *
 * A stream waits for an event that is recorded in another stream's open sequence. The owner of
 * that sequence is the origin, also where one of its branches has made the record. If all earlier
 * work of the waiting stream is known to come before the sequence, the stream becomes a branch. Its
 * ops are then ops of the origin's sequence (graph/fork.h), until that sequence ends. Origin and
 * branches are of one context and priority, and one thread issues their ops. They are of one kind,
 * or the origin is the legacy stream and the branches are non-blocking.
 *
 * The origin's graph has the ops of all branches, and is launched in the origin's stream. Each
 * branch's stream then waits for the last record of its branch. Held ops that go out one by one go
 * to their own streams.
 *
 * A branch's own state holds nothing and has no open sequence. To set its field `origin` takes the
 * locks of branch and origin; to clear it takes the origin's lock alone.
 */
#ifndef AG_STREAM_BRANCHES_H
#define AG_STREAM_BRANCHES_H

#include "engine/stream/event.h"
#include "engine/stream/issuer.h"
#include "engine/stream/stream.h"
#include "graph/fork.h"

/* The stream whose sequence takes this stream's ops; NULL: it is no branch. */
static inline struct ag_stream *ag_branches_origin(const struct ag_stream *stream)
{
    return atomic_load_explicit(&stream->branching.origin, memory_order_acquire);
}

/* Whether the stream has branches. */
static inline bool ag_branches_any(const struct ag_stream *stream)
{
    return __builtin_expect(
        atomic_load_explicit(&stream->forked.branches, memory_order_relaxed) != 0, 0);
}

/* Whether the stream must hear of calls that give it more work: it is a branch, or another stream
   is known to have waited for all of its work. */
static inline bool ag_branches_listen(const struct ag_stream *stream)
{
    return atomic_load_explicit(&stream->branching.behind, memory_order_relaxed) != NULL ||
           ag_branches_origin(stream) != NULL;
}

/* Without a lock: whether the stream may become a branch of the origin. It may if the origin, or
   one of its branches, has waited for all work of the stream, maybe by way of other streams. */
static inline bool ag_branches_may_come(const struct ag_stream *stream,
                                        const struct ag_stream *origin)
{
    for (unsigned i = 0; i < AG_BRANCHES && stream != NULL; i++) {
        stream = atomic_load_explicit(&stream->branching.behind, memory_order_acquire);
        if (stream == origin || (stream != NULL && ag_branches_origin(stream) == origin))
            return true;
    }
    return false;
}

/* Whether the stream is a branch of the origin from the record of the event on. The locks of both
   are held. */
bool ag_branches_admit(struct ag_stream *origin, struct ag_stream *branch, CUevent event);

/* The origin is about to record an event, and `forked.next` names a stream that missed being a
   branch. Whether to begin a new sequence with this record: that stream could be a branch then. */
bool ag_branches_begin(struct ag_stream *origin);

/* The origin's last sequence has ended with the record that the branch waits for. Whether the
   branch could have come if that sequence had gone on behind the record. */
bool ag_branches_would_come(struct ag_stream *origin, struct ag_stream *branch);

/* The origin's open sequence gets one more op, behind its cursor: of a branch, or of an event. */
void ag_branches_take(struct ag_stream *origin, const struct ag_op *op);

/* The event is destroyed: nobody can ask for its record in the open sequence, if that has one. */
void ag_branches_lose_event(struct ag_stream *origin, CUevent event);

/* The origin's open sequence ends: it has no branches any more. What was held has been submitted.
 */
void ag_branches_end_slow(struct ag_stream *origin);

/* The same, which is little where the sequence has no branches. */
static inline void ag_branches_end(struct ag_stream *origin)
{
    if (ag_branches_any(origin))
        ag_branches_end_slow(origin);
}

/* Whether all branches of the open sequence have joined. */
bool ag_branches_have_joined(const struct ag_stream *origin);

/* The stream has just waited for the last record of an event; `known` tells of that record. If the
   recording stream has had no work since the record, all of its work comes before this stream's
   next op. */
void ag_branches_follow(struct ag_stream *stream, const struct ag_event_known *known);

/* Without a lock: the stream may be given work that the library does not count. */
static inline void ag_branches_forget(struct ag_stream *stream)
{
    ag_issuer_is_given(stream);
    if (atomic_load_explicit(&stream->branching.behind, memory_order_relaxed) != NULL)
        atomic_store_explicit(&stream->branching.behind, NULL, memory_order_relaxed);
}

/* The same of any stream: a call that the library does not know is about to be made. */
void ag_branches_forget_all(void);

/* A new life of a state begins, or its life is over. */
void ag_branches_start(struct ag_stream *stream);

/* -- Submitting ---------------------------------------------------------------------- */

/* Where a held op of the stream goes by itself: to the stream of its branch. */
static inline CUstream ag_branches_target(const struct ag_stream *origin, const struct ag_op *op,
                                          CUstream target)
{
    unsigned number = ag_op_branch(op);
    return __builtin_expect(number == 0, 1) ? target : origin->forked.branch[number].handle;
}

/* The trace, which has branches, has been launched in the origin's stream: what comes next in the
   branches' streams comes behind their branches. */
void ag_branches_replayed(struct ag_stream *origin, const struct ag_trace *trace);

#endif
