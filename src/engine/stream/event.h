/* SPDX-License-Identifier: MIT */
/*
 * Events that the program records: which held ops name them.
 *
 * Other streams and threads see an event: a wait means its last record, and a record replaces the
 * one before. A graph's event nodes take effect when the graph is launched. So the calling thread's
 * sequences end as follows:
 *  - before a wait for an event: the sequence that has its record;
 *  - before a record of an event, and before its destruction: every sequence that has a record of
 * it or a wait for it. What another thread's sequence holds is submitted, and that sequence goes
 * on. If this happens again and again for one record, the other thread's sequences end with that
 * record from then on, and can be replayed.
 *
 * A record of an event with timing ends its sequence, held or not: its time is that of the call,
 * and no pause of the host that follows may come before it.
 *
 * The table's locks are innermost: one may be taken with a stream's lock held. Streams are flushed
 * without any.
 */
#ifndef AG_EVENT_H
#define AG_EVENT_H

#include "engine/stream/stream.h"

/* What is known of an event. */
struct ag_event_known {
    const struct ag_context *context; /* where it was last recorded; NULL: not known */
    uint64_t serial; /* the number of its life, for a handle may come back with another event; 0:
                        neither a record of it nor a wait for it can be held */
    bool timed;      /* a record tells the time */
    bool awaited;    /* before a record: an open sequence waits for it */

    /* Its last record: the stream, its life, and what it had been given. */
    struct ag_stream *by; /* NULL: not known */
    unsigned branch;      /* in another stream's sequence; 0: it was in its own */
    uint32_t life;
    uint64_t given; /* ag_issuer_given() */
};

/* What is known of an event, and the streams whose sequences may have to be submitted before it is
   recorded or destroyed (`all`), or waited for. Returns how many these are. */
enum { AG_EVENT_WAITERS = 4, AG_EVENT_HOLDERS = 1 + AG_EVENT_WAITERS };
unsigned ag_event_holders(CUevent event, bool all, struct ag_stream *holders[AG_EVENT_HOLDERS],
                          struct ag_event_known *known);

/* Whether the event lives, and that is the number of its life. */
bool ag_event_is(CUevent event, uint64_t serial);

/* The event is being recorded in this context. False: no memory, and it will not be held. */
bool ag_event_recorded(CUevent event, const struct ag_context *context);

/* The stream's open sequence has a record of the event or a wait for it, until it ends; or the
   stream's last op is such a record, which has ended its sequence. `branch`: of that sequence.
   False: there is no room to note it, so the sequence must not stay held. The stream's lock is
   held.
 */
bool ag_event_hold(CUevent event, struct ag_stream *stream, bool wait, unsigned branch);

/* A record of the event comes that ag_event_hold() will not hear of. No wait is linked to the one
   before (ag_event_depth()), whose sequence may be open in another thread. */
void ag_event_goes_unnoted(CUevent event);

/* Some event may have been recorded by this thread, and nobody will say which. */
void ag_event_unseen(void);

/* The depth of the event's last record in the stream's open sequence; 0: it is not there. */
uint32_t ag_event_depth(CUevent event, const struct ag_stream *stream);

/* No event of the context (NULL: of any context) is held until it is recorded again. To be called
   when the context goes away, and when a capture ends: any event may have been recorded in it. The
   driver refuses waits for an event that was last recorded in a capture, and the program must get
   that answer. */
void ag_event_distrust(const struct ag_context *context);

/* The streams whose graphs may name an event: those that have held a record of it or a wait for
   it. */
enum { AG_EVENT_USERS = 4 };
struct ag_event_users {
    struct ag_stream *stream[AG_EVENT_USERS];
    unsigned count;
    bool many;                  /* there are others */
    struct ag_context *context; /* whose all are */
};

/* The event is being destroyed. */
void ag_event_forget(CUevent event, struct ag_event_users *users);

/* What doors tell of an event: see engine.h. */
void ag_event_created(CUevent event, unsigned flags);
void ag_event_failed(CUevent event);
void ag_event_shared(CUevent event);

#endif
