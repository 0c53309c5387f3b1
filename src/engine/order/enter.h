/* SPDX-License-Identifier: MIT */
/*
 * Entering a stream: an op or a call finds the state of its stream, and locks it for the calling
 * thread, after what CUDA orders before it.
 */
#ifndef AG_ENTER_H
#define AG_ENTER_H

#include "engine/base/branch.h"
#include "engine/hot.h"
#include "engine/order/barrier.h"
#include "engine/order/find.h"
#include "engine/replay/relay.h"
#include "engine/stream/untracked.h"

/* -- What the functions below need seldom --------------------------------------- */

/* The state of a call's stream, which the thread does not remember. `op`: the call is one of an op,
   whose stream may be untracked. NULL: it has none, and nothing is held that the call could have to
   follow. No lock may be held. */
struct ag_stream *ag_enter_find(CUstream handle, bool ptsz, CUcontext current, bool op);

/* The calling thread takes over the state, which it has locked. Returns the state of the stream,
   locked, which may be another one if that life is over. NULL: it has none any more. */
struct ag_stream *ag_enter_take_over(struct ag_stream *stream, CUstream handle, bool ptsz,
                                     CUcontext current);

/* The calling thread goes on to this stream from another one. Wants the stream's lock. */
void ag_enter_turn_to(struct ag_stream *stream);

/* Whether the op's stream is untracked: counts the op, submits what is held and must precede it,
   and the caller lets it pass. No lock may be held. */
bool ag_enter_untracked_slow(CUstream handle, bool ptsz, CUcontext current);

/* ag_enter_untracked_slow() where there are untracked streams at all. */
static inline bool ag_enter_untracked(CUstream handle, bool ptsz, CUcontext current)
{
    return __builtin_expect(atomic_load_explicit(&ag_any_untracked, memory_order_relaxed), 0) &&
           ag_enter_untracked_slow(handle, ptsz, current);
}

/* Counts an op that goes to a stream without a state. */
void ag_enter_stateless(void);

/* -- Entering -------------------------------------------------------------------- */

/* The state of any stream, locked, after what CUDA orders before the call. It is not entered yet.
 */
static INLINE struct ag_stream *ag_enter_unentered(CUstream handle, bool ptsz, CUcontext current,
                                                   bool op)
{
    const struct ag_found *found = ag_stream_slot(handle);
    struct ag_stream *stream = found->stream;
    if (UNLIKELY(!ag_stream_is_found(found, handle, ptsz, current)) &&
        (stream = ag_enter_find(handle, ptsz, current, op)) == NULL)
        return NULL;
    ag_order_before(stream);
    ag_stream_lock(stream);
    return stream;
}

/* The state is locked, and its last op was this thread's. */
static INLINE struct ag_stream *ag_enter_go_on(struct ag_stream *stream)
{
    if (UNLIKELY(ag_self.eager != stream))
        ag_enter_turn_to(stream);
    if (UNLIKELY(stream->relay.used))
        ag_relay_absorb(stream);
    return stream;
}

/* The stream of a call, locked, for the calling thread; NULL: it has no state. `op`: the call is
   one of an op, whose stream may be untracked. */
static INLINE struct ag_stream *ag_enter(CUstream handle, bool ptsz, CUcontext current, bool op)
{
    struct ag_stream *stream = ag_enter_unentered(handle, ptsz, current, op);
    if (UNLIKELY(stream == NULL))
        return NULL;
    if (UNLIKELY(atomic_load_explicit(&stream->issuer.thread, memory_order_relaxed) != &ag_self))
        return ag_enter_take_over(stream, handle, ptsz, current);
    return ag_enter_go_on(stream);
}

/* The stream of an op, which is counted in any case. */
static INLINE struct ag_stream *ag_enter_op(CUstream handle, bool ptsz, CUcontext current)
{
    struct ag_stream *stream = ag_enter(handle, ptsz, current, true);
    if (UNLIKELY(stream == NULL) && current != NULL && !ag_untracked_has(handle))
        ag_enter_stateless();
    return stream;
}

#endif
