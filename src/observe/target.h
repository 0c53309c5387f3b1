/* SPDX-License-Identifier: MIT */
/* The place where the library is about to write a file: it must not overwrite anybody's files. */
#ifndef AG_TARGET_H
#define AG_TARGET_H

#include <stdbool.h>
#include <sys/stat.h>

struct ag_target {
    bool exists;
    struct stat st; /* of what a symbolic link leads to; if it exists */
};

/*
 * Looks at what is at this name. 0: it may be written. Nothing is there, or an empty regular file,
 * a pipe, a character device, or a file that begins like `ours` or `older` (which may be NULL).
 * EEXIST: something else is there, or the file of another user in a directory that everybody may
 * write. It stays as it is. Otherwise the errno of what failed.
 */
int ag_target_look(const char *name, const char *ours, const char *older, struct ag_target *target);

/* Locks the directory of the name against others that ask for it, until the descriptor is closed or
   the process ends. Waits 100 ms at most, and goes on without the lock then, or where there is
   none. -1: the directory cannot be opened. */
int ag_target_lock(const char *name);

/* Whether there is a regular file at this name, and no link to one, or nothing. */
bool ag_target_is_plain(const char *name);

/* Opens what was looked at, for writing; a file that was not there must not be there now. -1:
 * errno. */
int ag_target_open(const char *name, const struct ag_target *target, int flags);

/*
 * Puts a new file with these rights at this name, as a whole, so that nobody reads half of it:
 * `write` writes `data` to a temporary file beside it, of a name that no other process has. Where
 * the file must be new, one that is there stays, if the file system allows that. Returns 0, or the
 * errno of what failed, which `write` returns, too.
 */
int ag_target_replace(const char *name, mode_t mode, bool is_new,
                      int (*write)(int fd, const void *data), const void *data);

#endif
