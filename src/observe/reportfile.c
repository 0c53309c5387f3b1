/* SPDX-License-Identifier: MIT */
/* Where the exit report goes. */
#include "observe/reportfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "config/config.h"
#include "observe/log.h"
#include "observe/name.h"
#include "observe/report.h"
#include "observe/target.h"

/* -- Runs ----------------------------------------------------------------- */

/* Whether the file is the report of another process of this run. */
static bool is_of_another(const char *name)
{
    char ours[AG_RUN_MOST + 64], text[AG_RUN_MOST + 96] = "";
    const char *run = ag_report_run();
    int fd = run != NULL ? open(name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK) : -1;
    if (fd < 0)
        return false;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd); /* it was only read */
    int size = snprintf(ours, sizeof ours, AG_REPORT_OF_RUN, run);
    return n > size && strncmp(text, ours, (size_t)size) == 0 &&
           strtol(text + size, NULL, 10) != (long)getpid();
}

/* Puts the number of the process into the name, before its ending, if there is room. */
static void add_number(char name[AG_PATH_MAX])
{
    char number[24];
    const char *slash = strrchr(name, '/');
    char *dot = strrchr(slash != NULL ? slash : name, '.');
    char *end = name + strlen(name);
    int size = snprintf(number, sizeof number, ".%ld", (long)getpid());
    if (end - name + size >= AG_PATH_MAX)
        return;
    if (dot == NULL)
        dot = end;
    memmove(dot + size, dot, (size_t)(end - dot) + 1);
    memcpy(dot, number, (size_t)size);
}

/* -- Writing -------------------------------------------------------------- */

/* Whether the file is newer than this process's use of CUDA. */
static bool is_newer(const struct stat *st, const struct ag_account *account)
{
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0)
        return false;
    double age = (double)(now.tv_sec - st->st_mtim.tv_sec) +
                 (double)(now.tv_nsec - st->st_mtim.tv_nsec) * 1e-9;
    return age < account->seconds;
}

/* Whether the descriptor, which is open, is of the file. */
static bool is_of(int fd, const struct stat *st)
{
    struct stat open;
    return fstat(fd, &open) == 0 && open.st_dev == st->st_dev && open.st_ino == st->st_ino;
}

/* Takes the descriptor. */
static int write_and_close(int fd, const struct ag_account *account)
{
    if (fd < 0)
        return errno;
    int error = ag_report_put(fd, account);
    if (close(fd) != 0 && !error)
        error = errno;
    return error;
}

enum { RIGHTS = 0666 }; /* of a new file; the umask counts */

static int write_over(const char *name, const struct ag_target *target,
                      const struct ag_account *account)
{
    int fd = ag_target_open(name, target, O_NONBLOCK); /* a FIFO may have no reader */
    if (fd >= 0 && S_ISREG(target->st.st_mode) && ftruncate(fd, 0) != 0) {
        int error = errno;
        close(fd); /* nothing was written to it */
        return error;
    }
    return write_and_close(fd, account);
}

/* What another process of this run has written meanwhile stays. */
static int replace(const char *name, const struct ag_target *target,
                   const struct ag_account *account)
{
    bool is_new = ag_report_run() != NULL && !target->exists;
    return ag_target_replace(name, RIGHTS, is_new, ag_report_put, account);
}

/* /proc/self/fd/3, a file that is mounted alone, a directory of somebody else's. */
static bool is_refused(int error)
{
    return error == ENOENT || error == EBUSY || error == EACCES || error == EROFS;
}

static int replace_or_write_over(const char *name, const struct ag_target *target,
                                 const struct ag_account *account)
{
    bool regular = !target->exists || S_ISREG(target->st.st_mode);
    /* A device or a pipe is written to, not replaced by a file. */
    int error = regular ? replace(name, target, account) : write_over(name, target, account);
    return target->exists && regular && is_refused(error) ? write_over(name, target, account)
                                                          : error;
}

/* The standard stream that writes to the file, as /dev/stdout may be any file; else -1. */
static int stream_of(const struct ag_target *target)
{
    if (!target->exists || !S_ISREG(target->st.st_mode))
        return -1;
    return is_of(STDOUT_FILENO, &target->st)   ? STDOUT_FILENO
           : is_of(STDERR_FILENO, &target->st) ? STDERR_FILENO
                                               : -1;
}

