/* SPDX-License-Identifier: MIT */
/*
 * Staging: pinned memory of the library's own for held uploads.
 *
 * An upload is a copy of at most AG_UPLOAD_KB from pageable memory to the device. CUDA
 * takes its bytes at the call, and so does the library: they go to a place in the stream's ring,
 * and the held op is a copy from there. A place is used again when the copy that reads it has run.
 * The ring has parts. Behind the last copy from a part an event is recorded in the stream, which is
 * asked before the part is used again. Where the stream is idle all of the ring is free: then
 * uploads get the places that they had the last time, and the exec needs no other arguments.
 *
 * A stream gets its ring with the first trace that has an upload, and a context AG_STAGINGS of them
 * at most. A state that dies leaves its ring to the next one in the context. Memory of rings is
 * never freed, since that waits for running kernels: it goes with its context.
 *
 * All functions want the stream's lock and context.
 */
#ifndef AG_STAGING_H
#define AG_STAGING_H

#include "engine/base/branch.h"
#include "engine/stream/describe.h"
#include "engine/stream/stream.h"

/*
 * A trace of the path to the leaf is about to be made: gives the stream a ring if some op there is
 * an upload, and uploads that have never been held a place. False: no trace can be made, with the
 * driver's error in *result. CUDA_ERROR_NOT_READY: not now. Where there is no ring, nor will be,
 * uploads of the stream are not held.
 */
bool ag_staging_prepare(struct ag_stream *stream, struct ag_node *leaf, CUresult *result);

/* Whether places for the uploads of the open sequence are more than a half of the ring with an
   upload of so many bytes. */
bool ag_staging_cuts(struct ag_stream *stream, size_t bytes);

/* Counts an upload, which is held or not, for the open sequence or the one that it begins. */
void ag_staging_count(struct ag_stream *stream, size_t bytes);

/* Whether no memory for uploads is asked for yet: it was refused. */
static inline bool ag_staging_is_barred(const struct ag_stream *stream)
{
    return stream->counters.ops < stream->staging.barred;
}

/* Whether there is a place for the bytes of an upload. */
bool ag_staging_has_room(struct ag_stream *stream, const struct ag_described *call);

/* There is room for the upload, which is to be held: takes its bytes, and makes their place the
   source of the op. */
void ag_staging_take(struct ag_stream *stream, struct ag_described *call);

/* What was held has been submitted to `target`, by so many calls less than it had ops. */
void ag_staging_submitted_slow(struct ag_stream *stream, CUstream target, uint32_t less);

/* The same, which is little where no upload was held. */
static inline void ag_staging_submitted(struct ag_stream *stream, CUstream target, uint32_t less)
{
    if (UNLIKELY(stream->staging.taken != 0))
        ag_staging_submitted_slow(stream, target, less);
}

/* Whether copies from the ring may still run. */
bool ag_staging_is_used(const struct ag_stream *stream);

/* The state dies: its ring is left to others of its context, once its copies have run. */
void ag_staging_leave(struct ag_stream *stream);

/* The context is gone, and the memory with it. No lock. */
void ag_staging_forget(struct ag_context *context);

#endif
