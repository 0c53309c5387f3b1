/* SPDX-License-Identifier: MIT */
/*
 * Queues of the device for the paths of graphs with branches.
 *
 * The driver gives each path of a running graph a queue, as it does a stream. When all queues are
 * taken, a path shares one, and comes behind whatever waits there: a kernel of another stream that
 * the host has not let go yet, for instance (docs/measurements.md, "Do branches share queues?").
 * The program's own launches would not wait for that. So a graph with branches is launched only
 * while the streams of its context and the paths of its running graphs have a queue each.
 *
 * The stream's lock is held. The context's count is an atomic.
 */
#ifndef AG_PATHS_H
#define AG_PATHS_H

#include "engine/stream/stream.h"

/* Whether so many further paths of graphs have a queue each, beside all streams that are used and
   other graphs. A stream takes a queue only with its first work (measurements.md). */
bool ag_context_has_queues(const struct ag_context *context, unsigned more);

/* Whether a graph with so many paths may be launched, once the others have ended. */
bool ag_context_has_branches(const struct ag_context *context, unsigned more);

/* Before a launch of a trace with branches in its stream, whose context is current. False: its ops
   have to go out one by one. */
bool ag_paths_take(struct ag_stream *stream, struct ag_trace *trace);

/* Makes the event that ag_paths_take() needs. A call that may wait (helper.h). */
void ag_paths_prepare(struct ag_stream *stream);

/* The stream is gone: destroys that event. */
void ag_paths_forget(struct ag_stream *stream);

#endif
