/* SPDX-License-Identifier: MIT */
/*
 * Regions: what the program calls the parts of its run, and what was done in them. Each thread has
 * its own, nested; the work counted is that of all threads meanwhile.
 */
#ifndef AG_REGION_H
#define AG_REGION_H

#include <stdbool.h>
#include <stdint.h>

struct ag_region {
    const char *name; /* a kept string */
    uint64_t count;   /* times that it ended */
    uint64_t ns;
    uint64_t ops, replayed;
};

/* What had been done at a moment. */
struct ag_region_mark {
    uint64_t ns, ops, replayed;
};

/*
 * The calling thread enters and leaves a region; returns the kept name, or NULL: there are too
 * many, it nests too deeply, or there is none to leave. `mark` has the numbers of now.
 */
const char *ag_region_begin(const char *name, const struct ag_region_mark *mark);
const char *ag_region_end(const struct ag_region_mark *mark);

/* The one that was entered last and not left by its thread; NULL: none. */
const char *ag_region_current(void);

/* The one that the calling thread has entered last and not left; NULL: none. */
const char *ag_region_own(void);

/* The i-th, in the order of their first end; false: there are no more. */
bool ag_region_get(unsigned i, struct ag_region *region);

#endif
