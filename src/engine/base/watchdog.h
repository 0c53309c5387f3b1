/* SPDX-License-Identifier: MIT */
/*
 * The watchdog's thread: when it wakes, and who waits for it. overdue.h says what it does. It
 * sleeps while there is no hold to look at, for it would take time from the program.
 */
#ifndef AG_WATCHDOG_H
#define AG_WATCHDOG_H

#include <stdbool.h>

#include "observe/counters.h"

/* How long an op may be held: README.md promises it. */
enum {
    AG_WATCHDOG_LOOKS = 3,  /* in a bound (hold.bound_us): no clock is read when an op is held */
    AG_WATCHDOG_BOUNDS = 4, /* that a hold may take in all, while it gets longer in each of them */
    /* Times the bound on one CPU, where each look takes the CPU from the program. A launcher of
       parallel programs may bind each process to a core (docs/measurements.md, "What if there is
       one CPU only?"). */
    AG_WATCHDOG_ALONE = 10
};

/*
 * Starts the watchdog, once; it sleeps. False: there is none. What it does is given (overdue.h): a
 * look at all holds; and submitting what each stream has held at some time since the flush was
 * asked for, which says whether it could do that everywhere.
 */
bool ag_watchdog_start(void (*look)(void), bool (*serve)(unsigned request, enum ag_reason reason));

/* A hold begins that the watchdog must look at: wakes it if it sleeps. False: there is no watchdog,
   and nothing may be held. */
bool ag_watchdog_watch(void);

/* A hold has ended that the watchdog had to look at. */
void ag_watchdog_unwatch(void);

/* Whether the watchdog must look at any hold. */
bool ag_watchdog_watches(void);

/* The watchdog ends once nothing is held any more. */
void ag_watchdog_stop(void);

/* Has the watchdog submit all that is held, for a thread that may not do it itself. Waits for that,
   a second at most. False: it is not done by then. Takes no lock. */
bool ag_watchdog_flush(enum ag_reason reason);

#endif
