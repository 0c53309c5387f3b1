/* SPDX-License-Identifier: MIT */
/*
 * The exit report: one JSON object, described in docs/formats.md.
 */
#ifndef AG_REPORT_H
#define AG_REPORT_H

#include "observe/account.h"

/*
 * Writes the report to where the option report.file says, or not at all if that is empty. "stderr"
 * is the standard error stream. In a file name %p becomes the process number, %h the host name, %r
 * the rank that the launcher of a parallel program gave in the environment (0 without one), %% a
 * percent sign. A file is replaced as a whole, so that nobody reads half a report, unless
 * its directory does not allow that, or it is what stdout or stderr writes to.
 * What fails gives one line on stderr. Keeps errno. Puts traces and cuts of the account in order.
 */
void ag_report_write(const struct ag_account *account);

#endif
