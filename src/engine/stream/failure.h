/* SPDX-License-Identifier: MIT */
/* Failed driver calls of the library's own. All want the stream's lock. */
#ifndef AG_FAILURE_H
#define AG_FAILURE_H

#include "engine/stream/stream.h"

/* ag_failure_note() for an error. The program does not see it; who asks for warnings does. */
void ag_failure_note_slow(struct ag_stream *stream, CUresult result, const char *what);

/* Counts and logs the result of a driver call, if that is an error. `what` was being done. */
static inline void ag_failure_note(struct ag_stream *stream, CUresult result, const char *what)
{
    if (__builtin_expect(result != CUDA_SUCCESS, 0))
        ag_failure_note_slow(stream, result, what);
}

/* Whether the driver refused a held op. The op is lost, and the program was told that it succeeded:
   a later call tells of the first such error, as of one of asynchronous execution. */
bool ag_failure_refused(struct ag_stream *stream, CUresult result, const char *what);

/* The driver has refused the op of a node, or graphs that end with it: the node is AG_BLACKLISTED.
 */
void ag_failure_spoil(struct ag_stream *stream, struct ag_node *node);

/* The same, once something has been refused: for ag_failure_forgive() alone. */
void ag_failure_forgive_slow(struct ag_stream *stream);

/* A sequence ends. If nothing has been refused in the stream for long its nodes are good again: the
   driver refuses for want of memory, too. */
static inline void ag_failure_forgive(struct ag_stream *stream)
{
    if (__builtin_expect(stream->refusals.until != 0, 0) &&
        stream->counters.ops >= stream->refusals.until)
        ag_failure_forgive_slow(stream);
}

#endif
