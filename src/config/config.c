/* SPDX-License-Identifier: MIT */
/* Reads the options: defaults, then an INI file, then the environment. */
#include "config/config.h"

#include <errno.h>
#include <fcntl.h>
#include <ini.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/initial.h"
#include "config/option.h"
#include "config/program.h"
#include "config/trust.h"

#define SYSTEM_FILE    AG_SYSCONFDIR "/autograph.ini"
#define FILE_MAX_BYTES (64 * 1024)

char ag_config_path[AG_PATH_MAX];

/* -- File ----------------------------------------------------------------- */

/* What inih reads from, line by line: so the line's number is known whatever way inih was built. */
struct source {
    const char *path;
    int fd;
    unsigned line;     /* of the one handed out last */
    size_t next, size; /* in buffer */
    size_t total;      /* bytes read so far */
    int error;         /* errno of a failed read */
    char unknown_section[AG_OPTION_NAME];
    enum { GENERAL, THIS_PROGRAM, OTHERS } part; /* whom the section is for */
    bool special[AG_OPTIONS];                    /* set for this program */
    char buffer[512];
};

static void locate(const struct source *s, unsigned line, char where[AG_PATH_MAX])
{
    snprintf(where, AG_PATH_MAX, "%.900s:%u", s->path, line);
}

static int get(struct source *s)
{
    if (s->next == s->size) {
        ssize_t n;
        do
            n = s->total < FILE_MAX_BYTES ? read(s->fd, s->buffer, sizeof s->buffer) : 0;
        while (n < 0 && errno == EINTR);
        if (n < 0)
            s->error = errno;
        if (n <= 0)
            return -1;
        s->next = 0;
        s->size = (size_t)n;
        s->total += (size_t)n;
    }
    return (unsigned char)s->buffer[s->next++];
}

/* Whom a section is for, whose head the line may be. */
static void begin_section(struct source *s, const char *line)
{
    char name[AG_PROGRAM_BYTES], where[AG_PATH_MAX];
    enum ag_program_head head = ag_program_head(line, name);
    if (head == AG_HEAD_OTHER)
        s->part = GENERAL;
    if (head != AG_HEAD_PROGRAM)
        return;
    const char *mistake = ag_program_mistake(name);
    bool again = !mistake && ag_program_repeats(name);
    locate(s, s->line, where);
    if (mistake)
        ag_option_complain("%s: [program:%.80s] stands for no program: %s", where, name, mistake);
    if (again)
        ag_option_complain("%s: [program:%.80s] comes a second time, and is left out", where, name);
    s->part = !mistake && !again && ag_program_is(name) ? THIS_PROGRAM : OTHERS;
}

/*
 * As fgets(). Leading blanks are dropped, since inih would take an indented line for a continuation
 * of the one before. A line that is longer than inih's buffer would be parsed as two: it is left
 * out.
 */
static char *get_line(char *line, int size, void *stream)
{
    struct source *s = stream;
    int n = 0;
    int c = get(s);

    if (c < 0)
        return NULL;
    s->line++;
    for (; c >= 0 && c != '\n'; c = get(s)) {
        if (n == 0 && (c == ' ' || c == '\t'))
            continue;
        if (n < size - 1)
            line[n] = (char)(c ? c : '?');
        n++;
    }
    if (n >= size) {
        char where[AG_PATH_MAX];
        locate(s, s->line, where);
        ag_option_complain("%s: this line is longer than %d bytes and is left out", where,
                           size - 1);
        if (*line == '[')
            s->part = OTHERS; /* no other section has these options */
        n = 0;
    }
    line[n] = '\0';
    bool marked = s->line == 1 && strncmp(line, "\xef\xbb\xbf", 3) == 0; /* as UTF-8 */
    begin_section(s, line + (marked ? 3 : 0));
    return line;
}

static int handle(void *user, const char *section, const char *key, const char *value)
{
    struct source *s = user;
    char name[AG_OPTION_NAME], where[AG_PATH_MAX];
    bool general = s->part == GENERAL, known = !general || ag_option_has_section(section);
    if (s->part == OTHERS)
        return 1;
    snprintf(name, sizeof name, general ? "%s.%s" : "%.0s%s", section, key);
    locate(s, s->line, where);

    const struct ag_option *o = ag_option_find(name, false);
    if (o && !(general && s->special[o - ag_option_table])) {
        s->special[o - ag_option_table] |= ag_option_set(o, value, where) && !general;
    } else if (!o && (known || !ag_option_is_equal(section, s->unknown_section))) {
        /* One complaint is enough for all the keys of an unknown section. */
        if (!known)
            snprintf(s->unknown_section, sizeof s->unknown_section, "%s", section);
        ag_option_unknown(where, name, false);
    }
    return 1;
}

/* A name without a slash at its head counts from where the process began. False: too long. */
static bool initial_path(const char *name, char path[2 * AG_PATH_MAX])
{
    size_t used = *name == '/' ? 0 : ag_initial_directory(path, AG_PATH_MAX);
    if (used + strlen(name) >= 2 * AG_PATH_MAX) {
        errno = ENAMETOOLONG;
        return false;
    }
    strcpy(path + used, name);
    return true;
}

/* Whose word a place is: the caller has named the file, or it was found, or installed. */
enum origin { NAMED, FOUND, INSTALLED };

/*
 * Whether a file that was found is the caller's own, or the administrator's: it names files to
 * write. So must be a symbolic link to it. `path` is the name to tell of it.
 */
