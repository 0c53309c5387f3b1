/* SPDX-License-Identifier: MIT */
/*
 * Everything that tells of the run: report, trace file, live counters, profile. Starts what the
 * options ask for, and feeds it from the engine's accounts.
 */
#include "engine/watch.h"

#include "config/config.h"
#include "engine/account.h"
#include "engine/engine.h"
#include "engine/learnt.h"
#include "observe/callsite.h"
#include "observe/live.h"
#include "observe/log.h"
#include "observe/observer.h"
#include "observe/range.h"
#include "observe/region.h"
#include "observe/report.h"
#include "observe/signal.h"
#include "observe/tracefile.h"
#include "observe/verbose.h"
#include "policy/policy.h"

static uint64_t began; /* ns; constant once CUDA is initialised */
static bool live, observed, traced;

static void report(bool complete)
{
    struct ag_account account;
    bool learnt = complete && *ag_opt.trace_profile;
    if (!*ag_opt.report_file && !ag_opt.log_verbose && !learnt)
        return;
    ag_account_gather(&account);
    account.complete = complete;
    account.stopped = ag_engine_stopped();
    account.seconds = (double)(ag_tracefile_clock() - began) * 1e-9;
    ag_report_write(&account);
    if (learnt)
        ag_learnt_write(&account);
    if (complete)
        ag_verbose_end(&account, ag_engine_has_context());
    ag_account_free(&account);
}

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
    if (last || ag_signal_taken())
        report(last);
}

static struct ag_observer observer = {
    .thread.name = "ag-observer", .work = work, .interval = AG_TELL_SHOW_NS};
static struct ag_observer tracer = {.thread.name = "ag-tracer",
                                    .thread.prepare = ag_tracefile_prepare,
                                    .work = ag_tracefile_work,
                                    .interval = AG_TELL_TRACE_NS};

/* Starts the threads that tell. False: the system gives none, and what tells nothing is closed. */
static bool start_observers(bool file)
{
    bool any = file || live || ag_opt.report_signal || ag_accounting || ag_opt.log_verbose;
    observed = any && ag_observer_start(&observer);
    traced = file && observed && ag_observer_start(&tracer);
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
    ag_range_open();
    /* Before anything shows from outside that the signal may be sent. */
    if (ag_opt.report_signal && !ag_signal_install())
        ag_log(AG_LOG_ALWAYS, "SIGUSR2 cannot be handled: %m");
    bool file = ag_tracefile_open();
    live = ag_opt.report_live && ag_live_open();
    if (start_observers(file) && file) {
        atomic_store(&ag_file_listens, 1);
        atomic_fetch_add(&ag_listeners, 1);
    }
}

void ag_watch_stop(void)
{
    ag_tracefile_stop();
    if (traced)
        ag_observer_stop(&tracer);
    if (observed) /* the report is its last work: this thread may have any lock, see the engine */
        ag_observer_stop(&observer);
    else
        report(true);
    ag_live_close();
}

_Atomic bool ag_unwatched;

void ag_watch_child(void)
{
    atomic_store(&ag_unwatched, true);
    ag_signal_child();
    ag_tracefile_child();
    ag_observer_child(&observer);
    ag_observer_child(&tracer);
}
