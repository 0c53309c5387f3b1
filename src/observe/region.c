/* SPDX-License-Identifier: MIT */
/* The table of regions. */
#include "observe/region.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "observe/strings.h"

enum {
    MOST_REGIONS = 64, /* names in the process; further ones have no region */
    DEPTH = 16,        /* regions inside one another in a thread; deeper ones do not count */
    NAME_BYTES = 128,  /* of a name, with its zero; the rest is cut off */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows; innermost */
static struct ag_region regions[MOST_REGIONS];
static unsigned region_count;

static const char *_Atomic current;

/* Of one thread; for one that has never entered a region there is none. */
struct entered {
    unsigned depth; /* may be more than there is room for */
    struct {
        const char *name;
        struct ag_region_mark mark;
    } open[DEPTH];
};

static pthread_key_t key;
static pthread_once_t begun = PTHREAD_ONCE_INIT;
static bool key_made;

static void begin(void)
{
    key_made = pthread_key_create(&key, free) == 0;
}

/* The calling thread's; NULL: no memory. */
static struct entered *entered(void)
{
    pthread_once(&begun, begin);
    struct entered *own = key_made ? pthread_getspecific(key) : NULL;
    if (own == NULL && key_made && (own = calloc(1, sizeof *own)) != NULL &&
        pthread_setspecific(key, own) != 0) {
        free(own);
        own = NULL;
    }
    return own;
}

const char *ag_region_begin(const char *name, const struct ag_region_mark *mark)
{
    char cut[NAME_BYTES] = "";
    struct entered *own = entered();
    if (own == NULL || own->depth++ >= DEPTH)
        return NULL;
    memcpy(cut, name, strnlen(name, sizeof cut - 1));
    const char *kept = ag_keep(cut);
    own->open[own->depth - 1].name = kept;
    own->open[own->depth - 1].mark = *mark;
    atomic_store(&current, kept);
    return kept;
}

static void add(const char *name, const struct ag_region_mark *from,
                const struct ag_region_mark *to)
{
    unsigned i = 0;
    while (i < region_count && regions[i].name != name)
        i++;
    if (i == MOST_REGIONS)
        return;
    region_count += i == region_count;
    regions[i].name = name;
    regions[i].count++;
    regions[i].ns += to->ns - from->ns;
    regions[i].ops += to->ops - from->ops;
    regions[i].replayed += to->replayed - from->replayed;
}

const char *ag_region_end(const struct ag_region_mark *mark)
{
    struct entered *own = entered();
    if (own == NULL || own->depth == 0 || --own->depth >= DEPTH)
        return NULL;
    const char *name = own->open[own->depth].name;
    atomic_store(&current, own->depth != 0 ? own->open[own->depth - 1].name : NULL);
    if (name == NULL)
        return NULL;
    pthread_mutex_lock(&lock);
    add(name, &own->open[own->depth].mark, mark);
    pthread_mutex_unlock(&lock);
    return name;
}

const char *ag_region_current(void)
{
    return atomic_load(&current);
}

const char *ag_region_own(void)
{
    pthread_once(&begun, begin);
    const struct entered *own = key_made ? pthread_getspecific(key) : NULL;
    if (own == NULL || own->depth == 0)
        return NULL;
    return own->open[(own->depth < DEPTH ? own->depth : DEPTH) - 1].name;
}

bool ag_region_get(unsigned i, struct ag_region *region)
{
    pthread_mutex_lock(&lock);
    bool there = i < region_count;
    if (there)
        *region = regions[i];
    pthread_mutex_unlock(&lock);
    return there;
}
