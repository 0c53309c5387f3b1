/* SPDX-License-Identifier: MIT */
/*
 * The open sequence of a stream, and what is held of it: a machine of three states.
 *
 *                        an op comes               its head can be held
 *           BETWEEN  ------------------> RECORDING --------------------> HOLDING
 *        no sequence <------------------ ops go out <-------------------- all its ops
 *            is open      it ends         eagerly     they are submitted  are held
 *
 * A sequence that is held ends by way of RECORDING: what is held is submitted first. While one is
 * open doors tell of barriers (ag_subscribers).
 *
 * All functions want the stream's lock.
 */
#ifndef AG_SEQUENCE_H
#define AG_SEQUENCE_H

#include "engine/hot.h"
#include "engine/stream/stream.h"

/* The transition function: goes to the next state, by an arrow of the drawing, or stays. Leaving
   HOLDING takes for granted that what was held has been submitted. */
void ag_sequence_turn(struct ag_stream *stream, enum ag_state to);

/* BETWEEN: an op comes, and a sequence is open from now on. */
static inline void ag_sequence_open(struct ag_stream *stream)
{
    if (stream->seq.state == AG_BETWEEN)
        ag_sequence_turn(stream, AG_RECORDING);
}

/* Whether the open sequence is held. */
static inline bool ag_sequence_holds(const struct ag_stream *stream)
{
    return stream->seq.state == AG_HOLDING;
}

/* Without the lock: whether a sequence was open a moment ago. */
static inline bool ag_sequence_seems_open(const struct ag_stream *stream)
{
    return __atomic_load_n(&stream->seq.state, __ATOMIC_RELAXED) != AG_BETWEEN;
}

/* HOLDING: the op at `node`, which has been stored there, is held behind the others. */
static inline void ag_sequence_hold(struct ag_stream *stream, struct ag_node *node)
{
    stream->seq.path[node->depth] = node;
    atomic_store_explicit(&stream->seq.held, node->depth, memory_order_release);
}

/* HOLDING: the memory is freed behind what is held. False: there are too many of them. */
bool ag_sequence_free(struct ag_stream *stream, CUdeviceptr address);

/* HOLDING: the event is destroyed behind what is held. False: there are too many of them. */
bool ag_sequence_outlives(struct ag_stream *stream, CUevent event);

/* RECORDING: has the watchdog look at the hold that begins. False: there is none. */
bool ag_sequence_watch(struct ag_stream *stream);

/* The open sequence has a record of an event or a wait for one: counted in ag_event_streams. */
static inline void ag_sequence_has_events(struct ag_stream *stream)
{
    if (!stream->seq.events)
        atomic_fetch_add(&ag_event_streams, 1);
    stream->seq.events = true;
}

/* The sequence's records and waits have been submitted: nobody looks for them any more. */
static inline void ag_sequence_settles_events(struct ag_stream *stream)
{
    struct ag_sequence *seq = &stream->seq;
    if (!seq->events)
        return;
    atomic_store_explicit(&seq->number, seq->number + 1, memory_order_release);
    atomic_fetch_sub(&ag_event_streams, 1);
    seq->events = false;
}

/* Whether the stream is to hear of the next barrier even if it holds nothing. */
void ag_sequence_subscribe(struct ag_stream *stream, bool subscribes);

/* Why nothing may be held in the stream from now on, in this life of its state. AG_WHY_HELD: ops
   may be. */
static inline void ag_sequence_bar(struct ag_stream *stream, enum ag_why why)
{
    stream->seq.barred = (uint8_t)why;
}

#endif
