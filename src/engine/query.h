/* SPDX-License-Identifier: MIT */
/* Questions to the driver about a stream that a capture of the program must not hear of. */
#ifndef AG_QUERY_H
#define AG_QUERY_H

#include <cuda.h>
#include <stdbool.h>

#include "driver/driver.h"

/*
 * A capture of the program on another thread, in global mode, forbids this thread calls that may be
 * unsafe in it, and is ended by them; ours touch no stream that it captures. False: the mode could
 * not be set, which is counted, else `mode` is what it was. The second sets it back.
 */
bool ag_query_relax(CUstreamCaptureMode *mode);
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

#endif
