/* SPDX-License-Identifier: MIT */
/*
 * The program asks whether an event has happened, or whether a stream is idle.
 *
 * What is held has not been done, and may stay held: an allocator asks for its events between two
 * kernels, and goes on. A thread that is told "not yet" again and again, and issues nothing
 * meanwhile, waits for what it asks about. To such a thread a question is a barrier.
 */
#include "engine/engine.h"

#include "engine/hot.h"
#include "engine/order/barrier.h"
#include "engine/order/event_flush.h"
#include "engine/replay/registry.h"
#include "engine/stream/branches.h"
#include "engine/stream/issuer.h"
#include "engine/tell/observe.h"
#include "mutant.h"
#include "policy/policy.h"

/* A number that is another one when the thread has issued anything. A stream that another thread
   has locked may be taken over: it does not count. */
static uint64_t issued(void)
{
    uint64_t all = 0;
    for (struct ag_stream *stream = NULL; (stream = ag_stream_next_touched(stream)) != NULL;)
        if (ag_issuer_is_self(stream) && ag_stream_trylock(stream)) {
            all += ag_issuer_issued(stream);
            ag_stream_unlock(stream);
        }
    return all;
}

/* Whether this question is one of many, as the answers before it have shown. */
static bool polls(void)
{
    uint64_t now = issued();
    bool again = !AG_MUTANT(nobody_polls) && ag_self.asked == now && ag_done.told >= AG_POLLS - 1;
    if (ag_self.asked != now || again)
        ag_done.told = 0;
    ag_self.asked = now;
    return again;
}

bool ag_engine_asks_event(CUevent event)
{
    CUcontext current;
    bool held = false;
    if (!polls() && !ag_context_refused(&current) &&
        (atomic_load(&ag_event_streams) == 0 || ag_event_stays(event, current, &held)))
        return held && !AG_MUTANT(held_has_happened);
    AG_NOTE(ag_observe_barrier(ag_cause, 0));
    ag_barrier_event(event, AG_REASON_BARRIER);
    return false;
}

/* Whether the stream's own ops are all that it may hold, the calling thread issues them, and none
   went out through a relay, of which the driver's answer says nothing. */
static bool is_plain(const struct ag_stream *stream)
{
    return stream != NULL && ag_issuer_is_self(stream) && !stream->relay.used &&
           !ag_branches_any(stream) && ag_branches_origin(stream) == NULL;
}

bool ag_engine_asks_stream(CUstream handle, bool ptsz)
{
    CUcontext current;
    struct ag_stream *stream = NULL;
    if (!polls() && !ag_context_refused(&current))
        stream = ag_stream_peek(handle, ptsz, current);
    if (is_plain(stream) && stream->id.context->ctx == current) {
        if (atomic_load_explicit(&stream->seq.held, memory_order_relaxed) != 0)
            return !AG_MUTANT(held_is_idle);
        ag_order_before(stream);
        return false;
    }
    AG_NOTE(ag_observe_barrier(ag_cause, 0));
    ag_barrier_stream(handle, ptsz, AG_REASON_STREAM_BARRIER);
    return false;
}
