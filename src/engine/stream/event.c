/* SPDX-License-Identifier: MIT */
/* The table of events. */
#include "engine/stream/event.h"

#include <stdlib.h>
#include <string.h>

#include "engine/hot.h"
#include "engine/stream/issuer.h"
#include "graph/node.h"
#include "mutant.h"
#include "observe/callsite.h"

enum {
    BUCKETS = 1024,      /* of the table of events */
    MOST_EVENTS = 65536, /* events in it; the records and waits of further events are not held */
};

/* A sequence that has a record of an event, or a wait for it; while it is open. */
struct place {
    struct ag_stream *stream;
    uint64_t sequence;
    uint32_t depth; /* of a record */
};

struct event {
    struct event *next;
    CUevent handle;
    uint64_t serial;
    bool shared;                      /* with another process */
    bool untimed;                     /* it was created so, and the library saw that */
    const struct ag_context *context; /* of its last record */
    struct ag_context *home;          /* of its users */
    struct place recorder;            /* has its record */
    struct ag_stream *by;             /* see ag_event_known */
    unsigned branch;
    uint32_t life;
    uint64_t given;
    uint64_t unseen;                         /* records by then that nobody has told of */
    struct place waiters[AG_EVENT_WAITERS];  /* have waits for it */
    struct ag_stream *users[AG_EVENT_USERS]; /* that have ever held a record or a wait */
    bool many;                               /* there are more of them */
};

/* A bucket's events are used by the same thread again and again: so its lock is biased to it. */
static struct bucket {
    struct ag_lock lock; /* guards the list and its events */
    struct event *_Atomic first;
} table[BUCKETS];

static _Atomic unsigned events_known;
static _Atomic uint64_t last_serial;
static _Atomic uint64_t unseen; /* records of any events */

/* The bucket of an event, locked. */
static struct bucket *enter(CUevent handle)
{
    struct bucket *bucket = &table[((uintptr_t)handle * 0x9e3779b97f4a7c15u) >> 54];
    ag_lock_take(&bucket->lock, &ag_self);
    return bucket;
}

static void leave(struct bucket *bucket)
{
    ag_lock_give(&bucket->lock, &ag_self);
}

static struct event *find(const struct bucket *bucket, CUevent handle)
{
    struct event *event = bucket->first;
    while (event != NULL && event->handle != handle)
        event = event->next;
    return event;
}

static bool is_open(const struct place *place)
{
    return place->stream != NULL &&
           place->sequence ==
               atomic_load_explicit(&place->stream->seq.number, memory_order_acquire);
}

/* Where a wait in this stream can be noted; the stream is NULL: in any. AG_EVENT_WAITERS: nowhere.
 */
static unsigned place_of(const struct event *event, const struct ag_stream *stream)
{
    unsigned found = AG_EVENT_WAITERS;
    for (unsigned i = AG_EVENT_WAITERS; i-- > 0;) {
        const struct place *place = &event->waiters[i];
        if (stream != NULL && place->stream == stream)
            return i;
        if (!is_open(place))
            found = i;
    }
    return found;
}

/* Whether the stream, whose open sequence it is, has to be flushed. Another thread's only if it
   holds: that has been before this call, if the program can tell, and `held` is 0 again only when
   it has been submitted. */
static __attribute__((noinline)) bool is_due(const struct ag_stream *stream)
{
    return ag_issuer_is_self(stream) ||
           atomic_load_explicit(&stream->seq.held, memory_order_acquire) != 0;
}

/* What is known of the event; `all`: a record of it comes. */
static void tell(const struct event *event, bool all, struct ag_event_known *known)
{
    /* Where a sequence is open nothing passes; elsewhere only this thread says so. */
    bool seen = event->unseen == atomic_load_explicit(&unseen, memory_order_relaxed) &&
                (is_open(&event->recorder) || !ag_issuer_are_many());
    bool room = all || place_of(event, NULL) != AG_EVENT_WAITERS;
    known->context = event->context;
    known->serial = (!event->shared || AG_MUTANT(shared_is_held)) && room ? event->serial : 0;
    known->by = seen ? event->by : NULL;
    known->branch = event->branch;
    known->life = event->life;
    known->given = event->given;
}

