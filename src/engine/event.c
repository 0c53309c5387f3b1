/* SPDX-License-Identifier: MIT */
/* The table of events. */
#include "engine/event.h"

#include <stdlib.h>

#include "observe/callsite.h"

enum { BUCKETS = 1024, MOST_EVENTS = 65536, MOST_WAITERS = 4 };

struct event {
    struct event *next;
    CUevent handle;
    uint64_t serial;
    bool shared;                             /* with another process */
    const struct ag_context *context;        /* of its last record */
    struct ag_stream *recorder;              /* holds its record */
    struct ag_stream *waiters[MOST_WAITERS]; /* hold waits for it */
    struct ag_stream *users[AG_EVENT_USERS]; /* that have ever held a record or a wait */
};

/* A bucket's events are used by the same thread again and again: so its lock is biased to it. */
static struct bucket {
    struct ag_lock lock; /* guards the list and its events */
    struct event *_Atomic first;
} table[BUCKETS];

static _Atomic unsigned known;
static _Atomic uint64_t last_serial;

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

static void flush(struct ag_stream *stream)
{
    ag_stream_lock(stream);
    if (atomic_load_explicit(&stream->thread, memory_order_relaxed) == &ag_self)
        ag_stream_end(stream, true, AG_REASON_EVENT);
    else
        ag_stream_submit(stream, AG_REASON_EVENT);
    ag_stream_unlock(stream);
    AG_CALLSITE();
}

void ag_event_settle(CUevent handle, bool all)
{
    struct ag_stream *holders[1 + MOST_WAITERS];
    unsigned count = 0;
    struct bucket *bucket = enter(handle);
    const struct event *event = find(bucket, handle);
    if (event != NULL && event->recorder != NULL)
        holders[count++] = event->recorder;
    for (unsigned i = 0; event != NULL && all && i < MOST_WAITERS; i++)
        if (event->waiters[i] != NULL)
            holders[count++] = event->waiters[i];
    leave(bucket);
    CUcontext current;
    if (count > 0 && ag_context_refused(&current)) { /* and so is the call that follows */
        (void)ag_watchdog_flush(AG_REASON_EVENT);
        return;
    }
    while (count > 0)
        flush(holders[--count]);
}

/* NULL: no memory, or there are too many. */
static struct event *add(struct bucket *bucket, CUevent handle)
{
    struct event *event = NULL;
    if (atomic_fetch_add(&known, 1) < MOST_EVENTS)
        event = calloc(1, sizeof *event);
    if (event == NULL) {
        atomic_fetch_sub(&known, 1);
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

void ag_engine_event_shared(CUevent handle)
{
    struct bucket *bucket = enter(handle);
    struct event *event = know(bucket, handle);
    if (event != NULL)
        event->shared = true;
    leave(bucket);
}

void ag_engine_event_failed(CUevent handle)
{
    struct bucket *bucket = enter(handle);
    struct event *event = find(bucket, handle);
    if (event != NULL)
        event->context = NULL;
    leave(bucket);
}

uint64_t ag_event_serial(CUevent handle, const struct ag_context *context, bool wait)
{
    struct bucket *bucket = enter(handle);
    const struct event *event = find(bucket, handle);
    uint64_t serial = 0;
    if (event != NULL && event->context == context && !event->shared &&
        (!wait || event->waiters[MOST_WAITERS - 1] == NULL))
        serial = event->serial;
    leave(bucket);
    return serial;
}

bool ag_event_is(CUevent handle, uint64_t serial)
{
    struct bucket *bucket = enter(handle);
    const struct event *event = find(bucket, handle);
    bool is = event != NULL && event->serial == serial;
    leave(bucket);
    return is;
}

bool ag_event_hold(CUevent handle, struct ag_stream *stream, bool wait)
{
    struct bucket *bucket = enter(handle);
    struct event *event = find(bucket, handle);
    if (event != NULL && !wait)
        event->recorder = stream;
    unsigned i = 0;
    while (event != NULL && wait && i < MOST_WAITERS && event->waiters[i] != NULL &&
           event->waiters[i] != stream)
        i++;
    bool noted = event != NULL && i < MOST_WAITERS;
    if (noted && wait)
        event->waiters[i] = stream;
    for (i = 0; event != NULL && i < AG_EVENT_USERS && event->users[i] != stream; i++)
        if (event->users[i] == NULL) {
            event->users[i] = stream;
            break;
        }
    leave(bucket);
    return noted;
}

static void release(struct event *event, const struct ag_stream *stream)
{
    if (event->recorder == stream)
        event->recorder = NULL;
    /* Waiters stay packed, so that the last place tells whether there is room. */
    unsigned kept = 0;
    for (unsigned i = 0; i < MOST_WAITERS; i++)
        if (event->waiters[i] != NULL && event->waiters[i] != stream)
            event->waiters[kept++] = event->waiters[i];
    while (kept < MOST_WAITERS)
        event->waiters[kept++] = NULL;
}

void ag_event_release(CUevent handle, struct ag_stream *stream)
{
    struct bucket *bucket = enter(handle);
    struct event *event = find(bucket, handle);
    if (event != NULL)
        release(event, stream);
    leave(bucket);
}

unsigned ag_event_forget(CUevent handle, struct ag_stream *users[AG_EVENT_USERS])
{
    unsigned count = 0;
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
        while (count < AG_EVENT_USERS && event->users[count] != NULL) {
            users[count] = event->users[count];
            count++;
        }
        free(event);
        atomic_fetch_sub(&known, 1);
    }
    leave(bucket);
    return count;
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
    while ((bucket = enter_next(bucket)) != NULL) {
        for (struct event *event = bucket->first; event != NULL; event = event->next)
            if (context == NULL || event->context == context)
                event->context = NULL;
        leave(bucket);
    }
}
