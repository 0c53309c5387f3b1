/* SPDX-License-Identifier: MIT */
/* The list of what is left in a context. */
#include "engine/context/left.h"

#include <pthread.h>

#include "engine/base/thread.h"
#include "engine/hot.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* innermost */

static struct ag_leaving *place_of(struct ag_leavings *leavings, unsigned number)
{
    return &leavings->list[number % AG_LEAVINGS];
}

/* -- Under the lock -------------------------------------------------------------- */

/* Adds one, in a place of its own or, if all are taken, together with the oldest. */
static struct ag_leaving *add(struct ag_leavings *leavings, bool blocking, const void *thread)
{
    unsigned number = atomic_load(&leavings->left) + 1;
    struct ag_leaving *leaving = place_of(leavings, number);
    bool shared = leaving->open;
    leaving->number = number;
    leaving->blocking = blocking && (leaving->blocking || !shared);
    if (!shared || leaving->thread == NULL)
        leaving->thread = thread;
    else if (thread != NULL && thread != leaving->thread)
        leaving->thread = leavings; /* of several threads: settled when the context goes */
    if (!shared)
        atomic_fetch_add(&ag_unsettled, 1);
    leaving->marked = false;
    leaving->open = true;
    atomic_store(&leavings->left, number);
    return leaving;
}

static void close(struct ag_leaving *leaving)
{
    if (leaving->thread == &ag_self)
        ag_self.unseen = NULL;
    leaving->open = leaving->marked = false;
    leaving->thread = NULL;
    atomic_fetch_sub(&ag_unsettled, 1);
}

static void advance(struct ag_leavings *leavings)
{
    unsigned number = atomic_load(&leavings->settled), left = atomic_load(&leavings->left);
    while (number != left && !place_of(leavings, number + 1)->open)
        number++;
    atomic_store(&leavings->settled, number);
}

static bool is_marked(const struct ag_leaving *leaving, unsigned number)
{
    return leaving->open && leaving->marked && leaving->number == number;
}

/* -- What comes ------------------------------------------------------------------- */

unsigned ag_left_add(struct ag_leavings *leavings, bool blocking, const void *thread,
                     CUevent *event, bool *own)
{
    pthread_mutex_lock(&lock);
    struct ag_leaving *leaving = add(leavings, blocking, thread);
    unsigned number = leaving->number;
    *own = number - atomic_load(&leavings->settled) <= AG_LEAVINGS;
    *event = leaving->event;
    pthread_mutex_unlock(&lock);
    return number;
}

void ag_left_marked(struct ag_leavings *leavings, unsigned number, CUevent event)
{
    pthread_mutex_lock(&lock);
    struct ag_leaving *leaving = place_of(leavings, number);
    leaving->event = event;
    leaving->marked = leaving->open && leaving->number == number;
    pthread_mutex_unlock(&lock);
}

/* -- What goes --------------------------------------------------------------------- */

CUevent ag_left_oldest(struct ag_leavings *leavings, unsigned *number)
{
    pthread_mutex_lock(&lock);
    *number = atomic_load(&leavings->settled) + 1;
    const struct ag_leaving *leaving = place_of(leavings, *number);
    CUevent event = is_marked(leaving, *number) ? leaving->event : NULL;
    pthread_mutex_unlock(&lock);
    return event;
}

void ag_left_happened(struct ag_leavings *leavings, unsigned number)
{
    pthread_mutex_lock(&lock);
    struct ag_leaving *leaving = place_of(leavings, number);
    if (is_marked(leaving, number))
        close(leaving);
    advance(leavings);
    pthread_mutex_unlock(&lock);
}

void ag_left_waited(struct ag_leavings *leavings, unsigned left, bool whole)
{
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < AG_LEAVINGS; i++) {
        struct ag_leaving *leaving = &leavings->list[i];
        bool mine = leaving->thread == NULL || leaving->thread == &ag_self;
        if (leaving->open && mine && (int)(left - leaving->number) >= 0 &&
            (whole || leaving->blocking))
            close(leaving);
    }
    advance(leavings);
    pthread_mutex_unlock(&lock);
}

void ag_left_thread_ends(struct ag_leavings *leavings)
{
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < AG_LEAVINGS; i++)
        if (leavings->list[i].thread == &ag_self)
            leavings->list[i].thread = NULL;
    pthread_mutex_unlock(&lock);
}

void ag_left_forget(struct ag_leavings *leavings)
{
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < AG_LEAVINGS; i++) {
        if (leavings->list[i].open)
            close(&leavings->list[i]);
        leavings->list[i].event = NULL; /* it goes with the context */
    }
    advance(leavings);
    pthread_mutex_unlock(&lock);
}
