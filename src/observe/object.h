/* SPDX-License-Identifier: MIT */
/*
 * Loaded objects, as the dynamic linker sees them: their segments and symbols. Nothing here is
 * looked up, and no memory is allocated.
 *
 * Whoever calls must know that the object stays loaded meanwhile: dl_iterate_phdr() is calling
 * back, or the object is kept. While that calls back it holds a lock of the loader. The loader
 * takes that lock for moments, unlike the one that it holds while constructors run, and dladdr()
 * takes.
 */
#ifndef AG_OBJECT_H
#define AG_OBJECT_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ag_object {
    uintptr_t base, start, end; /* its segments lie between the two last */
    const char *path;           /* "" for the program */
    const char *soname;         /* "" if it has none */
    ElfW(Sym) * symbols;
    size_t symbol_count; /* 0 until they are counted */
    const uint32_t *hash, *gnu_hash;
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

/* Counts its symbols, which takes some time. */
void ag_object_count(struct ag_object *object);

/* Whether a segment of the object has the address. */
bool ag_object_has(const struct dl_phdr_info *info, uintptr_t address);

/* Whether the object's file, or the name that it has for itself, begins with `name`. */
bool ag_object_is_named(const struct ag_object *object, const char *name);

/* The name of a function that the object defines for others; NULL if the symbol is none. */
const char *ag_object_function(const struct ag_object *object, const ElfW(Sym) * symbol);

/* The innermost of these functions that has the address; NULL: none. The symbols are counted. */
const ElfW(Sym) * ag_object_around(const struct ag_object *object, uintptr_t address);

#endif
