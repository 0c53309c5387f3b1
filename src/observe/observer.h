/* SPDX-License-Identifier: MIT */
/*
 * Observers: threads of the library's own that work at intervals while the program runs. One writes
 * the trace file, one keeps files current, and one shows live counters and writes reports. They
 * block all signals and never call CUDA. One more tells a profiler's tool of ranges, which may call
 * anything. An observer exists only if an option asks for its work.
 */
#ifndef AG_OBSERVER_H
#define AG_OBSERVER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "observe/thread.h"

struct ag_observer {
    struct ag_own_thread thread; /* with its name, and what it does first */
    void (*work)(bool last);
    long interval;                      /* ns */
    _Atomic uint32_t running, stopping; /* futexes */
};

/* Calls its work once in each interval, and a last time when it is stopped. False: no thread. */
bool ag_observer_start(struct ag_observer *observer);

/* Waits until an observer that was started is prepared (thread.h). */
void ag_observer_await(struct ag_observer *observer);

/* Waits for the last time, so many tenths of a second at most. */
void ag_observer_stop(struct ag_observer *observer, unsigned tenths);

/* In a forked child, where the thread is not. */
void ag_observer_child(struct ag_observer *observer);

#endif
