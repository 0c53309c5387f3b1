/* SPDX-License-Identifier: MIT */
/* The observers' threads. They wait by the kernel's clock: the program's may stand still. */
#include "observe/observer.h"

#include "observe/futex.h"

enum { TENTH_NS = 100000000 };

/* Waits for the interval, or until it is to stop; returns whether it is. */
static bool await_interval(struct ag_observer *observer)
{
    ag_futex(&observer->stopping, FUTEX_WAIT_PRIVATE, 0,
             &(struct timespec){.tv_nsec = observer->interval});
    return atomic_load(&observer->stopping) != 0;
}

static void run(struct ag_own_thread *self)
{
    struct ag_observer *observer = (struct ag_observer *)self; /* its first member */
    observer->work(false); /* what it begins is there even if the program ends at once */
    for (bool last = false; !last;) {
        last = await_interval(observer);
        observer->work(last);
    }
    atomic_store(&observer->running, 0);
    ag_futex(&observer->running, FUTEX_WAKE_PRIVATE, 1, NULL);
}

bool ag_observer_start(struct ag_observer *observer)
{
    observer->thread.run = run;
    atomic_store(&observer->running,
                 1); /* it may have come to its end before this thread goes on */
    if (!ag_thread_begin(&observer->thread))
        atomic_store(&observer->running, 0);
    return atomic_load(&observer->running) != 0;
}

void ag_observer_await(struct ag_observer *observer)
{
    if (atomic_load(&observer->running) != 0)
        ag_thread_await(&observer->thread);
}

void ag_observer_stop(struct ag_observer *observer, unsigned tenths)
{
    atomic_store(&observer->stopping, 1);
    ag_futex(&observer->stopping, FUTEX_WAKE_PRIVATE, 1, NULL);
    for (unsigned i = 0; i < tenths && atomic_load(&observer->running) != 0; i++)
        ag_futex(&observer->running, FUTEX_WAIT_PRIVATE, 1,
                 &(struct timespec){.tv_nsec = TENTH_NS});
}

void ag_observer_child(struct ag_observer *observer)
{
    atomic_store(&observer->running, 0);
}
