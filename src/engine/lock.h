/* SPDX-License-Identifier: MIT */
/*
 * A biased lock: a mutex that costs its usual thread no atomic operation.
 *
 * One thread takes the lock of a stream for each op; others come rarely (the watchdog, barriers). A
 * thread that has taken a lock some times in a row gets the bias: it then enters by writing
 * `inside` and reading whether the lock is still biased to it. A processor may do these in the
 * other order. So whoever else comes takes the mutex, revokes the bias, and waits until the thread
 * has noticed, which it says where it finds the bias gone; or else for a time in which every
 * processor makes visible what a thread has written. Then the thread has lost the bias for good, or
 * it is seen inside, and waited for. (membarrier(2) would be faster, and is a system call that a
 * sandbox may answer by killing the process.)
 *
 * While a thread lives to which a lock has been biased, it is never biased to a second one: a
 * thread that is stopped between finding the bias and writing `inside` would write over what that
 * one wrote.
 *
 * Each revocation doubles how often the lock must be taken in a row, so that their cost stays below
 * what the bias saves. One for which a thread has waited all of the time counts for many, but for
 * the first ones of the process.
 */
#ifndef AG_ENGINE_LOCK_H
#define AG_ENGINE_LOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* How often a lock must be taken in a row for its first bias; how often that is doubled at most,
   and at least once a thread has waited 1 ms for a revocation, so for 16,384 ops; and how many such
   waits a process may have before: 8 ms in all. */
enum { AG_LOCK_RUN = 64, AG_LOCK_DOUBLED = 16, AG_LOCK_SELDOM = 8, AG_LOCK_WAITS = 8 };

/* After so long everybody sees what a thread has written before it read something. A processor has
   some hundred writes that wait for memory at most, each for less than a few microseconds. */
enum { AG_LOCK_VISIBLE_NS = 1000000 };

/* All zero: free, and biased to nobody. (So is glibc's mutex.) */
struct ag_lock {
    const void *_Atomic biased; /* to the thread of this name; NULL: to none */
    _Atomic uint32_t inside;    /* that thread is, without the mutex; a futex */
    _Atomic uint32_t unnoticed; /* the bias is revoked, perhaps unknown to its thread; a futex */
    _Atomic bool shared;        /* who holds the lock has the mutex, and the lock is not biased */
    pthread_mutex_t mutex;

    /* Written under the mutex. */
    const void *_Atomic owner; /* the only thread to which it may be biased; NULL: not chosen yet */
    const void *_Atomic last;  /* who had the mutex last */
    uint32_t run;              /* times in a row */
    uint32_t doubled;          /* how often was doubled what is needed of these for the bias */
    uint64_t revoked;          /* when that was last done, ns */
};

/* Revokes the bias of another thread, if there is one, and does not wait: for who is about to take
   several locks, and would wait for each. */
void ag_lock_revoke(struct ag_lock *lock, const void *self);

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

/* Takes the lock unless another thread has it, or has had its bias until a moment ago. */
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

/* Whether it has been biased to another thread until a moment ago. */
static inline bool ag_lock_is_settling(const struct ag_lock *lock)
{
    return atomic_load_explicit(&lock->unnoticed, memory_order_relaxed) != 0;
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
