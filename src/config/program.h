/* SPDX-License-Identifier: MIT */
/*
 * Which program this is: what sections [program:NAME] and the option general.exclude go by. Read
 * once, when options are.
 */
#ifndef AG_PROGRAM_H
#define AG_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

/* Writes the path of the program's executable, also where the dynamic linker was told to run it;
   without /proc, the name by which it was started. */
void ag_program_path(char *path, size_t size);

/* The status of that file. False: errno. */
bool ag_program_stat(struct stat *st);

/* The base name of the program's executable, which for a script is its interpreter. Empty: not
   known. */
const char *ag_program_name(void);

/* Whether a pattern of the shell stands for this program. */
bool ag_program_is(const char *pattern);

/* Why the pattern stands for no program; NULL: it may. */
const char *ag_program_mistake(const char *pattern);

enum { AG_PROGRAM_BYTES = 256 }; /* of a pattern, with its zero: a line of the file is shorter */

/* What a line of the file is the head of; `name` is that of [program:NAME]. A name may have
   brackets in it. As for inih a comment begins with a semicolon behind a blank. */
enum ag_program_head { AG_HEAD_NONE, AG_HEAD_OTHER, AG_HEAD_PROGRAM };
enum ag_program_head ag_program_head(const char *line, char name[AG_PROGRAM_BYTES]);

/* Whether the section for that pattern has come before, among the first sections for programs. */
bool ag_program_repeats(const char *pattern);

/* Takes the next pattern from a list that has blanks or commas between them. Returns what is left;
   NULL: there was none. One that is too long is cut. */
const char *ag_program_next(const char *list, char pattern[AG_PROGRAM_BYTES]);

#endif
