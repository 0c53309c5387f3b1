/* SPDX-License-Identifier: MIT */
/*
 * A biased lock: a mutex that costs its usual thread no atomic operation.
 *
 * One thread takes the lock of a stream for each op; others come rarely (the watchdog, barriers). A
 * thread that has taken a lock some times in a row gets the bias. It then enters by writing
 * `inside` and reading whether the lock is still biased to it.
 *
 * A processor may do these two in the other order. So another thread that comes takes the mutex,
 * revokes the bias and waits. It waits until the biased thread has noticed, and says so. Otherwise
 * it waits for a time in which every x86-64 makes visible what a thread has written. After that the
 * biased thread is either seen inside, and waited for, or has lost the bias for good.
 * (membarrier(2) would be faster, but a sandbox may kill a process for it.)
 *
 * No other architecture promises such a time. There membarrier(2) takes the place of the wait, and
 * without it there is no bias.
 *
 * As long as a thread lives that has had the bias of a lock, no other thread gets it. A thread that
 * is stopped between finding the bias and writing `inside` would write over what the other wrote.
 *
 * Each revocation but the first makes it longer how often the lock must be taken in a row, so that
 * revocations cost less than the bias saves.
 */
#ifndef AG_ENGINE_LOCK_H
#define AG_ENGINE_LOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "policy/backoff.h"

/* Whether a revocation is waited for by time. */
#ifndef AG_LOCK_BY_TIME
#ifdef __x86_64__
#define AG_LOCK_BY_TIME 1
#else
#define AG_LOCK_BY_TIME 0
#endif
#endif

enum {
    AG_LOCK_SPINS = 100, /* looks before a thread sleeps: mostly the other one is inside for as long
                            as an op takes */
    /* After so many ns every thread sees what a thread wrote before it read something. A processor
       has some hundred writes under way at most, each for a few microseconds at most. */
    AG_LOCK_VISIBLE_NS = 1000000
};

/* Times in a row that a thread takes the lock before it gets the bias: a revocation may take 1 ms,
   and costs more than the bias saves. */
static const struct ag_growth AG_LOCK_RUN = {64, 8, 1 << 21};

/* All zero: free, and biased to nobody. (So is glibc's mutex.) */
struct ag_lock {
    const void *_Atomic biased; /* the thread that has the bias; NULL: none */
    _Atomic uint32_t inside;    /* 1: that thread has the lock, without the mutex; a futex */
    _Atomic uint32_t unnoticed; /* 1: the bias is revoked, and its thread may not know; a futex */
    _Atomic bool shared;        /* whoever has the lock has it by the mutex, and there is no bias */
    pthread_mutex_t mutex;

    /* Written under the mutex. */
    const void *_Atomic owner; /* the only thread to which it may be biased; NULL: not chosen yet */
    const void *_Atomic last;  /* the thread that had the mutex last */
    uint32_t run;              /* times in a row that this thread had it */
    struct ag_backoff longer;  /* the run that is needed for the bias, since it was revoked */
    uint64_t revoked;          /* the number of its last revocation among those of the process */
};

/* Asks the system for what biases need. Until it has been called there may be none. */
void ag_lock_prepare(void);

/* Revokes the bias of another thread, if there is one, and does not wait. A thread that is about to
   take several locks revokes all first: otherwise it would wait for each. */
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

/* The thread of the bias takes the lock. False: the lock is not biased to this thread. */
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

/* Takes the lock unless another thread has it. Waits for a revocation: 1 ms at most. */
static inline bool ag_lock_try(struct ag_lock *lock, const void *self)
{
    return ag_lock_enter(lock, self) || ag_lock_try_slow(lock, self);
}

/* Gives the lock back, whichever way it was taken. */
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
