/* SPDX-License-Identifier: MIT */
/* Calls that make a stream a branch of another one, or end that: see branches.h. No lock may be
 * held.
 */
#ifndef AG_FORK_H
#define AG_FORK_H

#include "engine/call.h"
#include "engine/stream/branches.h"

/*
 * A record or a wait, and the streams whose sequences would have to be submitted before it. Whether
 * they need not be: all of it is in one sequence, that of an origin, or from now on.
 */
bool ag_fork_keeps(const struct ag_event_call *call, CUcontext current,
                   struct ag_stream *const holders[], unsigned count,
                   const struct ag_event_known *known);

/* The call is a wait for an event, of which that is known, and which nobody holds. Where the stream
   would be a branch if the other's graph did not end with the record, that graph goes. */
void ag_fork_misses(const struct ag_event_call *call, CUcontext current,
                    const struct ag_event_known *known);

/* If the stream is a branch, the origin's sequence ends, and it is one no more. */
void ag_fork_leave(struct ag_stream *stream, enum ag_reason reason);

#endif
