/* SPDX-License-Identifier: MIT */
/* Calls of doors that a room below answers. */
#include "engine/engine.h"

#include "engine/base/facts.h"
#include "engine/context/context.h"
#include "engine/order/barrier.h"
#include "engine/replay/op.h"
#include "engine/stream/event.h"
#include "engine/tell/observe.h"

CUcontext ag_engine_ask_current(void)
{
    return ag_context_ask_current();
}

bool ag_engine_refused(void)
{
    CUcontext current;
    return ag_context_refused(&current);
}

CUresult ag_engine_refusal(void)
{
    struct ag_context *context = ag_context_peek(ag_context_current());
    return context != NULL ? ag_context_refusal(context) : CUDA_SUCCESS;
}

void ag_engine_device(CUdevice device)
{
    ag_facts_gpu(device);
}

void ag_engine_failed(void)
{
    ag_op_failed();
}

/* -- Events ------------------------------------------------------------------ */

void ag_engine_event_created(CUevent event, unsigned flags)
{
    ag_event_created(event, flags);
}

void ag_engine_event_failed(CUevent event)
{
    ag_event_failed(event);
}

void ag_engine_event_shared(CUevent event)
{
    ag_event_shared(event);
}

/* -- Barriers ---------------------------------------------------------------- */

void ag_engine_barrier_stream(CUstream stream, bool ptsz, enum ag_reason reason)
{
    ag_barrier_stream(stream, ptsz, reason);
}

void ag_engine_barrier_attach(CUstream stream, bool ptsz)
{
    ag_barrier_attach(stream, ptsz);
}

void ag_engine_barrier_wait(CUstream stream, bool ptsz, enum ag_reason reason)
{
    ag_barrier_wait(stream, ptsz, reason);
}

void ag_engine_barrier_copy(bool ptsz, enum ag_reason reason)
{
    ag_barrier_copy(ptsz, reason);
}

void ag_engine_barrier_all(enum ag_reason reason)
{
    ag_barrier_all(reason);
}

void ag_engine_barrier_most(enum ag_reason reason)
{
    ag_barrier_most(reason);
}

void ag_engine_barrier_event(CUevent event, enum ag_reason reason)
{
    ag_barrier_event(event, reason);
}

void ag_engine_barrier_load(CUfunction func)
{
    ag_barrier_load(func);
}

/* -- Trace file -------------------------------------------------------------- */

void ag_note_return(CUresult result)
{
    ag_observe_return(result);
}

void ag_note_barrier(const char *name, uint64_t began)
{
    ag_observe_barrier(name, began);
}

void ag_note_memory(bool alloc, enum ag_memory kind, CUdeviceptr address, size_t bytes)
{
    ag_observe_memory(alloc, kind, address, bytes);
}
