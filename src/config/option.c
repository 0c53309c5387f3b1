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

/* The number of letters to insert, delete or exchange to make `b` of `a`. */
static unsigned distance(const char *a, const char *b)
{
    unsigned row[AG_OPTION_NAME + 1];
    const size_t n = strlen(b) < AG_OPTION_NAME ? strlen(b) : AG_OPTION_NAME;

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

void ag_option_unknown(const char *where, const char *name, bool environment)
{
    const char *dot = strchr(name, '.'), *key = dot ? dot + 1 : name;
    const struct ag_option *nearest = NULL;
    unsigned least = 4; /* farther than three letters is another word */

    for (const struct ag_option *o = ag_option_table; o < AG_OPTIONS_END; o++) {
        char spelled[AG_OPTION_NAME];
        ag_option_spell(o, environment, spelled);
        unsigned far = distance(name, spelled);
        if (far > 1 && ag_option_is_equal(key, o->key))
            far = 1; /* the right key in the wrong section, or in none */
        if (far < least) {
            least = far;
            nearest = o;
        }
    }
    if (!nearest) {
        ag_option_complain("%s: there is no option %s", where, name);
        return;
    }
    char spelled[AG_OPTION_NAME];
    ag_option_spell(nearest, environment, spelled);
    ag_option_complain("%s: there is no option %s, did you mean %s?", where, name, spelled);
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

bool ag_option_is_meant(const char *name)
{
    const char *section = name + strlen("AUTOGRAPH_");

    for (const struct ag_option *o = ag_option_table; o < AG_OPTIONS_END; o++) {
        size_t n = strlen(o->section), i = 0;
        while (i < n && lower(section[i]) == o->section[i])
            i++;
        if (i == n && section[n] == '_')
            return true;
    }
    return false;
}
