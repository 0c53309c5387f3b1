/* SPDX-License-Identifier: MIT */
/*
 * The table of options, and what text says of them: names, values, and mistakes in both.
 *
 * Options are set before there is a second thread, by config.c.
 */
#ifndef AG_OPTION_H
#define AG_OPTION_H

#include <stdbool.h>
#include <stddef.h>

#define AG_PATH_MAX 1024

/* The values of the options that are a choice of words, in the order of the table. */
enum ag_trace_length {
    AG_LENGTH_AUTO,
    AG_LENGTH_FIXED,
};

enum ag_update_strategy { AG_UPDATE_AUTO, AG_UPDATE_SET_PARAMS, AG_UPDATE_EXEC_UPDATE };

struct ag_options {
#define AG_OPT_CHOICE(section, key, words, help)        unsigned section##_##key;
#define AG_OPT_BOOL(section, key, value, help)          bool section##_##key;
#define AG_OPT_INT(section, key, value, min, max, help) long section##_##key;
#define AG_OPT_STRING(section, key, value, help)        char section##_##key[AG_PATH_MAX];
#include "config/options.def"
#undef AG_OPT_CHOICE
#undef AG_OPT_BOOL
#undef AG_OPT_INT
#undef AG_OPT_STRING
};

/* The options in force. Constant after ag_config_load(). */
extern struct ag_options ag_opt;

struct ag_option {
    enum { AG_OPTION_BOOL, AG_OPTION_INT, AG_OPTION_CHOICE, AG_OPTION_STRING } type;
    const char *section, *key;
    size_t offset;     /* in struct ag_options */
    long min, max;     /* INT only */
    const char *words; /* CHOICE only: "one|other" */
};

enum {
#define AG_OPT_BOOL(section, key, value, help)          AG_OPTION_##section##_##key,
#define AG_OPT_INT(section, key, value, min, max, help) AG_OPTION_##section##_##key,
#define AG_OPT_CHOICE(section, key, words, help)        AG_OPTION_##section##_##key,
#define AG_OPT_STRING(section, key, value, help)        AG_OPTION_##section##_##key,
#include "config/options.def"
#undef AG_OPT_BOOL
#undef AG_OPT_INT
#undef AG_OPT_CHOICE
#undef AG_OPT_STRING
    AG_OPTIONS,
    AG_OPTION_NAME = 64 /* bytes of "section.key"; an unknown name is cut here */
};

extern const struct ag_option ag_option_table[AG_OPTIONS];
#define AG_OPTIONS_END (ag_option_table + AG_OPTIONS)

/* Mistakes are told to that function from now on. */
void ag_option_tell(void (*to)(const char *mistake));

/* Tells of a mistake. */
void ag_option_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Whether two words are equal but for their case, whatever the program's locale. */
bool ag_option_is_equal(const char *a, const char *b);

/* "section.key", or AUTOGRAPH_SECTION_KEY for the environment. */
void ag_option_spell(const struct ag_option *o, bool environment, char name[AG_OPTION_NAME]);

/* The option of that name; NULL: there is none. */
const struct ag_option *ag_option_find(const char *name, bool environment);

/* Says that there is no option `name`, and which one may have been meant. */
void ag_option_unknown(const char *where, const char *name, bool environment);

/* Sets an option. Whether it has that value now. */
bool ag_option_set(const struct ag_option *o, const char *text, const char *where);

/* Whether any option has that section. */
bool ag_option_has_section(const char *section);

/*
 * Tells of a variable AUTOGRAPH_... that does not exist, if it is within a known section or spelt
 * like one of ours. Other software has names with this prefix, too: TensorFlow's
 * AUTOGRAPH_VERBOSITY.
 */
void ag_option_check_variable(const char *name);

#endif
