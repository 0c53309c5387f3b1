/* SPDX-License-Identifier: MIT */
/* Read-backs: copies to the host for which the host waits (fetch.h). */
#include "engine/engine.h"

#include <string.h>

#include "config/config.h"
#include "driver/driver.h"
#include "engine/enter.h"
#include "engine/failure.h"
#include "engine/fetch.h"
#include "engine/issuer.h"
#include "engine/observe.h"
#include "engine/op.h"
#include "engine/query.h"
#include "engine/trial.h"
#include "observe/callsite.h"

/* Whether the host may write there. What is pinned is no place of a call that waits for pageable
   memory only. */
static bool is_of_host(const struct ag_read_call *call)
{
    CUmemorytype type = 0;
    unsigned managed = 0;
    CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                   CU_POINTER_ATTRIBUTE_IS_MANAGED};
    void *values[] = {&type, &managed};
    if (call->dst == NULL ||
        ag_real.cuPointerGetAttributes(2, names, values, (CUdeviceptr)call->dst) != CUDA_SUCCESS)
        return false;
    return !managed && (type == 0 || (type == CU_MEMORYTYPE_HOST && call->blocks));
}

/* Whether all that was given to the stream, which is locked, is done. */
static bool is_done(struct ag_stream *stream)
{
    uint64_t issued = ag_issuer_issued(stream);
    if (atomic_load_explicit(&stream->issuer.waited, memory_order_relaxed) == issued)
        return true;
    if (atomic_load(&stream->seq.held) != 0 || !ag_query_is_idle(stream->id.handle))
        return false;
    ag_issuer_waited(stream, issued);
    return true;
}

static bool belongs(const struct ag_stream *stream, const struct ag_context *context)
{
    return stream->id.live && !stream->id.vacant && stream->id.context == context;
}

/* Whether a stream of the context has nothing to do, and no other thread issues work there. The
   lock keeps it from being destroyed meanwhile. */
static bool is_at_rest(struct ag_stream *stream, const struct ag_context *context)
{
    if (ag_issuer_is_another(stream) || !ag_stream_trylock(stream))
        return false;
    bool is = !belongs(stream, context) || (!ag_issuer_is_another(stream) && is_done(stream));
    ag_stream_unlock(stream);
    return is;
}

/* Whether nothing is at work in the stream's context, which is current, but the stream itself.
   Other threads know that it is to read back. */
static bool is_alone(const struct ag_stream *stream)
{
    const struct ag_context *context = stream->id.context;
    if (atomic_load(&ag_unfollowed_kernels) || atomic_load(&ag_any_young) ||
        atomic_load(&context->settled) != atomic_load(&context->left))
        return false;
    bool alone = true;
    ag_depth++;
    for (struct ag_stream *other = ag_stream_all(); alone && other != NULL;
         other = other->place.next)
        alone = other == stream || !belongs(other, context) || is_at_rest(other, context);
    ag_depth--;
    return alone;
}

/* The read-back is an op of the stream, which is locked: what becomes of it. */
static enum ag_read step(struct ag_stream *stream, const struct ag_read_call *call,
                         CUcontext current)
{
    const struct ag_fetch *fetch = &stream->id.context->fetch;
    CUfunction func = atomic_load(&fetch->func);
    CUdeviceptr src = call->src, place = fetch->at;
    uint32_t bytes = (uint32_t)call->bytes;
    void *arguments[] = {&src, &place, &bytes};
    const struct ag_kernel_call launch = {
        .shape = {{1, 1, 1}, {AG_FETCH_THREADS, 1, 1}, 0, 0}, .func = func, .params = arguments};
    struct ag_described op;
    uint64_t buffer;
    if (ag_memory_at(&stream->answers, src, bytes, &buffer) != CU_MEMORYTYPE_DEVICE ||
        ag_op_passes(stream, ag_mark(AG_OP_KERNEL, func, 1)) ||
        !ag_describe_kernel(&op, &launch, ag_function_find(func, current)))
        return AG_READ_NOT;
    fetch->place->done = 0;
    bool held = ag_op_step(stream, true, &op);
    ag_stream_end(stream, true, AG_REASON_HOST_WAIT);
    return held ? AG_READ_DONE : AG_READ_RECORDED;
}

