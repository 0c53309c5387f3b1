/* SPDX-License-Identifier: MIT */
/* The engine starts, stops for good, and leaves at exit. */
#include "engine/engine.h"

#include <pthread.h>

#include "driver/driver.h"
#include "engine/base/watchdog.h"
#include "engine/order/barrier.h"
#include "engine/order/find.h"
#include "engine/order/overdue.h"
#include "engine/stream/helper.h"
#include "mutant.h"
#include "observe/log.h"
#include "observe/verbose.h"

static _Atomic(const char *) stopped; /* why */

const char *ag_engine_stopped(void)
{
    return atomic_load(&stopped);
}

/* The first reason stays. */
static void note_stop(const char *why)
{
    const char *none = NULL;
    (void)atomic_compare_exchange_strong(&stopped, &none, why);
}

static _Atomic bool has_context;

/* Nothing has been held by then. */
static void prepare(void)
{
    atomic_store(&has_context, true);
    if (ag_helper_start() && ag_watchdog_start(ag_overdue_look, ag_overdue_serve))
        return;
    note_stop("there is no thread for the watchdog");
    ag_log(ag_verbose_level(), "nothing is held: %s", ag_engine_stopped());
    atomic_fetch_add(&ag_hold_bans, 1); /* as during a capture that does not end */
}

void ag_engine_context_begins(void)
{
    static pthread_once_t prepared = PTHREAD_ONCE_INIT;
    pthread_once(&prepared, prepare);
}

bool ag_engine_has_context(void)
{
    return atomic_load(&has_context);
}

void ag_engine_start(void)
{
    ag_thread_first = ag_engine_context_begins; /* unless a function known here has done that */
    ag_find_start();
    ag_contexts_start();
    /* Each older driver than 12.4 lacks one. */
    bool able = true;
#define X(name) able = able && ag_real.name != NULL;
    AG_DRIVER_FUNCTIONS(X)
#undef X
    if (!able)
        ag_engine_stop("the driver lacks functions that graphs need");
    atomic_store(&ag_engine_on, ag_engine_stopped() == NULL);
}

void ag_engine_stop(const char *why)
{
    note_stop(why);
    if (!ag_engine_on)
        return;
    /* As during a capture: other threads go on, and each flushes before it launches eagerly. */
    atomic_fetch_add(&ag_hold_bans, 1);
    if (ag_barrier_last())
        atomic_store(&ag_engine_on, false); /* who is still in the engine holds nothing */
    ag_watchdog_stop();
}

/* Whether this thread has been interrupted while it had locks of streams, which are given back
   never: they are marked. */
static bool interrupted(void)
{
    bool any = false;
    for (struct ag_stream *stream = ag_stream_all(); stream != NULL; stream = stream->place.next)
        if (ag_lock_is_mine(&stream->lock, &ag_self)) {
            ag_overdue_avoids(stream);
            any = true;
        }
    return any;
}

void ag_engine_leave(void)
{
    if (!ag_engine_on)
        return;
    atomic_fetch_add(&ag_hold_bans, 1);
    bool past = interrupted();
    if ((!AG_MUTANT(exit_leaves_held) && !ag_watchdog_flush(AG_REASON_EXIT)) || past)
        ag_depth++;
    ag_watchdog_stop();
}
