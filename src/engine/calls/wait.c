/* SPDX-License-Identifier: MIT */
/* Waits of the program, and what it has issued before them. */
#include "engine/engine.h"

#include "engine/order/enter.h"
#include "engine/stream/event.h"
#include "engine/stream/issuer.h"
#include "engine/stream/outstanding.h"
#include "engine/stream/untracked.h"
#include "mutant.h"

static struct ag_context *named(CUcontext context)
{
    return ag_context_peek(context != NULL ? context : ag_context_current());
}

unsigned ag_engine_orphans(CUcontext handle)
{
    const struct ag_context *context = named(handle);
    return context != NULL ? ag_orphans_mark(&context->orphans) : 0;
}

void ag_engine_orphans_done(CUcontext handle, unsigned left)
{
    struct ag_context *context = named(handle);
    if (context == NULL || left == 0)
        return;
    ag_orphans_waited(&context->orphans, left, true);
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
        return ag_untracked_issued(handle);
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
        ag_untracked_waited_for(handle, (uint32_t)issued);
}

void ag_engine_launch_unseen(void)
{
    ag_issuer_launches_unseen();
}

/* The state of a stream that gets work which is no op, as an op would find it. NULL: it has none.
   Sets `untracked`: whether the stream is untracked. */
static struct ag_stream *begin_work(CUstream handle, bool ptsz, bool *untracked)
{
    CUcontext current = ag_context_current();
    const struct ag_found *found = ag_stream_slot(handle);
    *untracked = false;
    if (ag_stream_is_found(found, handle, ptsz, current))
        return found->stream;
    struct ag_stream *stream = ag_enter_find(handle, ptsz, current, true);
    *untracked = stream == NULL && ag_untracked_has(handle);
    if (*untracked) /* the op that was counted is none */
        atomic_fetch_sub_explicit(&ag_stateless_ops, 1, memory_order_relaxed);
    return stream;
}

void ag_engine_stream_works(CUstream handle, bool ptsz)
{
    bool untracked;
    if (!AG_MUTANT(host_work_takes_no_queue))
        (void)begin_work(handle, ptsz, &untracked); /* counted where it is made */
}

void ag_engine_stream_used(CUstream handle, bool ptsz)
{
    bool untracked;
    ag_event_unseen(); /* a graph may record any */
    struct ag_stream *stream = begin_work(handle, ptsz, &untracked);
    if (untracked)
        return;
    if (stream == NULL) {
        ag_issuer_launches_unseen();
        return;
    }
    if (atomic_load_explicit(&stream->issuer.thread, memory_order_relaxed) != &ag_self)
        ag_issuer_takes_over(stream);
    ag_issuer_launches(stream);
}
