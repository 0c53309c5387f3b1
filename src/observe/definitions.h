/* SPDX-License-Identifier: MIT */
/*
 * Definitions of the trace file (tracefile.h): kept in memory, under a lock, until the writer takes
 * them.
 */
#ifndef AG_DEFINITIONS_H
#define AG_DEFINITIONS_H

#include <stddef.h>
#include <stdint.h>

/* Writes a definition: `size` bytes, then `name` with its zero unless that is NULL. */
void ag_define(unsigned type, unsigned sub, uint32_t id, const void *body, size_t size,
               const char *name);

/* The number of a string in this file; a name is kept by its address: a constant one. */
uint32_t ag_define_string(const char *name);

struct ag_definitions {
    unsigned char *data;
    size_t used, room; /* bytes */
};

/* Gives the writer the definitions that there are. Its own buffer, which it has written, is used
   for the next ones. */
void ag_definitions_take(struct ag_definitions *taken);

/* Definitions for which there was no memory. */
uint64_t ag_definitions_lost(void);

#endif
