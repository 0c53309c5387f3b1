/* SPDX-License-Identifier: MIT */
/*
 * The exit report: one JSON object, described in docs/formats.md.
 */
#ifndef AG_REPORT_H
#define AG_REPORT_H

/* How a report begins, and how it did before it had a format. */
#define AG_REPORT_BEGINNING "{\n  \"format\": "
#define AG_REPORT_OLDER     "{\n  \"version\": "

/* How that of a process of a run begins: with the run, then the process's number. */
#define AG_REPORT_OF_RUN AG_REPORT_BEGINNING "2,\n  \"run\": \"%s\",\n  \"pid\": "

enum { AG_RUN_MOST = 64 }; /* bytes of the name of a run */

/* What tells this run of a program from others, which the command autograph gives all processes
   that it starts: figures, dots and dashes. NULL: another way has led here. */
const char *ag_report_run(void);

/* Writes the report to a descriptor. Returns 0, or the errno of what failed. */
int ag_report_put(int fd, const void *account);

#endif
