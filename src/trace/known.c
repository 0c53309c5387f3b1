/* SPDX-License-Identifier: MIT */
/* The table of known sequences. */
#include "trace/known.h"

#include <stdlib.h>

bool ag_known_any;

/* Open addressing by `way`; at most half of the places are taken. */
static struct ag_known *places;
static uint32_t mask, room;

uint64_t ag_known_key(const struct ag_op *op)
{
    const struct ag_layout *layout = op->layout;
    if (op->kind == AG_OP_KERNEL && layout->name == 0)
        return 0;
    uint64_t words[] = {op->kind, op->free, op->extra_size, layout->size, layout->name};
    uint64_t key = ag_hash(0, words, sizeof words);
    for (unsigned i = 0; op->kind == AG_OP_KERNEL && i < AG_SHAPE_WORDS; i++)
        if ((op->free >> i & 1) == 0)
            key = ag_hash(key, &op->shape[i], sizeof op->shape[i]);
    return key | 1;
}

static uint64_t way_behind(const struct ag_known *before, uint64_t key)
{
    return ag_hash(before != NULL ? before->way : 0, &key, sizeof key) | 1;
}

/* The place of this way, or the free one where it would be. */
static struct ag_known *place_of(uint64_t way)
{
    uint32_t i = (uint32_t)(way >> 32) & mask;
    while (places[i].way != 0 && places[i].way != way)
        i = (i + 1) & mask;
    return &places[i];
}

bool ag_known_begin(uint32_t ops)
{
    uint32_t count = 64;
    while (count < 2 * ops)
        count *= 2;
    free(places);
    places = calloc(count, sizeof *places);
    mask = count - 1;
    room = count / 2;
    return places != NULL;
}

/* The ops of a round, if the sequence is of equal rounds; else all. */
static uint32_t round_of(const uint64_t *keys, uint32_t length)
{
    uint32_t period = 1;
    while (period < length && (length % period != 0 ||
                               memcmp(keys, keys + period, (length - period) * sizeof *keys) != 0))
        period++;
    return period;
}

const struct ag_known *ag_known_add(const uint64_t *keys, uint32_t length, bool lost)
{
    struct ag_known *known = NULL;
    uint32_t period = round_of(keys, length);
    if (length == 0 || room < length)
        return NULL;
    for (uint32_t i = 0; i < length; i++) {
        if (known != NULL && !known->ends)
            known->goes_on = true;
        uint64_t way = way_behind(known, keys[i]);
        known = place_of(way);
        room -= known->way == 0;
        known->way = way;
        if (known->most < length)
            known->most = (uint16_t)length;
        if (i + 1 == period && known->make == 0)
            known->make = (uint16_t)length;
    }
    if (known->make == 0)
        known->make = (uint16_t)length;
    known->ends = true;
    known->lost = lost;
    ag_known_any = true;
    return known;
}

const struct ag_known *ag_known_next(const struct ag_known *before, const struct ag_op *op)
{
    uint64_t key = ag_known_key(op);
    if (key == 0)
        return NULL;
    const struct ag_known *known = place_of(way_behind(before, key));
    return known->way != 0 ? known : NULL;
}
