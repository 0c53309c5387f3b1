/* SPDX-License-Identifier: MIT */
/* Who must submit before an op or a call. */
#ifndef AG_BARRIER_H
#define AG_BARRIER_H

#include "engine/stream/stream.h"

/* Before an op on `stream`: submits what CUDA orders before it implicitly. Where streams share
   queues: also what any of them holds. No lock may be held. The state may get another life
   meanwhile: whoever locks it then must look for the stream again. */
void ag_order_before_slow(const struct ag_stream *stream);

/* ag_order_before_slow() where there is something to submit. Else two loads and a branch. */
static inline void ag_order_before(const struct ag_stream *stream)
{
    const _Atomic unsigned *ahead = atomic_load_explicit(&stream->id.ahead, memory_order_relaxed);
    if (__builtin_expect(atomic_load_explicit(ahead, memory_order_relaxed) !=
                             atomic_load_explicit(&stream->seq.counted, memory_order_relaxed),
                         0))
        ag_order_before_slow(stream);
}

/* The same before a call on a stream that has no state, of any context if it has a handle. */
void ag_order_before_unknown(CUstream handle, bool ptsz, CUcontext current);

/* Submits what all streams hold, except for `stream` (NULL: no exception). No lock held. */
void ag_order_behind_all(const struct ag_stream *stream);

/* One more stream has been made in the context, or used, if it is a default one. If its streams
   share queues from now on, submits what they hold. No lock held. */
void ag_order_place(struct ag_context *context);

/* Counts the calling thread's own default stream in the context, once. A thread that calls
   functions to which NULL means this stream has one, although most calls that use it are not seen.
 */
void ag_order_place_own(struct ag_context *context);

/* After a capture has begun: submits what all streams hold, and ends their sequences. True: nothing
   is held, nor will be until that capture ends. */
bool ag_barrier_last(void);

/* The barriers that doors call: engine.h says what each is for. */
void ag_barrier_stream(CUstream stream, bool ptsz, enum ag_reason reason);
void ag_barrier_attach(CUstream stream, bool ptsz);
void ag_barrier_wait(CUstream stream, bool ptsz, enum ag_reason reason);
void ag_barrier_copy(bool ptsz, enum ag_reason reason);
void ag_barrier_all(enum ag_reason reason);
void ag_barrier_most(enum ag_reason reason);
void ag_barrier_event(CUevent event, enum ag_reason reason);
void ag_barrier_load(CUfunction func);

#endif
