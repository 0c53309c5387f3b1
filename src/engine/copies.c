/* SPDX-License-Identifier: MIT */
/* Copies that cannot be held. */
#include "engine/copies.h"

void ag_copies_seen(struct ag_stream *stream, bool described)
{
    struct ag_copies *copies = &stream->copies;
    ag_self.foreign = described ? 0 : ag_self.foreign + 1;
    uint32_t passed = copies->foreign < AG_COPIES_FOREIGN ? 0 : copies->foreign;
    copies->foreign = described ? 0 : copies->foreign + passed + 1;
    if (copies->foreign > AG_COPIES_FOREIGN_MOST)
        copies->foreign = AG_COPIES_FOREIGN_MOST;
    if (copies->foreign >= AG_COPIES_FOREIGN)
        atomic_store_explicit(&copies->next, copies->foreign, memory_order_relaxed);
}
