/* SPDX-License-Identifier: MIT */
/*
 * The trace file. Each thread puts its records into a ring of its own, without a lock, and the
 * tracer, a thread of the library, writes them to the file. docs/formats.md describes the file.
 *
 * A full ring loses the record and counts it: no thread of the program ever waits for the disk.
 * Definitions (strings, functions, streams, traces) are rare, take a lock, and are never lost.
 * While no trace file is written, all that remains is one load and one branch in each AG_NOTE().
 */
#ifndef AG_TRACEFILE_H
#define AG_TRACEFILE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "observe/record.h"

/* Whether records are wanted now. Goes on once at most, and off for good. */
extern _Atomic bool ag_tracefile_on;

/* Whether the trace file is to be told of anything. */
#define AG_NOTING()                                                                                \
    __builtin_expect(atomic_load_explicit(&ag_tracefile_on, memory_order_relaxed), 0)

/* Tells the trace file something, if there is one. */
#define AG_NOTE(call)                                                                              \
    do {                                                                                           \
        if (AG_NOTING())                                                                           \
            call;                                                                                  \
    } while (0)

/*
 * Begins the file that the option trace.file names. False: there is none, since the
 * option is empty, or since something failed, which gives one line on stderr. The file itself is
 * opened with the first records: the launcher of a parallel program may only ask for the devices,
 * and would take the file name of the first rank.
 */
bool ag_tracefile_open(void);

/* What the thread that writes does first. */
void ag_tracefile_prepare(void);

/* What that thread does each time: writes what there is; the last time, ends the file. */
void ag_tracefile_work(bool last);

/* Says on stderr what went wrong. To be called by a thread that has the program's descriptors: the
   tracer has not. */
void ag_tracefile_complain(void);

/* No more records are wanted; what there is will be written by the last ag_tracefile_work(). */
void ag_tracefile_stop(void);

/* In a forked child: the file is the parent's. Safe after fork() in any state. */
void ag_tracefile_child(void);

/* The monotonic clock, ns, as all times of the file. */
uint64_t ag_tracefile_clock(void);

/* The same, or 0 while no trace file is written. */
static inline uint64_t ag_tracefile_now(void)
{
    return AG_NOTING() ? ag_tracefile_clock() : 0;
}

/*
 * A record of `words` words for the calling thread to fill, NULL if there is no room for it (which
 * is counted). Given to the writer by ag_record_end(), before the thread begins another.
 * `time` 0: now. The words are not zeroed.
 */
struct ag_record *ag_record_begin(unsigned type, unsigned sub, uint32_t id, uint64_t time,
                                  size_t words);
void ag_record_end(const struct ag_record *record);

/* What became of the file: its name (empty: none was written), its bytes, the records lost, and
   the error that ended it (0: none). */
struct ag_tracefile_state {
    const char *file;
    uint64_t bytes;
    uint64_t lost;
    int error;
};
void ag_tracefile_state(struct ag_tracefile_state *state);

#endif
