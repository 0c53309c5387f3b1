/* SPDX-License-Identifier: MIT */
/*
 * Start, fork and exit. The first use of a libcuda starts everything: before, the library remembers
 * what the process began with (config/initial.h), and looks at objects that were loaded (bind.c).
 */
#include "preload/preload.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/config.h"
#include "config/cuda.h"
#include "config/initial.h"
#include "engine/calls/watch.h"
#include "engine/engine.h"
#include "observe/log.h"
#include "observe/range.h"
#include "observe/verbose.h"
#include "preload/objects.h"

static pthread_once_t once_configured = PTHREAD_ONCE_INIT;
static pthread_once_t once_initialised = PTHREAD_ONCE_INIT;
static pthread_once_t once_succeeded = PTHREAD_ONCE_INIT;
static bool enabled; /* constant once configured */
static _Atomic bool gave_up;
static _Atomic pid_t user; /* the process in which the program has called cuInit(), or 0 */

/* Once, as soon as there are options to say whether. */
static void say_why(void)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;
    if (enabled && ag_engine_stopped() != NULL && !atomic_flag_test_and_set(&said))
        ag_log(ag_verbose_level(), "nothing is held: %s", ag_engine_stopped());
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
    say_why();
}

bool ag_gave_up(void)
{
    return gave_up;
}

static void at_exit(void)
{
    /* A child: the report is its parent's. in_child() does not know of _Fork() and clone(). */
    static atomic_flag over = ATOMIC_FLAG_INIT;
    if (user != getpid() || atomic_flag_test_and_set(&over))
        return;
    gave_up = true;
    ag_engine_leave();
    ag_watch_stop();
}

/* A look-up may wait for the doors, and no range for a look-up. */
static void before_fork(void)
{
    ag_range_before_fork();
    ag_doors_lock();
}

static void behind_fork(void)
{
    ag_doors_unlock();
    ag_range_behind_fork();
}

/*
 * CUDA does not work in the child of a process that has initialised it, and what is held is the
 * parent's. A child from before that may start over on its own.
 */
static void in_child(void)
{
    behind_fork();
    if (user == 0)
        return;
    user = 0;
    ag_watch_child();
    gave_up = true;
    atomic_store(&ag_engine_on, false);
    atomic_store(&ag_subscribers, 0);
    atomic_store(&ag_next_subscribers, 0);
}

/* Not by pthread_once(): in the child of a fork that comes meanwhile it would begin again, and each
   lock would be taken twice. */
bool ag_watches_forks(void)
{
    static atomic_flag asked = ATOMIC_FLAG_INIT;
    static _Atomic bool failed;
    if (!atomic_flag_test_and_set(&asked))
        failed = pthread_atfork(before_fork, behind_fork, in_child) != 0;
    return !failed;
}

bool ag_switched_off(void)
{
    const char *disable = ag_initial_variable("AUTOGRAPH_DISABLE");
    return disable && *disable && strcmp(disable, "0") != 0;
}

static void complain(const char *mistake)
{
    ag_log(AG_LOG_ALWAYS, "%s", mistake);
}

static void configure(void)
{
    if (!dlvsym) /* musl.c */
        return;
    if (ag_switched_off())
        return;
    ag_config_load(complain);
    const char *off = ag_config_off();
    if (off != NULL && ag_opt.log_verbose)
        ag_log(AG_LOG_ALWAYS, "nothing is held: %s", off);
    enabled = off == NULL && ag_watches_forks();
}

bool ag_enabled(void)
{
    pthread_once(&once_configured, configure);
    say_why();
    return enabled;
}

void ag_start(void)
{
    ag_engine_start();
    say_why();
}

static void register_exit(void)
{
    if (atexit(at_exit) != 0)
        return;
    user = getpid();
    if (enabled)
        ag_watch_start();
}

/* NVIDIA's driver reads CUDA_LAUNCH_BLOCKING behind cuInit(), before it makes a context (driver
   580). Variables count as they are at either time, until there is a context. */
void ag_driver_reads_variables(bool for_good)
{
    static _Atomic bool known; /* written under the lock */
    if (known)
        return;
    ag_doors_lock();
    const char *forbids = known ? NULL : ag_cuda_load();
    known |= for_good;
    ag_doors_unlock();
    if (forbids != NULL)
        ag_give_up("%s", forbids);
}

/* Another driver's cuInit() may have failed before. */
static void register_again(void)
{
    (void)atexit(at_exit);
}

void ag_driver_initialised(bool success)
{
    /* The driver has just registered its own handler: ours runs before it. */
    pthread_once(&once_initialised, register_exit);
    if (success)
        pthread_once(&once_succeeded, register_again);
}
