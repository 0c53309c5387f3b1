/* SPDX-License-Identifier: MIT */
/* Ranges of NVTX. */
#include "observe/range.h"

#include <stddef.h>

#include "config/config.h"
#include "observe/log.h"

_Atomic bool ag_ranges;

#ifdef HAVE_NVTX

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>

/* No tool is a part of this library. */
#define NVTX_SUPPORT_STATIC_INJECTION_LIBRARY 0
#include <nvtx3/nvToolsExt.h>

#include "observe/patience.h"
#include "observe/region.h"

/* -- Notes ------------------------------------------------------------------ */

enum { ROOM = 1024 }; /* notes that are not told yet; a power of two */

/* Names of ranges, kept until the process ends. A place is NULL while it is free, and for a moment
   when it was taken. Both positions only grow. */
static const char *_Atomic notes[ROOM];
static _Atomic uint64_t taken, told, left_out;

static char name_of[AG_MOST_LENGTH + 1][32]; /* by the number of ops; constant once notes come */

/* This thread tells the tool. What the tool launches itself is in no range: each would be followed
   by the next for ever. */
static _Thread_local bool tells __attribute__((tls_model("initial-exec")));

void ag_range_note(uint32_t ops)
{
    if (tells)
        return;
    const char *region = ag_region_own();
    uint64_t place = atomic_load(&taken);
    do {
        if ((int64_t)(place - atomic_load(&told)) >= ROOM) {
            atomic_fetch_add(&left_out, 1);
            return;
        }
    } while (!atomic_compare_exchange_weak(&taken, &place, place + 1));
    atomic_store(&notes[place % ROOM],
                 region != NULL ? region : name_of[ops <= AG_MOST_LENGTH ? ops : 0]);
}

/* The name of the oldest note; NULL: there is none, or somebody is about to write it. */
static const char *next_note(void)
{
    uint64_t place = atomic_load(&told);
    const char *name = atomic_exchange(&notes[place % ROOM], NULL);
    if (name != NULL)
        atomic_store(&told, place + 1);
    return name;
}

/* -- The tool ------------------------------------------------------------------ */

static nvtxDomainHandle_t domain;

/* Held while code of the tool runs in the thread that tells, and while a thread of the program
   forks. */
static pthread_mutex_t inside = PTHREAD_MUTEX_INITIALIZER;

static void tell(const char *name)
{
    nvtxEventAttributes_t range = {
        .version = NVTX_VERSION,
        .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
        .messageType = NVTX_MESSAGE_TYPE_ASCII,
        .message.ascii = name,
    };
    pthread_mutex_lock(&inside);
    (void)nvtxDomainRangePushEx(domain, &range); /* returns how deep the ranges are */
    (void)nvtxDomainRangePop(domain);
    pthread_mutex_unlock(&inside);
}

static void tell_of_left_out(void)
{
    char name[64];
    uint64_t count = atomic_exchange(&left_out, 0);
    if (count == 0)
        return;
    (void)snprintf(name, sizeof name, "autograph: %" PRIu64 " launches are left out", count);
    tell(name);
}

static void find_tool(void)
{
    tells = true;
    pthread_mutex_lock(&inside);
    domain = nvtxDomainCreateA("autograph"); /* NULL: no tool listens */
    pthread_mutex_unlock(&inside);
    if (domain == NULL)
        atomic_store(&ag_ranges, false);
}

bool ag_range_begin(void)
{
    if (!ag_opt.report_nvtx)
        return false;
    for (unsigned ops = 0; ops <= AG_MOST_LENGTH; ops++)
        (void)snprintf(name_of[ops], sizeof name_of[ops], "autograph: %u ops", ops);
    atomic_store(&ag_ranges, true);
    return true;
}

void ag_range_work(bool last)
{
    (void)last;
    if (!tells)
        find_tool();
    if (domain == NULL)
        return;
    /* Those that are there: while the tool is told, others come. */
    for (uint64_t end = atomic_load(&taken); atomic_load(&told) != end;) {
        const char *name = next_note();
        if (name == NULL)
            break;
        tell(name);
    }
    tell_of_left_out();
}

/* -- Fork ------------------------------------------------------------------------ */

enum { FORK_NS = 1000000000 }; /* that a fork waits at most; to load a tool takes a part of it */

static _Thread_local bool forks __attribute__((tls_model("initial-exec")));

void ag_range_before_fork(void)
{
    static _Atomic bool hopeless; /* a callback has not come to its end */
    uint64_t slept = 0;
    if (!atomic_load(&ag_ranges) || tells || atomic_load(&hopeless))
        return;
    while (!(forks = pthread_mutex_trylock(&inside) == 0))
        if (!ag_patience_lasts(&slept, FORK_NS)) {
            atomic_store(&hopeless, true);
            return;
        }
}

void ag_range_behind_fork(void)
{
    if (forks)
        pthread_mutex_unlock(&inside);
    forks = false;
}

#else

bool ag_range_begin(void)
{
    if (ag_opt.report_nvtx)
        ag_log(AG_LOG_ALWAYS, "report.nvtx: the library was built without the headers of NVTX");
    return false;
}

void ag_range_work(bool last)
{
    (void)last;
}

void ag_range_note(uint32_t ops)
{
    (void)ops;
}

void ag_range_before_fork(void) {}

void ag_range_behind_fork(void) {}

#endif

void ag_range_child(void)
{
    atomic_store(&ag_ranges, false);
    ag_range_behind_fork();
}
