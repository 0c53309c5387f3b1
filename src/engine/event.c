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
    const struct ag_context *context;        /* of its last record */
    struct ag_stream *recorder;              /* holds its record */
    struct ag_stream *waiters[MOST_WAITERS]; /* hold waits for it */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static struct event *table[BUCKETS];
static unsigned known;
static uint64_t last_serial;

static struct event **find(CUevent handle)
{
    struct event **link = &table[((uintptr_t)handle * 0x9e3779b97f4a7c15u) >> 54];
    while (*link != NULL && (*link)->handle != handle)
        link = &(*link)->next;
    return link;
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
    pthread_mutex_lock(&lock);
    const struct event *event = *find(handle);
    if (event != NULL && event->recorder != NULL)
        holders[count++] = event->recorder;
    for (unsigned i = 0; event != NULL && all && i < MOST_WAITERS; i++)
        if (event->waiters[i] != NULL)
            holders[count++] = event->waiters[i];
    pthread_mutex_unlock(&lock);
    while (count > 0)
        flush(holders[--count]);
}

bool ag_event_recorded(CUevent handle, const struct ag_context *context)
{
    pthread_mutex_lock(&lock);
    struct event **link = find(handle);
    if (*link == NULL && known < MOST_EVENTS && (*link = calloc(1, sizeof **link)) != NULL) {
        (*link)->handle = handle;
        (*link)->serial = ++last_serial;
        known++;
    }
    if (*link != NULL)
        (*link)->context = context;
    bool found = *link != NULL;
    pthread_mutex_unlock(&lock);
    return found;
}

uint64_t ag_event_serial(CUevent handle, const struct ag_context *context, bool wait)
{
    pthread_mutex_lock(&lock);
    const struct event *event = *find(handle);
    uint64_t serial = 0;
    if (event != NULL && event->context == context &&
        (!wait || event->waiters[MOST_WAITERS - 1] == NULL))
        serial = event->serial;
    pthread_mutex_unlock(&lock);
    return serial;
}

void ag_event_hold(CUevent handle, struct ag_stream *stream, bool wait)
{
    pthread_mutex_lock(&lock);
    struct event *event = *find(handle);
    if (event != NULL && !wait)
        event->recorder = stream;
    unsigned i = 0;
    while (event != NULL && wait && i < MOST_WAITERS && event->waiters[i] != NULL &&
           event->waiters[i] != stream)
        i++;
    if (event != NULL && wait && i < MOST_WAITERS)
        event->waiters[i] = stream;
    pthread_mutex_unlock(&lock);
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
    pthread_mutex_lock(&lock);
    if (handle != NULL) {
        struct event *event = *find(handle);
        if (event != NULL)
            release(event, stream);
    } else {
        for (unsigned i = 0; i < BUCKETS; i++)
            for (struct event *event = table[i]; event != NULL; event = event->next)
                release(event, stream);
    }
    pthread_mutex_unlock(&lock);
}

void ag_event_forget(CUevent handle)
{
    pthread_mutex_lock(&lock);
    struct event **link = find(handle), *event = *link;
    if (event != NULL) {
        *link = event->next;
        free(event);
        known--;
    }
    pthread_mutex_unlock(&lock);
}

void ag_event_distrust(const struct ag_context *context)
{
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < BUCKETS; i++)
        for (struct event *event = table[i]; event != NULL; event = event->next)
            if (context == NULL || event->context == context)
                event->context = NULL;
    pthread_mutex_unlock(&lock);
}