static bool written; /* by this process */

static int write_alone(char name[AG_PATH_MAX], const struct ag_account *account)
{
    struct ag_target target;
    bool idle = !written && account->counters.ops == 0, others = is_of_another(name);
    if (others && idle)
        return 0;
    if (others)
        add_number(name);
    int error = ag_target_look(name, AG_REPORT_BEGINNING, AG_REPORT_OLDER, &target);
    if (stream_of(&target) >= 0)
        return ag_report_put(stream_of(&target), account);
    if (error)
        return error;
    /* The launcher of a parallel program may have its first rank's name, and nothing to tell. */
    if (idle && target.exists && S_ISREG(target.st.st_mode) && is_newer(&target.st, account))
        return 0;
    error = replace_or_write_over(name, &target, account);
    if (error == EEXIST && !target.exists && is_of_another(name)) /* it has come meanwhile */
        return write_alone(name, account);
    written |= !error;
    return error;
}

/* Processes of one run, which may end at one time, write one after the other. */
static int begin_alone(const char *name)
{
    return ag_report_run() != NULL ? ag_target_lock(name) : -1;
}

static void end_alone(int lock)
{
    if (lock >= 0)
        close(lock); /* nothing was written to it */
}

static int write_file(char name[AG_PATH_MAX], const struct ag_account *account)
{
    int lock = begin_alone(name);
    int error = write_alone(name, account);
    end_alone(lock);
    return error;
}

/* The file that is kept current; constant once CUDA is initialised. Empty: none is. */
static char kept[AG_PATH_MAX];

bool ag_report_is_kept(void)
{
    const char *file = ag_opt.report_file;
    struct stat st;
    int saved = errno;
    bool keeps = *file && strcmp(file, "stderr") != 0 && ag_name_is_settled(file) &&
                 ag_name_expand(file, kept) && ag_target_is_plain(kept);
    if (keeps && stat(kept, &st) == 0)
        keeps = !is_of(STDOUT_FILENO, &st) && !is_of(STDERR_FILENO, &st);
    if (!keeps)
        *kept = '\0';
    errno = saved;
    return keeps;
}

bool ag_report_keep(const struct ag_account *account)
{
    struct ag_target target;
    char name[AG_PATH_MAX];
    strcpy(name, kept);
    int lock = begin_alone(name);
    if (is_of_another(name))
        add_number(name);
    bool plain = *name && ag_target_is_plain(name);
    int error = plain ? ag_target_look(name, AG_REPORT_BEGINNING, AG_REPORT_OLDER, &target) : 0;
    if (plain && !error)
        error = replace(name, &target, account);
    end_alone(lock);
    if (!plain)
        return true;
    if (error == EEXIST && !target.exists) /* another process's has come meanwhile */
        return true;
    written |= !error;
    return !error || (target.exists && is_refused(error));
}

static const char *place;

const char *ag_report_place(void)
{
    return place;
}

void ag_report_write(const struct ag_account *account)
{
    const char *file = ag_opt.report_file;
    static int told; /* errno */
    static char name[AG_PATH_MAX];
    int saved = errno;
    int error = ENAMETOOLONG;

    if (!*file)
        return;
    place = NULL;
    if (strcmp(file, "stderr") == 0) {
        error = ag_report_put(STDERR_FILENO, account);
        place = error ? NULL : file;
    } else if (ag_name_expand(file, name)) {
        error = write_file(name, account);
        file = name;
        place = written && !error ? name : NULL;
    }
    errno = error;
    if (error == told)
        error = 0;
    told = errno;
    if (ag_report_run() != NULL && account->complete && place != NULL && !ag_opt.report_stats &&
        ag_name_is_of_first_rank())
        ag_log(AG_LOG_ALWAYS, "the report is written: autograph report %.900s shows it", file);
    if (error == EEXIST)
        ag_log(AG_LOG_ALWAYS,
               "the report %.900s is not written: the file there is no report of yours", file);
    else if (error)
        ag_log(AG_LOG_ALWAYS, "the report %.900s cannot be written: %m", file);
    errno = saved;
}
