/* SPDX-License-Identifier: MIT */
/*
 * The graphs of a stream's sequences, one exec each; and the hot sequences that wait for one.
 *
 * All functions want the stream's lock, and those that destroy want its context.
 */
#ifndef AG_EXECS_H
#define AG_EXECS_H

#include "engine/stream/stream.h"

/* A trace of this stream, with its exec, is one more of its traces. */
void ag_execs_add(struct ag_stream *stream, struct ag_trace *trace);

/* Takes a trace from its stream and destroys it; nothing may be held. */
void ag_execs_drop(struct ag_stream *stream, struct ag_trace *trace);

/* Takes all traces from the stream and destroys them; nothing may be held. */
void ag_execs_drop_all(struct ag_stream *stream);

/* The stream is gone: destroys its traces and its own events. */
void ag_execs_clear(struct ag_stream *stream);

/* Whether all launches of the stream's traces have ended, those too of traces that are gone. */
bool ag_execs_have_run(struct ag_stream *stream);

/* Gives back the places of execs that are gone and run no more, of all streams in the context.
   False: there are none. */
bool ag_execs_settle(struct ag_stream *stream);

/* Whether the stream has traces, or some that are gone may still run. */
static inline bool ag_execs_any(const struct ag_stream *stream)
{
    return stream->execs.traces != NULL || ag_context_any_run(&stream->execs.running);
}

/* The trace has been replayed, or would have been but for a trial: it is in use. */
static inline void ag_execs_used(struct ag_stream *stream, struct ag_trace *trace)
{
    trace->used = stream->execs.clock;
    trace->starved = stream->execs.starved;
}

/* The trace has been replayed. */
static inline void ag_execs_replayed(struct ag_stream *stream, struct ag_trace *trace)
{
    stream->execs.clock++;
    ag_execs_used(stream, trace);
}

/* Notes that a hot sequence, which ends at `leaf`, finds no exec. */
void ag_execs_starve(struct ag_stream *stream, struct ag_node *leaf);

/* Whether the trace makes room for the sequence that ends at `leaf`. Never if the trace has been
   used since `leaf` last found no room: in a loop with more sequences than there is room for, those
   that have room keep it. */
bool ag_execs_is_stale(const struct ag_stream *stream, const struct ag_trace *trace,
                       const struct ag_node *leaf);

/* Whether the leaf is wanted: its sequence waits for an exec until the device is idle. */
bool ag_execs_is_wanted(const struct ag_stream *stream, const struct ag_node *leaf);

/* The leaf is wanted from now on, if the list has room. The node must live as long as it is. */
void ag_execs_want(struct ag_stream *stream, struct ag_node *leaf);

/* The sequence that ends at the leaf is hot, and some memory of its ops was free when it ended: a
   trace is made when the sequence has come again and is about to free memory. The node must live.
 */
static inline void ag_execs_want_living(struct ag_stream *stream, struct ag_node *leaf)
{
    stream->execs.living = leaf;
}

/* No leaf is wanted any more. Writes those that were to `wanted` (NULL: nowhere), and returns their
   number. */
unsigned ag_execs_want_none(struct ag_stream *stream, struct ag_node *wanted[AG_WANTED]);

/* The library's event number `i` for graphs of the stream; NULL: it cannot be made. They are made
   in order. Number 0 stands for events that have been destroyed. Nobody waits for it or asks for
   it. A wait that has it is given the program's event before a launch. */
CUevent ag_execs_own_event(struct ag_stream *stream, unsigned i);

/* Gives the stream's execs another event in place of this one. False: one may still name it. Wants
   the lock, and the context. */
bool ag_execs_replace_event(struct ag_stream *stream, CUevent event);

/* Before an event is destroyed: gives the stream's execs another event in its place. False: one may
   still name it, or another thread has the stream's lock. Takes the lock itself. */
bool ag_execs_forget_event(struct ag_stream *stream, CUevent event);

#endif
