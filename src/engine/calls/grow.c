/* SPDX-License-Identifier: MIT */
/*
 * Safe points: moments when more execs can be made than a context gives freely.
 *
 * Making one more then gets memory from the device, and waits until every running kernel has ended,
 * holding a lock of the driver (seen on driver 580). If a kernel waits for this thread, or for a
 * launch of another, that is a deadlock that the program does not have by itself. So it is done
 * only when the program has just waited for work itself, nothing is outstanding, and no other
 * thread issues work, which could bring a kernel in between (outstanding.h).
 */
#include "engine/engine.h"

#include "engine/context/query.h"
#include "engine/order/enter.h"
#include "engine/replay/make.h"
#include "engine/replay/staging.h"
#include "engine/stream/aside.h"
#include "engine/stream/event.h"
#include "engine/stream/issuer.h"
#include "engine/stream/outstanding.h"
#include "engine/stream/young.h"
#include "mutant.h"

static bool all_idle(void)
{
    atomic_fetch_add(&ag_capture_breakers, 1);
    bool all = !ag_captures_about() &&
               (!ag_outstanding_in_context(NULL, NULL) || AG_MUTANT(grows_beside_work));
    atomic_fetch_sub(&ag_capture_breakers, 1);
    return all;
}

/* Loads the kernel for read-backs if they want it in the current context. It launches in the legacy
   stream, and waits there: so no capture begins meanwhile, and the stream has no work. A copy from
   pageable memory may be there that the host has not waited for, though nobody follows the stream.
 */
static void fetch(void)
{
    struct ag_context *context = ag_context_peek(ag_context_current());
    if (context == NULL || !ag_fetch_is_wanted(&context->fetch) || ag_aside_waits())
        return;
    atomic_fetch_add(&ag_capture_breakers, 1);
    ag_depth++;
    bool idle = ag_query_is_idle(CU_STREAM_LEGACY); /* and nothing captures */
    CUresult result = idle ? ag_aside_fetch(context) : CUDA_ERROR_NOT_READY;
    ag_depth--;
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY)
        atomic_fetch_add(&ag_context_errors, 1);
    atomic_fetch_sub(&ag_capture_breakers, 1);
}

static void destroy_buried(void)
{
    struct ag_context *context = NULL;
    ag_depth++;
    while ((context = ag_context_next(context)) != NULL)
        if (ag_aside_destroy_buried(context) != CUDA_SUCCESS)
            atomic_fetch_add(&ag_context_errors, 1);
    ag_depth--;
}

static void grow(void)
{
    if (!all_idle())
        return;
    atomic_fetch_sub(&ag_program_execs, atomic_exchange(&ag_program_execs_gone, 0));
    destroy_buried();
    for (struct ag_stream *stream = ag_stream_all(); stream != NULL; stream = stream->place.next) {
        bool pushed;
        if (!ag_stream_trylock(stream)) /* another thread takes it over, and waits for us */
            continue;
        if (stream->id.live && stream->execs.wanted_count != 0 &&
            ag_context_enter(stream->id.context, &pushed)) {
            ag_depth++;
            ag_make_wanted(stream);
            ag_depth--;
            ag_context_leave(pushed);
        }
        ag_stream_unlock(stream);
    }
    fetch();
}

void ag_engine_waited(void)
{
    if (!all_idle()) /* mostly; and nobody has to wait for the look */
        return;
    if (AG_MUTANT(grows_beside_threads)) {
        grow();
        return;
    }
    ag_issuer_grows();
    grow();
    ag_issuer_has_grown();
}

/* -- Waits of the program ------------------------------------------------------- */

static struct ag_context *named(CUcontext context)
{
    return ag_context_peek(context != NULL ? context : ag_context_current());
}

unsigned ag_engine_left(CUcontext handle)
{
    const struct ag_context *context = named(handle);
    return context != NULL ? ag_left_mark(&context->leavings) : 0;
}

void ag_engine_settled(CUcontext handle, unsigned left)
{
    struct ag_context *context = named(handle);
    if (context == NULL || left == 0)
        return;
    ag_left_waited(&context->leavings, left, true);
    if (ag_fetch_is_wanted(&context->fetch))
        ag_engine_waited();
}

/* The stream that the calling thread issued the last op of, if it remembers it, not locked. */
static struct ag_stream *own(CUstream handle, bool ptsz)
{
    const struct ag_found *found = ag_stream_slot(handle);
    struct ag_stream *stream = found->stream;
    return found->key == handle && found->ptsz == ptsz && stream != NULL &&
                   (!ag_stream_is_default(handle) || found->ctx == ag_context_current()) &&
                   found->life == atomic_load(&stream->id.life) &&
                   atomic_load_explicit(&stream->issuer.thread, memory_order_relaxed) == &ag_self
               ? stream
               : NULL;
}

/* Not where another thread has taken it over: that may have counted an op which it is about to
   launch. */
uint64_t ag_engine_issued(CUstream handle, bool ptsz)
{
    struct ag_stream *stream = own(handle, ptsz);
    if (stream == NULL)
        return ag_young_issued(handle);
    ag_stream_lock(stream);
    bool all = stream->issuer.thread == &ag_self && ag_outstanding_is_submitted(stream);
    uint64_t issued = all ? ag_issuer_issued(stream) : 0;
    ag_stream_unlock(stream);
    return issued;
}

void ag_engine_waited_for(CUstream handle, bool ptsz, uint64_t issued)
{
    struct ag_stream *stream = own(handle, ptsz);
    if (stream != NULL)
        ag_issuer_waited(stream, issued);
    else
        ag_young_waited_for(handle, (uint32_t)issued);
}

void ag_engine_launch_unseen(void)
{
    ag_issuer_launches_unseen();
}

void ag_engine_stream_used(CUstream handle, bool ptsz)
{
    CUcontext current = ag_context_current();
    ag_event_unseen(); /* a graph may record any */
    if (ag_enter_young(handle, ptsz, current))
        return;
    struct ag_stream *stream = ag_stream_find(handle, ptsz, current);
    if (stream == NULL) {
        ag_issuer_launches_unseen();
        return;
    }
    if (atomic_load_explicit(&stream->issuer.thread, memory_order_relaxed) != &ag_self)
        ag_issuer_takes_over(stream);
    ag_issuer_launches(stream);
}
