/* SPDX-License-Identifier: MIT */
/*
 * Audits: whether it pays to follow a stream at all.
 *
 * A trial (trial.h) says what it saves to hold the sequences of one head. It does not say what the
 * stream costs besides: ops are recorded that are not replayed, and threads that wait for each
 * other meet at what is known of their streams and events. Where most ops are replayed that is
 * little. Where fewer are, and no new traces come, the stream now and then takes turns: it is
 * followed for some hundred ops, and rests for as many, in pairs. If to follow it was faster in
 * enough of them it goes on, and the next audit is much later. If not, the traces that were used
 * meanwhile are destroyed and the recorder rests, for longer each time (recorder.h); then it begins
 * anew. So this is not for ever either.
 *
 * Where threads wait for each other trials say little, and where a thread launches graphs of its
 * own: there a stream is asked about however much of it is replayed.
 *
 * Only where the program waits every few ops: a rest would make the recorder forget where a loop
 * that never waits is cut.
 *
 * All functions want the stream's lock.
 */
#ifndef AG_AUDIT_H
#define AG_AUDIT_H

#include "engine/stream.h"

/* A new state: nothing is known of its streams yet. */
void ag_audit_start(struct ag_stream *stream);

/* A sequence has ended at a barrier, and it is time for a look, as ag_audit_is_due() says. */
void ag_audit_look(struct ag_stream *stream);

/* Whether it is time for a look. */
static inline bool ag_audit_is_due(const struct ag_stream *stream)
{
    return stream->recorder.ops - stream->audit.since >= stream->audit.after;
}

/*
 * The first op that does not pass after a rest (stream->audit.rests), between two sequences: the
 * window is over. True: the audit is lost, and the caller gives the stream up: destroys the traces
 * that have been replayed since stream->audit.clock, and has the recorder rest for `least` ops or
 * more. Then the op may pass after all. The stream's context is current.
 */
bool ag_audit_arrived(struct ag_stream *stream, uint32_t *least);

#endif
