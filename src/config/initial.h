/* SPDX-License-Identifier: MIT */
/*
 * What the process began with. A program may clear its environment, write over it or change its
 * directory before it uses CUDA; options and names of files are those of whoever started it.
 *
 * Kept by the library's only constructor, before main(). Constant from then on; no locks.
 */
#ifndef AG_INITIAL_H
#define AG_INITIAL_H

#include <stdbool.h>
#include <stddef.h>

/* Variables in which launchers of parallel programs give the rank; the first that is set counts. */
#define AG_RANK_VARIABLES "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID", "RANK"

/* The value of AUTOGRAPH_..., of HOME, of XDG_CONFIG_HOME or of a rank's variable; else NULL. */
const char *ag_initial_variable(const char *name);

/* All variables that were kept, as in environ. */
const char *const *ag_initial_environment(void);

/* Writes the directory that the process began in, and a slash. Returns the length; 0: the directory
   is not known or does not fit. */
size_t ag_initial_directory(char *to, size_t size);

/* Whether descriptor 2 still is the standard error that the process began with. A program that has
   closed it may have opened a file of its own there. */
bool ag_initial_error_is_open(void);

#endif
