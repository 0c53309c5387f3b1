/* SPDX-License-Identifier: MIT */
/* The watchdog's thread: when it looks, and who waits for it. */
#include "engine/base/watchdog.h"

#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "config/config.h"
#include "engine/base/lock.h"
#include "engine/hot.h"
#include "mutant.h"
#include "observe/futex.h"
#include "observe/patience.h"
#include "observe/thread.h"

static void (*look)(void);
static bool (*serve)(unsigned request, enum ag_reason reason);
static _Atomic bool started;
static _Atomic uint32_t calls; /* times that it was woken; a futex */
static _Atomic bool stop;
static _Atomic unsigned requests, done;  /* flushes that other threads wait for */
static _Atomic enum ag_reason requested; /* why the last one was asked for */
static _Atomic bool asleep = true;       /* or not started */
static _Atomic unsigned watched;         /* holds */

static void wake_up(void)
{
    atomic_fetch_add(&calls, 1);
    ag_futex(&calls, FUTEX_WAKE_PRIVATE, 1, NULL);
}

/* Sleeps until it is woken, or has been since it was the `seen` time, or `time` (not NULL) is over.
 */
static void nap(uint32_t seen, const struct timespec *time)
{
    ag_futex(&calls, FUTEX_WAIT_PRIVATE, seen, time);
}

bool ag_watchdog_flush(enum ag_reason reason)
{
    if (!ag_anything_held() || !atomic_load(&started)) /* then nothing stays held */
        return true;
    atomic_store(&requested, reason);
    unsigned mine = atomic_fetch_add(&requests, 1) + 1;
    wake_up();
    for (uint64_t slept = 0; (int)(atomic_load(&done) - mine) < 0;)
        if (atomic_load(&stop) || !ag_patience_lasts(&slept, AG_PATIENCE_LONG_NS))
            return false;
    return true;
}

/* Waits until there is a hold to watch or a flush to serve. False: it is to stop, and stays asleep
   for who asks: nothing is held any more. */
static bool await_work(void)
{
    for (;;) {
        uint32_t seen = atomic_load(&calls);
        /* The other side counts its hold, then reads `asleep`: one of the two sees the other. */
        atomic_store(&asleep, true);
        bool holds = atomic_load(&watched) != 0;
        if (!holds && atomic_load(&stop))
            return false;
        if (holds || atomic_load(&requests) != atomic_load(&done))
            break;
        nap(seen, NULL);
    }
    atomic_store(&asleep, false);
    return true;
}

static struct timespec tick; /* the time between two looks; constant once it runs */

static void set_tick(void)
{
    cpu_set_t cpus;
    bool alone = sched_getaffinity(0, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) == 1;
    long us = ag_opt.hold_bound_us * (alone ? AG_WATCHDOG_ALONE : 1) / AG_WATCHDOG_LOOKS;
    tick = (struct timespec){.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
}

/*
 * A thread of real-time priority that spins leaves its CPU to nobody of the same. Who began the
 * watchdog may be such a one, and bound to that CPU: both are inherited. Where it may not have more
 * priority, it goes to any CPU that the process may use.
 */
static void outrank(void)
{
    int policy = sched_getscheduler(0);
    struct sched_param most = {.sched_priority = sched_get_priority_max(policy)};
    cpu_set_t all;
    if ((policy != SCHED_FIFO && policy != SCHED_RR) || sched_setscheduler(0, policy, &most) == 0)
        return;
    memset(&all, 0xff, sizeof all);
    (void)sched_setaffinity(0, sizeof all, &all);
}

/* What it asks of the system, once: a sandbox may forbid it later. */
static void prepare(void)
{
    outrank();
    set_tick();
    ag_lock_prepare();
    /* A thread may oversleep by 50 us otherwise, half of the time between two looks. */
    (void)prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
}

/* Where a lock is taken it tries again at the next look. */
static void serve_requests(void)
{
    unsigned last = atomic_load(&requests);
    if (last != atomic_load(&done) && serve(last, atomic_load(&requested)))
        atomic_store(&done, last);
}

enum { IDLE_LOOKS = 32 }; /* in a row that find no hold to watch, after which it sleeps */

static void run(struct ag_own_thread *self)
{
    (void)self;
    while (await_work()) {
        for (unsigned idle = 0; idle < IDLE_LOOKS; idle++) {
            uint32_t seen = atomic_load(&calls);
            serve_requests();
            nap(seen, &tick); /* signals are blocked here */
            if (atomic_load(&watched) != 0)
                idle = 0;
            if (!AG_MUTANT(watchdog_sleeps))
                look();
        }
    }
}

bool ag_watchdog_start(void (*looks)(void), bool (*serves)(unsigned, enum ag_reason))
{
    static struct ag_own_thread watchdog = {.name = "ag-watchdog", .prepare = prepare, .run = run};
    look = looks;
    serve = serves;
    atomic_store(&started, ag_thread_start(&watchdog));
    return started;
}

/* False: there is no watchdog. */
static bool awake(void)
{
    if (__builtin_expect(!atomic_load(&asleep), 1))
        return true;
    if (!started || stop)
        return false;
    atomic_store(&asleep, false); /* it will be: the next hold need not say so, too */
    wake_up();
    return true;
}

bool ag_watchdog_watch(void)
{
    atomic_fetch_add(&watched, 1);
    if (awake())
        return true;
    ag_watchdog_unwatch();
    return false;
}

void ag_watchdog_unwatch(void)
{
    atomic_fetch_sub(&watched, 1);
}

bool ag_watchdog_watches(void)
{
    return atomic_load(&watched) != 0;
}

void ag_watchdog_stop(void)
{
    atomic_store(&stop, true);
    wake_up();
}
