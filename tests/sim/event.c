/* SPDX-License-Identifier: MIT */
/* event.c: events. A record gives the event a new marker, which the operation
 * in the stream completes; who waits, waits for the marker of that moment. */
#include "sim.h"

#include <unistd.h>

void event_free(struct event *e)
{
    marker_drop(e->marker);
    capture_set_free(&e->capture_deps);
    obj_free(e);
}

static CUresult event_get(CUevent handle, struct event **e)
{
    *e = obj_get(OBJ_EVENT, handle);
    return *e ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult sim_cuEventCreate(CUevent *out, unsigned flags)
{
    struct ctx *ctx;
    if (!out || flags > 7 || (flags & CU_EVENT_INTERPROCESS && !(flags & CU_EVENT_DISABLE_TIMING)))
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = ctx_current(&ctx);
    if (r == CUDA_SUCCESS) {
        ctx_alone(ctx);
        struct event *e = obj_new(OBJ_EVENT);
        if (e) {
            e->ctx = ctx;
            e->flags = flags;
            e->own = sim_called_by_library();
            *out = (CUevent)e;
        } else {
            r = CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    sim_unlock();
    return r;
}

CUresult sim_cuEventDestroy_v2(CUevent handle)
{
    struct event *e;
    sim_lock();
    CUresult r = event_get(handle, &e);
    if (r == CUDA_SUCCESS)
        ctx_alone(e->ctx);
    if (r == CUDA_SUCCESS && (r = event_get(handle, &e)) == CUDA_SUCCESS)
        event_free(e);
    sim_unlock();
    return r;
}

CUresult sim_cuEventDestroy(CUevent handle)
{
    return sim_cuEventDestroy_v2(handle);
}

static CUresult record(struct stream *s, struct event *e)
{
    struct marker *m = marker_new(s, !(e->flags & CU_EVENT_DISABLE_TIMING));
    if (!m)
        return CUDA_ERROR_OUT_OF_MEMORY;
    m->refs++;
    struct work w = {.kind = WORK_RECORD,
                     .event = {.event = e, .gen = e->o.id, .marker = m, .own = e->own}};
    CUresult r = stream_enqueue(s, &w, NULL, 0);
    if (r != CUDA_SUCCESS) {
        marker_drop(m);
        return r;
    }
    marker_drop(e->marker);
    e->marker = m;
    e->capture_id = 0;
    return CUDA_SUCCESS;
}

CUresult event_record(struct stream *s, struct event *e, unsigned flags)
{
    if (e->ctx != s->ctx)
        return CUDA_ERROR_INVALID_HANDLE;
    if (s->capture)
        return capture_record(s, e, flags);
    CUresult r = flags ? CUDA_ERROR_ILLEGAL_STATE : capture_check_legacy(s);
    return r == CUDA_SUCCESS ? record(s, e) : r;
}

CUresult sim_cuEventRecordWithFlags(CUevent handle, CUstream stream, unsigned flags)
{
    struct stream *s;
    struct event *e;
    if (flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = stream_get(stream, &s);
    if (r == CUDA_SUCCESS)
        r = event_get(handle, &e);
    if (r == CUDA_SUCCESS)
        r = event_record(s, e, flags);
    sim_unlock();
    return r;
}

CUresult sim_cuEventRecord(CUevent handle, CUstream stream)
{
    return sim_cuEventRecordWithFlags(handle, stream, 0);
}

CUresult sim_cuStreamWaitEvent(CUstream stream, CUevent handle, unsigned flags)
{
    struct stream *s;
    struct event *e;
    if (flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = stream_get(stream, &s);
    if (r == CUDA_SUCCESS)
        r = event_get(handle, &e);
    if (r == CUDA_SUCCESS && !s->capture && !e->capture_id)
        r = flags ? CUDA_ERROR_ILLEGAL_STATE : capture_check_legacy(s);
    if (r == CUDA_SUCCESS && (s->capture || e->capture_id)) {
        r = capture_wait(s, e, flags);
    } else if (r == CUDA_SUCCESS && e->marker) {
        /* Waiting for what was never recorded is waiting for nothing. */
        struct dep d = {.stream = s, .marker = e->marker};
        struct work w = {.kind = WORK_WAIT, .event = {.event = e, .gen = e->o.id, .own = e->own}};
        r = stream_enqueue(s, &w, &d, 1);
    }
    sim_unlock();
    return r;
}

CUresult sim_cuEventQuery(CUevent handle)
{
    struct event *e;
    if (sim.sync_us)
        usleep((useconds_t)sim.sync_us);
    sim_lock();
    CUresult r = event_get(handle, &e);
    if (r == CUDA_SUCCESS)
        r = capture_check_event_sync(e);
    if (r == CUDA_SUCCESS && e->marker && !e->marker->done) {
        if (!sim_called_by_library())
            stream_wanted(e->marker->stream, e->marker->seq);
        r = CUDA_ERROR_NOT_READY;
    }
    sim_unlock();
    return r;
}

CUresult sim_cuEventSynchronize(CUevent handle)
{
    struct event *e;
    if (sim.sync_us)
        usleep((useconds_t)sim.sync_us);
    sim_lock();
    CUresult r = event_get(handle, &e);
    if (r == CUDA_SUCCESS)
        r = capture_check_event_sync(e);
    if (r == CUDA_SUCCESS && e->marker) {
        bool spins = (e->flags & CU_EVENT_BLOCKING_SYNC) == 0;
        if (spins && (e->ctx->flags & CU_CTX_SCHED_MASK) == CU_CTX_SCHED_BLOCKING_SYNC)
            atomic_fetch_add(&sim.spun, 1);
        marker_wait(e->marker);
    }
    sim_unlock();
    return r;
}

CUresult sim_cuEventElapsedTime_v2(float *ms, CUevent start, CUevent end)
{
    struct event *a, *b;
    if (!ms)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = event_get(start, &a);
    if (r == CUDA_SUCCESS)
        r = event_get(end, &b);
    if (r == CUDA_SUCCESS && (a->capture_id || b->capture_id))
        r = CUDA_ERROR_CAPTURED_EVENT;
    if (r == CUDA_SUCCESS && (!a->marker || !b->marker || !a->marker->timed || !b->marker->timed))
        r = CUDA_ERROR_INVALID_HANDLE;
    if (r == CUDA_SUCCESS && (a->capture_id || b->capture_id))
        r = CUDA_ERROR_CAPTURED_EVENT;
    if (r == CUDA_SUCCESS && (!a->marker->done || !b->marker->done))
        r = CUDA_ERROR_NOT_READY;
    if (r == CUDA_SUCCESS)
        *ms = (float)((double)(int64_t)(b->marker->ns - a->marker->ns) / 1e6);
    sim_unlock();
    return r;
}

CUresult sim_cuEventElapsedTime(float *ms, CUevent start, CUevent end)
{
    return sim_cuEventElapsedTime_v2(ms, start, end);
}
