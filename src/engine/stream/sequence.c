/* SPDX-License-Identifier: MIT */
/* The state of the open sequence, and who is told of it. */
#include "engine/stream/sequence.h"

#include "engine/base/watchdog.h"
#include "engine/hot.h"
#include "engine/stream/eager.h"

/* The stream holds (1), or holds no more (-1): tells the streams whose ops come behind its ops. */
static void count_hold(struct ag_stream *stream, int change)
{
    struct ag_context *context = stream->id.context;
    enum ag_stream_kind kind = stream->id.kind;
    bool shares = atomic_load_explicit(&stream->seq.counted, memory_order_relaxed) != 0;
    if (shares || kind == AG_STREAM_LEGACY)
        atomic_fetch_add(&context->ahead[AG_STREAM_BLOCKING], (unsigned)change);
    if (shares)
        atomic_fetch_add(&context->ahead[AG_STREAM_NONBLOCKING], (unsigned)change);
    if (shares || (kind != AG_STREAM_LEGACY && kind != AG_STREAM_NONBLOCKING))
        atomic_fetch_add(&context->ahead[AG_STREAM_LEGACY], (unsigned)change);
}

static void hold_begins(struct ag_stream *stream)
{
    struct ag_sequence *seq = &stream->seq;
    atomic_store_explicit(&seq->epoch, seq->epoch + 1, memory_order_relaxed);
    atomic_store_explicit(&seq->counted, atomic_load(&stream->id.context->shares),
                          memory_order_relaxed);
    count_hold(stream, 1);
}

static void hold_ends(struct ag_stream *stream)
{
    struct ag_sequence *seq = &stream->seq;
    atomic_store_explicit(&seq->held, 0, memory_order_release);
    seq->free_count = seq->gone_count = 0;
    ag_eager_begins(stream, AG_WHY_FLUSHED);
    if (seq->watched)
        ag_watchdog_unwatch();
    seq->watched = false;
    count_hold(stream, -1);
    atomic_store_explicit(&seq->counted, 0, memory_order_relaxed);
}

void ag_sequence_turn(struct ag_stream *stream, enum ag_state to)
{
    enum ag_state from = stream->seq.state;
    if (from == to)
        return;
    __atomic_store_n(&stream->seq.state, to, __ATOMIC_RELAXED);
    if (from == AG_HOLDING)
        hold_ends(stream);
    else if (to == AG_HOLDING)
        hold_begins(stream);
    else
        ag_stream_update(stream);
}

bool ag_sequence_free(struct ag_stream *stream, CUdeviceptr address)
{
    struct ag_sequence *seq = &stream->seq;
    if (seq->free_count == AG_FREES)
        return false;
    seq->frees[seq->free_count++] = address;
    return true;
}

bool ag_sequence_outlives(struct ag_stream *stream, CUevent event)
{
    struct ag_sequence *seq = &stream->seq;
    if (seq->gone_count == AG_GONE)
        return false;
    seq->gone[seq->gone_count++] = event;
    return true;
}

bool ag_sequence_watch(struct ag_stream *stream)
{
    return stream->seq.watched = ag_watchdog_watch();
}

void ag_sequence_subscribe(struct ag_stream *stream, bool subscribes)
{
    if (atomic_load_explicit(&stream->seq.subscribes_next, memory_order_relaxed) == subscribes)
        return;
    atomic_store_explicit(&stream->seq.subscribes_next, subscribes, memory_order_relaxed);
    atomic_fetch_add(&ag_next_subscribers, subscribes ? 1u : -1u);
    ag_stream_update(stream);
}
