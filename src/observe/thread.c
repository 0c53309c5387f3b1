/* SPDX-License-Identifier: MIT */
#include "observe/thread.h"

#include <pthread.h>
#include <signal.h>
#include <stddef.h>

bool ag_thread_start(void *(*run)(void *), const char *name)
{
    sigset_t all, before;
    pthread_t thread;
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0)
        return false;
    bool made = pthread_create(&thread, NULL, run, NULL) == 0;
    if (made) {
        (void)pthread_setname_np(thread, name);
        pthread_detach(thread);
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL); /* a mask that was in force is valid */
    return made;
}
