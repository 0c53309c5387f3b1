/* SPDX-License-Identifier: MIT */
/*
 * Everything that tells of the run: report, trace file, live counters, profile. Starts what the
 * options ask for, and feeds it from the engine's accounts.
 */
#include "engine/calls/watch.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

#include "config/config.h"
#include "engine/engine.h"
#include "engine/tell/account.h"
#include "engine/tell/learnt.h"
#include "observe/callsite.h"
#include "observe/live.h"
#include "observe/log.h"
#include "observe/observer.h"
#include "observe/patience.h"
#include "observe/range.h"
#include "observe/region.h"
#include "observe/reportfile.h"
#include "observe/signal.h"
#include "observe/tracefile.h"
#include "observe/verbose.h"

/* How often observers are served. */
enum {
    /* ns between two writes of the trace file: a thread's buffer must not be full before. */
    TRACE_NS = 2000000,
    /* ns between two updates of live counters, and looks whether a report was asked for. */
    SHOW_NS = 100000000,
    /* ns between two times that a profiler's tool is told of replays: so late a range may be. */
    RANGES_NS = 1000000,
    /* ns between two looks whether report and profile are current: a program that is killed lacks
       its last second at most. */
    KEEP_NS = 500000000,
    /* Their thread rests so many times as long as it took of a processor to write them: that is one
       percent at most. */
    KEEP_REST = 100
};

static uint64_t began; /* ns; constant once CUDA is initialised */
static bool live, observed, traced, ranges;

static bool is_told(void)
{
    return *ag_opt.report_file || ag_opt.report_stats || ag_opt.log_verbose ||
           *ag_opt.trace_profile;
}

static void gather(struct ag_account *account, bool exact)
{
    ag_account_gather(account, exact);
    account->stopped = ag_engine_stopped();
    account->seconds = (double)(ag_tracefile_clock() - began) * 1e-9;
}

/* Held by who writes report and profile; guards `over`. */
static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;
static bool over; /* the last ones are written */

/* A disk may not answer another thread. */
static bool begin_writing(void)
{
    uint64_t slept = 0;
    while (pthread_mutex_trylock(&writing) != 0)
        if (!ag_patience_lasts(&slept, AG_PATIENCE_LONG_NS))
            return false;
    return true;
}

/* `asked`: also in words. */
static void report(bool complete, bool asked)
{
    struct ag_account account;
    if (!is_told() || !begin_writing())
        return;
    gather(&account, true);
    account.complete = complete;
    over = complete;
    ag_report_write(&account);
    if (*ag_opt.trace_profile)
        (void)ag_learnt_write(&account, false);
    if (asked)
        ag_verbose_end(&account, ag_engine_has_context());
    ag_account_free(&account);
    pthread_mutex_unlock(&writing);
}

/* -- Files that are kept current ----------------------------------------------------- */

/* A program may be killed, or end by the system call. So its files are replaced while it runs. The
   thread has descriptors of its own: those of the program are the program's at any time. */

static bool keeps_report, keeps; /* constant once the thread is prepared */
static _Atomic bool failed;      /* the observer is to say so */

static void prepare_keeper(void)
{
    keeps = ag_thread_own_files();
}

/* Under the lock. The counters are those in the files. */
static void keep_current(struct ag_counters *counters)
{
    static bool told;
    struct ag_account account;
    gather(&account, false);
    if (memcmp(counters, &account.counters, sizeof *counters) != 0) {
        *counters = account.counters;
        /* Whoever finds the report current finds the profile so, too. */
        bool good = !*ag_opt.trace_profile || ag_learnt_write(&account, true);
        good = (!keeps_report || ag_report_keep(&account)) && good;
        atomic_store(&failed, !good && !told);
        told |= !good;
    }
    ag_account_free(&account);
}

/* ns that this thread has had of a processor. */
static uint64_t spent(void)
{
    struct timespec time;
    return clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) == 0
               ? (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec
               : 0;
}

static void keep(bool last)
{
    static struct ag_counters counters;
    static uint64_t rests = 1; /* looks that are left out; the first one comes at the beginning */
    if (last || !keeps || (rests != 0 && rests-- != 0))
        return;
    uint64_t before = spent();
    pthread_mutex_lock(&writing);
    if (!over)
        keep_current(&counters);
    pthread_mutex_unlock(&writing);
    rests = (spent() - before) * KEEP_REST / KEEP_NS;
    if (rests > KEEP_REST)
        rests = KEEP_REST; /* the program's clock may jump */
}

