/* SPDX-License-Identifier: MIT */
/*
 * Copies that cannot be held, such as those of much pageable memory. To describe a copy the driver
 * is asked about its memory. A stream that copies such memory all the time need not pay for that
 * each time, nor need a new stream of a thread whose last copies could not be held. Nor need a
 * stream where each copy from the host is a sequence by itself: such a sequence never gets a graph.
 *
 * Wants the stream's lock.
 */
#ifndef AG_COPIES_H
#define AG_COPIES_H

#include "engine/stream/stream.h"

/* `more` next copies, or one that counts as such with the lock (-1). */
static inline void ag_copies_expect(struct ag_copies *copies, int64_t more)
{
    uint64_t before = atomic_load_explicit(&copies->expected, memory_order_relaxed);
    atomic_store_explicit(&copies->expected, before + (uint64_t)more, memory_order_relaxed);
}

/* So many next copies count as such without a look. */
static inline void ag_copies_give(struct ag_copies *copies, uint32_t next)
{
    int64_t before = atomic_load_explicit(&copies->next, memory_order_relaxed);
    ag_copies_expect(copies, (int64_t)next - before);
    atomic_store_explicit(&copies->next, next, memory_order_relaxed);
}

/* For a new life of the state. */
static inline void ag_copies_start(struct ag_stream *stream)
{
    struct ag_copies *copies = &stream->copies;
    ag_backoff_reset(&copies->again);
    copies->alone = 0;
    copies->begins = false;
    copies->unrecordable =
        ag_self.unrecordable < AG_COPIES_UNRECORDABLE.first ? 0 : AG_COPIES_UNRECORDABLE.first;
    uint32_t few = AG_COPIES_UNRECORDABLE.first / 4; /* the stream may be made for these */
    ag_copies_give(copies, copies->unrecordable != 0 ? copies->unrecordable : few);
}

/* Takes one from a number. False: it is 0. What another thread takes meanwhile may be lost. */
static inline bool ag_copies_take(_Atomic uint32_t *number)
{
    uint32_t left = atomic_load_explicit(number, memory_order_relaxed);
    if (left == 0)
        return false;
    atomic_store_explicit(number, left - 1, memory_order_relaxed);
    return true;
}

/* Whether the stream's next copy counts as one that cannot be held, without a look. If not, the
   caller looks, and says whether it can be. */
static inline bool ag_copies_skip(struct ag_stream *stream)
{
    if (!ag_copies_take(&stream->copies.next))
        return false;
    ag_copies_expect(&stream->copies, -1);
    return true;
}

/* The stream's next copy has been looked at; `described`: it can be held. `begins`: it is from the
   host and between two sequences. Then the end of its sequence says whether to look pays. */
void ag_copies_seen(struct ag_stream *stream, bool described, bool begins);

/* The same, once copies have been looked at: for ag_copies_closed() alone. */
void ag_copies_closed_slow(struct ag_stream *stream, uint32_t depth);

/* A sequence of so many ops has ended. */
static inline void ag_copies_closed(struct ag_stream *stream, uint32_t depth)
{
    if (depth != 0 && __builtin_expect(stream->copies.begins || stream->copies.alone != 0, 0))
        ag_copies_closed_slow(stream, depth);
}

/* Copies that counted as such, and passed without the stream's lock. Also without it. */
static inline uint64_t ag_copies_passed(const struct ag_stream *stream)
{
    int64_t passed = (int64_t)atomic_load_explicit(&stream->copies.expected, memory_order_relaxed) -
                     (int64_t)atomic_load_explicit(&stream->copies.next, memory_order_relaxed);
    return passed > 0 ? (uint64_t)passed : 0;
}

#endif
