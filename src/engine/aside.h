/* SPDX-License-Identifier: MIT */
/*
 * Calls that wait for launches of other threads.
 *
 * What makes or destroys something in a context waits in the driver while a launch of any thread
 * waits there until its stream takes more work (docs/measurements.md, "What waits while a launch
 * waits for room?"). If what ends that comes later in the thread that a graph is made for, that is
 * a deadlock which the program does not have by itself. So where other threads use the context, a
 * thread of the library's own makes these calls, one after the other, and who asks for one waits
 * for it no longer than AG_PATIENCE_MS, nor behind one for which that was too short. Launches pass
 * meanwhile.
 *
 * All want the context to be current. What is made: CUDA_ERROR_NOT_READY says that the call has not
 * come back; what it makes is destroyed then. What is destroyed is destroyed sooner or later.
 */
#ifndef AG_ENGINE_ASIDE_H
#define AG_ENGINE_ASIDE_H

#include "engine/context.h"
#include "graph/trace.h"

/* Such a call takes some 20 to 300 us, a few ms where many threads make them. */
enum { AG_PATIENCE_MS = 20 };

/* Starts the thread, once, before any of the calls below. False: there is none, and who asks makes
   the call. */
bool ag_aside_start(void);

/* Makes the exec of a trace that has none yet; what is not ready is destroyed with the trace, which
   is not the caller's any more. */
CUresult ag_aside_instantiate(struct ag_context *context, struct ag_trace *trace);

/* Destroys a trace that nothing refers to, and gives its exec back to the context. */
CUresult ag_aside_destroy(struct ag_context *context, struct ag_trace *trace);

/* An event that is never timed; NULL: there is none. */
CUresult ag_aside_event(struct ag_context *context, CUevent *event);
CUresult ag_aside_destroy_event(struct ag_context *context, CUevent event);

/* A relay's stream and its two events; NULL: there are none. If they are not ready the context has
   one relay less again once they are destroyed. */
struct ag_relay {
    CUstream stream;
    CUevent mark, done;
};

CUresult ag_aside_relay(struct ag_context *context, struct ag_relay *relay);

/* The first error. The context has one relay less. */
CUresult ag_aside_destroy_relay(struct ag_context *context, const struct ag_relay *relay);

/* Whether there is a call that nobody waits for any more, so that the next would wait as well. */
bool ag_aside_waits(void);

/* Waits until no call is left in the context (NULL: in any), which is going away, or something that
   such a call may name. */
void ag_aside_settle(const struct ag_context *context);

#endif
