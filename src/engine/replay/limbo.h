/* SPDX-License-Identifier: MIT */
/*
 * Events that the program has destroyed and graphs may still name.
 *
 * Once an event is destroyed the driver refuses to give its node another one, and driver 580 died
 * of later waits after a graph with such a node had been destroyed (H200). So the library destroys
 * the event when no graph names it any more. The program cannot tell: it may not use the handle,
 * and no new event gets it meanwhile.
 */
#ifndef AG_LIMBO_H
#define AG_LIMBO_H

#include "engine/context/context.h"

/* The event, whose graphs are in streams of that context, is to be destroyed later. `held`: not
   before ag_limbo_submitted(), since held ops name it, too. False: there is no room. */
bool ag_limbo_add(CUevent event, struct ag_context *context, bool held);

/* The held ops that name the event have gone out. False: it is not here, and nobody else destroys
   it. */
bool ag_limbo_submitted(CUevent event);

/* Destroys the events that no graph names any more. Takes streams' locks where they are free. */
void ag_limbo_settle(void);

/* The context goes, and its events with it: they are no longer the library's affair. */
void ag_limbo_forget(const struct ag_context *context);

#endif
