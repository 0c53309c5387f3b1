/* SPDX-License-Identifier: MIT */
/* The biased lock where it has to call somebody: see lock.h. */
#include "engine/base/lock.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "observe/futex.h"
#include "observe/patience.h"
#include "policy/backoff.h"

static _Atomic bool biases = AG_LOCK_BY_TIME; /* there are any */

/* Revocations in the process so far; and how many of these, from the first one on, every thread has
   seen by now. */
static _Atomic uint64_t revocations, seen;

static bool is_inside(struct ag_lock *lock)
{
    return atomic_load_explicit(&lock->inside, memory_order_acquire) != 0;
}

/* Whether the mutex alone does not make its owner the owner of the lock. */
static bool is_contested(struct ag_lock *lock)
{
    return atomic_load_explicit(&lock->biased, memory_order_relaxed) != NULL ||
           atomic_load_explicit(&lock->unnoticed, memory_order_relaxed) != 0 || is_inside(lock);
}

/* By the thread that had the bias, outside, where it has found it gone. It gets none until it has
   been through here: so what it says is about the last revocation. */
static void notice(struct ag_lock *lock)
{
    atomic_thread_fence(memory_order_acquire);
    if (atomic_exchange(&lock->unnoticed, 0) != 0)
        ag_futex(&lock->unnoticed, FUTEX_WAKE_PRIVATE, 1, NULL);
}

static void notice_own(struct ag_lock *lock, const void *self)
{
    if (atomic_load_explicit(&lock->owner, memory_order_relaxed) == self &&
        atomic_load_explicit(&lock->unnoticed, memory_order_relaxed) != 0)
        notice(lock);
}

/* Revokes the bias; false: there is none. Wants the mutex. */
static bool take_bias(struct ag_lock *lock)
{
    if (atomic_load_explicit(&lock->biased, memory_order_relaxed) == NULL)
        return false;
    (void)ag_backoff_next(&lock->longer, AG_LOCK_RUN);
    atomic_store(&lock->unnoticed, 1);
    atomic_store(&lock->biased, NULL);
    lock->revoked = atomic_fetch_add(&revocations, 1) + 1;
    return true;
}

/* Whether it is certain that the thread that had the bias does not believe to have it still. Wants
   the mutex. */
static bool is_settled(struct ag_lock *lock)
{
    if (atomic_load_explicit(&lock->unnoticed, memory_order_acquire) == 0)
        return true;
    if (atomic_load(&seen) < lock->revoked)
        return false;
    atomic_store(&lock->unnoticed, 0);
    return true;
}

/* Has every thread see what this one has written, and the other way round. False: that takes time.
 */
static bool barrier(int command)
{
    int saved = errno;
    bool made = !AG_LOCK_BY_TIME && syscall(SYS_membarrier, command, 0, 0) == 0;
    errno = saved;
    return made;
}

void ag_lock_prepare(void)
{
    if (!AG_LOCK_BY_TIME)
        atomic_store(&biases, barrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED));
}

/* Waits until every thread sees what was written before, or the word is 0. Whether it was not 0 for
   the whole time. */
static bool wait_until_seen(uint64_t *slept, _Atomic uint32_t *word)
{
    if (barrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED))
        return true;
    if (!AG_LOCK_BY_TIME)
        atomic_store(&biases, false); /* a sandbox has come that refuses it */
    return !ag_patience_awaits(slept, AG_LOCK_VISIBLE_NS, word, 1);
}

/* Waits until the revocation has settled. One wait is for all biases that were revoked before it.
   Wants the mutex. */
static void settle(struct ag_lock *lock)
{
    uint64_t slept = 0, before, all = atomic_load(&revocations);
    while (!is_settled(lock)) {
        if (!wait_until_seen(&slept, &lock->unnoticed))
            continue;
        before = atomic_load(&seen);
        while (before < all && !atomic_compare_exchange_weak(&seen, &before, all))
            continue;
    }
}

static __attribute__((noinline)) void revoke_and_wait(struct ag_lock *lock)
{
    (void)take_bias(lock);
    settle(lock);
    for (unsigned i = 0; is_inside(lock); i++)
        if (i >= AG_LOCK_SPINS)
            ag_futex(&lock->inside, FUTEX_WAIT_PRIVATE, 1, NULL);
}

void ag_lock_revoke(struct ag_lock *lock, const void *self)
{
    const void *biased = atomic_load_explicit(&lock->biased, memory_order_relaxed);
    if (biased == NULL || biased == self || pthread_mutex_trylock(&lock->mutex) != 0)
        return;
    (void)take_bias(lock);
    pthread_mutex_unlock(&lock->mutex);
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
    notice_own(lock, self);
    pthread_mutex_lock(&lock->mutex);
    if (is_contested(lock))
        revoke_and_wait(lock);
    own(lock, self);
}

/* Who tries does not wait for a thread that is inside, but for a revocation, which ends. */
static __attribute__((noinline)) bool revoked_at_once(struct ag_lock *lock)
{
    (void)take_bias(lock);
    settle(lock);
    return !is_inside(lock);
}

bool ag_lock_try_slow(struct ag_lock *lock, const void *self)
{
    notice_own(lock, self);
    if (pthread_mutex_trylock(&lock->mutex) != 0)
        return false;
    if (is_contested(lock) && !revoked_at_once(lock)) {
        pthread_mutex_unlock(&lock->mutex);
        return false;
    }
    own(lock, self);
    return true;
}

static __attribute__((noinline)) void bias(struct ag_lock *lock, const void *self)
{
    lock->run = 0;
    if ((lock->owner != NULL && lock->owner != self) || !atomic_load(&biases))
        return;
    atomic_store(&lock->owner, self);
    atomic_store(&lock->biased, self);
}

void ag_lock_give_slow(struct ag_lock *lock, const void *self)
{
    atomic_store_explicit(&lock->shared, false, memory_order_relaxed);
    uint32_t longer = atomic_load_explicit(&lock->longer.last, memory_order_relaxed);
    if (lock->run >= (longer != 0 ? longer : AG_LOCK_RUN.first))
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
    notice(lock);
    atomic_store(&lock->owner, NULL);
}

void ag_lock_wake(struct ag_lock *lock)
{
    notice(lock);
    ag_futex(&lock->inside, FUTEX_WAKE_PRIVATE, 1, NULL);
}
