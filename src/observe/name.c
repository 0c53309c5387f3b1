/* SPDX-License-Identifier: MIT */
/* Names of files, and writing to them. */
#include "observe/name.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "config/initial.h"

/* NULL: no launcher has given one. */
static const char *rank(void)
{
    static const char *const names[] = {AG_RANK_VARIABLES};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        /* A program may give itself its rank. */
        const char *value = getenv(names[i]);
        if (!value)
            value = ag_initial_variable(names[i]);
        if (value && *value && !value[strspn(value, "0123456789")])
            return value;
    }
    return NULL;
}

bool ag_name_is_of_first_rank(void)
{
    const char *given = rank();
    return given == NULL || strcmp(given, "0") == 0;
}

bool ag_name_is_settled(const char *pattern)
{
    return strstr(pattern, "%r") == NULL || rank() != NULL;
}

bool ag_name_expand(const char *pattern, char name[AG_PATH_MAX])
{
    size_t used = *pattern == '/' ? 0 : ag_initial_directory(name, AG_PATH_MAX);
    const char *given = rank();

    for (const char *p = pattern; *p; p++) {
        char piece[256] = {*p};
        if (*p == '%' && p[1]) {
            switch (*++p) {
            case 'p':
                snprintf(piece, sizeof piece, "%ld", (long)getpid());
                break;
            case 'h':
                if (gethostname(piece, sizeof piece - 1) != 0)
                    strcpy(piece, "unknown");
                break;
            case 'r':
                snprintf(piece, sizeof piece, "%s", given != NULL ? given : "0");
                break;
            case '%':
                break;
            default: /* not ours: stays as it is */
                p--;
            }
        }
        size_t n = strlen(piece);
        if (used + n >= AG_PATH_MAX)
            return false;
        memcpy(name + used, piece, n);
        used += n;
    }
    name[used] = '\0';
    return true;
}

/* For a reader to make room; longer than a second means that there is none that reads. */
static bool wait_for_room(int fd)
{
    struct pollfd room = {.fd = fd, .events = POLLOUT};
    int n;
    do
        n = poll(&room, 1, 1000);
    while (n < 0 && errno == EINTR);
    return n > 0;
}

ssize_t ag_write(int fd, const void *data, size_t size)
{
    sigset_t raised, before, pending;
    int cancel;
    sigemptyset(&raised);
    sigaddset(&raised, SIGPIPE);
    sigaddset(&raised, SIGXFSZ);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    pthread_sigmask(SIG_BLOCK, &raised, &before);
    sigpending(&pending);
    ssize_t n = write(fd, data, size);
    int error = errno;
    if (n < 0 && (error == EPIPE || error == EFBIG)) {
        sigdelset(&raised, error == EPIPE ? SIGXFSZ : SIGPIPE);
        if (!sigismember(&pending, error == EPIPE ? SIGPIPE : SIGXFSZ))
            (void)sigtimedwait(&raised, NULL, &(struct timespec){0});
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_setcancelstate(cancel, NULL);
    errno = error;
    return n;
}

int ag_write_all(int fd, const void *data, size_t size)
{
    const char *from = data;
    while (size > 0) {
        ssize_t n = ag_write(fd, from, size);
        if (n > 0) {
            from += n;
            size -= (size_t)n;
        } else if (n == 0 || (errno != EINTR && !(errno == EAGAIN && wait_for_room(fd)))) {
            return n == 0 ? ENOSPC : errno;
        }
    }
    return 0;
}
