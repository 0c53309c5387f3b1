/* SPDX-License-Identifier: MIT */
/* The exit report. */
#include "observe/report.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/config.h"
#include "observe/log.h"
#include "observe/name.h"

/* -- Output --------------------------------------------------------------- */

struct output {
    int fd;
    int error; /* errno of the first failure */
    size_t used;
    char buffer[2048];
};

static void flush(struct output *out)
{
    if (!out->error)
        out->error = ag_write_all(out->fd, out->buffer, out->used);
    out->used = 0;
}

static void put_char(struct output *out, char c)
{
    if (out->used == sizeof out->buffer)
        flush(out);
    out->buffer[out->used++] = c;
}

__attribute__((format(printf, 2, 3))) static void put(struct output *out, const char *format, ...)
{
    char piece[128]; /* every piece is a name of ours and a number */
    va_list args;

    va_start(args, format);
    vsnprintf(piece, sizeof piece, format, args);
    va_end(args);
    for (const char *p = piece; *p; p++)
        put_char(out, *p);
}

/* The bytes of the UTF-8 sequence at `s`; 0 if there is none. */
static unsigned sequence(const unsigned char *s)
{
    unsigned n = s[0] < 0x80 ? 1 : s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    if (s[0] >= 0xf5 || (s[0] >= 0x80 && s[0] < 0xc2))
        return 0;
    for (unsigned i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    /* Overlong forms, surrogates, and what is beyond Unicode. */
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return n;
}

/* A JSON string. File names may hold any bytes: what is not UTF-8 becomes U+FFFD. */
static void put_string(struct output *out, const char *text)
{
    put_char(out, '"');
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        unsigned n = sequence(s);
        if (n == 0 || *s < ' ' || *s == '"' || *s == '\\') {
            put(out, "\\u%04x", n ? *s : 0xfffd);
            s++;
        } else
            while (n--)
                put_char(out, (char)*s++);
    }
    put_char(out, '"');
}

/* -- Content -------------------------------------------------------------- */

static void put_program(struct output *out)
{
    char path[AG_PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    put(out, "  \"program\": ");
    put_string(out, path);
    put(out, ",\n");
}

static void put_name(struct output *out, bool *first, const char *name)
{
    put(out, "%s\n    \"%s\": ", *first ? "" : ",", name);
    *first = false;
}

/* A word of "one|other|third" by its place. */
static void put_choice(struct output *out, const char *words, unsigned place)
{
    while (place-- > 0)
        words = strchr(words, '|') + 1;
    put(out, "\"%.*s\"", (int)strcspn(words, "|"), words);
}

/* The options that differ from their defaults. */
static void put_options(struct output *out)
{
    bool first = true;

    put(out, "  \"options\": {");
#define AG_OPT_BOOL(section, key, value, help)                                                     \
    if (ag_opt.section##_##key != value) {                                                         \
        put_name(out, &first, #section "." #key);                                                  \
        put(out, ag_opt.section##_##key ? "true" : "false");                                       \
    }
#define AG_OPT_INT(section, key, value, min, max, help)                                            \
    if (ag_opt.section##_##key != value) {                                                         \
        put_name(out, &first, #section "." #key);                                                  \
        put(out, "%ld", ag_opt.section##_##key);                                                   \
    }
#define AG_OPT_CHOICE(section, key, words, help)                                                   \
    if (ag_opt.section##_##key != 0) {                                                         \
        put_name(out, &first, #section "." #key);                                                  \
        put_choice(out, words, ag_opt.section##_##key);                                            \
    }
#define AG_OPT_STRING(section, key, value, help)                                                   \
    if (strcmp(ag_opt.section##_##key, value) != 0) {                                              \
        put_name(out, &first, #section "." #key);                                                  \
        put_string(out, ag_opt.section##_##key);                                                   \
    }
#include "config/options.def"
#undef AG_OPT_BOOL
#undef AG_OPT_INT
#undef AG_OPT_CHOICE
#undef AG_OPT_STRING
    put(out, first ? "},\n" : "\n  },\n");
}

static void put_report(struct output *out, const struct ag_counters *c)
{
    put(out, "{\n  \"version\": \"%s\",\n  \"pid\": %ld,\n", PACKAGE_VERSION, (long)getpid());
    put_program(out);
    put(out, "  \"config\": ");
    put_string(out, ag_config_path);
    put(out, ",\n");
    put_options(out);
    put(out, "  \"ops\": {\"total\": %" PRIu64, c->ops);
    put(out, ", \"replayed\": %" PRIu64, c->replayed);
    put(out, ", \"eager\": %" PRIu64 "},\n", c->ops - c->replayed);
    put(out, "  \"replays\": %" PRIu64 ",\n", c->replays);
    put(out, "  \"patches\": %" PRIu64 ",\n", c->patches);
    put(out, "  \"updates\": %" PRIu64 ",\n", c->updates);
    put(out, "  \"updates_refused\": {");
    for (int i = 1; i < AG_REFUSAL_COUNT; i++)
        put(out, "%s\"%s\": %" PRIu64, i > 1 ? ", " : "", ag_refusal_names[i], c->refusals[i]);
    put(out, "},\n  \"traces\": %" PRIu64 ",\n", c->traces);
    put(out, "  \"side_exits\": %" PRIu64 ",\n", c->side_exits);
    put(out, "  \"flushes\": {");
    for (int i = 0; i < AG_REASON_COUNT; i++)
        put(out, "%s\"%s\": %" PRIu64, i ? ", " : "", ag_reason_names[i], c->flushes[i]);
    put(out, "},\n  \"errors\": %" PRIu64 "\n}\n", c->errors);
}

/* -- Destination ---------------------------------------------------------- */

/* 0, or the errno of what failed. */
static int write_to(int fd, const struct ag_counters *c)
{
    struct output out = {.fd = fd};
    put_report(&out, c);
    flush(&out);
    return out.error;
}

static int write_file(const char *name, const struct ag_counters *c)
{
    char temporary[AG_PATH_MAX + 32];
    struct stat st;
    /* A device or a pipe is written to, not replaced by a file. */
    bool replace = stat(name, &st) != 0 || S_ISREG(st.st_mode);
    const char *target = name;
    int flags = O_WRONLY | O_CLOEXEC | O_NOCTTY;

    if (replace) {
        snprintf(temporary, sizeof temporary, "%s.%ld.tmp", name, (long)getpid());
        target = temporary;
        flags |= O_CREAT | O_TRUNC;
    } else
        flags |= O_NONBLOCK; /* a FIFO without a reader must not stop the exit */
    int fd = open(target, flags, 0666);
    if (fd < 0)
        return errno;
    int error = write_to(fd, c);
    if (close(fd) != 0 && !error)
        error = errno;
    if (replace && !error && rename(temporary, name) != 0)
        error = errno;
    if (replace && error)
        unlink(temporary);
    return error;
}

void ag_report_write(const struct ag_counters *c)
{
    const char *file = ag_opt.report_file;
    char name[AG_PATH_MAX];
    int saved = errno;
    int error = ENAMETOOLONG;

    if (!*file)
        return;
    if (strcmp(file, "stderr") == 0)
        error = write_to(STDERR_FILENO, c);
    else if (ag_name_expand(file, name))
        error = write_file(name, c);
    if (error) {
        errno = error;
        ag_log(AG_LOG_ALWAYS, "the report %.900s cannot be written: %m", file);
    }
    errno = saved;
}