static bool is_trusted(const char *file, const char *path, const struct stat *st)
{
    uid_t owner;
    enum ag_trust trust = ag_trust(file, st, &owner);
    if (trust == AG_TRUST_FOREIGN)
        ag_option_complain(
            "%.800s: passed over, since it belongs to user %ld; to have it read, name it in "
            "AUTOGRAPH_CONFIG",
            path, (long)owner);
    else if (trust == AG_TRUST_WRITABLE)
        ag_option_complain("%.800s: passed over, since others may write it: chmod go-w", path);
    return trust == AG_TRUST_OWN;
}

/* Reads the open file, as far as that goes. */
static void parse(struct source *s, const char *path, const struct stat *st)
{
    snprintf(ag_config_path, sizeof ag_config_path, "%s", path);
    int result = ini_parse_stream(get_line, s, handle, s);
    char where[AG_PATH_MAX];
    locate(s, result > 0 ? (unsigned)result : s->line, where);
    if (result > 0)
        ag_option_complain("%s: neither \"[section]\" nor \"key = value\"", where);
    else if (result < 0)
        ag_option_complain("%s: no memory to read on", where);
    if (s->error) {
        errno = s->error;
        ag_option_complain("%s: cannot be read on: %m", where);
    }
    if (s->total >= FILE_MAX_BYTES && st->st_size > FILE_MAX_BYTES)
        ag_option_complain("%s: the file is too long, only %d KiB of it were read", where,
                           FILE_MAX_BYTES / 1024);
}

/* Tries one place. False: there is no file there that could be read. */
static bool read_file(const char *path, enum origin origin)
{
    struct source s = {.path = path, .unknown_section = "]" /* no section's name */};
    struct stat st;
    bool named = origin == NAMED;
    char from_start[2 * AG_PATH_MAX];

    /* O_NONBLOCK: opening a FIFO must not wait for a writer. */
    s.fd = initial_path(path, from_start)
               ? open(from_start, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
               : -1;
    if (s.fd < 0 || fstat(s.fd, &st) != 0) {
        if (named)
            ag_option_complain("AUTOGRAPH_CONFIG=%.900s: cannot be read: %m", path);
    } else if (!S_ISREG(st.st_mode)) {
        if (named)
            ag_option_complain("AUTOGRAPH_CONFIG=%.900s: is not a regular file", path);
    } else if (origin != FOUND || is_trusted(from_start, path, &st)) {
        parse(&s, path, &st);
        close(s.fd);
        return true;
    }
    if (s.fd >= 0)
        close(s.fd);
    return false;
}

/* The first file of the search order is the only one that counts. */
static void read_first_file(void)
{
    const char *named = ag_initial_variable("AUTOGRAPH_CONFIG");
    const char *xdg = ag_initial_variable("XDG_CONFIG_HOME");
    const char *home = ag_initial_variable("HOME");
    char path[AG_PATH_MAX];
    int n = -1;

    if (named) {
        /* Both ask for no file at all. */
        if (*named && strcmp(named, "/dev/null") != 0)
            read_file(named, NAMED);
        return;
    }
    if (read_file("autograph.ini", FOUND))
        return;
    if (xdg && *xdg == '/') /* a relative one is to be ignored, says the XDG specification */
        n = snprintf(path, sizeof path, "%s/autograph/autograph.ini", xdg);
    else if (home && *home)
        n = snprintf(path, sizeof path, "%s/.config/autograph/autograph.ini", home);
    if (n > 0 && n < (int)sizeof path && read_file(path, FOUND))
        return;
    read_file(SYSTEM_FILE, INSTALLED);
}

/* -- Environment ---------------------------------------------------------- */

static void read_environment(void)
{
    for (const struct ag_option *o = ag_option_table; o < AG_OPTIONS_END; o++) {
        char name[AG_OPTION_NAME];
        ag_option_spell(o, true, name);
        const char *value = ag_initial_variable(name);
        if (value)
            ag_option_set(o, value, name);
    }
    static const char *const short_names[][2] = {{"AUTOGRAPH_REPORT", "report.file"},
                                                 {"AUTOGRAPH_VERBOSE", "log.verbose"},
                                                 {"AUTOGRAPH_STATS", "report.stats"}};
    for (size_t i = 0; i < sizeof short_names / sizeof short_names[0]; i++) {
        const char *value = ag_initial_variable(short_names[i][0]);
        if (value)
            ag_option_set(ag_option_find(short_names[i][1], false), value, short_names[i][0]);
    }

    for (const char *const *e = ag_initial_environment(); *e; e++) {
        char name[AG_OPTION_NAME];
        size_t n = strcspn(*e, "=");
        if (strncmp(*e, "AUTOGRAPH_", strlen("AUTOGRAPH_")) != 0 || n >= sizeof name)
            continue;
        memcpy(name, *e, n);
        name[n] = '\0';
        ag_option_check_variable(name);
    }
}

/* -- All ------------------------------------------------------------------ */

static bool excluded; /* this program */

static void read_excluded(void)
{
    char pattern[AG_PROGRAM_BYTES];
    const char *list = ag_opt.general_exclude;
    while ((list = ag_program_next(list, pattern)) != NULL) {
        const char *mistake = ag_program_mistake(pattern);
        if (mistake)
            ag_option_complain("general.exclude: \"%.80s\" stands for no program: %s", pattern,
                               mistake);
        else if (ag_program_is(pattern))
            excluded = true;
    }
}

const char *ag_config_off(void)
{
    if (!ag_opt.general_enable)
        return "general.enable is false";
    return excluded ? "general.exclude names this program" : NULL;
}

void ag_config_load(void (*to)(const char *mistake))
{
    int saved = errno;
    ag_option_tell(to);
    /* With the rights of another user, as by setuid, nothing is written where the caller says. */
    if (getauxval(AT_SECURE)) {
        read_file(SYSTEM_FILE, INSTALLED);
    } else {
        read_first_file();
        read_environment();
    }
    read_excluded();
    errno = saved;
}
