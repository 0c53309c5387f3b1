/* SPDX-License-Identifier: MIT */
/* Threads of the library's own. */
#ifndef AG_THREAD_H
#define AG_THREAD_H

#include <stdbool.h>
#include <stdint.h>

/* A thread, which is made once at most. */
struct ag_own_thread {
    const char *name;      /* 15 characters at most, for debuggers */
    void (*prepare)(void); /* NULL: nothing to do before ag_thread_start() returns */
    void (*run)(struct ag_own_thread *self);
    _Atomic uint32_t ready; /* a futex */
};

/*
 * Starts a thread that nobody joins, and waits until it is prepared: what it asks of the system for
 * itself has been asked then, and it may be forbidden from now on. Signals are blocked in the
 * thread: they are the program's. When `run` returns the thread sleeps until the process ends,
 * since to end one takes system calls, too. False: there is no such thread.
 */
bool ag_thread_start(struct ag_own_thread *thread);

/* Both halves of that, for several threads that are begun first: begins it, and waits until it is
   prepared. */
bool ag_thread_begin(struct ag_own_thread *thread);
void ag_thread_await(struct ag_own_thread *thread);

/* Gives the calling thread, which runs no code of the program, a table of descriptors of its own,
   an empty one: what it opens then the program cannot close, and what the program opens it does not
   keep open. False: the kernel refuses it. */
bool ag_thread_own_files(void);

#endif
