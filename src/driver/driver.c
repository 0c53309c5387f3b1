/* SPDX-License-Identifier: MIT */
/*
 * Filling the table of real driver functions.
 */
#include "driver/driver.h"

struct ag_driver ag_real;

void ag_driver_resolve(struct ag_driver *table, void *libcuda,
                       void *(*lookup)(void *handle, const char *name))
{
#define X(name) table->name = (__typeof__(name) *)lookup(libcuda, #name);
    AG_DRIVER_FUNCTIONS(X)
    AG_DRIVER_NEWER_FUNCTIONS(X)
#undef X
}
