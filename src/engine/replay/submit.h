/* SPDX-License-Identifier: MIT */
/* Submitting held ops, and the end of sequences. All want the stream's lock. */
#ifndef AG_SUBMIT_H
#define AG_SUBMIT_H

#include "engine/stream/stream.h"

/*
 * Submits what the stream holds: a replay of the longest trace that is a prefix of it, the rest
 * eagerly, in order. The recorder's sequence stays open. Counts `reason` if ops went out eagerly.
 * Returns whether all of it went by a replay.
 */
bool ag_stream_submit(struct ag_stream *stream, enum ag_reason reason);

/*
 * Ends the open sequence, if there is one: submits what it holds, and makes a trace of it if it has
 * become hot. `barrier`: the anchor ends too.
 */
void ag_stream_end(struct ag_stream *stream, bool barrier, enum ag_reason reason);

#endif
