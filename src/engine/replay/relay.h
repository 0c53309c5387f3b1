/* SPDX-License-Identifier: MIT */
/*
 * Relays: another way for what a per-thread default stream holds.
 *
 * A per-thread default stream has no handle that another thread could use. Where the watchdog or
 * another thread's barrier must submit what this stream holds, the ops go into its `relay`, a
 * blocking stream of ours. They go behind the event `mark`, which the owner recorded when the hold
 * began. Before the owner uses its stream again, it records the event `done` in the relay and makes
 * its stream wait for that. Where `done` cannot be recorded the owner waits itself. (Not sooner: a
 * record takes a place in a queue of the device, and holds up what is behind it.) Both streams are
 * blocking, so CUDA orders either with the legacy stream.
 *
 * All functions want the stream's lock.
 */
#ifndef AG_RELAY_H
#define AG_RELAY_H

#include "engine/stream/stream.h"

/* Owner only, before it holds: another thread may have to submit what the stream holds from now on.
   False: nothing may be held. */
bool ag_relay_prepare(struct ag_stream *stream);

/* Owner only: marks what has been submitted there so far. Whoever submits the held ops puts them
   behind that. False: nothing may be held. */
bool ag_relay_mark(struct ag_stream *stream);

/* Whether the calling thread has to submit through the relay. */
static inline bool ag_relay_is_needed(const struct ag_stream *stream)
{
    return stream->id.kind == AG_STREAM_PER_THREAD && stream->id.owner != &ag_self;
}

/* Before a submission through the relay: the relay waits for what ag_relay_mark() has marked. Wants
   the stream's context. */
void ag_relay_begins(struct ag_stream *stream);

/* Behind that submission: the stream's owner has to wait for it. */
void ag_relay_ends(struct ag_stream *stream);

/* Owner only: waits for what other threads submitted in its name. */
void ag_relay_absorb(struct ag_stream *stream);

/* Nobody waits any more for what went through the relay. */
void ag_relay_forget(struct ag_stream *stream);

/* The state is free: destroys the relay, if there is one. Wants the stream's context. */
void ag_relay_destroy(struct ag_stream *stream);

#endif
