/* SPDX-License-Identifier: MIT */
/*
 * Loaded objects whose symbols are changed, and the words into which the dynamic linker has written
 * the addresses of functions (observe/object.h). Who writes has the lock of the doors.
 */
#ifndef AG_OBJECTS_H
#define AG_OBJECTS_H

#include <stdbool.h>
#include <stdint.h>

#include "observe/object.h"

/* What shall stand in place of an address; 0: nothing else. */
typedef uintptr_t ag_replace(uintptr_t address);

/* Changes what the symbols of the object's functions say; they must have been counted. And replaces
   the addresses that the dynamic linker has written into the object. False: something could not be
   written. */
bool ag_object_show(const struct ag_object *object, ag_replace *replace);
bool ag_object_rebind(const struct ag_object *object, ag_replace *replace);

/*
 * The lock of the doors: guards what is written to symbols, words and tables. Who has it takes none
 * of the loader's but that of dl_iterate_phdr(), and calls no driver. A fork waits for it.
 */
void ag_doors_lock(void);
void ag_doors_unlock(void);

/* Whether the address lies in this library. */
bool ag_is_ours(const void *address);

#endif
