/* SPDX-License-Identifier: MIT */
/* The list of what is left in a context. */
#include "engine/context/orphans.h"

#include <pthread.h>

#include "engine/base/thread.h"
#include "engine/hot.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* innermost */

static struct ag_orphan *place_of(struct ag_orphans *orphans, unsigned number)
{
    return &orphans->list[number % AG_ORPHANS];
}

/* -- Under the lock -------------------------------------------------------------- */

/* Adds one, in a place of its own or, if all are taken, together with the oldest. */
static struct ag_orphan *add(struct ag_orphans *orphans, bool blocking, const void *thread)
{
    unsigned number = atomic_load(&orphans->left) + 1;
    struct ag_orphan *orphan = place_of(orphans, number);
    bool shared = orphan->open;
    orphan->number = number;
    orphan->blocking = blocking && (orphan->blocking || !shared);
    if (!shared || orphan->thread == NULL)
        orphan->thread = thread;
    else if (thread != NULL && thread != orphan->thread)
        orphan->thread = orphans; /* of several threads: settled when the context goes */
    if (!shared)
        atomic_fetch_add(&ag_any_orphans, 1);
    orphan->marked = false;
    orphan->open = true;
    atomic_store(&orphans->left, number);
    return orphan;
}

static void close(struct ag_orphan *orphan)
{
    if (orphan->thread == &ag_self)
        ag_self.unseen = NULL;
    orphan->open = orphan->marked = false;
    orphan->thread = NULL;
    atomic_fetch_sub(&ag_any_orphans, 1);
}

static void advance(struct ag_orphans *orphans)
{
    unsigned number = atomic_load(&orphans->settled), left = atomic_load(&orphans->left);
    while (number != left && !place_of(orphans, number + 1)->open)
        number++;
    atomic_store(&orphans->settled, number);
}

static bool is_marked(const struct ag_orphan *orphan, unsigned number)
{
    return orphan->open && orphan->marked && orphan->number == number;
}

/* -- What comes ------------------------------------------------------------------- */

unsigned ag_orphans_add(struct ag_orphans *orphans, bool blocking, const void *thread,
                        CUevent *event, bool *own)
{
    pthread_mutex_lock(&lock);
    struct ag_orphan *orphan = add(orphans, blocking, thread);
    unsigned number = orphan->number;
    *own = number - atomic_load(&orphans->settled) <= AG_ORPHANS;
    *event = orphan->event;
    pthread_mutex_unlock(&lock);
    return number;
}

void ag_orphans_marked(struct ag_orphans *orphans, unsigned number, CUevent event)
{
    pthread_mutex_lock(&lock);
    struct ag_orphan *orphan = place_of(orphans, number);
    orphan->event = event;
    orphan->marked = orphan->open && orphan->number == number;
    pthread_mutex_unlock(&lock);
}

/* -- What goes --------------------------------------------------------------------- */

CUevent ag_orphans_oldest(struct ag_orphans *orphans, unsigned *number)
{
    pthread_mutex_lock(&lock);
    *number = atomic_load(&orphans->settled) + 1;
    const struct ag_orphan *orphan = place_of(orphans, *number);
    CUevent event = is_marked(orphan, *number) ? orphan->event : NULL;
    pthread_mutex_unlock(&lock);
    return event;
}

void ag_orphans_happened(struct ag_orphans *orphans, unsigned number)
{
    pthread_mutex_lock(&lock);
    struct ag_orphan *orphan = place_of(orphans, number);
    if (is_marked(orphan, number))
        close(orphan);
    advance(orphans);
    pthread_mutex_unlock(&lock);
}

void ag_orphans_waited(struct ag_orphans *orphans, unsigned left, bool whole)
{
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < AG_ORPHANS; i++) {
        struct ag_orphan *orphan = &orphans->list[i];
        bool mine = orphan->thread == NULL || orphan->thread == &ag_self;
        if (orphan->open && mine && (int)(left - orphan->number) >= 0 &&
            (whole || orphan->blocking))
            close(orphan);
    }
    advance(orphans);
    pthread_mutex_unlock(&lock);
}

void ag_orphans_thread_ends(struct ag_orphans *orphans)
{
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < AG_ORPHANS; i++)
        if (orphans->list[i].thread == &ag_self)
            orphans->list[i].thread = NULL;
    pthread_mutex_unlock(&lock);
}

void ag_orphans_forget(struct ag_orphans *orphans)
{
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < AG_ORPHANS; i++) {
        if (orphans->list[i].open)
            close(&orphans->list[i]);
        orphans->list[i].event = NULL; /* it goes with the context */
    }
    advance(orphans);
    pthread_mutex_unlock(&lock);
}
