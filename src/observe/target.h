/* SPDX-License-Identifier: MIT */
/* What may stand at a name where the library writes: nothing of anybody's is written over. */
#ifndef AG_TARGET_H
#define AG_TARGET_H

#include <stdbool.h>
#include <sys/stat.h>

struct ag_target {
    bool exists;
    struct stat st; /* of what a symbolic link leads to; if it exists */
};

/*
 * Looks at what stands there. 0: nothing, a regular file that is empty or begins like `ours` or
 * `older` (which may be NULL), a pipe, or a device of characters. EEXIST: something else, or
 * something of somebody else's in a directory that everybody may write: it stays as it is. Or the
 * errno of what failed.
 */
int ag_target_look(const char *name, const char *ours, const char *older, struct ag_target *target);

/* Opens what was looked at, for writing; a file that was not there must not be there now. -1:
 * errno. */
int ag_target_open(const char *name, const struct ag_target *target, int flags);

#endif
