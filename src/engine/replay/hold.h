/* SPDX-License-Identifier: MIT */
/* Beginning to hold. Wants the stream's lock and context. */
#ifndef AG_HOLD_H
#define AG_HOLD_H

#include "engine/stream/stream.h"

/* AG_WHY_HELD: the stream holds from now on, with `head`, the first op of a sequence. It does not
   if its context's trial wants an eager sequence or is lost, if the program captures the stream, or
   if nobody else could submit what is held. */
enum ag_why ag_hold_begins(struct ag_stream *stream, struct ag_node *head);

#endif
