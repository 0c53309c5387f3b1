/* SPDX-License-Identifier: MIT */
/* The public interface, as the header describes it. */
#define AUTOGRAPH_IMPLEMENTATION
#include "autograph.h"

#include <stdlib.h>

#include "engine/base/clock.h"
#include "engine/calls/watch.h"
#include "engine/engine.h"
#include "engine/order/barrier.h"
#include "engine/tell/account.h"
#include "observe/definitions.h"
#include "observe/region.h"

int autograph_version(void)
{
    char *rest = NULL;
    long major = strtol(PACKAGE_VERSION, &rest, 10);
    long minor = *rest == '.' ? strtol(rest + 1, &rest, 10) : 0;
    long patch = *rest == '.' ? strtol(rest + 1, &rest, 10) : 0;
    return (int)(major * 10000 + minor * 100 + patch);
}

const char *autograph_version_string(void)
{
    return PACKAGE_VERSION;
}

/* -- Control ------------------------------------------------------------------- */

void autograph_flush(void)
{
    if (ag_depth == 0 && ag_engine_on && ag_anything_held()) {
        ag_cause = "autograph_flush";
        ag_barrier_all(AG_REASON_REQUEST);
    }
}

/* A pause is to the engine as a capture of the program: nothing is held anywhere. */
void autograph_pause(void)
{
    /* In this order: there are never more pauses than bans. */
    atomic_fetch_add(&ag_hold_bans, 1);
    atomic_fetch_add(&ag_pauses, 1);
    autograph_flush();
}

void autograph_resume(void)
{
    int pauses = atomic_load(&ag_pauses);
    while (pauses > 0 && !atomic_compare_exchange_weak(&ag_pauses, &pauses, pauses - 1))
        continue;
    if (pauses > 0)
        atomic_fetch_sub(&ag_hold_bans, 1);
}

#ifdef AG_TURNS
/* For tests/real/turns only: whether the engine is used, or calls go straight through their doors.
   No other thread may make one meanwhile. */
__attribute__((visibility("default"))) void autograph_engage(int on);
void autograph_engage(int on)
{
    static uint64_t since; /* it is out of use, ns; 0: it is in use */
    autograph_flush();
    if (on != 0 && since != 0)
        ag_clock_skip(since); /* or a trial would find what it takes without it */
    since = on != 0 ? 0 : ag_clock_now();
    atomic_store(&ag_engine_on, on != 0);
}
#endif

/* -- Numbers ------------------------------------------------------------------- */

int autograph_get_statistics(struct autograph_statistics *statistics)
{
    struct ag_counters c = {0};
    uint64_t streams;
    if (!ag_unwatched)
        ag_account_peek(&c, &streams);
    struct autograph_statistics known = {
        .size = statistics->size,
        .ops = c.ops,
        .replayed = c.replayed,
        .replays = c.replays,
        .patches = c.patches,
        .traces = c.traces,
        .side_exits = c.flushes[AG_REASON_SIDE_EXIT],
        .errors = c.errors,
    };
    for (unsigned i = 0; i < AG_REASON_COUNT; i++)
        known.flushes += c.flushes[i];
    size_t size = statistics->size;
    memset(statistics, 0, size);
    memcpy(statistics, &known, size < sizeof known ? size : sizeof known);
    return 1;
}

/* -- Regions ------------------------------------------------------------------- */

static struct ag_region_mark mark(void)
{
    struct ag_region_mark now = {0};
    if (ag_accounting) {
        struct ag_counters counters;
        uint64_t streams;
        ag_account_peek(&counters, &streams);
        now = (struct ag_region_mark){ag_tracefile_clock(), counters.ops, counters.replayed};
    }
    return now;
}

static void note(const char *name, bool end)
{
    if (name == NULL)
        return;
    uint32_t string = ag_define_string(name);
    struct ag_record *record = ag_record_begin(AG_RECORD_REGION, end, string, 0, 0);
    if (record != NULL)
        ag_record_end(record);
}

void autograph_region_begin(const char *name)
{
    if (ag_unwatched)
        return;
    struct ag_region_mark now = mark();
    const char *kept = ag_region_begin(name != NULL ? name : "", &now);
    AG_NOTE(note(kept, false));
}

void autograph_region_end(void)
{
    if (ag_unwatched)
        return;
    struct ag_region_mark now = mark();
    const char *kept = ag_region_end(&now);
    AG_NOTE(note(kept, true));
}
