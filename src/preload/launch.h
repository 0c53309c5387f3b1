/* SPDX-License-Identifier: MIT */
/* The doors of the functions by which shared runtimes launch kernels. */
#ifndef AG_LAUNCH_H
#define AG_LAUNCH_H

#include "preload/runtime.h"

/* Of each runtime, in the order of its functions. */
extern void *const ag_runtime_doors[AG_RUNTIMES][AG_RUNTIME_FUNCTIONS];

#endif
