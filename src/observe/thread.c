/* SPDX-License-Identifier: MIT */
#include "observe/thread.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "observe/futex.h"

/* For calls of the driver; a program may have made the stacks of new threads small. */
enum { LEAST_STACK = 1 << 20 };

enum { MOST_FILES = 1 << 20 }; /* that are closed one by one: 0.1 s */

/* As in Linux's headers since 5.9. */
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE (1u << 1)
#endif

/* Looks of a creator, and ns for each, until it goes on although its thread is not prepared: 1 s,
   for a busy machine. */
enum { PREPARE_NS = 100000000, PREPARE_TIMES = 10 };

/* Linux 5.9 does it at once; before, the table is a copy. (A container may allow the former only.)
 */
bool ag_thread_own_files(void)
{
    struct rlimit most;
    if (syscall(SYS_close_range, 0, ~0u, CLOSE_RANGE_UNSHARE) == 0)
        return true;
    if (getrlimit(RLIMIT_NOFILE, &most) != 0 || most.rlim_cur > MOST_FILES ||
        unshare(CLONE_FILES) != 0)
        return false;
    for (int fd = 0; fd < (int)most.rlim_cur; fd++)
        (void)close(fd); /* most of them are not open */
    return true;
}

static void *begin(void *argument)
{
    struct ag_own_thread *thread = argument;
    _Atomic uint32_t never = 0;
    /* From another thread this opens a file of /proc, which makes the process slow to end. */
    (void)pthread_setname_np(pthread_self(), thread->name);
    void *volatile piece = malloc(1); /* the C library makes an arena for each thread, now */
    free(piece);
    if (thread->prepare != NULL)
        thread->prepare();
    atomic_store(&thread->ready, 1);
    ag_futex(&thread->ready, FUTEX_WAKE_PRIVATE, 1, NULL);
    thread->run(thread);
    while (atomic_load(&never) == 0)
        ag_futex(&never, FUTEX_WAIT_PRIVATE, 0, NULL);
    return NULL;
}

static bool create(struct ag_own_thread *thread)
{
    pthread_t id;
    pthread_attr_t attributes;
    size_t size;
    if (pthread_attr_init(&attributes) != 0)
        return false;
    bool made = pthread_attr_getstacksize(&attributes, &size) == 0 &&
                (size >= LEAST_STACK || pthread_attr_setstacksize(&attributes, LEAST_STACK) == 0) &&
                pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) == 0 &&
                pthread_create(&id, &attributes, begin, thread) == 0;
    pthread_attr_destroy(&attributes);
    return made;
}

bool ag_thread_begin(struct ag_own_thread *thread)
{
    sigset_t all, before;
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0)
        return false;
    bool made = create(thread);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL); /* a mask that was in force is valid */
    return made;
}

void ag_thread_await(struct ag_own_thread *thread)
{
    for (int i = 0; i < PREPARE_TIMES && atomic_load(&thread->ready) == 0; i++)
        ag_futex(&thread->ready, FUTEX_WAIT_PRIVATE, 0, &(struct timespec){.tv_nsec = PREPARE_NS});
}

bool ag_thread_start(struct ag_own_thread *thread)
{
    bool made = ag_thread_begin(thread);
    if (made)
        ag_thread_await(thread);
    return made;
}
