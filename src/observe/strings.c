/* SPDX-License-Identifier: MIT */
/* The table of kept strings. */
#include "observe/strings.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 1024, MOST_STRINGS = 65536 };

struct kept {
    struct kept *next;
    char text[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows; innermost */
static struct kept *table[BUCKETS];
static unsigned count;

const char *ag_keep(const char *text)
{
    uint64_t hash = 0;
    for (const char *c = text; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 0x9e3779b97f4a7c15u;
    struct kept **bucket = &table[hash >> 54];

    pthread_mutex_lock(&lock);
    struct kept *kept = *bucket;
    while (kept && strcmp(kept->text, text) != 0)
        kept = kept->next;
    if (!kept && count < MOST_STRINGS && (kept = malloc(sizeof *kept + strlen(text) + 1)) != NULL) {
        strcpy(kept->text, text);
        kept->next = *bucket;
        *bucket = kept;
        count++;
    }
    pthread_mutex_unlock(&lock);
    return kept ? kept->text : NULL;
}
