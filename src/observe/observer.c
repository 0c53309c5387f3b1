/* SPDX-License-Identifier: MIT */
/* The observers' threads. */
#include "observe/observer.h"

#include <time.h>

enum {
    STOP_SECONDS = 10, /* for so long the exit waits for the last work: a disk may not answer */
    NS_PER_S = 1000000000,
};

/* Waits for the interval, or until it is to stop; returns whether it is. */
static bool await_interval(struct ag_observer *observer)
{
    struct timespec until;
    pthread_mutex_lock(&observer->lock);
    if (!observer->stopping && clock_gettime(CLOCK_MONOTONIC, &until) == 0) {
        until.tv_nsec += observer->interval;
        until.tv_sec += until.tv_nsec / NS_PER_S;
        until.tv_nsec %= NS_PER_S;
        (void)pthread_cond_timedwait(&observer->wake, &observer->lock, &until);
    }
    bool stops = observer->stopping;
    pthread_mutex_unlock(&observer->lock);
    return stops;
}

static void run(struct ag_own_thread *self)
{
    struct ag_observer *observer = (struct ag_observer *)self; /* its first member */
    observer->work(false); /* what it begins is there even if the program ends at once */
    for (bool last = false; !last;) {
        last = await_interval(observer);
        observer->work(last);
    }
    pthread_mutex_lock(&observer->lock);
    observer->running = false;
    pthread_cond_broadcast(&observer->done);
    pthread_mutex_unlock(&observer->lock);
}

bool ag_observer_start(struct ag_observer *observer)
{
    pthread_condattr_t monotonic;
    if (pthread_mutex_init(&observer->lock, NULL) != 0 || pthread_condattr_init(&monotonic) != 0 ||
        pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) != 0 ||
        pthread_cond_init(&observer->wake, &monotonic) != 0 ||
        pthread_cond_init(&observer->done, &monotonic) != 0)
        return false;
    observer->thread.run = run;
    observer->running = true; /* it may have come to its end before this thread goes on */
    if (!ag_thread_start(&observer->thread))
        observer->running = false;
    return observer->running;
}

void ag_observer_stop(struct ag_observer *observer)
{
    struct timespec until;
    if (clock_gettime(CLOCK_MONOTONIC, &until) != 0)
        return;
    until.tv_sec += STOP_SECONDS;
    pthread_mutex_lock(&observer->lock);
    observer->stopping = true;
    if (observer->running)
        pthread_cond_signal(&observer->wake);
    while (observer->running &&
           pthread_cond_timedwait(&observer->done, &observer->lock, &until) == 0)
        continue;
    pthread_mutex_unlock(&observer->lock);
}

void ag_observer_child(struct ag_observer *observer)
{
    observer->running = false;
}