unsigned ag_event_holders(CUevent handle, bool all, struct ag_stream *holders[AG_EVENT_HOLDERS],
                          struct ag_event_known *known)
{
    unsigned count = 0;
    struct bucket *bucket = enter(handle);
    const struct event *event = find(bucket, handle);
    *known = (struct ag_event_known){.timed = event == NULL || !event->untimed};
    if (event != NULL)
        tell(event, all, known);
    if (event != NULL && is_open(&event->recorder) && is_due(event->recorder.stream) &&
        !AG_MUTANT(wait_passes_record))
        holders[count++] = event->recorder.stream;
    for (unsigned i = 0; event != NULL && all && i < AG_EVENT_WAITERS; i++) {
        if (AG_MUTANT(record_passes_waits) || !is_open(&event->waiters[i]))
            continue;
        known->awaited = true;
        if (is_due(event->waiters[i].stream))
            holders[count++] = event->waiters[i].stream;
    }
    leave(bucket);
    return count;
}

/* NULL: no memory, or there are too many. */
static struct event *add(struct bucket *bucket, CUevent handle)
{
    struct event *event = NULL;
    if (atomic_fetch_add(&events_known, 1) < MOST_EVENTS)
        event = calloc(1, sizeof *event);
    if (event == NULL) {
        atomic_fetch_sub(&events_known, 1);
        return NULL;
    }
    event->handle = handle;
    event->serial = atomic_fetch_add(&last_serial, 1) + 1;
    event->next = bucket->first;
    bucket->first = event;
    return event;
}

/* The event, known from now on, if there is room. */
static struct event *know(struct bucket *bucket, CUevent handle)
{
    struct event *event = find(bucket, handle);
    return event != NULL ? event : add(bucket, handle);
}

bool ag_event_recorded(CUevent handle, const struct ag_context *context)
{
    struct bucket *bucket = enter(handle);
    struct event *event = know(bucket, handle);
    if (event != NULL)
        event->context = context;
    leave(bucket);
    return event != NULL;
}

void ag_event_goes_unnoted(CUevent handle)
{
    struct bucket *bucket = enter(handle);
    struct event *event = find(bucket, handle);
    if (event != NULL) {
        event->by = NULL;
        event->recorder.depth = 0;
    }
    leave(bucket);
}

void ag_event_shared(CUevent handle)
{
    struct bucket *bucket = enter(handle);
    struct event *event = know(bucket, handle);
    if (event != NULL)
        event->shared = true;
    leave(bucket);
}

void ag_event_created(CUevent handle, unsigned flags)
{
    bool untimed = (flags & CU_EVENT_DISABLE_TIMING) != 0;
    const struct ag_context *context = ag_context_peek(ag_context_current());
    struct bucket *bucket = enter(handle);
    struct event *event = untimed ? know(bucket, handle) : find(bucket, handle);
    if (event != NULL) {
        event->untimed = untimed;
        event->context = context;
    }
    leave(bucket);
}

void ag_event_failed(CUevent handle)
{
    struct bucket *bucket = enter(handle);
    struct event *event = find(bucket, handle);
    if (event != NULL)
        event->context = NULL;
    leave(bucket);
}

bool ag_event_is(CUevent handle, uint64_t serial)
{
    struct bucket *bucket = enter(handle);
    const struct event *event = find(bucket, handle);
    bool is = event != NULL && event->serial == serial;
    leave(bucket);
    return is;
}

