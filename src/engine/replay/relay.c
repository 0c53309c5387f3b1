/* SPDX-License-Identifier: MIT */
/* Submitting in another thread's name. */
#include "engine/replay/relay.h"

#include "driver/driver.h"
#include "driver/limits.h"
#include "engine/stream/helper.h"
#include "engine/stream/failure.h"
#include "engine/stream/sequence.h"
#include "mutant.h"

static bool make(struct ag_stream *stream)
{
    struct ag_context *context = stream->id.context;
    if (stream->relay.stream != NULL)
        return true;
    if (ag_helper_waits())
        return false;
    if (atomic_fetch_add(&context->relays, 1) >= AG_RELAYS || !ag_context_reserve(context)) {
        atomic_fetch_sub(&context->relays, 1);
        return false;
    }
    struct ag_relay relay;
    CUresult result = ag_helper_relay(context, &relay);
    if (result == CUDA_ERROR_NOT_READY)
        return false;
    ag_failure_note(stream, result, "making a relay");
    if (result != CUDA_SUCCESS)
        atomic_fetch_sub(&context->relays, 1);
    stream->relay.stream = relay.stream;
    stream->relay.mark = relay.mark;
    stream->relay.done = relay.done;
    return result == CUDA_SUCCESS;
}

/* Puts an event of ours before the next work of a stream; if need be, by waiting for it here. */
static void wait_for(struct ag_stream *stream, CUstream target, CUevent event)
{
    CUresult result = ag_real.cuStreamWaitEvent(target, event, 0);
    if (result == CUDA_SUCCESS)
        return;
    ag_failure_note(stream, result, "waiting for relayed work");
    ag_failure_note(stream, ag_real.cuEventSynchronize(event),
                    "waiting for relayed work on the host");
}

void ag_relay_forget(struct ag_stream *stream)
{
    stream->relay.used = false;
    ag_stream_update(stream);
}

void ag_relay_absorb(struct ag_stream *stream)
{
    bool pushed;
    /* The handle means the stream of the context that is current. */
    if (!AG_MUTANT(owner_passes_relay) && ag_context_enter(stream->id.context, &pushed)) {
        CUresult result = ag_real.cuEventRecord(stream->relay.done, stream->relay.stream);
        ag_failure_note(stream, result, "relaying held ops");
        if (result == CUDA_SUCCESS)
            wait_for(stream, stream->id.handle, stream->relay.done);
        else
            ag_failure_note(stream, ag_real.cuStreamSynchronize(stream->relay.stream),
                            "waiting for relayed work on the host");
        ag_context_leave(pushed);
    }
    ag_relay_forget(stream);
}

bool ag_relay_mark(struct ag_stream *stream)
{
    CUresult result = ag_real.cuEventRecord(stream->relay.mark, stream->id.handle);
    ag_failure_note(stream, result, "marking what held ops come behind");
    return result == CUDA_SUCCESS;
}

/* Not where streams share queues: there who asks whether the stream is idle would wait with the
   relay, and so would what is behind that in a queue. */
bool ag_relay_prepare(struct ag_stream *stream)
{
    if (atomic_load(&stream->id.context->shares) || !make(stream)) {
        ag_sequence_bar(stream, ag_helper_waits() ? AG_WHY_HELD : AG_WHY_RELAY);
        return false;
    }
    return ag_relay_mark(stream);
}

void ag_relay_begins(struct ag_stream *stream)
{
    if (!AG_MUTANT(relay_passes_owner))
        wait_for(stream, stream->relay.stream, stream->relay.mark);
}

void ag_relay_ends(struct ag_stream *stream)
{
    stream->relay.used = true;
    ag_stream_update(stream);
}

void ag_relay_destroy(struct ag_stream *stream)
{
    const struct ag_relay relay = {stream->relay.stream, stream->relay.mark, stream->relay.done};
    if (relay.stream == NULL)
        return;
    stream->counters.errors += ag_helper_destroy_relay(stream->id.context, &relay) != CUDA_SUCCESS;
    stream->relay.stream = NULL;
}
