/* SPDX-License-Identifier: MIT */
/* SIGUSR2, with which a user asks for a report now. */
#ifndef AG_SIGNAL_H
#define AG_SIGNAL_H

#include <stdbool.h>

/*
 * Installs a handler that notes the wish and calls the handler that was there before, with the
 * flags and the mask of that one: a call that the signal interrupts stays interrupted, and a
 * handler for one signal is there for one. A handler that the program installs later replaces it.
 */
bool ag_signal_install(void);

/* In a forked child, which writes no report: what was there before is again. */
void ag_signal_child(void);

/* Whether the signal has come since the last call. */
bool ag_signal_taken(void);

#endif
