/* SPDX-License-Identifier: MIT */
/* Stream-ordered allocations and frees. */
#include "engine/engine.h"

#include <string.h>

#include "driver/driver.h"
#include "engine/base/facts.h"
#include "engine/context/query.h"
#include "engine/hot.h"
#include "engine/order/barrier.h"
#include "engine/order/enter.h"
#include "engine/order/fork.h"
#include "engine/replay/make.h"
#include "engine/replay/submit.h"
#include "engine/stream/sequence.h"
#include "engine/tell/account.h"
#include "mutant.h"
#include "observe/callsite.h"

/* The only stream that has given memory back, in the life that it says; or more than one has. */
static struct ag_stream *const several = (struct ag_stream *)1;
static struct ag_stream *_Atomic freeing;

static bool frees_alone(const struct ag_stream *stream)
{
    return atomic_load(&freeing) == stream && stream->freed == atomic_load(&stream->id.life) + 1;
}

void ag_engine_frees(CUstream handle, bool ptsz)
{
    if (atomic_load(&freeing) == several)
        return;
    struct ag_stream *stream = ag_stream_find(handle, ptsz, ag_context_current()), *none = NULL;
    if (stream != NULL && frees_alone(stream))
        return;
    if (stream != NULL && atomic_compare_exchange_strong(&freeing, &none, stream))
        atomic_store(&stream->freed, atomic_load(&stream->id.life) + 1);
    else
        atomic_store(&freeing, several);
}

/* An allocation may have its stream wait for another one that has freed the memory. */
static void allocate_outside(CUstream handle, bool ptsz)
{
    struct ag_stream *stream = ag_stream_peek(handle, ptsz, ag_context_current());
    if (stream == NULL)
        return;
    ag_fork_leave(stream, AG_REASON_STREAM_BARRIER);
    ag_branches_forget(stream);
}

void ag_engine_allocates(CUstream handle, bool ptsz)
{
    if (ag_engine_listens())
        allocate_outside(handle, ptsz);
    if (atomic_load(&freeing) == NULL || !ag_anything_held())
        return;
    CUcontext current = ag_context_current();
    const struct ag_stream *stream = ag_stream_peek(handle, ptsz, current);
    if ((stream == NULL || !frees_alone(stream)) && !AG_MUTANT(allocation_ahead))
        ag_barrier_stream(handle, ptsz, AG_REASON_STREAM_BARRIER);
}

/* In a capture an allocation is a node, and a question about the pool ends the capture. */
static void note_allocation(void)
{
    CUstreamCaptureMode mode;
    if (ag_captures_about() || !ag_query_relax(&mode))
        return;
    ag_facts_allocated(ag_done.waits);
    ag_query_unrelax(mode);
}

/* Only the relay of a per-thread default stream could come ahead. */
void ag_engine_allocated(CUstream handle, bool ptsz)
{
    if (__builtin_expect(ag_accounting, 0) && strcmp(ag_cause, "cuMemAllocFromPoolAsync") != 0)
        note_allocation();
    if (ag_stream_name(handle, ptsz) != CU_STREAM_PER_THREAD || !ag_anything_held())
        return;
    struct ag_stream *stream = ag_stream_peek(handle, ptsz, ag_context_current());
    if (stream == NULL)
        return;
    ag_depth++;
    ag_stream_lock(stream);
    if (stream->seq.held != 0 && stream->seq.watched && !ag_relay_mark(stream))
        ag_stream_end(stream, true, AG_REASON_STREAM_BARRIER);
    ag_stream_unlock(stream);
    ag_depth--;
}

/* A free that can only succeed: an allocation of a pool, which is not being freed already. */
static bool free_is_certain(const struct ag_stream *stream, CUdeviceptr address)
{
    for (unsigned i = 0; i < stream->seq.free_count; i++)
        if (stream->seq.frees[i] == address)
            return false;
    CUmemoryPool pool = NULL;
    CUdeviceptr start = 0;
    CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
                                   CU_POINTER_ATTRIBUTE_RANGE_START_ADDR};
    void *values[] = {&pool, &start};
    return ag_real.cuPointerGetAttributes(2, names, values, address) == CUDA_SUCCESS &&
           pool != NULL && start == address;
}

bool ag_engine_free(CUdeviceptr address, CUstream handle, bool ptsz)
{
    if (atomic_load(&ag_subscribers) == 0)
        return false;
    CUcontext current = ag_engine_current(handle);
    struct ag_stream *stream = ag_stream_peek(handle, ptsz, current);
    if (stream != NULL)
        ag_fork_leave(stream, AG_REASON_STREAM_BARRIER);
    stream = ag_enter(handle, ptsz, current, false);
    if (stream == NULL)
        return false;
    if (UNLIKELY(stream->execs.living != NULL) && stream->seq.held == 0)
        ag_make_living(stream);
    bool waits = stream->seq.held != 0 && !AG_MUTANT(free_ahead) &&
                 stream->id.context->ctx == current && free_is_certain(stream, address) &&
                 ag_sequence_free(stream, address);
    if (!waits && stream->seq.held != 0 && !AG_MUTANT(free_ahead))
        ag_stream_end(stream, true, AG_REASON_STREAM_BARRIER);
    ag_stream_unlock(stream);
    AG_CALLSITE();
    return waits;
}
