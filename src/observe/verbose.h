/* SPDX-License-Identifier: MIT */
/*
 * The lines of the options log.verbose and report.stats: is the library at work in this process,
 * and what came of it? Messages of the log, with all that holds of these.
 */
#ifndef AG_VERBOSE_H
#define AG_VERBOSE_H

#include "observe/account.h"
#include "observe/log.h"

/* The level of a message that says why nothing is held. */
enum ag_log_level ag_verbose_level(void);

/* The process has made its first graph, of so many ops. */
void ag_verbose_first(uint32_t ops);

/* The process ends, or was asked how it stands, and its report is written. `used`: it has made a
   context. */
void ag_verbose_end(const struct ag_account *account, bool used);

#endif
