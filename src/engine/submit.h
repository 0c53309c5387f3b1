/* SPDX-License-Identifier: MIT */
/* Submitting held ops, the end of sequences, and making traces. All want the stream's lock. */
#ifndef AG_SUBMIT_H
#define AG_SUBMIT_H

#include "engine/stream.h"

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

/* Whether the stream is to hear of the next barrier even if it holds nothing. */
void ag_stream_be_curious(struct ag_stream *stream, bool curious);

/* Whether the stream may begin to hold with `head`, the first op of a sequence; if so it has begun.
 */
bool ag_stream_hold_begins(struct ag_stream *stream, struct ag_node *head);

/* A sequence is open: doors have to tell of barriers now. */
void ag_stream_open(struct ag_stream *stream);

/* Has the driver keep the arguments of a kernel that is to be held. False: it cannot be held. */
bool ag_stream_keep(struct ag_stream *stream, struct ag_node *node, void *const *from);

/* Per-thread default stream, owner only: marks what has been submitted there so far. Whoever
   submits the held ops puts them behind that. False: nothing may be held. */
bool ag_stream_mark(struct ag_stream *stream);

/* Takes a trace from its stream and destroys it; nothing may be held. */
void ag_stream_drop_trace(struct ag_stream *stream, struct ag_trace *trace);

/* Destroys all traces of sequences that begin at `head` (NULL: at any) and were replayed when the
   stream had had `clock` replays, or later; nothing may be held. */
void ag_stream_drop_traces(struct ag_stream *stream, const struct ag_node *head, uint64_t clock);

/*
 * Before an event is destroyed: gives the stream's execs another event in its place. Afterwards the
 * driver would refuse to do that, and crash in a launch if the node is a wait (driver 580). If
 * another thread keeps the stream's lock for a millisecond its execs stay as they are: they are
 * made anew when the driver refuses them.
 */
void ag_stream_forget_event(struct ag_stream *stream, CUevent event);

/* Makes the traces that are wanted; the device is idle. */
void ag_stream_grow(struct ag_stream *stream);

/* Whether the stream, whose context is current, has done all that was submitted. Asked of the
   legacy stream this ends captures of blocking streams: not to be called while the program is known
   to capture. Other captures go on. */
bool ag_stream_is_done(struct ag_stream *stream);

/* The same of a stream that has no state. */
bool ag_stream_handle_is_done(CUstream handle);

/* Empties the stream's list of hot sequences that wait for an exec: their nodes are going away. */
void ag_stream_want_none(struct ag_stream *stream);

/* Per-thread default stream, owner only: waits for what other threads submitted in its name. */
void ag_stream_absorb(struct ag_stream *stream);

#endif
