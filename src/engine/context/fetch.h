/* SPDX-License-Identifier: MIT */
/*
 * Read-backs: copies of a few bytes from the device to the host, for which the host waits.
 *
 * A loop that reads a number back in each step pays for three things in turn: a graph, a copy by
 * the copy engine, and the wait for it. So a read-back may be the last op of a sequence: fetch, a
 * kernel of the library's own, writes the bytes. The graph is launched, and the host waits for the
 * stream as it would have waited for the copy.
 *
 * Fetch writes to pinned memory of the program where the copy would. Other threads, streams and the
 * host may come behind the copy before the first thread has come back from its wait. They find
 * the bytes there, as they would behind the copy. Pageable memory is out of a kernel's reach. There
 * fetch writes to a place in pinned memory of the library, and the host takes the bytes from that
 * place. Only the return of the copying call tells anybody that such a copy has been made.
 *
 * A kernel needs room on the device, and a copy does not. A kernel of another stream may fill the
 * device, and wait for what the host does behind the copy. So a read-back is an op only while
 * nothing else is at work in the context: no other thread issues work there, and all other streams
 * have done what they were given. A thread that begins to issue work waits while a read-back is
 * under way, for AG_PATIENCE_NS at most. In the stream that reads back it need not wait if the
 * host waits there for an event, which is no later for what comes behind.
 *
 * A thread may leave its wait by a longjmp, or be cancelled there. The read-back is given up with
 * the thread's next one, or when the thread issues work or ends.
 *
 * The kernel is loaded at a safe point (grow.c), once a context has had some read-backs. If the
 * driver refuses something it is tried again after twice as many.
 */
#ifndef AG_FETCH_H
#define AG_FETCH_H

#include <cuda.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/thread.h"
#include "driver/limits.h"
#include "policy/backoff.h"

enum {
    AG_FETCH_BYTES = AG_FETCH_KB << 10,
    AG_FETCH_THREADS = 256, /* of its block */
};

struct ag_stream;

/* Where the kernel, of one block, writes to: the bytes only if they are for pageable memory. */
struct ag_fetched {
    uint32_t done; /* not 0: the kernel has run */
    uint32_t unused[3];
    unsigned char bytes[AG_FETCH_BYTES];
};

/* What a context has for read-backs. Written by fetch.c. */
struct ag_fetch {
    _Atomic(CUfunction) func; /* the kernel; NULL: it is not loaded */
    _Atomic bool never;       /* processes share the device */
    _Atomic uint32_t seen;    /* read-backs before it was loaded */
    _Atomic uint32_t after;   /* of these, how many precede the next try to load it; 0: the first */
    struct ag_backoff tries;  /* to load it */
    CUmodule module;          /* NULL: not loaded */
    struct ag_fetched *place; /* pinned memory */
    CUdeviceptr at;           /* where the device finds it */
    CUevent event[2];         /* behind a read-back; the thread that waits spins, or sleeps */

    const struct ag_stream *_Atomic reader; /* the stream that reads back; NULL: none does */
    _Atomic bool marked; /* the host waits there for the event, or in the program's own wait: what
                            comes behind makes no wait longer than without the library */
    _Atomic bool vain;   /* a thread has waited in vain for the reader */
    _Atomic uint32_t
        number; /* of the last read-back: who has another number does not own `place` */
    bool lost;  /* the driver has refused to launch it; the reader's */

    _Atomic uint32_t rest;   /* further copies that are none, since a thread waited in vain */
    struct ag_backoff rests; /* how many they are */
};

/* Whether the kernel can be launched. */
static inline bool ag_fetch_is_ready(const struct ag_fetch *fetch)
{
    return atomic_load(&fetch->func) != NULL && !atomic_load(&fetch->never);
}

/* Whether copies are no read-backs for now. Counts one. */
bool ag_fetch_rests(struct ag_fetch *fetch);

/* The stream reads back, unless another one does or this thread waits already: *number is for the
   end. The context is current. */
bool ag_fetch_begin(struct ag_fetch *fetch, const struct ag_stream *stream, uint32_t *number);

/* Whether the calling thread has not given it up. */
static inline bool ag_fetch_is_mine(const struct ag_fetch *fetch, uint32_t number)
{
    return ag_self.reading == fetch && ag_self.read == number;
}

/* It has ended; or nobody will wait for it any more. */
void ag_fetch_end(struct ag_fetch *fetch, uint32_t number);

/* Records the event behind the read-back, before the stream's lock is given back. NULL: the host
   waits for the stream. */
CUevent ag_fetch_mark(struct ag_fetch *fetch, CUstream handle, CUresult *result);

/* The calling thread has given up what it was waiting for. */
void ag_fetch_give_up(void);

/* Whether read-backs wait for the kernel to be loaded. */
bool ag_fetch_is_wanted(const struct ag_fetch *fetch);

/* Loads the kernel, and launches it once. At a safe point, with the context current. False: the
   driver has refused something, and read-backs stay calls. */
bool ag_fetch_load(struct ag_fetch *fetch, CUcontext ctx);

/* The calling thread is about to issue work in this stream (NULL: in any) of the context: waits
   while a read-back is under way in another one, for AG_PATIENCE_NS at most: what the read-back
   waits for may wait for that work. After a wait in vain the context has none for a while. */
void ag_fetch_wait(struct ag_fetch *fetch, const struct ag_stream *stream);

/* The context is gone, and with it what it had. */
void ag_fetch_forget(struct ag_fetch *fetch);

#endif
