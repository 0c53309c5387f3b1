/* SPDX-License-Identifier: MIT */
/* What must be submitted because of an event (event.h). */
#ifndef AG_EVENT_FLUSH_H
#define AG_EVENT_FLUSH_H

#include "engine/stream/event.h"

/* Flushes what must be submitted before the event is recorded or destroyed (`all`), or before it is
   waited for. The reason is for sequences of the calling thread. Returns what is
   known of the event, which stays true unless the program uses the event in two threads at once. */
struct ag_event_known ag_event_flush(CUevent event, bool all, enum ag_reason reason);

/* Without a barrier before a question about the event: whether a record of it is held (*held) in
   the current context. False: it is held elsewhere. */
bool ag_event_stays(CUevent event, CUcontext current, bool *held);

/* The program destroys the event: submits what has to be. True: the event is to be destroyed behind
   what its one stream holds, and that stream sees to it. */
bool ag_event_outlives(CUevent event);

/* Flushes the streams that ag_event_holders() has told of. */
void ag_event_flush_holders(CUevent event, struct ag_stream *const holders[], unsigned count,
                            enum ag_reason reason);

#endif
