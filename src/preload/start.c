/* SPDX-License-Identifier: MIT */
/*
 * Start, fork and exit. There is no constructor: the first address in libcuda starts everything.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "autograph.h"
#include "config/config.h"
#include "driver/driver.h"
#include "engine/engine.h"
#include "observe/report.h"
#include "preload/preload.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_once_t once_initialised = PTHREAD_ONCE_INIT;
static void *libcuda;
static bool enabled;
static _Atomic bool gave_up;
static _Atomic bool initialised; /* the program has called cuInit() in this process */

void ag_give_up(void)
{
    if (!atomic_exchange(&gave_up, true))
        ag_engine_stop();
}

static void at_exit(void)
{
    if (!initialised) /* a forked child: the report is its parent's */
        return;
    struct ag_counters counters = {0};
    ag_give_up();
    ag_engine_counters(&counters);
    ag_report_write(&counters);
}

/*
 * CUDA does not work in the child of a process that has initialised it, and what is held is the
 * parent's. A child from before that may start over on its own.
 */
static void in_child(void)
{
    if (!initialised)
        return;
    initialised = false;
    gave_up = true;
    atomic_store(&ag_engine_on, false);
    atomic_store(&ag_held_streams, 0);
}

static void start(void)
{
    const char *disable = getenv("AUTOGRAPH_DISABLE");
    if (disable && *disable && strcmp(disable, "0") != 0)
        return;
    ag_config_load();
    if (!ag_opt.general_enable)
        return;
    if (pthread_atfork(NULL, NULL, in_child) != 0)
        return;
    ag_driver_resolve(libcuda, ag_dlsym);
    ag_route_fill(libcuda);
    ag_engine_start();
    enabled = true;
}

bool ag_start(void *handle)
{
    __atomic_store_n(&libcuda, handle, __ATOMIC_RELAXED); /* the same for all callers */
    pthread_once(&once, start);
    return enabled && !atomic_load_explicit(&gave_up, memory_order_relaxed);
}

static void register_exit(void)
{
    initialised = atexit(at_exit) == 0;
}

void ag_driver_initialised(void)
{
    /* The driver has just registered its own handler: ours runs before it. */
    pthread_once(&once_initialised, register_exit);
}

/* -- Public ---------------------------------------------------------------- */

AUTOGRAPH_API const char *autograph_version_string(void)
{
    return PACKAGE_VERSION;
}

AUTOGRAPH_API int autograph_version(void)
{
    char *rest = NULL;
    long major = strtol(PACKAGE_VERSION, &rest, 10);
    long minor = *rest == '.' ? strtol(rest + 1, &rest, 10) : 0;
    long patch = *rest == '.' ? strtol(rest + 1, &rest, 10) : 0;
    return (int)(major * 10000 + minor * 100 + patch);
}
