/* SPDX-License-Identifier: MIT */
/*
 * The options: one table (config/options.def) feeds the struct, the defaults, the INI reader, the
 * environment, --help and the documentation.
 */
#ifndef AG_CONFIG_H
#define AG_CONFIG_H

#include "config/option.h"

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
