/* SPDX-License-Identifier: MIT */
/*
 * The time that graphs have saved. This is the one rule: report, log.verbose and report.stats go by
 * it, and src/cmd/verdict.py has it for the commands.
 */
#ifndef AG_SAVING_H
#define AG_SAVING_H

#include "observe/account.h"

/* us, less than 0 where graphs were slower; making graphs is taken off. */
struct ag_saving {
    const char *unknown; /* why nobody knows it, and the rest is 0; NULL: it is known */
    double low, middle, high;
};

/*
 * By what the last trial measured of an op, two standard errors either way. Never more than the run
 * took. Unknown where no trial measured it, or where the driver is the simulated one. Unknown, too,
 * where even the nearer bound is more than the run: a trial of one pair may have met a pause.
 */
struct ag_saving ag_saving_of(const struct ag_account *account);

#endif
