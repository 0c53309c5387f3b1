/* SPDX-License-Identifier: MIT */
/* Copies that cannot be held. */
#include "engine/stream/copies.h"

void ag_copies_seen(struct ag_stream *stream, bool described)
{
    struct ag_copies *copies = &stream->copies;
    ag_self.foreign = described ? 0 : ag_self.foreign + 1;
    copies->foreign = described ? 0 : copies->foreign + 1;
    if (described)
        ag_backoff_reset(&copies->again);
    else if (copies->foreign >= AG_COPIES_FOREIGN.first)
        atomic_store_explicit(&copies->next, ag_backoff_next(&copies->again, AG_COPIES_FOREIGN),
                              memory_order_relaxed);
}
