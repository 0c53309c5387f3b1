/* SPDX-License-Identifier: MIT */
/* Copies that cannot be held. */
#include "engine/stream/copies.h"

/* More of the next copies are not looked at. */
static void look_away(struct ag_copies *copies)
{
    ag_copies_give(copies, ag_backoff_next(&copies->again, AG_COPIES_UNRECORDABLE));
}

void ag_copies_seen(struct ag_stream *stream, bool described, bool begins)
{
    struct ag_copies *copies = &stream->copies;
    ag_self.unrecordable = described ? 0 : ag_self.unrecordable + 1;
    copies->unrecordable = described ? 0 : copies->unrecordable + 1;
    copies->begins = begins;
    if (described && !begins)
        ag_backoff_reset(&copies->again);
    else if (copies->unrecordable >= AG_COPIES_UNRECORDABLE.first)
        look_away(copies);
}

__attribute__((noinline)) void ag_copies_closed_slow(struct ag_stream *stream, uint32_t depth)
{
    struct ag_copies *copies = &stream->copies;
    bool alone = copies->begins && depth == 1;
    if (copies->begins && !alone)
        ag_backoff_reset(&copies->again);
    copies->begins = false;
    copies->alone = alone ? copies->alone + 1 : 0;
    if (copies->alone >= AG_COPIES_UNRECORDABLE.first)
        look_away(copies);
}
