/* SPDX-License-Identifier: MIT */
/* The observer's thread. */
#include "observe/observer.h"

#include <pthread.h>
#include <time.h>

#include "observe/thread.h"

enum { STOP_SECONDS = 10, NS_PER_S = 1000000000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static pthread_cond_t wake, done;
static bool running, stopping;
static void (*work)(bool last);
static long interval;

/* Waits for the interval, or until it is to stop; returns whether it is. */
static bool rest(void)
{
    struct timespec until;
    pthread_mutex_lock(&lock);
    if (!stopping && clock_gettime(CLOCK_MONOTONIC, &until) == 0) {
        until.tv_nsec += interval;
        until.tv_sec += until.tv_nsec / NS_PER_S;
        until.tv_nsec %= NS_PER_S;
        (void)pthread_cond_timedwait(&wake, &lock, &until);
    }
    bool stops = stopping;
    pthread_mutex_unlock(&lock);
    return stops;
}

static void run(void)
{
    work(false); /* what it begins is there even if the program ends at once */
    for (bool last = false; !last;) {
        last = rest();
        work(last);
    }
    pthread_mutex_lock(&lock);
    running = false;
    pthread_cond_broadcast(&done);
    pthread_mutex_unlock(&lock);
}

bool ag_observer_start(void (*to_do)(bool last), long interval_ns)
{
    pthread_condattr_t monotonic;
    work = to_do;
    interval = interval_ns;
    if (pthread_condattr_init(&monotonic) != 0 ||
        pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) != 0 ||
        pthread_cond_init(&wake, &monotonic) != 0 || pthread_cond_init(&done, &monotonic) != 0)
        return false;
    static struct ag_own_thread observer = {.name = "ag-observer", .run = run};
    running = true; /* the thread may have come to its end before this one goes on */
    if (!ag_thread_start(&observer))
        running = false;
    return running;
}

void ag_observer_stop(void)
{
    struct timespec until;
    if (clock_gettime(CLOCK_MONOTONIC, &until) != 0)
        return;
    until.tv_sec += STOP_SECONDS;
    pthread_mutex_lock(&lock);
    stopping = true;
    if (running)
        pthread_cond_signal(&wake);
    while (running && pthread_cond_timedwait(&done, &lock, &until) == 0)
        continue;
    pthread_mutex_unlock(&lock);
}

void ag_observer_child(void)
{
    running = false;
}
