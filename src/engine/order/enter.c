/* SPDX-License-Identifier: MIT */
/* Finding, and taking over, the stream of a call. */
#include "engine/order/enter.h"

#include "engine/base/handle.h"
#include "engine/order/fork.h"
#include "engine/replay/submit.h"
#include "engine/stream/issuer.h"
#include "engine/stream/sequence.h"
#include "mutant.h"
#include "observe/tracefile.h"

/* -- Untracked streams --------------------------------------------------------------- */

/* A stream that has no state and is not untracked: its place if it is from now on, or NULL. */
static struct ag_untracked *begin_untracked(CUstream handle, CUcontext current)
{
    struct ag_context *context = ag_context_peek(current);
    CUcontext ctx;
    unsigned flags;
    if (context == NULL || atomic_load_explicit(&context->untracked, memory_order_relaxed) == 0 ||
        AG_NOTING() || ag_captures_about() || ag_stream_peek(handle, false, current) != NULL ||
        !ag_thread_watch() || !ag_handle_learn(handle, &ctx, &flags) || ctx != current)
        return NULL;
    struct ag_untracked *untracked =
        ag_untracked_begin(handle, context, !(flags & CU_STREAM_NON_BLOCKING));
    if (untracked == NULL || ag_stream_peek(handle, false, current) == NULL)
        return untracked;
    ag_untracked_leave(handle);
    return NULL;
}

bool ag_enter_untracked_slow(CUstream handle, bool ptsz, CUcontext current)
{
    bool behind;
    if (current == NULL || ag_stream_is_default(handle) ||
        ag_stream_is_found(ag_stream_slot(handle), handle, ptsz, current))
        return false;
    struct ag_untracked *untracked = ag_untracked_find(handle);
    if (untracked == NULL)
        untracked = begin_untracked(handle, current);
    if (untracked == NULL || !ag_untracked_op(untracked, handle, &behind))
        return false;
    if (behind && !AG_MUTANT(untracked_passes_legacy))
        ag_order_before_unknown(handle, ptsz, current);
    return true;
}

/* -- Streams that are tracked ---------------------------------------------------- */

struct ag_stream *ag_enter_find(CUstream handle, bool ptsz, CUcontext current, bool op)
{
    /* The functions of held ops are set for them when they go out. A setter would wait for launches
       of this thread that wait for room. So that is done before the first one. */
    if (op && ag_issuer_begins())
        ag_barrier_most(AG_REASON_ATTRIBUTES);
    if (op && ag_enter_untracked(handle, ptsz, current))
        return NULL;
    struct ag_stream *stream = ag_stream_find_slow(handle, ptsz, current);
    if (stream == NULL && atomic_load(&ag_subscribers) != 0)
        ag_barrier_all(AG_REASON_BARRIER);
    return stream;
}

void ag_enter_stateless(void)
{
    atomic_fetch_add_explicit(&ag_stateless_ops, 1, memory_order_relaxed);
    if (atomic_load(&ag_hold_bans) == 0) /* or it will not run now */
        ag_issuer_launches_unseen();
}

/* The thread goes on from this stream to another one of the context, which may share its queue:
   what is held never goes beyond that place. So its sequences end there whether they are held or
   not, and those that come again are replayed. The other's lock is held. */
static void cut(struct ag_stream *stream, const struct ag_context *context)
{
    if (!ag_sequence_seems_open(stream) || !ag_stream_trylock(stream))
        return;
    if (stream->id.live && stream->id.context == context && stream->issuer.thread == &ag_self)
        ag_stream_end(stream, true, AG_REASON_QUEUE);
    ag_stream_unlock(stream);
}

void ag_enter_turn_to(struct ag_stream *stream)
{
    struct ag_stream *last = ag_self.eager;
    if (last != NULL) {
        ag_issuer_leaves(last, true);
        if (atomic_load_explicit(&stream->id.context->shares, memory_order_relaxed))
            cut(last, stream->id.context);
    }
    ag_issuer_leaves(stream, false);
    ag_self.eager = stream;
}

/* The last op in the state that has been locked was not this thread's. Its life may have ended
   before the lock was there, though the stream lives on: when another thread releases a primary
   context that is retained elsewhere. The lock keeps a life. */
struct ag_stream *ag_enter_take_over(struct ag_stream *stream, CUstream handle, bool ptsz,
                                     CUcontext current)
{
    while (ag_stream_slot(handle)->life != stream->id.life || ag_branches_origin(stream) != NULL) {
        ag_stream_unlock(stream);
        ag_fork_leave(stream, AG_REASON_EVENT);
        stream = ag_enter_unentered(handle, ptsz, current, false);
        if (stream == NULL)
            return NULL;
    }
    if (stream->issuer.thread != &ag_self) {
        if (ag_branches_any(stream)) /* origin and branches are one thread's */
            ag_stream_end(stream, true, AG_REASON_EVENT);
        ag_issuer_takes_over(stream);
    }
    return ag_enter_go_on(stream);
}
