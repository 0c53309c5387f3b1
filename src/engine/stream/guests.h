/* SPDX-License-Identifier: MIT */
/*
 * Streams that fork and join: a host, and its guests.
 *
 * A stream waits for an event that is recorded in another stream's open sequence. The owner of
 * that sequence is the host, also where one of its guests has made the record. If all earlier work
 * of the waiting stream is known to come before the sequence, the stream becomes a guest. Its ops
 * are then ops of the host's sequence, in a branch (graph/fork.h), until that sequence ends. Host
 * and guests are of one context and priority, and one thread issues their ops. They are of one
 * kind, or the host is the legacy stream and the guests are non-blocking.
 *
 * The host's graph has the ops of all branches, and is launched in the host's stream. Each guest's
 * stream then waits for the last record of its branch. Held ops that go out one by one go to their
 * own streams.
 *
 * A guest's own state holds nothing and has no open sequence. To set its field `host` takes the
 * locks of guest and host; to clear it takes the host's lock alone.
 */
#ifndef AG_GUESTS_H
#define AG_GUESTS_H

#include "engine/stream/event.h"
#include "engine/stream/issuer.h"
#include "engine/stream/stream.h"
#include "graph/fork.h"

/* The stream whose sequence takes this stream's ops; NULL: it is no guest. */
static inline struct ag_stream *ag_guests_host(const struct ag_stream *stream)
{
    return atomic_load_explicit(&stream->visit.host, memory_order_acquire);
}

/* Whether the stream has guests. */
static inline bool ag_guests_any(const struct ag_stream *stream)
{
    return __builtin_expect(
        atomic_load_explicit(&stream->hosting.guests, memory_order_relaxed) != 0, 0);
}

/* Whether the stream must hear of calls that give it more work: it is a guest, or another stream is
   known to have waited for all of its work. */
static inline bool ag_guests_listen(const struct ag_stream *stream)
{
    return atomic_load_explicit(&stream->visit.behind, memory_order_relaxed) != NULL ||
           ag_guests_host(stream) != NULL;
}

/* Without a lock: whether the stream may become a guest of the host. It may if the host, or one of
   its guests, has waited for all work of the stream, maybe by way of other streams. */
static inline bool ag_guests_may_come(const struct ag_stream *stream, const struct ag_stream *host)
{
    for (unsigned i = 0; i < AG_BRANCHES && stream != NULL; i++) {
        stream = atomic_load_explicit(&stream->visit.behind, memory_order_acquire);
        if (stream == host || (stream != NULL && ag_guests_host(stream) == host))
            return true;
    }
    return false;
}

/* Whether the stream is a guest of the host from the record of the event on. The locks of both are
   held. */
bool ag_guests_admit(struct ag_stream *host, struct ag_stream *guest, CUevent event);

/* The host is about to record an event, and `hosting.next` names a stream that missed being a
   guest. Whether to begin a new sequence with this record: that stream could be a guest then. */
bool ag_guests_begin(struct ag_stream *host);

/* The host's last sequence has ended with the record that the guest waits for. Whether the guest
   could have come if that sequence had gone on behind the record. */
bool ag_guests_would_come(struct ag_stream *host, struct ag_stream *guest);

/* The host's open sequence gets one more op, behind its cursor: of a branch, or of an event. */
void ag_guests_take(struct ag_stream *host, const struct ag_op *op);

/* The event is destroyed: nobody can ask for its record in the open sequence, if that has one. */
void ag_guests_lose_event(struct ag_stream *host, CUevent event);

/* The host's open sequence ends: it has no guests any more. What was held has been submitted. */
void ag_guests_end_slow(struct ag_stream *host);

static inline void ag_guests_end(struct ag_stream *host)
{
    if (ag_guests_any(host))
        ag_guests_end_slow(host);
}

/* Whether all branches of the open sequence have joined. */
bool ag_guests_have_joined(const struct ag_stream *host);

/* The stream has just waited for the last record of an event; `known` tells of that record. If the
   recording stream has had no work since the record, all of its work comes before this stream's
   next op. */
void ag_guests_follow(struct ag_stream *stream, const struct ag_event_known *known);

/* Without a lock: the stream may be given work that the library does not count. */
static inline void ag_guests_forget(struct ag_stream *stream)
{
    ag_issuer_is_given(stream);
    if (atomic_load_explicit(&stream->visit.behind, memory_order_relaxed) != NULL)
        atomic_store_explicit(&stream->visit.behind, NULL, memory_order_relaxed);
}

/* The same of any stream: a call that the library does not know is about to be made. */
void ag_guests_forget_all(void);

/* A new life of a state begins, or its life is over. */
void ag_guests_start(struct ag_stream *stream);

/* -- Submitting ---------------------------------------------------------------------- */

/* Where a held op of the stream goes by itself: to the stream of its branch. */
static inline CUstream ag_guests_target(const struct ag_stream *host, const struct ag_op *op,
                                        CUstream target)
{
    unsigned branch = ag_op_branch(op);
    return __builtin_expect(branch == 0, 1) ? target : host->hosting.guest[branch].handle;
}

/* The trace, which has branches, has been launched in the host's stream: what comes next in the
   guests' streams comes behind their branches. */
void ag_guests_replayed(struct ag_stream *host, const struct ag_trace *trace);

#endif
