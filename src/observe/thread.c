/* SPDX-License-Identifier: MIT */
#include "observe/thread.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* For calls of the driver; a program may have made the stacks of new threads small. */
enum { LEAST_STACK = 1 << 20 };

/* How long a thread may take to be prepared, on a busy machine: then its creator goes on. */
enum { PREPARE_NS = 100000000, PREPARE_TIMES = 10 };

/* However it ends: who waits looks at the word again. */
static void futex(_Atomic uint32_t *word, int operation, uint32_t value, const struct timespec *time)
{
    int saved = errno;
    (void)syscall(SYS_futex, word, operation, value, time);
    errno = saved;
}

void ag_thread_pause(long ns)
{
    _Atomic uint32_t nobody = 0;
    futex(&nobody, FUTEX_WAIT_PRIVATE, 0, &(struct timespec){.tv_nsec = ns});
}

static void *begin(void *argument)
{
    struct ag_own_thread *thread = argument;
    _Atomic uint32_t never = 0;
    void *volatile piece = malloc(1); /* the C library makes an arena for each thread, now */
    free(piece);
    if (thread->prepare != NULL)
        thread->prepare();
    atomic_store(&thread->ready, 1);
    futex(&thread->ready, FUTEX_WAKE_PRIVATE, 1, NULL);
    thread->run();
    while (atomic_load(&never) == 0)
        futex(&never, FUTEX_WAIT_PRIVATE, 0, NULL);
    return NULL;
}

static bool create(pthread_t *id, struct ag_own_thread *thread)
{
    pthread_attr_t attributes;
    size_t size;
    if (pthread_attr_init(&attributes) != 0)
        return false;
    bool made = pthread_attr_getstacksize(&attributes, &size) == 0 &&
                (size >= LEAST_STACK || pthread_attr_setstacksize(&attributes, LEAST_STACK) == 0) &&
                pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) == 0 &&
                pthread_create(id, &attributes, begin, thread) == 0;
    pthread_attr_destroy(&attributes);
    return made;
}

bool ag_thread_start(struct ag_own_thread *thread)
{
    sigset_t all, before;
    pthread_t id;
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0)
        return false;
    bool made = create(&id, thread);
    if (made)
        (void)pthread_setname_np(id, thread->name); /* it never ends: the number is good */
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL); /* a mask that was in force is valid */
    for (int i = 0; made && i < PREPARE_TIMES && atomic_load(&thread->ready) == 0; i++)
        futex(&thread->ready, FUTEX_WAIT_PRIVATE, 0, &(struct timespec){.tv_nsec = PREPARE_NS});
    return made;
}
