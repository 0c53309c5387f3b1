/* SPDX-License-Identifier: MIT */
/*
 * Work that nobody can ask for by a stream's name: its stream is gone, or no door has seen it.
 *
 * A stream may be destroyed, and a thread with a default stream may end, before their work is done.
 * A thread may launch in ways that no door sees. The library must know when such work is done:
 * before it calls nothing outstanding (outstanding.h), or uses a state again (registry.c). So
 * each context numbers what is left. It is settled
 * - when an event of the library's own has happened that was recorded behind the work, in the
 *   stream that is about to go;
 * - when the host has waited for the whole context;
 * - if the stream was a blocking one, when the host has waited for a copy in the legacy stream,
 *   which came behind all such work.
 * What a thread launches unseen is settled by that thread's own wait alone, until it ends.
 *
 * Any lock may be held.
 */
#ifndef AG_ENGINE_LEFT_H
#define AG_ENGINE_LEFT_H

#include <cuda.h>
#include <stdatomic.h>
#include <stdbool.h>

/* What is told apart in a context. More of it shares places, and is settled together. */
enum { AG_LEAVINGS = 32 };

/* Under the lock of left.c, but for `left` and `settled`. */
struct ag_leavings {
    _Atomic unsigned left;    /* the number of the last one */
    _Atomic unsigned settled; /* all are settled up to this number */
    struct ag_leaving {
        unsigned number;
        bool open;          /* it is not settled */
        bool marked;        /* `event` is behind it */
        bool blocking;      /* it was in a blocking stream */
        const void *thread; /* that launches unseen; NULL: no thread adds anything */
        CUevent event;      /* NULL: not made yet */
    } list[AG_LEAVINGS];    /* by number */
};

/* Adds one; `thread` launches unseen, or NULL. *event is for a record behind it, NULL: there is
   none yet; *own: it has a place of its own, and can have one. Returns its number. */
unsigned ag_left_add(struct ag_leavings *leavings, bool blocking, const void *thread,
                     CUevent *event, bool *own);

/* The event has been recorded behind it. */
void ag_left_marked(struct ag_leavings *leavings, unsigned number, CUevent event);

/* Whether all is settled. */
static inline bool ag_left_is_settled(const struct ag_leavings *leavings)
{
    return atomic_load(&leavings->settled) == atomic_load(&leavings->left);
}

/* How much is not settled, at most. */
static inline unsigned ag_left_count(const struct ag_leavings *leavings)
{
    return atomic_load(&leavings->left) - atomic_load(&leavings->settled);
}

/* Whether it is settled up to this number. 0: there is nothing to settle. */
static inline bool ag_left_has_settled(const struct ag_leavings *leavings, unsigned number)
{
    return number == 0 || (int)(atomic_load(&leavings->settled) - number) >= 0;
}

/* The number of the last one; 0: all is settled. */
static inline unsigned ag_left_mark(const struct ag_leavings *leavings)
{
    return ag_left_is_settled(leavings) ? 0 : atomic_load(&leavings->left);
}

/* The event behind the oldest one that is open; NULL: there is none. And: it has happened. */
CUevent ag_left_oldest(struct ag_leavings *leavings, unsigned *number);
void ag_left_happened(struct ag_leavings *leavings, unsigned number);

/* The host has waited, for the whole context or a copy in its legacy stream only. `left` is what
   ag_left_mark() gave before. */
void ag_left_waited(struct ag_leavings *leavings, unsigned left, bool whole);

/* The calling thread ends: it launches nothing any more. */
void ag_left_thread_ends(struct ag_leavings *leavings);

/* The context is gone. */
void ag_left_forget(struct ag_leavings *leavings);

#endif
