/* SPDX-License-Identifier: MIT */
/*
 * Functions that glibc has had only since 2.33 (glibc.h); before, sys/stat.h defined them. For this
 * library alone.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)

/* The kernel's struct stat is that of the C library, on x86-64 and aarch64. */
int stat(const char *restrict path, struct stat *restrict status)
{
    return (int)syscall(SYS_newfstatat, AT_FDCWD, path, status, 0);
}

int lstat(const char *restrict path, struct stat *restrict status)
{
    return (int)syscall(SYS_newfstatat, AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW);
}

int fstat(int file, struct stat *status)
{
    return (int)syscall(SYS_fstat, file, status);
}

#endif
