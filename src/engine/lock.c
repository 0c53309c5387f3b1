/* SPDX-License-Identifier: MIT */
/* The biased lock where it has to call somebody: see lock.h. */
#include "engine/lock.h"

#include <errno.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "observe/thread.h"

/* Looks before a thread sleeps: usually the other one is inside for as long as an op takes. */
enum { SPINS = 100 };

static _Atomic bool usable;

static void *prepare(void *unused)
{
    (void)unused;
    atomic_store(&usable,
                 syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0);
    return NULL;
}

void ag_lock_prepare(void)
{
    (void)ag_thread_start(prepare, "ag-locks");
}

/* Errors are dealt with here, and are none of the program's. */
static long quietly(long number, long first, long second, long third)
{
    int saved = errno;
    long result = syscall(number, first, second, third, NULL);
    errno = saved;
    return result;
}

static bool is_inside(struct ag_lock *lock)
{
    return atomic_load_explicit(&lock->inside, memory_order_acquire) != 0;
}

/* Whether the mutex alone does not make its owner the owner of the lock. */
static bool is_contested(struct ag_lock *lock)
{
    return atomic_load_explicit(&lock->biased, memory_order_relaxed) != NULL || is_inside(lock);
}

/* Revokes the bias, if there is one. Wants the mutex. */
static void unbias(struct ag_lock *lock)
{
    if (atomic_load_explicit(&lock->biased, memory_order_relaxed) == NULL)
        return;
    atomic_store(&lock->biased, NULL);
    if (lock->doubled < AG_LOCK_DOUBLED)
        lock->doubled++;
    if (quietly(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) != 0) {
        /* Forbidden since it was registered: what that thread has written comes out by itself. */
        atomic_store(&usable, false);
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

static __attribute__((noinline)) void unbias_and_wait(struct ag_lock *lock)
{
    unbias(lock);
    for (unsigned i = 0; is_inside(lock); i++)
        if (i >= SPINS) /* however the wait ends: it is looked again */
            (void)quietly(SYS_futex, (long)&lock->inside, FUTEX_WAIT_PRIVATE, 1);
}

/* The thread has the mutex, and no other is inside. */
static void own(struct ag_lock *lock, const void *self)
{
    if (atomic_load_explicit(&lock->last, memory_order_relaxed) != self)
        lock->run = 0;
    lock->run++;
    atomic_store_explicit(&lock->last, self, memory_order_relaxed);
    atomic_store_explicit(&lock->shared, true, memory_order_release); /* `last` holds it */
}

void ag_lock_take_slow(struct ag_lock *lock, const void *self)
{
    pthread_mutex_lock(&lock->mutex);
    if (is_contested(lock))
        unbias_and_wait(lock);
    own(lock, self);
}

bool ag_lock_try_slow(struct ag_lock *lock, const void *self)
{
    if (pthread_mutex_trylock(&lock->mutex) != 0)
        return false;
    unbias(lock);
    if (is_inside(lock)) {
        pthread_mutex_unlock(&lock->mutex);
        return false;
    }
    own(lock, self);
    return true;
}

static __attribute__((noinline)) void bias(struct ag_lock *lock, const void *self)
{
    lock->run = 0;
    if (!atomic_load(&usable) || (lock->owner != NULL && lock->owner != self))
        return;
    atomic_store(&lock->owner, self);
    atomic_store(&lock->biased, self);
}

void ag_lock_give_slow(struct ag_lock *lock, const void *self)
{
    atomic_store_explicit(&lock->shared, false, memory_order_relaxed);
    if (lock->run >= (uint32_t)AG_LOCK_RUN << lock->doubled)
        bias(lock, self);
    pthread_mutex_unlock(&lock->mutex);
}

void ag_lock_disown(struct ag_lock *lock, const void *self)
{
    if (atomic_load_explicit(&lock->owner, memory_order_relaxed) != self) /* nor will it be */
        return;
    /* Without the mutex: who has it may wait for the GPU. Only this thread gives the bias to
       itself, and while it is the owner no other thread becomes that. */
    const void *mine = self;
    (void)atomic_compare_exchange_strong(&lock->biased, &mine, NULL);
    atomic_store(&lock->owner, NULL);
}

void ag_lock_wake(struct ag_lock *lock)
{
    (void)quietly(SYS_futex, (long)&lock->inside, FUTEX_WAKE_PRIVATE, 1);
}
