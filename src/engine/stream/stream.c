/* SPDX-License-Identifier: MIT */
/* All states, and which of them are busy. */
#include "engine/stream/stream.h"

#include <stdlib.h>

#include "engine/hot.h"
#include "observe/patience.h"

static struct ag_stream *_Atomic streams; /* newest first */
static _Atomic unsigned count;            /* goes up only */

/* Which states are busy, a bit each; and the states by number, each written once. */
enum {
    BITS = 64, /* in a word */
    WORDS = AG_MOST_STREAMS / BITS,
};
static _Atomic uint64_t busy[WORDS];
static struct ag_stream *_Atomic states[AG_MOST_STREAMS];

struct ag_stream *ag_stream_all(void)
{
    return atomic_load_explicit(&streams, memory_order_acquire);
}

struct ag_stream *ag_stream_add(void)
{
    struct ag_stream *stream = count < AG_MOST_STREAMS ? calloc(1, sizeof *stream) : NULL;
    if (stream == NULL)
        return NULL;
    (void)ag_stream_trylock(stream); /* nobody else knows it: not against the order */
    stream->place.index = count++;
    stream->place.next = ag_stream_all();
    atomic_store_explicit(&states[stream->place.index], stream, memory_order_release);
    atomic_store_explicit(&streams, stream, memory_order_release);
    return stream;
}

bool ag_stream_are_all(void)
{
    return atomic_load(&count) >= AG_MOST_STREAMS;
}

struct ag_stream *ag_stream_at(unsigned index)
{
    return index < AG_MOST_STREAMS ? atomic_load(&states[index]) : NULL;
}

bool ag_stream_lock_within(struct ag_stream *stream, uint64_t ns)
{
    uint64_t slept = 0;
    for (unsigned i = 0; !ag_stream_trylock(stream); i++)
        if ((i >= AG_LOCK_SPINS || ns == 0) && !ag_patience_lasts(&slept, ns))
            return false;
    return true;
}

/* Of those whose bit is in the mask. */
static struct ag_stream *next_busy(const struct ag_stream *last, uint64_t mask)
{
    unsigned from = last != NULL ? last->place.index + 1 : 0;
    for (unsigned word = from / BITS; word * BITS < atomic_load(&count); word++) {
        uint64_t bits = atomic_load(&busy[word]) & mask;
        if (word == from / BITS)
            bits &= ~(uint64_t)0 << from % BITS;
        if (bits != 0)
            return atomic_load(&states[word * BITS + (unsigned)__builtin_ctzll(bits)]);
    }
    return NULL;
}

struct ag_stream *ag_stream_next_busy(const struct ag_stream *last)
{
    return next_busy(last, ~(uint64_t)0);
}

struct ag_stream *ag_stream_next_touched(const struct ag_stream *last)
{
    return next_busy(last, ag_self.touched);
}

void ag_stream_update(struct ag_stream *stream)
{
    struct ag_listing *place = &stream->place;
    bool listens = stream->seq.state != AG_BETWEEN ||
                   atomic_load_explicit(&stream->relay.used, memory_order_relaxed);
    bool is_busy =
        listens || atomic_load_explicit(&stream->seq.subscribes_next, memory_order_relaxed);
    if (listens != place->listens)
        atomic_fetch_add(&ag_subscribers, listens ? 1u : -1u);
    place->listens = listens;
    if (is_busy == place->busy)
        return;
    place->busy = is_busy;
    uint64_t bit = (uint64_t)1 << place->index % BITS;
    if (is_busy) {
        atomic_fetch_or(&busy[place->index / BITS], bit);
    } else {
        place->times_idle++;
        atomic_fetch_and(&busy[place->index / BITS], ~bit);
    }
}
