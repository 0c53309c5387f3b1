/* SPDX-License-Identifier: MIT */
/*
 * Start, fork and exit. There is no constructor: the first address in libcuda starts everything.
 * (What is looked at whenever an object was loaded is in pointers.c.)
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/config.h"
#include "config/cuda.h"
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

void ag_give_up(const char *why)
{
    if (!atomic_exchange(&gave_up, true))
        ag_engine_stop(why);
}

static void at_exit(void)
{
    /* A child: the report is its parent's. in_child() does not know of _Fork() and clone(). */
    if (user != getpid())
        return;
    if (!atomic_exchange(&gave_up, true))
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
    if (!dlvsym) /* musl.c */
        return;
    const char *disable = getenv("AUTOGRAPH_DISABLE");
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
    if (!started && !asked) {
        /* Some calls of the driver would pass what is held by others. */
        ag_log(AG_LOG_WARNING, "another library's dlsym() hides the driver's functions: "
                               "it has to be preloaded behind this one");
        gave_up = true;
        started = true;
    } else if (!started) {
        ag_real = driver;
        ag_route_fill(addresses);
        ag_engine_start();
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
    return !gave_up;
}

static void register_exit(void)
{
    if (atexit(at_exit) != 0)
        return;
    user = getpid();
    if (enabled)
        ag_watch_start();
}

static bool initialised; /* guarded by the lock */

/* Variables of CUDA count as the driver finds them when it is initialised. */
void ag_driver_initialises(void)
{
    pthread_mutex_lock(&lock);
    if (!initialised)
        ag_cuda_load();
    if (!initialised && ag_cuda.forbids != NULL && !atomic_exchange(&gave_up, true)) {
        ag_log(AG_LOG_WARNING, "nothing is held: %s", ag_cuda.forbids);
        ag_engine_abstain(ag_cuda.forbids);
    }
    pthread_mutex_unlock(&lock);
}

void ag_driver_initialised(bool success)
{
    pthread_mutex_lock(&lock);
    initialised |= success;
    pthread_mutex_unlock(&lock);
    /* The driver has just registered its own handler: ours runs before it. */
    pthread_once(&once_initialised, register_exit);
}
