/* SPDX-License-Identifier: MIT */
/* Reads the options: defaults, then an INI file, then the environment. */
#include "config/config.h"

#include <errno.h>
#include <fcntl.h>
#include <ini.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/initial.h"
#include "config/program.h"
#include "config/trust.h"

#define SYSTEM_FILE    AG_SYSCONFDIR "/autograph.ini"
#define FILE_MAX_BYTES (64 * 1024)
#define NAME_MAX_BYTES                                                                             \
    64 /* of "section.key"; an unknown name is cut here before it is compared                      \
        */

struct ag_options ag_opt = {
#define AG_OPT_BOOL(section, key, value, help)          .section##_##key = value,
#define AG_OPT_INT(section, key, value, min, max, help) .section##_##key = value,
#define AG_OPT_CHOICE(section, key, words, help)        .section##_##key = 0,
#define AG_OPT_STRING(section, key, value, help)        .section##_##key = value,
#include "config/options.def"
#undef AG_OPT_BOOL
#undef AG_OPT_INT
#undef AG_OPT_CHOICE
#undef AG_OPT_STRING
};

char ag_config_path[AG_PATH_MAX];

static void (*tell)(const char *mistake); /* of ag_config_load() */

__attribute__((format(printf, 1, 2))) static void complain(const char *format, ...)
{
    char text[AG_PATH_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    tell(text);
}

static const struct option {
    enum { BOOL, INT, CHOICE, STRING } type;
    const char *section, *key;
    size_t offset;     /* in struct ag_options */
    long min, max;     /* INT only */
    const char *words; /* CHOICE only: "one|other" */
} options[] = {
#define AG_OPT_BOOL(section, key, value, help)                                                     \
    {BOOL, #section, #key, offsetof(struct ag_options, section##_##key), 0, 0, NULL},
#define AG_OPT_INT(section, key, value, min, max, help)                                            \
    {INT, #section, #key, offsetof(struct ag_options, section##_##key), min, max, NULL},
#define AG_OPT_CHOICE(section, key, words, help)                                                   \
    {CHOICE, #section, #key, offsetof(struct ag_options, section##_##key), 0, 0, words},
#define AG_OPT_STRING(section, key, value, help)                                                   \
    {STRING, #section, #key, offsetof(struct ag_options, section##_##key), 0, 0, NULL},
#include "config/options.def"
#undef AG_OPT_BOOL
#undef AG_OPT_INT
#undef AG_OPT_CHOICE
#undef AG_OPT_STRING
};

enum { /* the greatest value of each number */
#define AG_OPT_BOOL(section, key, value, help)
#define AG_OPT_INT(section, key, value, min, max, help) MOST_##section##_##key = max,
#define AG_OPT_CHOICE(section, key, words, help)
#define AG_OPT_STRING(section, key, value, help)
#include "config/options.def"
#undef AG_OPT_BOOL
#undef AG_OPT_INT
#undef AG_OPT_CHOICE
#undef AG_OPT_STRING
};

_Static_assert(MOST_trace_max_length <= AG_MOST_LENGTH && MOST_trace_unroll <= AG_MOST_LENGTH &&
                   MOST_trace_min_length <= AG_MOST_LENGTH,
               "no option makes sequences longer than the arrays that hold them");

#define OPTIONS     (sizeof options / sizeof options[0])
#define OPTIONS_END (options + OPTIONS)

/* -- Text ----------------------------------------------------------------- */

/* As tolower(), whatever the program's locale. */
static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool equal(const char *a, const char *b)
{
    while (*a && lower(*a) == lower(*b))
        a++, b++;
    return lower(*a) == lower(*b);
}

/* The number of letters to insert, delete or exchange to make `b` of `a`. */
static unsigned distance(const char *a, const char *b)
{
    unsigned row[NAME_MAX_BYTES + 1];
    const size_t n = strlen(b) < NAME_MAX_BYTES ? strlen(b) : NAME_MAX_BYTES;

    for (size_t j = 0; j <= n; j++)
        row[j] = (unsigned)j;
    for (size_t i = 0; a[i]; i++) {
        unsigned diagonal = row[0];
        row[0] = (unsigned)i + 1;
        for (size_t j = 1; j <= n; j++) {
            unsigned best = diagonal + (lower(a[i]) != lower(b[j - 1]));
            diagonal = row[j];
            if (diagonal + 1 < best)
                best = diagonal + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[n];
}

/* -- Options -------------------------------------------------------------- */

/* "section.key", or AUTOGRAPH_SECTION_KEY for the environment. */
static void spell(const struct option *o, bool environment, char name[NAME_MAX_BYTES])
{
    snprintf(name, NAME_MAX_BYTES, environment ? "AUTOGRAPH_%s_%s" : "%s.%s", o->section, o->key);
    for (char *p = name; environment && *p; p++)
        if (*p >= 'a' && *p <= 'z')
            *p = (char)(*p - 'a' + 'A');
}

static const struct option *find(const char *name, bool environment)
{
    for (const struct option *o = options; o < OPTIONS_END; o++) {
        char spelled[NAME_MAX_BYTES];
        spell(o, environment, spelled);
        if (environment ? strcmp(name, spelled) == 0 : equal(name, spelled))
            return o;
    }
    return NULL;
}

/* Says that there is no option `name`, and which one may have been meant. */
static void complain_unknown(const char *where, const char *name, bool environment)
{
    const char *dot = strchr(name, '.'), *key = dot ? dot + 1 : name;
    const struct option *nearest = NULL;
    unsigned least = 4; /* farther than three letters is another word */

    for (const struct option *o = options; o < OPTIONS_END; o++) {
        char spelled[NAME_MAX_BYTES];
        spell(o, environment, spelled);
        unsigned far = distance(name, spelled);
        if (far > 1 && equal(key, o->key))
            far = 1; /* the right key in the wrong section, or in none */
        if (far < least) {
            least = far;
            nearest = o;
        }
    }
    if (!nearest) {
        complain("%s: there is no option %s", where, name);
        return;
    }
    char spelled[NAME_MAX_BYTES];
    spell(nearest, environment, spelled);
    complain("%s: there is no option %s, did you mean %s?", where, name, spelled);
}

static bool parse_bool(const char *text, bool *value)
{
    static const char *const words[] = {"false", "true", "no", "yes", "off", "on", "0", "1"};

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (equal(text, words[i])) {
            *value = i % 2;
            return true;
        }
    }
    return false;
}

static bool parse_int(const char *text, long min, long max, long *value)
{
    char *end;
    if (*text != '-' && (*text < '0' || *text > '9'))
        return false; /* strtol() would take spaces and a plus sign */
    errno = 0;
    long n = strtol(text, &end, 10);
    if (errno || *end || end == text || n < min || n > max)
        return false;
    *value = n;
    return true;
}

/* The place of a word in "one|other|third". */
static bool parse_choice(const char *text, const char *words, unsigned *value)
{
    for (unsigned place = 0; *words; place++) {
        size_t n = strcspn(words, "|"), i = 0;
        while (i < n && lower(text[i]) == words[i])
            i++;
        if (i == n && !text[n]) {
            *value = place;
            return true;
        }
        words += n + (words[n] == '|');
    }
    return false;
}

/* Whether the option has that value now. */
static bool set(const struct option *o, const char *text, const char *where)
{
    void *field = (char *)&ag_opt + o->offset;
    char name[NAME_MAX_BYTES];
    spell(o, false, name);

    switch (o->type) {
    case BOOL:
        if (parse_bool(text, field))
            return true;
        complain("%s: %s = \"%.80s\" is not true or false; it stays %s", where, name, text,
                 *(bool *)field ? "true" : "false");
        break;
    case INT:
        if (parse_int(text, o->min, o->max, field))
            return true;
        complain("%s: %s = \"%.80s\" is not a whole number from %ld to %ld; it stays %ld", where,
                 name, text, o->min, o->max, *(long *)field);
        break;
    case CHOICE:
        if (parse_choice(text, o->words, field))
            return true;
        complain("%s: %s = \"%.80s\" is not one of %s; it stays as it was", where, name, text,
                 o->words);
        break;
    case STRING:
        if (strlen(text) < AG_PATH_MAX) {
            memcpy(field, text, strlen(text) + 1);
            return true;
        }
        complain("%s: %s is longer than %d bytes; it stays \"%.80s\"", where, name, AG_PATH_MAX - 1,
                 (char *)field);
        break;
    }
    return false;
}

/* -- File ----------------------------------------------------------------- */

/* What inih reads from, line by line: so the line's number is known whatever way inih was built. */
struct source {
    const char *path;
    int fd;
    unsigned line;     /* of the one handed out last */
    size_t next, size; /* in buffer */
    size_t total;      /* bytes read so far */
    int error;         /* errno of a failed read */
    char unknown_section[NAME_MAX_BYTES];
    enum { GENERAL, THIS_PROGRAM, OTHERS } part; /* whom the section is for */
    bool special[OPTIONS];                       /* set for this program */
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
        complain("%s: [program:%.80s] stands for no program: %s", where, name, mistake);
    if (again)
        complain("%s: [program:%.80s] comes a second time, and is left out", where, name);
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
        complain("%s: this line is longer than %d bytes and is left out", where, size - 1);
        if (*line == '[')
            s->part = OTHERS; /* no other section has these options */
        n = 0;
    }
    line[n] = '\0';
    bool marked = s->line == 1 && strncmp(line, "\xef\xbb\xbf", 3) == 0; /* as UTF-8 */
    begin_section(s, line + (marked ? 3 : 0));
    return line;
}

static bool known_section(const char *section)
{
    for (const struct option *o = options; o < OPTIONS_END; o++)
        if (equal(section, o->section))
            return true;
    return false;
}

static int handle(void *user, const char *section, const char *key, const char *value)
{
    struct source *s = user;
    char name[NAME_MAX_BYTES], where[AG_PATH_MAX];
    bool general = s->part == GENERAL, known = !general || known_section(section);
    if (s->part == OTHERS)
        return 1;
    snprintf(name, sizeof name, general ? "%s.%s" : "%.0s%s", section, key);
    locate(s, s->line, where);

    const struct option *o = find(name, false);
    if (o && !(general && s->special[o - options])) {
        s->special[o - options] |= set(o, value, where) && !general;
    } else if (!o && (known || !equal(section, s->unknown_section))) {
        /* One complaint is enough for all the keys of an unknown section. */
        if (!known)
            snprintf(s->unknown_section, sizeof s->unknown_section, "%s", section);
        complain_unknown(where, name, false);
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
        complain("%.800s: passed over, since it belongs to user %ld; to have it read, name it in "
                 "AUTOGRAPH_CONFIG",
                 path, (long)owner);
    else if (trust == AG_TRUST_WRITABLE)
        complain("%.800s: passed over, since others may write it: chmod go-w", path);
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
        complain("%s: neither \"[section]\" nor \"key = value\"", where);
    else if (result < 0)
        complain("%s: no memory to read on", where);
    if (s->error) {
        errno = s->error;
        complain("%s: cannot be read on: %m", where);
    }
    if (s->total >= FILE_MAX_BYTES && st->st_size > FILE_MAX_BYTES)
        complain("%s: the file is too long, only %d KiB of it were read", where,
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
            complain("AUTOGRAPH_CONFIG=%.900s: cannot be read: %m", path);
    } else if (!S_ISREG(st.st_mode)) {
        if (named)
            complain("AUTOGRAPH_CONFIG=%.900s: is not a regular file", path);
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

/*
 * True if the variable can only be meant for us: other software has names with this prefix too
 * (TensorFlow's AUTOGRAPH_VERBOSITY), so an unknown one is a mistake only within a known section.
 */
static bool ours(const char *name)
{
    const char *section = name + strlen("AUTOGRAPH_");

    for (const struct option *o = options; o < OPTIONS_END; o++) {
        size_t n = strlen(o->section), i = 0;
        while (i < n && lower(section[i]) == o->section[i])
            i++;
        if (i == n && section[n] == '_')
            return true;
    }
    return false;
}

static void read_environment(void)
{
    for (const struct option *o = options; o < OPTIONS_END; o++) {
        char name[NAME_MAX_BYTES];
        spell(o, true, name);
        const char *value = ag_initial_variable(name);
        if (value)
            set(o, value, name);
    }
    static const char *const short_names[][2] = {{"AUTOGRAPH_REPORT", "report.file"},
                                                 {"AUTOGRAPH_VERBOSE", "log.verbose"}};
    for (size_t i = 0; i < sizeof short_names / sizeof short_names[0]; i++) {
        const char *value = ag_initial_variable(short_names[i][0]);
        if (value)
            set(find(short_names[i][1], false), value, short_names[i][0]);
    }

    for (const char *const *e = ag_initial_environment(); *e; e++) {
        char name[NAME_MAX_BYTES];
        size_t n = strcspn(*e, "=");
        if (strncmp(*e, "AUTOGRAPH_", strlen("AUTOGRAPH_")) != 0 || n >= sizeof name)
            continue;
        memcpy(name, *e, n);
        name[n] = '\0';
        if (ours(name) && !find(name, true))
            complain_unknown("environment", name, true);
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
            complain("general.exclude: \"%.80s\" stands for no program: %s", pattern, mistake);
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
    tell = to;
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