/* Where the stream's last op stands. A sequence that has ended has another number. */
static struct place place_now(struct ag_stream *stream)
{
    uint32_t depth = stream->recorder.cursor->depth;
    return (struct place){.stream = stream,
                          .sequence = depth != 0 ? stream->seq.number : stream->seq.number - 1,
                          .depth = depth};
}

/* The event has been recorded by the stream's last op. */
static void note_record(struct event *event, struct ag_stream *stream, unsigned branch)
{
    event->recorder = place_now(stream);
    event->branch = branch;
    event->by = stream;
    event->life = stream->id.life;
    event->given = ag_issuer_given(stream);
    if (__builtin_expect(branch != 0, 0)) {
        const struct ag_forked_branch *of = &stream->forked.branch[branch];
        event->by = of->stream;
        event->life = of->life;
        event->given = of->given;
    }
    event->unseen = atomic_load_explicit(&unseen, memory_order_relaxed);
    ag_passing.key = 0; /* the next op that passes is seen to */
}

static void note_user(struct event *event, struct ag_stream *stream)
{
    unsigned i = 0;
    while (event->users[i] != stream) {
        if (event->users[i] == NULL) {
            event->users[i] = stream;
            event->home = stream->id.context;
            return;
        }
        if (++i == AG_EVENT_USERS) {
            event->many = true;
            return;
        }
    }
}

bool ag_event_hold(CUevent handle, struct ag_stream *stream, bool wait, unsigned branch)
{
    struct bucket *bucket = enter(handle);
    struct event *event = find(bucket, handle);
    unsigned at = 0;
    if (event != NULL && wait)
        at = place_of(event, stream);
    bool noted = event != NULL && at != AG_EVENT_WAITERS;
    if (noted && wait)
        event->waiters[at] = place_now(stream);
    else if (noted)
        note_record(event, stream, branch);
    if (event != NULL)
        note_user(event, stream);
    leave(bucket);
    return noted;
}

void ag_event_unseen(void)
{
    atomic_fetch_add_explicit(&unseen, 1, memory_order_relaxed);
}

uint32_t ag_event_depth(CUevent handle, const struct ag_stream *stream)
{
    struct bucket *bucket = enter(handle);
    const struct event *event = find(bucket, handle);
    bool here = event != NULL && event->recorder.stream == stream && is_open(&event->recorder);
    uint32_t depth = here ? event->recorder.depth : 0;
    leave(bucket);
    return depth;
}

void ag_event_forget(CUevent handle, struct ag_event_users *users)
{
    *users = (struct ag_event_users){.count = 0};
    struct bucket *bucket = enter(handle);
    struct event *before = NULL, *event = bucket->first;
    while (event != NULL && event->handle != handle) {
        before = event;
        event = event->next;
    }
    if (event != NULL) {
        if (before != NULL)
            before->next = event->next;
        else
            bucket->first = event->next;
        while (users->count < AG_EVENT_USERS && event->users[users->count] != NULL) {
            users->stream[users->count] = event->users[users->count];
            users->count++;
        }
        users->many = event->many;
        users->context = event->home;
        free(event);
        atomic_fetch_sub(&events_known, 1);
    }
    leave(bucket);
}

/* The next bucket that is not empty, locked; NULL: there is none. `last`: the one before, or NULL.
 */
static struct bucket *enter_next(struct bucket *last)
{
    struct bucket *bucket = last != NULL ? last + 1 : table;
    while (bucket < table + BUCKETS && bucket->first == NULL)
        bucket++;
    if (bucket == table + BUCKETS)
        return NULL;
    ag_lock_take(&bucket->lock, &ag_self);
    return bucket;
}

void ag_event_distrust(const struct ag_context *context)
{
    struct bucket *bucket = NULL;
    if (context == NULL && AG_MUTANT(captured_is_held))
        return;
    while ((bucket = enter_next(bucket)) != NULL) {
        for (struct event *event = bucket->first; event != NULL; event = event->next)
            if (context == NULL || event->context == context)
                event->context = NULL;
        leave(bucket);
    }
}
