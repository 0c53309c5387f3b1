/* SPDX-License-Identifier: MIT */
/*
 * Calls that wait for launches of other threads, and calls that need much stack.
 *
 * A program's thread may have a small stack: its own launches fit, and a call of the library's has
 * to fit, too. Making execs, streams and pinned memory, and loading code, may go deeper than a
 * launch (docs/measurements.md, "How much stack does a call take?"). So a thread of the library's
 * own makes these calls, one after the other, and whoever asks waits.
 *
 * A launch waits in the driver while its stream takes no more work. Meanwhile every call that makes
 * or destroys something in the context waits, too, in any thread (docs/measurements.md, "What
 * waits while a launch waits for room?"). If the calling thread is the one that would let the
 * stream go on, that is a deadlock, and the program does not have it by itself. So where other
 * threads use the context, the thread makes all these calls. Whoever asks then, or while another
 * call is being made, waits no longer than AG_PATIENCE_NS. While an earlier call has not come
 * back in that time, nobody waits for a further one. Launches pass meanwhile.
 *
 * All functions want the context to be current. A function that makes something may return
 * CUDA_ERROR_NOT_READY: the call has not come back, and what it makes will be destroyed. What is to
 * be destroyed is destroyed sooner or later.
 */
#ifndef AG_ENGINE_HELPER_H
#define AG_ENGINE_HELPER_H

#include "engine/context/context.h"
#include "graph/trace.h"

/* Starts the thread, once, before any of the calls below. False: there is no such thread, and the
   functions make their calls themselves. */
bool ag_helper_start(void);

/* Makes the exec of a trace that has none yet. If it is not ready the trace is not the caller's any
   more, and is destroyed with its exec. */
CUresult ag_helper_instantiate(struct ag_context *context, struct ag_trace *trace);

/* Destroys a trace that nothing refers to, and gives its exec back to the context. If it has
   several paths and may stay, it is buried: to destroy its exec may wait for running kernels
   (docs/measurements.md, "Why are execs scarce?"). It may stay only if it names no event that may
   go: a wait for an event crashed in the driver, behind the end of an exec whose events were gone
   (H200). */
CUresult ag_helper_destroy(struct ag_context *context, struct ag_trace *trace, bool may_stay);

/* Destroys what is buried in the context. The device is idle, or the context about to go. */
CUresult ag_helper_destroy_buried(struct ag_context *context);

/* An event that is never timed; NULL: there is none. */
CUresult ag_helper_event(struct ag_context *context, CUevent *event);
CUresult ag_helper_destroy_event(struct ag_context *context, CUevent event);

/* Makes a relay: a stream and two events. If it is not ready the context's count of relays goes
   down again once it has been destroyed. */
struct ag_relay {
    CUstream stream;
    CUevent mark, done;
};

/* Returns the first error, CUDA_ERROR_NOT_READY if nobody has made it in time. */
CUresult ag_helper_relay(struct ag_context *context, struct ag_relay *relay);

/* Returns the first error. The context has one relay less. */
CUresult ag_helper_destroy_relay(struct ag_context *context, const struct ag_relay *relay);

/* Parts of a stream's pinned memory for uploads: an event tells when one can be used again. */
enum { AG_STAGING_PARTS = 8, AG_STAGING_PART_KB = 32 /* of one, at least AG_UPLOAD_KB */ };

/* Pinned memory, the driver's number of it, and events that are never timed, one for each part.
   Whoever asks for it never gives it back. */
struct ag_pinned {
    unsigned char *memory; /* all parts */
    uint64_t buffer;       /* CU_POINTER_ATTRIBUTE_BUFFER_ID */
    CUevent done[AG_STAGING_PARTS];
};

/* Completes it: what is there already stays. */
CUresult ag_helper_pinned(struct ag_context *context, struct ag_pinned *pinned);

/* Loads the kernel for read-backs. If it is not ready it is loaded later, or not at all. */
CUresult ag_helper_fetch(struct ag_context *context);

/* Whether threads other than this one may launch in the context: a call could wait for them. */
bool ag_helper_shares(const struct ag_context *context);

/* Whether threads other than this one may launch, in any context. */
bool ag_helper_others(void);

/* Whether a call has not come back in time: the next call would wait behind it. */
bool ag_helper_waits(void);

/* Waits until all calls in the context (NULL: in any context) have come back. To be called before
   the context goes away, or something that a call may name. */
void ag_helper_settle(const struct ag_context *context);

#endif
