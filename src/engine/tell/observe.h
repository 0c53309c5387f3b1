/* SPDX-License-Identifier: MIT */
/*
 * What the engine tells of its ops to the trace file. To be called through AG_NOTE() only, so that
 * nothing of it costs anything while there is no trace file.
 */
#ifndef AG_OBSERVE_H
#define AG_OBSERVE_H

#include "engine/call.h"
#include "engine/stream/stream.h"
#include "observe/tracefile.h"

/*
 * The program has issued an op. To be called with the stream's lock held, before the engine does
 * anything about the op. `stream` is NULL if the engine does not know the stream.
 */
void ag_note_kernel(const struct ag_stream *stream, const struct ag_kernel_call *call);
void ag_note_memset(const struct ag_stream *stream, const struct ag_memset_call *call);
void ag_note_copy(const struct ag_stream *stream, const struct ag_copy_call *call);
void ag_note_event(const struct ag_stream *stream, const struct ag_event_call *call);
void ag_note_read(const struct ag_stream *stream,
                  const struct ag_read_call *call); /* a barrier where `stream` is NULL */

/* The same for an op of any kind that has so many words: docs/formats.md has their meaning. */
void ag_note_words(const struct ag_stream *stream, enum ag_op_kind kind, const uint64_t *words,
                   size_t count);
#define AG_NOTE_WORDS(stream, kind, ...)                                                           \
    ag_note_words(stream, kind, (const uint64_t[]){__VA_ARGS__},                                   \
                  sizeof((const uint64_t[]){__VA_ARGS__}) / 8)

/* The call under way is a barrier in the trace file: its stream is not tracked. It has no RETURN.
 */
void ag_note_no_op(void);

/* Why the op that was told of last is not held, where its stream does not know: for its RETURN. */
void ag_note_why(enum ag_why why);

/* The thread calls for a read. It may have left the one before by a longjmp. */
void ag_note_read_begins(void);

/* Whether that call, which has not returned, is in the trace file. */
bool ag_note_has_read(const struct ag_read_call *call);

/* The number of the stream's last op in the trace file. Wants the lock. */
uint64_t ag_note_number(const struct ag_stream *stream);

/* The stream's ops are so many more in the trace file than the engine counts: copies to the host
   that go out by the program's own call, or are held behind the held ops. Wants the lock. */
void ag_note_uncounted(struct ag_stream *stream, int ops);

/* A stream's state begins to live; a trace was made. */
void ag_note_stream(const struct ag_stream *stream);
void ag_note_trace(const struct ag_stream *stream, const struct ag_trace *trace);

/* The held ops but for the last `behind` have been submitted: the first `replayed` by a graph, the
   rest one by one, and a copy to the host behind them if it has been flushed (pinned.h). When that
   began, at `began` (ag_tracefile_now()), the stream's nodes had been patched `patches` times. */
void ag_note_submit(struct ag_stream *stream, uint32_t replayed, enum ag_reason reason,
                    uint64_t began, uint64_t patches, uint32_t behind);

/* From now on the handle of a function may mean another function. */
void ag_note_functions_changed(void);

/* What doors tell: see ag_note_return() and what follows it in engine.h. */
void ag_observe_return(CUresult result);
void ag_observe_barrier(const char *name, uint64_t began);
void ag_observe_memory(bool alloc, enum ag_memory kind, CUdeviceptr address, size_t bytes);

#endif
