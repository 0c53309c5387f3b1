/* SPDX-License-Identifier: MIT */
/*
 * Observers: threads of the library's own that do some work again and again while the program runs.
 * The one writes the trace file, the other shows live counters and writes reports. They have all
 * signals blocked and never call CUDA. There is none unless an option asks for something that it
 * does.
 */
#ifndef AG_OBSERVER_H
#define AG_OBSERVER_H

#include <pthread.h>
#include <stdbool.h>

#include "observe/thread.h"

struct ag_observer {
    struct ag_own_thread thread; /* with its name, and what it does first */
    void (*work)(bool last);
    long interval; /* ns */

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t wake, done;
    bool running, stopping;
};

/* Calls its work once in each interval, and a last time when it is stopped. False: no thread. */
bool ag_observer_start(struct ag_observer *observer);

/* Waits for the last time, some seconds at most: a disk may not answer. */
void ag_observer_stop(struct ag_observer *observer);

/* In a forked child, where the thread is not. */
void ag_observer_child(struct ag_observer *observer);

#endif
