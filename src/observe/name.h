/* SPDX-License-Identifier: MIT */
/* The names of files that the library writes: patterns in them, and how they are written to. */
#ifndef AG_NAME_H
#define AG_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "config/config.h"

/*
 * Replaces %p by the process number, %h by the host name, %r by the rank that the launcher of a
 * parallel program gave in the environment (0 without one), %% by a percent sign. The name is one
 * from the directory that the process began in. False: it becomes too long.
 */
bool ag_name_expand(const char *pattern, char name[AG_PATH_MAX]);

/* Whether the name will stay as it is: the program itself may set its rank later. */
bool ag_name_is_settled(const char *pattern);

/* Whether no launcher has given a rank, or the first. */
bool ag_name_is_of_first_rank(void);

/* As write(), but that nothing happens to the thread: no SIGPIPE, no SIGXFSZ, no cancellation. */
ssize_t ag_write(int fd, const void *data, size_t size);

/* Writes all; 0, or the errno of what failed. */
int ag_write_all(int fd, const void *data, size_t size);

#endif
