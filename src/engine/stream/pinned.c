/* SPDX-License-Identifier: MIT */
/* What is known of copies to pinned memory, and the one that is held. */
#include "engine/stream/pinned.h"

#include "driver/driver.h"
#include "engine/hot.h"
#include "engine/stream/failure.h"
#include "engine/stream/issuer.h"
#include "engine/stream/sequence.h"
#include "mutant.h"

bool ag_pinned_is_awaited(struct ag_stream *stream)
{
    struct ag_reading *reading = &stream->reading;
    if (reading->copied != 0) /* the host did not wait behind that one */
        reading->waited = 0;
    reading->copied = 0;
    return reading->waited >= AG_FETCH_WAITED;
}

void ag_pinned_hold(struct ag_stream *stream, void *dst, CUdeviceptr src, uint32_t bytes)
{
    stream->reading.dst = dst;
    stream->reading.src = src;
    stream->reading.bytes = bytes;
}

struct ag_reading ag_pinned_take(struct ag_stream *stream)
{
    struct ag_reading copy = stream->reading;
    stream->reading.bytes = 0;
    return copy;
}

void ag_pinned_submit(struct ag_stream *stream, const struct ag_reading *copy, CUstream target)
{
    if (AG_MUTANT(copy_never_goes))
        return;
    CUresult result = ag_real.cuMemcpyAsync((CUdeviceptr)copy->dst, copy->src, copy->bytes, target);
    ag_issuer_is_given(stream);
    ag_failure_refused(stream, result, "copying to the host");
}

void ag_pinned_copied(struct ag_stream *stream)
{
    stream->reading.copied = ag_issuer_issued(stream) + 1;
    ag_sequence_subscribe(stream, true);
}

void ag_pinned_followed_slow(struct ag_stream *stream, enum ag_reason reason)
{
    struct ag_reading *reading = &stream->reading;
    struct ag_fetch *fetch = &stream->id.context->fetch;
    bool at_once = reason == AG_REASON_HOST_WAIT && reading->copied == ag_issuer_issued(stream) + 1;
    reading->copied = 0;
    reading->waited = !at_once ? 0 : reading->waited + (reading->waited < AG_FETCH_WAITED);
    if (at_once && !ag_fetch_is_ready(fetch)) {
        atomic_fetch_add(&fetch->seen, 1);
        ag_done.reads |= ag_fetch_is_wanted(fetch);
    }
}
