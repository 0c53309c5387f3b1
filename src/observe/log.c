/* SPDX-License-Identifier: MIT */
/* Messages on stderr. */
#include "observe/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "config/config.h"
#include "config/initial.h"
#include "observe/name.h"

#define LINE_MAX_BYTES 1024 /* PIPE_BUF is larger: lines of several processes do not mix */
#define MESSAGES_MAX   16

/* What is left of a line of `size` bytes after the `length` bytes that snprintf wanted to write. */
static size_t fitting(int length, size_t size)
{
    if (length < 0)
        return 0;
    return (size_t)length < size ? (size_t)length : size - 1;
}

void ag_log(enum ag_log_level level, const char *format, ...)
{
    static _Atomic unsigned printed[AG_LOG_NOTE];
    char line[LINE_MAX_BYTES];
    const size_t room = sizeof line - 1; /* for the newline */
    unsigned number = 0;

    if ((long)level > ag_opt.log_level)
        return;
    if (level >= AG_LOG_ALWAYS && level < AG_LOG_NOTE &&
        (number = atomic_fetch_add(&printed[level], 1)) > MESSAGES_MAX)
        return;

    int saved = errno;
    size_t n = fitting(snprintf(line, room, "libautograph[%ld]: ", (long)getpid()), room);
    if (number == MESSAGES_MAX) {
        n += fitting(snprintf(line + n, room - n, "further messages are left out"), room - n);
    } else {
        va_list args;
        va_start(args, format);
        errno = saved; /* for %m */
        n += fitting(vsnprintf(line + n, room - n, format, args), room - n);
        va_end(args);
    }
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)line[i] < ' ' || line[i] == 127)
            line[i] = '?';
    line[n++] = '\n';
    /* Where stderr is closed or full there is nobody to tell. */
    if (ag_initial_error_is_open()) {
        ssize_t ignored = ag_write(STDERR_FILENO, line, n);
        (void)ignored;
    }
    errno = saved;
}
