/* SPDX-License-Identifier: MIT */
/* Submits the sequences that have records of an event, or waits for it. */
#include "engine/order/event_flush.h"

#include <string.h>

#include "engine/base/watchdog.h"
#include "engine/replay/submit.h"
#include "engine/stream/helper.h"
#include "engine/stream/branches.h"
#include "engine/stream/issuer.h"
#include "engine/stream/sequence.h"
#include "graph/node.h"
#include "observe/callsite.h"

/* The held op that records the event, or NULL. */
static struct ag_node *record_of(const struct ag_stream *stream, CUevent handle)
{
    for (uint32_t i = stream->seq.held; i > 0; i--) {
        struct ag_event_arguments arguments;
        struct ag_node *node = stream->seq.path[i];
        if (node->op.kind != AG_OP_RECORD)
            continue;
        memcpy(&arguments, node->args, sizeof arguments);
        if (arguments.event == handle)
            return node;
    }
    return NULL;
}

static void flush(struct ag_stream *stream, CUevent handle, enum ag_reason reason)
{
    ag_stream_lock(stream);
    if (ag_issuer_is_self(stream)) {
        ag_stream_end(stream, true, reason);
    } else {
        struct ag_node *node = record_of(stream, handle);
        ag_stream_submit(stream, AG_REASON_EVENT);
        if (node != NULL)
            ag_recorder_overdue(&stream->recorder, node);
    }
    ag_stream_unlock(stream);
    AG_CALLSITE();
}

void ag_event_flush_holders(CUevent handle, struct ag_stream *const holders[], unsigned count,
                            enum ag_reason reason)
{
    CUcontext current;
    if (count != 0 && ag_context_refused(&current)) { /* and so is the call that follows */
        (void)ag_watchdog_flush(AG_REASON_EVENT);
        return;
    }
    while (count > 0)
        flush(holders[--count], handle, reason);
}

struct ag_event_known ag_event_flush(CUevent handle, bool all, enum ag_reason reason)
{
    struct ag_stream *holders[AG_EVENT_HOLDERS];
    struct ag_event_known known;
    unsigned count = ag_event_holders(handle, all, holders, &known);
    ag_event_flush_holders(handle, holders, count, reason);
    return known;
}

bool ag_event_stays(CUevent handle, CUcontext current, bool *held)
{
    struct ag_stream *holders[AG_EVENT_HOLDERS];
    struct ag_event_known known;
    if (ag_event_holders(handle, false, holders, &known) == 0)
        return true;
    struct ag_stream *stream = holders[0];
    ag_stream_lock(stream);
    *held = ag_sequence_holds(stream) && record_of(stream, handle) != NULL;
    bool here = stream->id.context->ctx == current;
    ag_stream_unlock(stream);
    return here || !*held;
}

/* All that names the event is in that open sequence of the calling thread. Whether it can stay,
   since the event is destroyed behind what is held (*later), or the driver has been told of all. */
static bool stays(struct ag_stream *stream, CUevent handle, bool *later)
{
    if (!ag_issuer_is_self(stream) || ag_helper_shares(stream->id.context))
        return false;
    ag_stream_lock(stream);
    bool holds = ag_sequence_holds(stream), able = !holds || ag_sequence_outlives(stream, handle);
    if (able)
        ag_branches_lose_event(stream, handle);
    *later = holds && able;
    ag_stream_unlock(stream);
    return able;
}

bool ag_event_outlives(CUevent handle)
{
    struct ag_stream *holders[AG_EVENT_HOLDERS];
    struct ag_event_known known;
    bool later = false;
    unsigned count = ag_event_holders(handle, true, holders, &known);
    bool one = count != 0;
    for (unsigned i = 1; i < count; i++)
        one &= holders[i] == holders[0];
    if (!one || !stays(holders[0], handle, &later))
        ag_event_flush_holders(handle, holders, count, AG_REASON_EVENT);
    return later;
}
