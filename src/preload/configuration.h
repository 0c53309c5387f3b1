/* SPDX-License-Identifier: MIT */
/* What `kernel<<<grid, block, shared, stream>>>(...)` pushes to a runtime, and pops. */
#ifndef AG_CONFIGURATION_H
#define AG_CONFIGURATION_H

#include "preload/runtime.h"

/* As the runtime's functions. Safe in a signal handler. */
unsigned ag_configuration_push(struct ag_runtime *runtime, struct dim3 grid, struct dim3 block,
                               size_t shared, void *stream);
int ag_configuration_pop(struct ag_runtime *runtime, struct dim3 *grid, struct dim3 *block,
                         size_t *shared, void *stream);

#endif
