/* SPDX-License-Identifier: MIT */
/* Ops whose shape differs from trip to trip: what a statement says, drawn anew each time. */
#include "world.h"

/* Nearly as good as chance, and both sides of a comparison draw the same. */
static uint32_t drawn(const struct thread *t, const struct lane *l, const struct statement *s,
                      uint32_t what)
{
    uint32_t at = s->shape & SHAPE_EVER ? l->ops
                  : t->depth > 0        ? (uint32_t)t->trip[t->depth - 1]
                                        : 0;
    uint32_t x = (at * 64 + what) * 2654435761u + (uint32_t)s->k * 2246822519u;
    x = (x ^ x >> 15) * 2246822519u;
    x = (x ^ x >> 13) * 3266489917u;
    return x ^ x >> 16;
}

/* Mostly any size that each kernel may have, and sizes around the limits that LIMIT gives the own
 * one. */
static int shared_size(uint32_t x, bool own)
{
    static const int limits[] = {49136, 49152, 49168, 59984, 60000, 60016, 100000, 100016};
    if (own && x % 2 != 0)
        return limits[x / 2 % (sizeof limits / sizeof limits[0])];
    return (int)(x / 2 % 16) * (x % 4 == 0 ? 3072 : 16);
}

struct statement shape_now(const struct thread *t, const struct lane *l, const struct statement *s)
{
    struct statement now = *s;
    bool own = s->kind == S_KERNEL && s->n == KERNEL_LAYOUTS;
    /* Small enough for a cooperative launch of all blocks at once. */
    if (s->shape & SHAPE_GRID)
        now.grid = (int)(1 + drawn(t, l, s, SHAPE_GRID) % 40 + drawn(t, l, s, 0) % 2 * 1000);
    if (s->shape & SHAPE_BLOCK)
        now.block = (int)(1 + drawn(t, l, s, SHAPE_BLOCK) % 1024);
    if (s->shape & SHAPE_SHARED)
        now.shared = shared_size(drawn(t, l, s, SHAPE_SHARED), own);
    if (s->shape & SHAPE_WHICH && s->kind == S_MEMSET)
        now.n = 1 << drawn(t, l, s, SHAPE_WHICH) % 3;
    if (s->shape & SHAPE_WHICH && s->kind == S_KERNEL && !own)
        now.n = (int)(drawn(t, l, s, SHAPE_WHICH) % KERNEL_LAYOUTS);
    if (s->shape & SHAPE_SIZE)
        now.size = (int)(1 + drawn(t, l, s, SHAPE_SIZE) % BUFFER_WORDS);
    if (s->shape & SHAPE_PLACE)
        now.at = (int)(drawn(t, l, s, SHAPE_PLACE) % BUFFER_WORDS);
    return now;
}
