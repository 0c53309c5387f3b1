/* SPDX-License-Identifier: MIT */
/* Questions to the driver about a stream, which end no capture of the program. No lock. */
#ifndef AG_QUERY_H
#define AG_QUERY_H

#include <cuda.h>
#include <stdbool.h>

#include "driver/driver.h"

/*
 * A capture of the program on another thread, in global mode, forbids this thread calls that may be
 * unsafe in it, and is ended by them. Calls of the library touch no stream that it captures. So
 * they are made in relaxed mode. `mode` becomes the thread's mode before. False: the driver
 * refuses, which is counted.
 */
bool ag_query_relax(CUstreamCaptureMode *mode);

/* Sets the mode back. */
void ag_query_unrelax(CUstreamCaptureMode mode);

/* Whether the stream captures, or the driver refuses to say. */
static inline bool ag_query_captures(CUstream handle)
{
    CUstreamCaptureStatus status;
    return ag_real.cuStreamIsCapturing(handle, &status) != CUDA_SUCCESS ||
           status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* Whether the stream, whose context is current, has done all that was submitted. Asked of the
   legacy stream this ends captures of blocking streams: not to be called while the program is known
   to capture. Other captures go on. */
bool ag_query_is_done(CUstream handle);

/* ag_query_is_done() at any time: false while the program captures, or is about to. */
bool ag_query_is_idle(CUstream handle);

/* Whether what was recorded in the event has run. */
bool ag_query_has_run(CUevent event);

/* Whether all work is done that was left behind (orphans.h) in the context, or in any (NULL). Asks
   the driver where something is not settled. */
struct ag_context;
bool ag_query_is_settled(struct ag_context *context);

#endif
