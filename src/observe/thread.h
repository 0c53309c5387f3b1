/* SPDX-License-Identifier: MIT */
/* Threads of the library's own. */
#ifndef AG_THREAD_H
#define AG_THREAD_H

#include <stdbool.h>

/*
 * Starts a thread that nobody joins. Signals are blocked in it: they are the program's. `name`, of
 * 15 characters at most, is for debuggers. False: there is no such thread.
 */
bool ag_thread_start(void *(*run)(void *), const char *name);

#endif
