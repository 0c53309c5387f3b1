/* SPDX-License-Identifier: MIT */
/* Holds that are late. */
#include "engine/order/overdue.h"

#include "engine/base/watchdog.h"
#include "engine/replay/submit.h"

/* Without the lock: the program's thread is about to want it. */
static bool is_due(struct ag_stream *stream)
{
    uint32_t epoch = atomic_load_explicit(&stream->seq.epoch, memory_order_relaxed);
    uint32_t held = atomic_load_explicit(&stream->seq.held, memory_order_relaxed);
    if (epoch != stream->overdue.epoch_seen) {
        stream->overdue.epoch_seen = epoch;
        stream->overdue.looks = stream->overdue.held_seen = 0;
    }
    if (held == 0)
        return false;
    stream->overdue.looks_alike =
        held == stream->overdue.held_seen ? stream->overdue.looks_alike + 1 : 1;
    stream->overdue.held_seen = held;
    return ++stream->overdue.looks >= AG_WATCHDOG_LOOKS * AG_WATCHDOG_BOUNDS ||
           stream->overdue.looks_alike >= AG_WATCHDOG_LOOKS;
}

void ag_overdue_look(void)
{
    for (struct ag_stream *stream = NULL; (stream = ag_stream_next_busy(stream)) != NULL;) {
        /* A lock that is taken: somebody works on the stream, it is not forgotten, and this thread
           must not wait for a driver call that waits for the GPU. */
        if (!is_due(stream) || !ag_stream_trylock(stream))
            continue;
        bool pushed;
        if (stream->seq.held != 0 && stream->seq.epoch == stream->overdue.epoch_seen &&
            ag_context_enter(stream->id.context, &pushed)) {
            ag_stream_submit(stream, AG_REASON_WATCHDOG);
            if (!atomic_load_explicit(&stream->issuer.elsewhere, memory_order_relaxed))
                ag_recorder_overdue(&stream->recorder, stream->recorder.cursor);
            ag_context_leave(pushed);
        }
        ag_stream_unlock(stream);
    }
}

bool ag_overdue_serve(unsigned request, enum ag_reason reason)
{
    bool all = true;
    for (struct ag_stream *stream = NULL; (stream = ag_stream_next_busy(stream)) != NULL;) {
        if (stream->overdue.served == request || atomic_load(&stream->overdue.stuck))
            continue;
        if (atomic_load_explicit(&stream->seq.held, memory_order_acquire) != 0) {
            if (!ag_stream_trylock(stream)) {
                all = false;
                continue;
            }
            ag_stream_submit(stream, reason);
            ag_stream_unlock(stream);
        }
        stream->overdue.served = request;
    }
    return all;
}

void ag_overdue_avoids(struct ag_stream *stream)
{
    atomic_store(&stream->overdue.stuck, true);
}
