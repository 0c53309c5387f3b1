/* SPDX-License-Identifier: MIT */
/* Strings that are kept until the process ends, each once: equal ones have the same address. */
#ifndef AG_STRINGS_H
#define AG_STRINGS_H

/* The kept copy of a string; NULL without memory, or when there are too many. Takes a lock. */
const char *ag_keep(const char *text);

#endif
