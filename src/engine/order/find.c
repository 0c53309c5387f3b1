/* SPDX-License-Identifier: MIT */
/* Streams that get a state, and threads that end. */
#include "engine/order/find.h"

#include "engine/order/barrier.h"
#include "engine/replay/submit.h"
#include "engine/stream/issuer.h"
#include "engine/stream/outstanding.h"
#include "engine/stream/untracked.h"

static struct ag_context *context_of(const struct ag_stream *stream)
{
    return __atomic_load_n(&stream->id.context, __ATOMIC_RELAXED);
}

struct ag_stream *ag_stream_find_slow(CUstream handle, bool ptsz, CUcontext current)
{
    CUstream name = ag_stream_name(handle, ptsz);
    if (current == NULL && (ag_stream_is_default(name) || ag_context_refused(&current)))
        return NULL;
    bool untracked = ag_untracked_has(name);
    bool is_new = name == CU_STREAM_LEGACY && ag_stream_peek(handle, ptsz, current) == NULL;
    struct ag_stream *stream = ag_stream_begin(handle, ptsz, current, untracked);
    if (stream == NULL)
        return NULL;
    if (is_new) /* others are placed when they are made */
        ag_order_place(context_of(stream));
    ag_untracked_leave(name); /* only now: it must be known in one way or the other */
    if (ptsz || name == CU_STREAM_PER_THREAD)
        ag_order_place_own(context_of(stream));
    return stream;
}

/* -- Threads that end ------------------------------------------------------------ */

/* The state's thread ends. */
static void thread_leaves(struct ag_stream *stream, void *self)
{
    ag_issuer_ends(stream, self);
    ag_lock_disown(&stream->lock, self);
    if (stream->id.owner != self)
        return;
    ag_stream_lock(stream);
    bool pushed;
    if (stream->id.live && stream->id.owner == self &&
        ag_context_enter(stream->id.context, &pushed)) {
        ag_stream_disown(stream); /* the handle has lost its meaning: what is held goes by relay */
        ag_stream_end(stream, true, AG_REASON_DESTROY);
        if (ag_outstanding_in_stream(stream))
            (void)ag_context_leave_behind(stream->id.context, NULL,
                                          true); /* it cannot be asked any more */
        ag_stream_kill(stream);
        ag_context_leave(pushed);
    }
    ag_stream_unlock(stream);
}

/* The thread's default streams go, and what they still hold is submitted by another route. (A
   program may have hundreds of threads, with a stream each: all states are not looked at.) */
static void thread_ends(void)
{
    ag_untracked_thread_leaves();
    ag_context_thread_ends();
    ag_fetch_give_up();
    ag_issuer_thread_ends();
    for (uint64_t bits = ag_self.touched; bits != 0; bits &= bits - 1)
        for (unsigned i = (unsigned)__builtin_ctzll(bits); i < AG_MOST_STREAMS; i += 64) {
            struct ag_stream *stream = ag_stream_at(i);
            if (stream == NULL) /* or another thread is about to set it */
                break;
            thread_leaves(stream, &ag_self);
        }
}

void ag_find_start(void)
{
    ag_thread_ends = thread_ends;
}