/* Marks what is to be waited for, under the stream's lock: other threads may issue work behind it
   before the wait begins. NULL: there are none, and the stream itself is waited for. */
static CUevent mark(struct ag_stream *stream)
{
    CUevent event = stream->id.context->fetch.event;
    if (!ag_many_threads)
        return NULL;
    CUresult result = ag_real.cuEventRecord(event, stream->id.handle);
    ag_failure_note(stream, result, "marking the end of a read-back");
    return result == CUDA_SUCCESS ? event : NULL;
}

/* The bytes are on their way: waits for them. False: there was an error. */
static bool arrive(const struct ag_fetch *fetch, CUevent event, CUstream handle,
                   const struct ag_read_call *call)
{
    const volatile struct ag_fetched *place = fetch->place;
    ag_depth++;
    CUresult result =
        event != NULL ? ag_real.cuEventSynchronize(event) : ag_real.cuStreamSynchronize(handle);
    ag_depth--;
    if (result != CUDA_SUCCESS || place->done == 0) {
        atomic_fetch_add(&ag_context_errors, 1);
        return false;
    }
    memcpy(call->dst, (const void *)place->bytes, call->bytes);
    return true;
}

/* Reads back in the stream, which is locked, and gives the lock back. */
static enum ag_read read_back(struct ag_stream *stream, const struct ag_read_call *call,
                              CUcontext current)
{
    struct ag_fetch *fetch = &stream->id.context->fetch;
    CUstream handle = stream->id.handle;
    const struct ag_stream *none = NULL;
    enum ag_read read = AG_READ_NOT;
    bool reads = stream->id.kind != AG_STREAM_PER_THREAD && ag_fetch_is_ready(fetch) &&
                 ag_op_is_eligible(stream, current) &&
                 atomic_compare_exchange_strong(&fetch->reader, &none, stream);
    CUevent event = NULL;
    if (reads && is_alone(stream)) {
        uint64_t began = ag_trial_clock(stream);
        read = step(stream, call, current);
        if (read == AG_READ_DONE)
            event = mark(stream);
        ag_trial_spent(stream, began);
    }
    ag_stream_unlock(stream);
    AG_CALLSITE();
    if (read == AG_READ_DONE && !arrive(fetch, event, handle, call))
        read = AG_READ_NOT; /* the program's own call says why */
    if (reads)
        atomic_store(&fetch->reader, NULL);
    return read;
}

enum ag_read ag_engine_read(const struct ag_read_call *call)
{
    CUcontext current = ag_engine_current(call->stream);
    struct ag_stream *stream = ag_stream_peek(call->stream, call->ptsz, current);
    if (stream == NULL || call->bytes == 0 || call->bytes > AG_FETCH_BYTES ||
        !ag_fetch_is_ready(&stream->id.context->fetch) || !is_of_host(call))
        return AG_READ_NOT;
    stream = ag_enter(call->stream, call->ptsz, current, false);
    return stream != NULL ? read_back(stream, call, current) : AG_READ_NOT;
}

void ag_engine_read_eager(const struct ag_read_call *call)
{
    struct ag_context *context = ag_context_peek(ag_context_current());
    if (context == NULL || call->bytes > AG_FETCH_BYTES || !ag_opt.graph_read_backs ||
        atomic_load(&context->fetch.func) != NULL || atomic_load(&context->fetch.never))
        return;
    uint32_t seen = atomic_load(&context->fetch.seen) + 1;
    /* Seldom where no load comes. If this copy is no read-back it does not count: the next may be.
     */
    bool looks = seen >= AG_FETCH_AFTER && (seen & (seen - 1)) == 0;
    if (looks && !is_of_host(call))
        return;
    atomic_store(&context->fetch.seen, seen); /* of two threads one may be lost */
    if (looks && ag_fetch_is_wanted(&context->fetch))
        ag_engine_waited();
}
