/* SPDX-License-Identifier: MIT */
/*
 * Copies to pinned memory, in a stream.
 *
 * Such a copy is asynchronous. But where the host has waited for the stream right behind each one
 * of late, the next is held behind the held ops of its stream. If that thread's wait for the stream
 * comes next, and nothing else is at work (fetch.h), the copy becomes a read-back (read.c). Fetch
 * writes the bytes where the copy would, and the program's wait goes to the driver. If anything
 * else comes first the program's copy goes out behind the held ops. Then copies in that stream are
 * not held until the host has waited for some more.
 *
 * The program cannot tell: whoever comes behind the copy finds the bytes. A copy that is held goes
 * out when held ops do, by the watchdog at the latest, so who looks at the memory without a call
 * sees it change.
 *
 * All functions want the stream's lock.
 */
#ifndef AG_PINNED_H
#define AG_PINNED_H

#include "engine/stream/stream.h"

/* For a new life of the state: nothing is known. */
static inline void ag_pinned_start(struct ag_stream *stream)
{
    stream->reading = (struct ag_reading){.bytes = 0};
}

/* Whether the host has waited at once behind enough copies, so that the next can be held. To be
   asked once for each copy: the one before counts if nothing is known of it yet. */
bool ag_pinned_is_awaited(struct ag_stream *stream);

/* The copy is held, as the last op of what is held. */
void ag_pinned_hold(struct ag_stream *stream, void *dst, CUdeviceptr src, uint32_t bytes);

/* Whether one is held. */
static inline bool ag_pinned_holds(const struct ag_stream *stream)
{
    return __builtin_expect(stream->reading.bytes != 0, 0);
}

/* It is not held any more: returns it. */
struct ag_reading ag_pinned_take(struct ag_stream *stream);

/* Such a copy goes out to `target`. The context is current. */
void ag_pinned_submit(struct ag_stream *stream, const struct ag_reading *copy, CUstream target);

/* What is held has been submitted to `target`: so is the copy behind it, if one is held. */
static inline void ag_pinned_flush(struct ag_stream *stream, CUstream target)
{
    if (!ag_pinned_holds(stream))
        return;
    struct ag_reading copy = ag_pinned_take(stream);
    stream->reading.waited = 0; /* something else has come first */
    stream->reading.flushed = true;
    ag_pinned_submit(stream, &copy, target);
}

/* A copy has gone out. What comes behind it is to be seen. */
void ag_pinned_copied(struct ag_stream *stream);

/* A barrier has come: behind a copy that has gone out it says whether the host waits at once. */
void ag_pinned_followed_slow(struct ag_stream *stream, enum ag_reason reason);

/* The same, which is little where no copy has gone out. */
static inline void ag_pinned_followed(struct ag_stream *stream, enum ag_reason reason)
{
    if (__builtin_expect(stream->reading.copied != 0, 0))
        ag_pinned_followed_slow(stream, reason);
}

#endif
