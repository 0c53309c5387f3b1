/* SPDX-License-Identifier: MIT */
/* The state of the stream that a call names. */
#ifndef AG_FIND_H
#define AG_FIND_H

#include "engine/replay/registry.h"

/*
 * The state of the stream that a call names, made when it is new; NULL when the engine has no use
 * for it (no memory). For an explicit handle it may be one of another context than `current`. Where
 * no context is current none is made, and a default stream has none. In a host function, in which
 * the driver refuses to submit, no stream has.
 */
struct ag_stream *ag_stream_find_slow(CUstream handle, bool ptsz, CUcontext current);

/* ag_stream_find_slow() without a call, where the calling thread remembers the stream. */
static inline struct ag_stream *ag_stream_find(CUstream handle, bool ptsz, CUcontext current)
{
    const struct ag_found *found = ag_stream_slot(handle);
    return ag_stream_is_found(found, handle, ptsz, current)
               ? found->stream
               : ag_stream_find_slow(handle, ptsz, current);
}

/* Before the first is found. */
void ag_find_start(void);

#endif
