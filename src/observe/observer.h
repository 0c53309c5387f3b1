/* SPDX-License-Identifier: MIT */
/*
 * The observer: one thread of the library's own that writes the trace file, shows live counters and
 * writes reports while the program runs. It has all signals blocked and never calls CUDA. There is
 * none unless an option asks for something that it does.
 */
#ifndef AG_OBSERVER_H
#define AG_OBSERVER_H

#include <stdbool.h>

/* Calls `work` every `interval_ns`, and a last time when it is stopped. False: no thread. */
bool ag_observer_start(void (*work)(bool last), long interval_ns);

/* Waits for the last time, some seconds at most: a disk may not answer. */
void ag_observer_stop(void);

/* In a forked child, where the thread is not. */
void ag_observer_child(void);

#endif
