/* SPDX-License-Identifier: MIT */
/*
 * Where the exit report goes: to the file that the option report.file names, or to one beside it.
 */
#ifndef AG_REPORTFILE_H
#define AG_REPORTFILE_H

#include <stdbool.h>

#include "observe/account.h"

/*
 * Writes the report to where the option report.file says, or not at all if that is empty. "stderr"
 * is the standard error stream. In a file name %p becomes the process number, %h the host name, %%
 * a percent sign. %r becomes the rank that the launcher of a parallel program gave in the
 * environment, or 0. A file is replaced as a whole, so that nobody reads half a report, unless
 * its directory does not allow that, or it is what stdout or stderr writes to.
 * What fails gives one line on stderr, once. Keeps errno. Puts traces and cuts of the account in
 * order.
 */
void ag_report_write(const struct ag_account *account);

/* Where that has gone, once it is written: a name, or "stderr". NULL: to nowhere. */
const char *ag_report_place(void);

/*
 * Whether the report is to be kept current while the program runs: it goes to a file of its own
 * whose name is known. Once, by a thread that has the program's descriptors.
 */
bool ag_report_is_kept(void);

/* Writes the report as it stands to that file, by replacing it. False: what failed, which
   ag_report_write() says. Where it can only be written over nothing is done. */
bool ag_report_keep(const struct ag_account *account);

#endif
