/* SPDX-License-Identifier: MIT */
/* Looks before something is written over. */
#include "observe/target.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "config/config.h"
#include "config/fnv.h"

enum {
    BEGINNING_BYTES = 16,
    TRIES = 100, /* another process may replace a file while it is looked at, or take a name */
};

static bool is_own(const struct stat *st)
{
    return st->st_uid == geteuid();
}

/* The directory that the file is in, or is to be in. False: the name is too long. */
static bool directory_of(const char *name, char directory[AG_PATH_MAX])
{
    const char *slash = strrchr(name, '/');
    size_t length = slash == NULL ? 0 : slash == name ? 1 : (size_t)(slash - name);
    if (length >= AG_PATH_MAX)
        return false;
    memcpy(directory, name, length);
    strcpy(directory + length, length == 0 ? "." : "");
    return true;
}

/* Whether everybody may make files and links beside it. */
static bool is_public(const char *name)
{
    char directory[AG_PATH_MAX];
    struct stat st;
    return !directory_of(name, directory) || stat(directory, &st) != 0 ||
           (st.st_mode & S_IWOTH) != 0;
}

/* Whether the file is empty or begins so. What cannot be read is not known to. */
static bool begins(int fd, const char *ours, const char *older)
{
    char text[BEGINNING_BYTES + 1] = "";
    ssize_t n;
    do
        n = read(fd, text, BEGINNING_BYTES);
    while (n < 0 && errno == EINTR);
    return n == 0 || (n > 0 && (strncmp(text, ours, strlen(ours)) == 0 ||
                                (older != NULL && strncmp(text, older, strlen(older)) == 0)));
}

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* ESTALE: another file has come in its place. */
static int look_inside(const char *name, const char *ours, const char *older,
                       const struct stat *expected)
{
    struct stat st;
    int fd = open(name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return errno == ENOENT ? ESTALE : EEXIST;
    bool known = fstat(fd, &st) == 0;
    int error = known && !is_same(&st, expected)   ? ESTALE
                : known && begins(fd, ours, older) ? 0
                                                   : EEXIST;
    close(fd); /* it was only read */
    return error;
}

static int look(const char *name, const char *ours, const char *older, struct ag_target *target)
{
    struct stat link;
    *target = (struct ag_target){.exists = false};
    if (lstat(name, &link) != 0)
        return errno == ENOENT ? 0 : errno;
    if (stat(name, &target->st) != 0)
        return errno == ENOENT && !S_ISLNK(link.st_mode) ? ESTALE : errno; /* a link to nothing */
    target->exists = true;
    if (S_ISDIR(target->st.st_mode))
        return EISDIR;
    if (S_ISBLK(target->st.st_mode))
        return EEXIST;
    bool trusted = is_own(&link) || (S_ISLNK(link.st_mode) && link.st_uid == 0);
    if (!trusted && is_public(name))
        return EEXIST;
    return S_ISREG(target->st.st_mode) ? look_inside(name, ours, older, &target->st) : 0;
}

int ag_target_look(const char *name, const char *ours, const char *older, struct ag_target *target)
{
    int error = ESTALE;
    for (unsigned i = 0; i < TRIES && error == ESTALE; i++)
        error = look(name, ours, older, target);
    return error == ESTALE ? EEXIST : error;
}

int ag_target_lock(const char *name)
{
    char directory[AG_PATH_MAX];
    int fd =
        directory_of(name, directory) ? open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    for (unsigned i = 0; fd >= 0 && i < TRIES && flock(fd, LOCK_EX | LOCK_NB) != 0; i++) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            break; /* the file system has no locks of directories */
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return fd;
}

bool ag_target_is_plain(const char *name)
{
    struct stat st;
    return lstat(name, &st) == 0 ? S_ISREG(st.st_mode) : errno == ENOENT;
}

int ag_target_open(const char *name, const struct ag_target *target, int flags)
{
    struct stat st;
    flags |= O_WRONLY | O_CLOEXEC | O_NOCTTY;
    if (!target->exists)
        return open(name, flags | O_CREAT | O_EXCL | O_NOFOLLOW, 0666);
    int fd = open(name, flags);
    if (fd >= 0 && (fstat(fd, &st) != 0 || !is_same(&st, &target->st))) {
        close(fd); /* nothing was written to it */
        errno = EEXIST;
        return -1;
    }
    return fd;
}

/* Another number for each call in each process, also where processes have equal numbers, as in
   containers. It needs no system call. */
static uint32_t some_number(void)
{
    static _Atomic uint32_t calls;
    struct {
        uint64_t given;
        uint32_t process, call;
    } parts = {.process = (uint32_t)getpid(), .call = calls++};
    char bytes[sizeof parts] = {0};
    const void *random = (const void *)getauxval(AT_RANDOM); /* 16 bytes, by the kernel */
    if (random != NULL)
        memcpy(&parts.given, random, sizeof parts.given);
    memcpy(bytes, &parts, sizeof bytes);
    return (uint32_t)ag_fnv(bytes, sizeof bytes);
}

/* A new file beside the one of that name; -1: errno. */
static int open_temporary(const char *name, mode_t mode, char temporary[AG_PATH_MAX + 32])
{
    int fd = -1;
    errno = EEXIST;
    for (unsigned i = 0; i < TRIES && fd < 0 && errno == EEXIST; i++) {
        snprintf(temporary, AG_PATH_MAX + 32, "%s.%08x.tmp", name, some_number());
        fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    }
    return fd;
}

/* As link() and unlink(), or, on a file system without links, rename(). */
static int put_new(const char *temporary, const char *name)
{
    if (link(temporary, name) == 0)
        return unlink(temporary);
    return errno == EEXIST ? -1 : rename(temporary, name);
}

int ag_target_replace(const char *name, mode_t mode, bool is_new,
                      int (*write)(int fd, const void *data), const void *data)
{
    char temporary[AG_PATH_MAX + 32];
    int fd = open_temporary(name, mode, temporary);
    if (fd < 0)
        return errno;
    int error = write(fd, data);
    if (close(fd) != 0 && !error)
        error = errno;
    if (!error && (is_new ? put_new : rename)(temporary, name) != 0)
        error = errno;
    if (error)
        unlink(temporary);
    return error;
}
