/* SPDX-License-Identifier: MIT */
/* What the process began with. */
#include "config/initial.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

#define PREFIX "AUTOGRAPH_"

enum {
    MOST = 128,       /* variables: twice as many as there are options */
    ROOM = 64 * 1024, /* bytes of these: pages that are not written to cost nothing */
};

/* In one piece: each page that is written to costs every process some time. */
static struct {
    bool done;
    dev_t error_device; /* of standard error; 0 with number 0: it was closed */
    ino_t error_number;
    const char *directory; /* NULL: not known */
    const char *kept[MOST + 1];
    char room[ROOM];
} initial;

static bool names(const char *variable, const char *name)
{
    size_t n = strlen(name);
    return strncmp(variable, name, n) == 0 && variable[n] == '=';
}

static bool matters(const char *variable)
{
    static const char *const others[] = {"HOME", "XDG_CONFIG_HOME", AG_RANK_VARIABLES};
    if (strncmp(variable, PREFIX, strlen(PREFIX)) == 0)
        return true;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (names(variable, others[i]))
            return true;
    return false;
}

/* What has no room is left out. Returns the bytes that it takes. */
static size_t keep_environment(void)
{
    size_t used = 0;
    unsigned count = 0;
    for (char **variable = environ; variable && *variable && count < MOST; variable++) {
        if (!matters(*variable))
            continue;
        size_t size = strlen(*variable) + 1;
        if (size > ROOM - used)
            continue;
        initial.kept[count++] = memcpy(initial.room + used, *variable, size);
        used += size;
    }
    return used;
}

/* Every program pays for this, with CUDA or without: a few microseconds. */
__attribute__((constructor)) static void keep_initial(void)
{
    if (initial.done)
        return;
    int saved = errno;
    size_t used = keep_environment();
    const char *directory = getcwd(initial.room + used, ROOM - used);
    if (directory && *directory == '/') /* "(unreachable)" is outside what this process may see */
        initial.directory = directory;
    struct stat error;
    if (fstat(STDERR_FILENO, &error) == 0) {
        initial.error_device = error.st_dev;
        initial.error_number = error.st_ino;
    }
    initial.done = true;
    errno = saved;
}

const char *const *ag_initial_environment(void)
{
    keep_initial(); /* the constructor of another library may use CUDA */
    return initial.kept;
}

const char *ag_initial_variable(const char *name)
{
    for (const char *const *variable = ag_initial_environment(); *variable; variable++)
        if (names(*variable, name))
            return *variable + strlen(name) + 1;
    return NULL;
}

size_t ag_initial_directory(char *to, size_t size)
{
    keep_initial();
    size_t n = initial.directory ? strlen(initial.directory) : 0;
    if (n == 0 || n + 1 >= size)
        return 0;
    memcpy(to, initial.directory, n);
    to[n] = '/';
    return n + 1;
}

bool ag_initial_error_is_open(void)
{
    struct stat now;
    keep_initial();
    return fstat(STDERR_FILENO, &now) == 0 && now.st_dev == initial.error_device &&
           now.st_ino == initial.error_number;
}
