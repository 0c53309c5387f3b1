/* SPDX-License-Identifier: MIT */
/*
 * Events that the program records: which held ops they stand in.
 *
 * An event is seen by others: a wait elsewhere means its last record, and a record replaces the one
 * before. A graph's event nodes take effect when the graph is launched, so
 *  - before an event is waited for, the sequence that has its record is ended;
 *  - before it is recorded, every sequence that has a record of it or a wait for it is;
 *  - before it is destroyed likewise; and whoever asks about it, its record is.
 * Of another thread's sequence what is held is submitted, and it goes on; but where that has been
 * for the same record again and again sequences end with it from then on, and can be replayed.
 *
 * The table's locks are leaves: one may be taken with a stream's lock held. Streams are flushed
 * without any.
 */
#ifndef AG_EVENT_H
#define AG_EVENT_H

#include "engine/stream.h"

/* What is known of an event. */
struct ag_event_known {
    const struct ag_context *context; /* where it was last recorded; NULL: not known */
    uint64_t serial; /* the number of its life, for a handle may come back with another event; 0:
                        neither a record of it nor a wait for it can be held */
};

/* Flushes what must be submitted before the event is recorded or destroyed (`all`), or waited for
   or asked about. The reason is for sequences of the calling thread. Returns what is known of it,
   which stays true where the program does not use it in two threads at once. */
struct ag_event_known ag_event_settle(CUevent event, bool all, enum ag_reason reason);

/* Whether the event lives, and that is the number of its life. */
bool ag_event_is(CUevent event, uint64_t serial);

/* The event is being recorded in this context. False: no memory, and it will not be held. */
bool ag_event_recorded(CUevent event, const struct ag_context *context);

/* The stream's open sequence has a record of the event or a wait for it, until it ends; and if it
   waits for what another thread has recorded, that is noted (ag_stream_in_step). False: there is no
   room to note it, so the sequence must not stay held. The stream's lock is held. */
bool ag_event_hold(CUevent event, struct ag_stream *stream, bool wait);

/* None of the context's events is held until it is recorded again, NULL: no event at all: the
   context goes away, or a capture ends, in which any may have been recorded last, also where it was
   not seen. The driver refuses waits for such an event, and its answer is needed. */
void ag_event_distrust(const struct ag_context *context);

/* The event is destroyed. `users` gets the streams that have held a record of it or a wait for it,
   whose graphs may name it, or as many as there is room for. Returns how many. */
enum { AG_EVENT_USERS = 4 };
unsigned ag_event_forget(CUevent event, struct ag_stream *users[AG_EVENT_USERS]);

#endif