/* -- Threads ------------------------------------------------------------------------- */

static void show(void)
{
    struct ag_counters counters;
    struct ag_tracefile_state file;
    uint64_t streams;
    ag_account_peek(&counters, &streams);
    ag_tracefile_state(&file);
    ag_live_update(&counters, streams, file.bytes, file.lost, ag_region_current());
}

/* What the observer does. It waits for no lock that a thread may hold while it waits for CUDA. */
static void work(bool last)
{
    ag_tracefile_complain();
    if (live)
        show();
    bool asked = last || ag_signal_taken();
    if (asked || atomic_exchange(&failed, false))
        report(last, asked);
}

static struct ag_observer observer = {
    .thread.name = "ag-observer", .work = work, .interval = SHOW_NS};
static struct ag_observer tracer = {.thread.name = "ag-tracer",
                                    .thread.prepare = ag_tracefile_prepare,
                                    .work = ag_tracefile_work,
                                    .interval = TRACE_NS};
static struct ag_observer keeper = {.thread.name = "ag-keeper",
                                    .thread.prepare = prepare_keeper,
                                    .work = keep,
                                    .interval = KEEP_NS};

static struct ag_observer ranger = {
    .thread.name = "ag-ranges", .work = ag_range_work, .interval = RANGES_NS};

enum {
    FILES_TENTHS = 100, /* of a second that the exit waits: a disk may not answer */
    TOOL_TENTHS = 10,   /* likewise: a tool's callback may wait for the program */
};

/* Starts the threads that tell. False: the system gives none, and what tells nothing is closed. */
static bool start_observers(bool file)
{
    bool any = file || live || ag_opt.report_signal || is_told();
    observed = any && ag_observer_start(&observer);
    traced = file && observed && ag_observer_start(&tracer);
    keeps_report = ag_report_is_kept();
    if (observed && (keeps_report || *ag_opt.trace_profile))
        (void)ag_observer_start(&keeper); /* else the files are written at exit only */
    ag_observer_await(&observer);
    ag_observer_await(&tracer);
    ag_observer_await(&keeper);
    if (observed == any && traced == file)
        return true;
    ag_log(AG_LOG_ALWAYS, "no trace, no live counters and no reports: the system gives no thread");
    ag_tracefile_child();
    if (!observed)
        ag_live_close();
    return false;
}

void ag_watch_start(void)
{
    began = ag_tracefile_clock();
    ag_accounting = *ag_opt.report_file || *ag_opt.trace_profile;
    if (*ag_opt.trace_profile)
        ag_learnt_read();
    ag_callsite_prepare();
    ranges = ag_range_begin() && ag_observer_start(&ranger);
    if (!ranges)
        ag_range_child();
    /* Before anything shows from outside that the signal may be sent. */
    if (ag_opt.report_signal && !ag_signal_install())
        ag_log(AG_LOG_ALWAYS, "SIGUSR2 cannot be handled: %m");
    bool file = ag_tracefile_open();
    live = ag_opt.report_live && ag_live_open();
    if (start_observers(file) && file) {
        atomic_store(&ag_file_listens, 1);
        atomic_fetch_add(&ag_subscribers, 1);
    }
}

void ag_watch_stop(void)
{
    ag_tracefile_stop();
    if (ranges)
        ag_observer_stop(&ranger, TOOL_TENTHS);
    if (traced)
        ag_observer_stop(&tracer, FILES_TENTHS);
    if (observed) /* the report is its last work: this thread may have any lock, see the engine */
        ag_observer_stop(&observer, FILES_TENTHS);
    else
        report(true, true);
    ag_live_close();
}

_Atomic bool ag_unwatched;

void ag_watch_child(void)
{
    atomic_store(&ag_unwatched, true);
    ag_signal_child();
    ag_range_child();
    ag_tracefile_child();
    ag_observer_child(&observer);
    ag_observer_child(&tracer);
    ag_observer_child(&keeper);
    ag_observer_child(&ranger);
}
