/* SPDX-License-Identifier: MIT */
/* The table of options, and what text says of them: see option.h. */
#include "config/option.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

const struct ag_option ag_option_table[AG_OPTIONS] = {
#define AG_OPT_BOOL(section, key, value, help)                                                     \
    {AG_OPTION_BOOL, #section, #key, offsetof(struct ag_options, section##_##key), 0, 0, NULL},
#define AG_OPT_INT(section, key, value, min, max, help)                                            \
    {AG_OPTION_INT, #section, #key, offsetof(struct ag_options, section##_##key), min, max, NULL},
#define AG_OPT_CHOICE(section, key, words, help)                                                   \
    {AG_OPTION_CHOICE, #section, #key, offsetof(struct ag_options, section##_##key), 0, 0, words},
#define AG_OPT_STRING(section, key, value, help)                                                   \
    {AG_OPTION_STRING, #section, #key, offsetof(struct ag_options, section##_##key), 0, 0, NULL},
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

static void (*tell)(const char *mistake);

void ag_option_tell(void (*to)(const char *mistake))
{
    tell = to;
}

void ag_option_complain(const char *format, ...)
{
    char text[AG_PATH_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    tell(text);
}

/* -- Text ----------------------------------------------------------------- */

/* As tolower(), whatever the program's locale. */
static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

bool ag_option_is_equal(const char *a, const char *b)
{
    while (*a && lower(*a) == lower(*b))
        a++, b++;
    return lower(*a) == lower(*b);
}

static unsigned least_of(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* The number of letters to insert, delete, exchange or swap with the next to make `b` of `a`. */
static unsigned distance(const char *a, const char *b)
{
    unsigned rows[3][AG_OPTION_NAME + 1], i = 0;
    const size_t n = strlen(b) < AG_OPTION_NAME ? strlen(b) : AG_OPTION_NAME;

    for (size_t j = 0; j <= n; j++)
        rows[0][j] = (unsigned)j;
    while (a[i]) {
        i++;
        unsigned *row = rows[i % 3], *above = rows[(i + 2) % 3], *top = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            row[j] = least_of(above[j - 1] + (lower(a[i - 1]) != lower(b[j - 1])),
                              least_of(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
                lower(a[i - 2]) == lower(b[j - 1]))
                row[j] = least_of(row[j], top[j - 2] + 1);
        }
    }
    return rows[i % 3][n];
}

/* -- Options -------------------------------------------------------------- */

void ag_option_spell(const struct ag_option *o, bool environment, char name[AG_OPTION_NAME])
{
    snprintf(name, AG_OPTION_NAME, environment ? "AUTOGRAPH_%s_%s" : "%s.%s", o->section, o->key);
    for (char *p = name; environment && *p; p++)
        if (*p >= 'a' && *p <= 'z')
            *p = (char)(*p - 'a' + 'A');
}

const struct ag_option *ag_option_find(const char *name, bool environment)
{
    for (const struct ag_option *o = ag_option_table; o < AG_OPTIONS_END; o++) {
        char spelled[AG_OPTION_NAME];
        ag_option_spell(o, environment, spelled);
        if (environment ? strcmp(name, spelled) == 0 : ag_option_is_equal(name, spelled))
            return o;
    }
    return NULL;
}

/* Variables that have no section. */
static const char *const short_names[] = {"AUTOGRAPH_REPORT", "AUTOGRAPH_VERBOSE",
                                          "AUTOGRAPH_STATS", "AUTOGRAPH_CONFIG",
                                          "AUTOGRAPH_DISABLE"};
enum { SHORT_NAMES = sizeof short_names / sizeof short_names[0] };

/* The name without its section, if it has one. */
static const char *key_of(const char *name, bool environment)
{
    const char *dot = strchr(name, '.');
    if (!environment)
        return dot != NULL ? dot + 1 : name;
    name += strlen("AUTOGRAPH_");
    for (const struct ag_option *o = ag_option_table; o < AG_OPTIONS_END; o++) {
        size_t n = strlen(o->section), i = 0;
        while (i < n && lower(name[i]) == o->section[i])
            i++;
        if (i == n && name[n] == '_')
            return name + n + 1;
    }
    return name;
}

/* The n-th name that there is, and its key. */
static const char *nth(size_t n, bool environment, char spelled[AG_OPTION_NAME])
{
    if (n >= AG_OPTIONS) {
        snprintf(spelled, AG_OPTION_NAME, "%s", short_names[n - AG_OPTIONS]);
        return spelled + strlen("AUTOGRAPH_");
    }
    ag_option_spell(&ag_option_table[n], environment, spelled);
    return ag_option_table[n].key;
}

/* The name that may have been meant; false: none. src/cmd/options.py decides alike. */
static bool find_nearest(const char *name, bool environment, char nearest[AG_OPTION_NAME])
{
    const char *key = key_of(name, environment);
    unsigned least = 4; /* farther than three letters is another word */
    for (size_t i = 0; i < AG_OPTIONS + (environment ? SHORT_NAMES : 0); i++) {
        char spelled[AG_OPTION_NAME];
        const char *its_key = nth(i, environment, spelled);
        size_t longer = strlen(key) > strlen(its_key) ? strlen(key) : strlen(its_key);
        unsigned far = distance(name, spelled);
        if (far > 1 && ag_option_is_equal(key, its_key))
            far = 1; /* the right key in the wrong section, or in none */
        if (far < least && 2 * far <= longer) {
            least = far;
            strcpy(nearest, spelled);
        }
    }
    return least < 4;
}

void ag_option_unknown(const char *where, const char *name, bool environment)
{
    char nearest[AG_OPTION_NAME];
    if (find_nearest(name, environment, nearest))
        ag_option_complain("%s: there is no option %s, did you mean %s?", where, name, nearest);
    else
        ag_option_complain("%s: there is no option %s", where, name);
}

void ag_option_check_variable(const char *name)
{
    char nearest[AG_OPTION_NAME];
    static const char *const others[] = {"AUTOGRAPH_RUN", "AUTOGRAPH_VERBOSITY"};
    bool known = ag_option_find(name, true) != NULL;
    for (size_t i = 0; i < SHORT_NAMES; i++)
        known |= strcmp(name, short_names[i]) == 0;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        known |= strcmp(name, others[i]) == 0;
    bool has_section = key_of(name, true) != name + strlen("AUTOGRAPH_");
    if (!known && (has_section || find_nearest(name, true, nearest)))
        ag_option_unknown("environment", name, true);
}

static bool parse_bool(const char *text, bool *value)
{
    static const char *const words[] = {"false", "true", "no", "yes", "off", "on", "0", "1"};

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (ag_option_is_equal(text, words[i])) {
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

bool ag_option_set(const struct ag_option *o, const char *text, const char *where)
{
    void *field = (char *)&ag_opt + o->offset;
    char name[AG_OPTION_NAME];
    ag_option_spell(o, false, name);

    switch (o->type) {
    case AG_OPTION_BOOL:
        if (parse_bool(text, field))
            return true;
        ag_option_complain("%s: %s = \"%.80s\" is not true or false; it stays %s", where, name,
                           text, *(bool *)field ? "true" : "false");
        break;
    case AG_OPTION_INT:
        if (parse_int(text, o->min, o->max, field))
            return true;
        ag_option_complain("%s: %s = \"%.80s\" is not a whole number from %ld to %ld; it stays %ld",
                           where, name, text, o->min, o->max, *(long *)field);
        break;
    case AG_OPTION_CHOICE:
        if (parse_choice(text, o->words, field))
            return true;
        ag_option_complain("%s: %s = \"%.80s\" is not one of %s; it stays as it was", where, name,
                           text, o->words);
        break;
    case AG_OPTION_STRING:
        if (strlen(text) < AG_PATH_MAX) {
            memcpy(field, text, strlen(text) + 1);
            return true;
        }
        ag_option_complain("%s: %s is longer than %d bytes; it stays \"%.80s\"", where, name,
                           AG_PATH_MAX - 1, (char *)field);
        break;
    }
    return false;
}

bool ag_option_has_section(const char *section)
{
    for (const struct ag_option *o = ag_option_table; o < AG_OPTIONS_END; o++)
        if (ag_option_is_equal(section, o->section))
            return true;
    return false;
}
