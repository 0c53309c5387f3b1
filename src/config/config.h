/* SPDX-License-Identifier: MIT */
/*
 * The options: one table (config/options.def) feeds the struct, the defaults, the INI reader, the
 * environment, --help and the documentation.
 */
#ifndef AG_CONFIG_H
#define AG_CONFIG_H

#include <stdbool.h>

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

/* The file that they were read from; empty if there was none. */
extern char ag_config_path[AG_PATH_MAX];

/*
 * Reads defaults, then the first INI file of the search order, then the environment, once per
 * process. `complain` is told of each bad value and unknown key; the default stays. Never fails.
 * Not for the hot path.
 */
void ag_config_load(void (*complain)(const char *mistake));

/* Why nothing is to be done in this program, by the options; NULL: the library may work. */
const char *ag_config_off(void);

#endif
