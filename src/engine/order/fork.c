/* SPDX-License-Identifier: MIT */
/* Streams that become guests, and leave. */
#include "engine/order/fork.h"

#include "engine/hot.h"
#include "engine/replay/execs.h"
#include "engine/replay/registry.h"
#include "engine/replay/submit.h"
#include "engine/stream/issuer.h"
#include "engine/tell/observe.h"

/* Whether nothing but its host could stand in the way of a guest, which is locked. */
static bool may_visit(const struct ag_stream *stream, const struct ag_stream *host)
{
    return ag_guests_host(stream) == NULL && stream->id.live && ag_issuer_is_self(stream) &&
           stream->visit.waited.given == ag_issuer_given(stream) &&
           ag_guests_may_come(stream, host) && !stream->seq.barred &&
           !ag_recorder_rests(&stream->recorder) && !stream->turn.rests;
}

/* The stream waits for the event, whose record is in the other's open sequence. Whether it is a
   guest now. */
static bool begin_visit(struct ag_stream *stream, struct ag_stream *host, CUevent event)
{
    bool admitted = false;
    ag_stream_lock(stream);
    if (may_visit(stream, host)) {
        if (stream->recorder.cursor->depth != 0)
            ag_stream_end(stream, false, AG_REASON_EVENT);
        if (ag_stream_trylock(host)) {
            admitted = ag_guests_admit(host, stream, event);
            ag_stream_unlock(host);
        }
    }
    ag_stream_unlock(stream);
    return admitted;
}

/* Whether all of them are that one. */
static bool are_all(struct ag_stream *const holders[], unsigned count, const struct ag_stream *host)
{
    while (count > 0 && holders[count - 1] == host)
        count--;
    return count == 0;
}

/* The stream's call is one of the host's sequence, where streams have forked. */
static bool is_within(const struct ag_stream *stream, const struct ag_stream *host)
{
    return stream == host ? ag_guests_any(host) : ag_guests_host(stream) == host;
}

bool ag_fork_keeps(const struct ag_event_call *call, CUcontext current,
                   struct ag_stream *const holders[], unsigned count,
                   const struct ag_event_known *known)
{
    struct ag_stream *host = holders[0];
    if (!ag_opt.trace_forks || AG_NOTING() || known->timed || !are_all(holders, count, host) ||
        !ag_issuer_is_self(host))
        return false;
    struct ag_stream *stream = ag_stream_peek(call->stream, call->ptsz, current);
    if (stream == NULL)
        return false;
    if (is_within(stream, host))
        return call->wait || !known->awaited; /* by that event it has waited for another record */
    return stream != host && call->wait && begin_visit(stream, host, call->event);
}

/* The last sequence has ended with a record and been replayed: the next one goes on behind it. */
static void drop_last(struct ag_stream *host)
{
    struct ag_node *node = host->recorder.ended;
    if (node == NULL || node->op.kind != AG_OP_RECORD || host->recorder.cursor->depth != 0)
        return;
    ag_depth++;
    while (node->trace != NULL)
        ag_execs_drop(host, node->trace);
    ag_depth--;
}

void ag_fork_misses(const struct ag_event_call *call, CUcontext current,
                    const struct ag_event_known *known)
{
    struct ag_stream *host = known->by;
    struct ag_stream *stream = ag_stream_peek(call->stream, call->ptsz, current);
    if (stream == NULL || stream == host || !ag_opt.trace_forks || AG_NOTING())
        return;
    ag_stream_lock(stream);
    if (may_visit(stream, host) && ag_stream_trylock(host)) {
        if (host->id.life == known->life && ag_issuer_given(host) == known->given &&
            ag_guests_would_come(host, stream))
            drop_last(host);
        ag_stream_unlock(host);
    }
    ag_stream_unlock(stream);
}

void ag_fork_leave(struct ag_stream *stream, enum ag_reason reason)
{
    struct ag_stream *host = ag_guests_host(stream);
    if (host == NULL)
        return;
    ag_stream_lock(host);
    if (ag_guests_host(stream) == host)
        ag_stream_end(host, true, reason);
    ag_stream_unlock(host);
}
