/* SPDX-License-Identifier: MIT */
/*
 * What the watchdog's thread (watchdog.h) does: it submits what has been held for too long, so that
 * a host thread may spin on memory that a held kernel would write.
 *
 * It looks at every stream three times in the bound. A hold that it sees for the third time with
 * the same ops is submitted, between two thirds of the bound and all of it after the last of them:
 * no clock is read when ops are held. While a hold gets longer, its thread does not spin, and the
 * piece may well become whole: the hold has some bounds more.
 *
 * These functions take the locks of streams; none may be held.
 */
#ifndef AG_OVERDUE_H
#define AG_OVERDUE_H

#include "engine/stream/stream.h"

/* A look at all streams: submits what has been held for too long. */
void ag_overdue_look(void);

/* Submits what each stream has held since that flush was asked for. False: some lock is taken. */
bool ag_overdue_serve(unsigned request, enum ag_reason reason);

/* The stream's lock is never given back: the watchdog leaves it out. */
void ag_overdue_avoids(struct ag_stream *stream);

#endif
