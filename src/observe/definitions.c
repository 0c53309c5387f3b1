/* SPDX-License-Identifier: MIT */
/* Definitions that wait for the writer, and the numbers of strings. */
#include "observe/definitions.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "observe/record.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static struct ag_definitions definitions;
static _Atomic uint64_t lost;

enum {
    STRINGS = 4096,      /* places for strings in the table; half of them are used at most */
    LONGEST_NAME = 8192, /* bytes of a name; the rest is cut off */
};
static const char *strings[STRINGS]; /* open addressing; the number is the place, from 1 */
static unsigned string_count;

/* The lock is held. */
static void define(unsigned type, unsigned sub, uint32_t id, const void *body, size_t size,
                   const char *name)
{
    size_t length = name ? strnlen(name, LONGEST_NAME) : 0;
    size_t total = (sizeof(struct ag_record) + size + (name ? length + 1 : 0) + 15) & ~(size_t)15;
    if (total > AG_RECORD_MOST)
        return;
    if (definitions.used + total > definitions.room) {
        size_t room = definitions.room ? definitions.room * 2 : 2 * AG_RECORD_MOST;
        void *data = realloc(definitions.data, room);
        if (data) {
            definitions.data = data;
            definitions.room = room;
        }
    }
    if (definitions.used + total <= definitions.room) {
        struct ag_record *record = (struct ag_record *)(definitions.data + definitions.used);
        memset(record, 0, total);
        ag_record_fill(record, total, type, sub, id, ag_record_clock(CLOCK_MONOTONIC));
        if (size)
            memcpy(record->word, body, size);
        if (name)
            memcpy((char *)record->word + size, name, length);
        definitions.used += total;
    } else {
        atomic_fetch_add(&lost, 1);
    }
}

void ag_define(unsigned type, unsigned sub, uint32_t id, const void *body, size_t size,
               const char *name)
{
    pthread_mutex_lock(&lock);
    define(type, sub, id, body, size, name);
    pthread_mutex_unlock(&lock);
}

uint32_t ag_define_string(const char *name)
{
    pthread_mutex_lock(&lock);
    unsigned place = ((uintptr_t)name >> 2) * 0x9e3779b1u % STRINGS;
    while (strings[place] && strings[place] != name)
        place = (place + 1) % STRINGS;
    bool known = strings[place] != NULL;
    bool kept = known || string_count < STRINGS / 2;
    if (!known && kept) {
        strings[place] = name;
        string_count++;
        define(AG_RECORD_STRING, 0, place + 1, NULL, 0, name);
    }
    pthread_mutex_unlock(&lock);
    return kept ? place + 1 : 0;
}

void ag_definitions_take(struct ag_definitions *taken)
{
    pthread_mutex_lock(&lock);
    struct ag_definitions swap = *taken;
    *taken = definitions;
    definitions = swap;
    pthread_mutex_unlock(&lock);
}

uint64_t ag_definitions_lost(void)
{
    return atomic_load(&lost);
}
