/* SPDX-License-Identifier: MIT */
/*
 * Messages on stderr, one line each, as the option log.level allows. Any thread may call this at
 * any time: it goes around stdio, allocates nothing, takes no lock and keeps errno. Where the
 * program has put another file in the place of its standard error nothing is written. Not for the
 * hot path.
 */
#ifndef AG_LOG_H
#define AG_LOG_H

enum ag_log_level {
    AG_LOG_ASKED = -1, /* what an option asks for */
    AG_LOG_ALWAYS,     /* mistakes in the configuration, and a report that cannot be written */
    AG_LOG_WARNING,
    AG_LOG_NOTE,
    AG_LOG_DETAIL
};

/*
 * Of ALWAYS and WARNING, a process prints a bounded number. Long messages are cut; control
 * characters become '?', so that a message stays one line. %m is the text of errno.
 */
void ag_log(enum ag_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
