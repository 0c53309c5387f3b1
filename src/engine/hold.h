/* SPDX-License-Identifier: MIT */
/* Beginning to hold. Wants the stream's lock and context. */
#ifndef AG_HOLD_H
#define AG_HOLD_H

#include "engine/stream.h"

/* Whether the stream may begin to hold with `head`, the first op of a sequence; if so it has begun.
 */
bool ag_hold_begins(struct ag_stream *stream, struct ag_node *head);

#endif
