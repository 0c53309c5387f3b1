/* SPDX-License-Identifier: MIT */
/* Streams by their names: which state each has, from its beginning to its end. */
#ifndef AG_REGISTRY_H
#define AG_REGISTRY_H

#include "engine/stream/stream.h"

/* The state if there is one; never makes one. */
struct ag_stream *ag_stream_peek_slow(CUstream handle, bool ptsz, CUcontext current);

/* ag_stream_peek_slow() without a call, where the calling thread remembers the stream. */
static inline struct ag_stream *ag_stream_peek(CUstream handle, bool ptsz, CUcontext current)
{
    const struct ag_found *found = ag_stream_slot(handle);
    return ag_stream_is_found(found, handle, ptsz, current)
               ? found->stream
               : ag_stream_peek_slow(handle, ptsz, current);
}

/*
 * The state of that stream, made if there is none, and remembered by the calling thread;
 * `untracked`: the stream has had ops before. NULL: there is no room for one, or the driver says
 * nothing of the stream. ag_stream_find() does what else is to be done.
 */
struct ag_stream *ag_stream_begin(CUstream handle, bool ptsz, CUcontext current, bool untracked);

/* The program has begun a capture on this stream, for which the caller has raised ag_hold_bans.
   Wants the stream's lock. */
void ag_stream_capture_begins(struct ag_stream *stream);

/* The program's capture on this stream has ended, if there was one: lowers ag_hold_bans. Wants the
   stream's lock. */
void ag_stream_capture_ends(struct ag_stream *stream);

/* Kills a state that holds nothing. Wants its lock, and its context where that still lives. */
void ag_stream_kill(struct ag_stream *stream);

/*
 * A stream is being destroyed: kills its state, or keeps the state vacant for the next stream of
 * its kind in the context. Programs that make streams in each step do the same work in them. A
 * vacant state is live: it must hear of the end of whatever its graphs and nodes refer to. `left`:
 * the context's `left` with this stream, if work may still run in it; else 0. Wants the context.
 */
void ag_stream_vacate(struct ag_stream *stream, unsigned left);

/* Forgets the context if no stream has a state in it. False: a stream has. Another thread may have
   used one meanwhile, since the release of a context need not be the last one. */
bool ag_stream_forget_context(struct ag_context *context);

/* Kills the state that has been vacant for longest. With a context: of that context, and only if it
   has been vacant for long. False: there is none. Another stream's lock may be held. */
bool ag_stream_kill_vacant(const struct ag_context *context);

/* The thread of a per-thread default stream ends: the handle loses its meaning, and what is held
   goes by relay. Wants the stream's lock. */
void ag_stream_disown(struct ag_stream *stream);

/* The nodes of its tree are going away: forgets what points to them, and the open sequence. Nothing
   may be held. Wants the stream's lock. */
void ag_stream_drop_pointers(struct ag_stream *stream);

#endif
