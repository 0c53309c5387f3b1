/* SPDX-License-Identifier: MIT */
#include "observe/thread.h"

#include <pthread.h>
#include <signal.h>
#include <stddef.h>

/* For calls of the driver; a program may have made the stacks of new threads small. */
enum { LEAST_STACK = 1 << 20 };

static bool create(pthread_t *thread, void *(*run)(void *))
{
    pthread_attr_t attributes;
    size_t size;
    if (pthread_attr_init(&attributes) != 0)
        return false;
    bool made = pthread_attr_getstacksize(&attributes, &size) == 0 &&
                (size >= LEAST_STACK || pthread_attr_setstacksize(&attributes, LEAST_STACK) == 0) &&
                pthread_create(thread, &attributes, run, NULL) == 0;
    pthread_attr_destroy(&attributes);
    return made;
}

bool ag_thread_start(void *(*run)(void *), const char *name)
{
    sigset_t all, before;
    pthread_t thread;
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0)
        return false;
    bool made = create(&thread, run);
    if (made) {
        (void)pthread_setname_np(thread, name);
        pthread_detach(thread);
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL); /* a mask that was in force is valid */
    return made;
}
