/* SPDX-License-Identifier: MIT */
/* Which program this is. */
#include "config/program.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "config/fnv.h"

static const char blanks[] = " \t\r\v\f";

/* Behind the name of a file that was replaced while the program runs, by an update say. */
static const char deleted[] = " (deleted)";

/* Whether the process began with the dynamic linker, which was told to run the program: the kernel
   has loaded no other one for it. */
static bool is_told_to_linker(void)
{
    return getauxval(AT_BASE) == 0;
}

enum { MAPS_LINE = PATH_MAX + 128 }; /* bytes of a line of /proc/self/maps at most */

/* The file that a line "FROM-TO RIGHTS OFFSET DEVICE INODE FILE" tells of, if it is mapped at that
   address; else NULL. */
static const char *mapped_at(const char *line, unsigned long address)
{
    char *rest;
    unsigned long from = strtoul(line, &rest, 16);
    unsigned long to = *rest == '-' ? strtoul(rest + 1, &rest, 16) : 0;
    const char *file = strchr(rest, '/');
    return address >= from && address < to ? file : NULL;
}

/* Writes the path of the file that is mapped at an address; returns its length, 0: not known. */
static size_t path_at(unsigned long address, char *path, size_t size)
{
    static char text[2 * MAPS_LINE];
    size_t used = 0, length = 0;
    ssize_t n = -1;
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && length == 0 && (n = read(fd, text + used, sizeof text - 1 - used)) > 0) {
        used += (size_t)n;
        text[used] = '\0';
        char *line = text, *end;
        for (; length == 0 && (end = strchr(line, '\n')) != NULL; line = end + 1) {
            *end = '\0';
            const char *file = mapped_at(line, address);
            if (file != NULL && strlen(file) < size)
                length = strlen(strcpy(path, file));
        }
        used -= (size_t)(line - text);
        memmove(text, line, used);
    }
    if (fd >= 0)
        close(fd); /* it was only read */
    return length;
}

void ag_program_path(char *path, size_t size)
{
    const char *given = (const char *)getauxval(AT_EXECFN); /* where there is no /proc */
    ssize_t n = 0;
    if (is_told_to_linker()) /* which says where the program's headers are */
        n = (ssize_t)path_at(getauxval(AT_PHDR), path, size);
    else
        n = readlink("/proc/self/exe", path, size - 1);
    if (n <= 0 && given != NULL && strlen(given) < size)
        n = (ssize_t)strlen(strcpy(path, given));
    path[n > 0 ? n : 0] = '\0';
    size_t end = strlen(deleted);
    if (n > (ssize_t)end && strcmp(path + n - end, deleted) == 0)
        path[(size_t)n - end] = '\0';
}

bool ag_program_stat(struct stat *st)
{
    char path[PATH_MAX];
    if (!is_told_to_linker())
        return stat("/proc/self/exe", st) == 0;
    ag_program_path(path, sizeof path);
    return stat(path, st) == 0;
}

const char *ag_program_name(void)
{
    static char path[PATH_MAX];
    if (*path == '\0')
        ag_program_path(path, sizeof path);
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

bool ag_program_is(const char *pattern)
{
    return fnmatch(pattern, ag_program_name(), 0) == 0;
}

/* Whether each bracket that opens a set of characters is closed. */
static bool is_closed(const char *pattern)
{
    for (const char *p = pattern; *p != '\0'; p++) {
        if (*p == '\\' && p[1] != '\0') {
            p++;
        } else if (*p == '[') {
            p += 1 + (p[1] == '!' || p[1] == '^'); /* a bracket right here is one of the set */
            p = *p != '\0' ? strchr(p + 1, ']') : NULL;
            if (p == NULL)
                return false;
        }
    }
    return true;
}

const char *ag_program_mistake(const char *pattern)
{
    if (*pattern == '\0')
        return "there is no name";
    if (strchr(pattern, '/') != NULL)
        return "a name has no slash";
    return is_closed(pattern) ? NULL : "a bracket is not closed";
}

/* The line without a comment and blanks behind it: its length. */
static size_t content(const char *line)
{
    size_t n = 1;
    while (line[n] != '\0' && !(line[n] == ';' && strchr(blanks, line[n - 1]) != NULL))
        n++;
    while (n > 0 && strchr(blanks, line[n - 1]) != NULL)
        n--;
    return n;
}

enum ag_program_head ag_program_head(const char *line, char name[AG_PROGRAM_BYTES])
{
    static const char prefix[] = "[program:";
    const size_t from = sizeof prefix - 1;
    if (*line != '[')
        return AG_HEAD_NONE;
    size_t end = content(line);
    while (end > 0 && line[end - 1] != ']')
        end--;
    if (end == 0)
        return AG_HEAD_NONE;
    if (end <= from || strncasecmp(line, prefix, from) != 0 || end - from > AG_PROGRAM_BYTES)
        return AG_HEAD_OTHER;
    memcpy(name, line + from, end - 1 - from);
    name[end - 1 - from] = '\0';
    return AG_HEAD_PROGRAM;
}

bool ag_program_repeats(const char *pattern)
{
    static uint64_t seen[64]; /* hashes */
    uint64_t hash = ag_fnv(pattern, strlen(pattern));
    for (size_t i = 0; i < sizeof seen / sizeof seen[0]; i++) {
        if (seen[i] == hash)
            return true;
        if (seen[i] == 0) {
            seen[i] = hash;
            break;
        }
    }
    return false;
}

const char *ag_program_next(const char *list, char pattern[AG_PROGRAM_BYTES])
{
    static const char between[] = " \t,";
    list += strspn(list, between);
    size_t n = strcspn(list, between), kept = n < AG_PROGRAM_BYTES ? n : AG_PROGRAM_BYTES - 1;
    if (n == 0)
        return NULL;
    memcpy(pattern, list, kept);
    pattern[kept] = '\0';
    return list + n;
}
