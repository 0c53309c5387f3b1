/* SPDX-License-Identifier: MIT */
/* Making a trace of a hot sequence: room for its exec, and the exec. Wants the stream's lock and
   context. */
#ifndef AG_MAKE_H
#define AG_MAKE_H

#include "engine/stream/stream.h"

/* Makes a trace of the sequence that ends at `leaf`, or one more variant of its trace, if there is
   room; if there is room only while the device is idle, `leaf` is wanted (execs.h). */
void ag_make(struct ag_stream *stream, struct ag_node *leaf);

/* Makes the traces that are wanted (execs.h). The device must be idle. */
void ag_make_wanted(struct ag_stream *stream);

/* Notes that a trace of this leaf could not be made or replayed: memory may have been freed
   meanwhile, or be of another kind than its graph's. A trace is tried again, but not for ever. */
void ag_make_failed(struct ag_stream *stream, struct ag_node *leaf);

/* The program is about to free memory in the stream, whose open sequence goes out eagerly: makes
   the trace that needs memory alive (ag_execs_want_living()), if the sequence is on the way to its
   leaf.
 */
void ag_make_living(struct ag_stream *stream);

#endif
