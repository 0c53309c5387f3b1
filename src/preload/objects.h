/* SPDX-License-Identifier: MIT */
/*
 * Loaded objects, as the dynamic linker sees them: their symbols, and the words into which it has
 * written the addresses of functions. Nothing here is looked up, and no memory is allocated.
 *
 * Whoever calls must know that the object stays loaded meanwhile: dl_iterate_phdr() is calling
 * back, or the object is kept. Who opens words has the lock of the doors.
 */
#ifndef AG_OBJECTS_H
#define AG_OBJECTS_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ag_object {
    uintptr_t base, start, end; /* its segments lie between the two last */
    const char *path;           /* "" for the program */
    const char *soname;         /* "" if it has none */
    ElfW(Sym) * symbols;
    size_t symbol_count;
    const char *strings;
    struct ag_relocations {
        const ElfW(Rela) * list;
        size_t count;
    } relocations, jumps;
    uintptr_t relro, relro_end; /* pages that are read-only since the object was relocated */
    const ElfW(Phdr) * segments;
    unsigned segment_count;
};

/* False for this library itself, and for what has no symbols. */
bool ag_object_read(const struct dl_phdr_info *info, struct ag_object *object);

/* Whether the object's file, or the name that it has for itself, begins with `name`. */
bool ag_object_is_named(const struct ag_object *object, const char *name);

/* The name of a function that the object defines for others; NULL if the symbol is none. */
const char *ag_object_function(const struct ag_object *object, const ElfW(Sym) * symbol);

/* Words that can be written to until they are closed again. */
struct ag_opened {
    void *first;
    size_t length;
    int protection; /* before; -1: they are always open */
};

/* False: the words stay as they are. */
bool ag_object_open(const struct ag_object *object, uintptr_t at, size_t size,
                    struct ag_opened *opened);
void ag_object_close(const struct ag_opened *opened);

/*
 * Replaces the addresses that the dynamic linker has written into the object: `replace` gives for
 * each what shall stand there, or 0. False: one of them could not be written.
 */
bool ag_object_rebind(const struct ag_object *object, uintptr_t (*replace)(uintptr_t address));

/*
 * The lock of the doors: guards what is written to symbols, words and tables. Who has it takes none
 * of the loader's but that of dl_iterate_phdr(), and calls no driver. A fork waits for it.
 */
void ag_doors_lock(void);
void ag_doors_unlock(void);

/* Whether the address lies in this library. */
bool ag_is_ours(const void *address);

#endif
