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
#ifndef AG_ENGINE_ORPHANS_H
#define AG_ENGINE_ORPHANS_H

#include <cuda.h>
#include <stdatomic.h>
#include <stdbool.h>

/* What is told apart in a context. More of it shares places, and is settled together. */
enum { AG_ORPHANS = 32 };

/* Under the lock of orphans.c, but for `left` and `settled`. */
struct ag_orphans {
    _Atomic unsigned left;    /* the number of the last one */
    _Atomic unsigned settled; /* all are settled up to this number */
    struct ag_orphan {
        unsigned number;
        bool open;          /* it is not settled */
        bool marked;        /* `event` is behind it */
        bool blocking;      /* it was in a blocking stream */
        const void *thread; /* that launches unseen; NULL: no thread adds anything */
        CUevent event;      /* NULL: not made yet */
    } list[AG_ORPHANS];     /* by number */
};

/* Adds one; `thread` launches unseen, or NULL. *event is for a record behind it, NULL: there is
   none yet; *own: it has a place of its own, and can have one. Returns its number. */
unsigned ag_orphans_add(struct ag_orphans *orphans, bool blocking, const void *thread,
                        CUevent *event, bool *own);

/* The event has been recorded behind it. */
void ag_orphans_marked(struct ag_orphans *orphans, unsigned number, CUevent event);

/* Whether all is settled. */
static inline bool ag_orphans_is_settled(const struct ag_orphans *orphans)
{
    return atomic_load(&orphans->settled) == atomic_load(&orphans->left);
}

/* How much is not settled, at most. */
static inline unsigned ag_orphans_count(const struct ag_orphans *orphans)
{
    return atomic_load(&orphans->left) - atomic_load(&orphans->settled);
}

/* Whether it is settled up to this number. 0: there is nothing to settle. */
static inline bool ag_orphans_has_settled(const struct ag_orphans *orphans, unsigned number)
{
    return number == 0 || (int)(atomic_load(&orphans->settled) - number) >= 0;
}

/* The number of the last one; 0: all is settled. */
static inline unsigned ag_orphans_mark(const struct ag_orphans *orphans)
{
    return ag_orphans_is_settled(orphans) ? 0 : atomic_load(&orphans->left);
}

/* The event behind the oldest one that is open; NULL: there is none. And: it has happened. */
CUevent ag_orphans_oldest(struct ag_orphans *orphans, unsigned *number);
void ag_orphans_happened(struct ag_orphans *orphans, unsigned number);

/* The host has waited, for the whole context or a copy in its legacy stream only. `left` is what
   ag_orphans_mark() gave before. */
void ag_orphans_waited(struct ag_orphans *orphans, unsigned left, bool whole);

/* The calling thread ends: it launches nothing any more. */
void ag_orphans_thread_ends(struct ag_orphans *orphans);

/* The context is gone. */
void ag_orphans_forget(struct ag_orphans *orphans);

#endif
