/* SPDX-License-Identifier: MIT */
/*
 * A biased lock: a mutex that costs its usual thread no atomic operation.
 *
 * One thread takes the lock of a stream for each op; others come rarely (the watchdog, barriers). A
 * thread that has taken a lock some times in a row gets the bias: it then enters by writing
 * `inside` and reading whether the lock is still biased to it. A processor may do these in the
 * other order. So whoever else comes takes the mutex, revokes the bias, and has the kernel put a
 * memory barrier into all threads of the process (membarrier(2), MEMBARRIER_CMD_PRIVATE_EXPEDITED):
 * then either the thread sees that it has lost the bias, or it is seen inside, and waited for.
 *
 * While a thread lives to which a lock has been biased, it is never biased to a second one: a
 * thread that is stopped between finding the bias and writing `inside` would write over what that
 * one wrote.
 *
 * Each revocation doubles how often the lock must be taken in a row, so that their cost, some
 * microseconds of every thread, stays below what the bias saves.
 */
#ifndef AG_ENGINE_LOCK_H
#define AG_ENGINE_LOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* How often a lock must be taken in a row for its first bias; and how often that is doubled. */
enum { AG_LOCK_RUN = 64, AG_LOCK_DOUBLED = 10 };

/* All zero: free, and biased to nobody. (So is glibc's mutex.) */
struct ag_lock {
    const void *_Atomic biased; /* to the thread of this name; NULL: to none */
    _Atomic uint32_t inside;    /* that thread is, without the mutex; a futex */
    _Atomic bool shared;        /* who holds the lock has the mutex, and the lock is not biased */
    pthread_mutex_t mutex;

    /* Written under the mutex. */
    const void *_Atomic owner; /* the only thread to which it may be biased; NULL: not chosen yet */
    const void *_Atomic last;  /* who had the mutex last */
    uint32_t run;              /* times in a row */
    uint32_t doubled;          /* how often was doubled what is needed of these for the bias */
};

/* Lets locks be biased where the kernel can do it, soon: a thread asks it, for that takes ten
   milliseconds and more. */
void ag_lock_prepare(void);

/* The thread ends, and has not taken the lock: another one may have the bias. */
void ag_lock_disown(struct ag_lock *lock, const void *self);

/* The parts of the functions below that make calls. */
void ag_lock_take_slow(struct ag_lock *lock, const void *self);
bool ag_lock_try_slow(struct ag_lock *lock, const void *self);
void ag_lock_give_slow(struct ag_lock *lock, const void *self);
void ag_lock_wake(struct ag_lock *lock);

/* The thread of the bias goes out, or has found that it may not come in. */
static inline void ag_lock_leave(struct ag_lock *lock, const void *self)
{
    atomic_store_explicit(&lock->inside, 0, memory_order_release);
    atomic_signal_fence(memory_order_seq_cst); /* for the compiler; see above for the processor */
    if (__builtin_expect(atomic_load_explicit(&lock->biased, memory_order_relaxed) != self, 0))
        ag_lock_wake(lock);
}

static inline bool ag_lock_enter(struct ag_lock *lock, const void *self)
{
    if (__builtin_expect(atomic_load_explicit(&lock->biased, memory_order_relaxed) != self, 0))
        return false;
    atomic_store_explicit(&lock->inside, 1, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    if (__builtin_expect(atomic_load_explicit(&lock->biased, memory_order_acquire) == self, 1))
        return true;
    ag_lock_leave(lock, self);
    return false;
}

/* `self` names the calling thread, always by the same address. Not recursive. */
static inline void ag_lock_take(struct ag_lock *lock, const void *self)
{
    if (!ag_lock_enter(lock, self))
        ag_lock_take_slow(lock, self);
}

/* Takes the lock unless another thread has it. */
static inline bool ag_lock_try(struct ag_lock *lock, const void *self)
{
    return ag_lock_enter(lock, self) || ag_lock_try_slow(lock, self);
}

static inline void ag_lock_give(struct ag_lock *lock, const void *self)
{
    if (__builtin_expect(atomic_load_explicit(&lock->shared, memory_order_relaxed), 0))
        ag_lock_give_slow(lock, self);
    else
        ag_lock_leave(lock, self);
}

/* Whether the calling thread has the lock. For a signal handler, which may have interrupted it. */
static inline bool ag_lock_is_mine(const struct ag_lock *lock, const void *self)
{
    return atomic_load(&lock->shared)
               ? atomic_load_explicit(&lock->last, memory_order_relaxed) == self
               : atomic_load_explicit(&lock->inside, memory_order_relaxed) != 0 &&
                     atomic_load_explicit(&lock->owner, memory_order_relaxed) == self;
}

#endif
