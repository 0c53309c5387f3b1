/* SPDX-License-Identifier: MIT */
/*
 * Start, fork and exit. The first address in libcuda starts everything: the library's only constructor
 * does no more than remember what the process began with (config/initial.h).
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/config.h"
#include "config/initial.h"
#include "driver/driver.h"
#include "engine/engine.h"
#include "observe/log.h"
#include "preload/preload.h"

static pthread_once_t once_configured = PTHREAD_ONCE_INIT;
static pthread_once_t once_initialised = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the start */
static bool enabled;                                     /* constant once configured */
static _Atomic bool started;
static _Atomic bool gave_up;
static _Atomic pid_t user; /* the process in which the program has called cuInit(), or 0 */

static void say_why(void)
{
    ag_log(AG_LOG_WARNING, "nothing is held: %s", ag_engine_stopped());
}

void ag_give_up(const char *format, ...)
{
    static atomic_flag given = ATOMIC_FLAG_INIT;
    static char why[1024];
    bool first = !atomic_flag_test_and_set(&given);
    if (first) {
        va_list arguments;
        va_start(arguments, format);
        (void)vsnprintf(why, sizeof why, format, arguments);
        va_end(arguments);
    }
    atomic_store(&gave_up, true);
    ag_engine_stop(why); /* by whoever comes: nothing may be held when it goes on */
    if (first && started)
        say_why();
}

bool ag_gave_up(void)
{
    return gave_up;
}

static void at_exit(void)
{
    /* A child: the report is its parent's. in_child() does not know of _Fork() and clone(). */
    if (user != getpid())
        return;
    gave_up = true;
    ag_engine_leave();
    ag_watch_stop();
}

/*
 * CUDA does not work in the child of a process that has initialised it, and what is held is the
 * parent's. A child from before that may start over on its own.
 */
static void in_child(void)
{
    if (user == 0)
        return;
    user = 0;
    ag_watch_child();
    gave_up = true;
    atomic_store(&ag_engine_on, false);
    atomic_store(&ag_held_streams, 0);
    atomic_store(&ag_curious_streams, 0);
}

static void configure(void)
{
    const char *disable = ag_initial_variable("AUTOGRAPH_DISABLE");
    if (disable && *disable && strcmp(disable, "0") != 0)
        return;
    ag_config_load();
    enabled = ag_opt.general_enable && pthread_atfork(NULL, NULL, in_child) == 0;
}

/*
 * The loader's lock is taken by each look-up, and may be held by who comes here (a constructor in
 * dlopen()). So look-ups are made before our own lock is taken, by each thread that finds nothing
 * started; the first to finish wins.
 */
static __attribute__((noinline)) void start(void *libcuda)
{
    struct ag_driver driver;
    void *addresses[AG_SLOTS_KNOWN];
    ag_driver_resolve(&driver, libcuda, ag_dlsym);
    ag_route_look_up(libcuda, addresses);
    bool asked = ag_dlsym_is_asked(libcuda);
    pthread_mutex_lock(&lock);
    if (!started) {
        ag_real = driver;
        ag_route_fill(addresses);
        if (!asked) /* some calls of the driver would pass what is held by others */
            ag_give_up("another library's dlsym() hides the driver's functions: it has to be "
                       "preloaded behind this one");
        ag_engine_start();
        if (ag_engine_stopped() != NULL)
            say_why();
        started = true;
    }
    pthread_mutex_unlock(&lock);
}

bool ag_start(void *libcuda)
{
    pthread_once(&once_configured, configure);
    if (!enabled)
        return false;
    if (!started)
        start(libcuda);
    return true;
}

static void register_exit(void)
{
    if (atexit(at_exit) != 0)
        return;
    user = getpid();
    if (enabled)
        ag_watch_start();
}

void ag_driver_initialised(void)
{
    /* The driver has just registered its own handler: ours runs before it. */
    pthread_once(&once_initialised, register_exit);
}
