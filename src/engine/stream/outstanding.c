/* SPDX-License-Identifier: MIT */
/* Looking for work that is left to do. */
#include "engine/stream/outstanding.h"

#include "engine/context/query.h"
#include "engine/hot.h"
#include "engine/stream/branches.h"
#include "engine/stream/issuer.h"
#include "engine/stream/untracked.h"
#include "mutant.h"

/* -- One stream ----------------------------------------------------------------- */

/* The stream that holds something of this one's work: itself, or its origin; NULL: none does. */
static const struct ag_stream *holder(const struct ag_stream *stream)
{
    const struct ag_stream *origin = ag_branches_origin(stream);
    if (atomic_load(&stream->seq.held) != 0 && !AG_MUTANT(held_is_done))
        return stream;
    bool hosted = origin != NULL && !AG_MUTANT(branch_is_done);
    return hosted && atomic_load(&origin->seq.held) != 0 ? origin : NULL;
}

bool ag_outstanding_is_submitted(const struct ag_stream *stream)
{
    return !stream->relay.used && holder(stream) == NULL;
}

/* The driver's answer. Another thread's default stream has no name here. */
static bool is_idle(const struct ag_stream *stream)
{
    bool named = stream->id.kind != AG_STREAM_PER_THREAD || stream->id.owner == &ag_self;
    bool pushed, idle = false;
    ag_depth++;
    if (named && ag_context_enter(stream->id.context, &pushed)) {
        bool relayed = stream->relay.used && !AG_MUTANT(relayed_is_done);
        idle = (!relayed || ag_query_is_idle(stream->relay.stream)) &&
               (ag_query_is_idle(stream->id.handle) || AG_MUTANT(running_is_done));
        ag_context_leave(pushed);
    }
    ag_depth--;
    return idle;
}

/* A part of its work that `but` holds does not count. `asks`: also what nobody counts is work. */
static bool is_outstanding(struct ag_stream *stream, const struct ag_stream *but, bool asks)
{
    uint64_t issued = ag_issuer_issued(stream);
    if (!asks && atomic_load_explicit(&stream->issuer.waited, memory_order_relaxed) == issued)
        return false;
    const struct ag_stream *held = holder(stream);
    if ((held != NULL && held != but) || !is_idle(stream))
        return true;
    if (held == NULL)
        ag_issuer_waited(stream, issued);
    return false;
}

bool ag_outstanding_in_stream(struct ag_stream *stream)
{
    return is_outstanding(stream, NULL, false);
}

/* -- All streams ------------------------------------------------------------------ */

static bool counts(const struct ag_stream *stream, const struct ag_context *context,
                   const struct ag_stream *but)
{
    return stream != but && stream->id.live && !stream->id.vacant &&
           (context == NULL || stream->id.context == context);
}

static bool is_anothers(const struct ag_stream *stream)
{
    return ag_issuer_is_another(stream) && !AG_MUTANT(threads_are_done);
}

/* The lock keeps the stream from being destroyed meanwhile. Another thread may be at work on a
   stream whose lock is taken. */
static bool is_busy(struct ag_stream *stream, const struct ag_context *context,
                    const struct ag_stream *but)
{
    if (!counts(stream, context, but))
        return false;
    if (is_anothers(stream) || !ag_stream_trylock(stream))
        return true;
    bool busy = counts(stream, context, but) &&
                (is_anothers(stream) || is_outstanding(stream, but, context == NULL));
    ag_stream_unlock(stream);
    return busy;
}

/* The stream that was busy the last time is asked first, and mostly alone: there may be hundreds.
 */
bool ag_outstanding_in_context(struct ag_context *context, const struct ag_stream *but)
{
    static struct ag_stream *_Atomic last;
    struct ag_stream *stream = atomic_load(&last);
    if (stream != NULL && is_busy(stream, context, but))
        return true;
    ag_depth++;
    bool settled = (ag_query_is_settled(context) || AG_MUTANT(left_is_done)) &&
                   (ag_untracked_rest(context) || AG_MUTANT(untracked_is_done));
    ag_depth--;
    if (!settled)
        return true;
    stream = ag_stream_all();
    while (stream != NULL && !is_busy(stream, context, but))
        stream = stream->place.next;
    atomic_store(&last, stream);
    return stream != NULL;
}
