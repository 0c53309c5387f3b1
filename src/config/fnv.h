/* SPDX-License-Identifier: MIT */
/* The hash FNV-1a of 64 bits, by which names and files are told apart. */
#ifndef AG_FNV_H
#define AG_FNV_H

#include <stddef.h>
#include <stdint.h>

/* The hash of so many bytes. */
static inline uint64_t ag_fnv(const char *bytes, size_t size)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * 0x100000001b3u;
    return hash;
}

#endif
