/* SPDX-License-Identifier: MIT */
/*
 * Streams that fork and join: a host, and its guests.
 *
 * A stream waits for an event that is recorded in another stream's open sequence. All that the
 * first one was given before is known to come before that sequence. Then it is a guest: its ops are
 * ops of the other's sequence, in a branch (graph/fork.h), until that sequence ends. The other one
 * is the host, also where the record is one of another guest. Host and guests are of one context
 * and priority, and one thread issues their ops. They are of one kind, or the host is the legacy
 * stream and the guests are non-blocking.
 *
 * The host's graph has the ops of all branches, and is launched in the host's stream. Each guest's
 * stream then waits for the last record of its branch. Held ops that go out one by one go to their
 * own streams.
 *
 * A guest has its own state, where nothing is held and no sequence is open. Only `host` is written
 * with the guest's lock and that of the host; and it becomes NULL again with the host's alone.
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

/* Whether the stream is a guest, or all that it was given is known to come before an op of another
   one: it must hear of calls that give it more. */
static inline bool ag_guests_listen(const struct ag_stream *stream)
{
    return atomic_load_explicit(&stream->visit.behind, memory_order_relaxed) != NULL ||
           ag_guests_host(stream) != NULL;
}

/* Without a lock: whether the stream may become a guest of the host. All that it was given comes
   before an op of the host, or of one of its guests, maybe by way of other streams. */
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

/* The host, which has `hosting.next`, is about to record an event. Whether a sequence is to begin
   with that: the stream that it names could be a guest then. */
bool ag_guests_begin(struct ag_stream *host);

/* The same where the host's last sequence has ended with the record: whether it could be in a
   sequence that goes on. */
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

/* The stream's last op waits for the last record of an event, of which that is known. If nothing
   has been given to the recording stream since, all of it comes before the next op of this one. */
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
