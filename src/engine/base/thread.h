/* SPDX-License-Identifier: MIT */
/* What the engine keeps for each thread of the program. */
#ifndef AG_ENGINE_THREAD_H
#define AG_ENGINE_THREAD_H

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

struct ag_stream;

/* Streams that a thread remembers. */
enum { AG_FOUND = 16 };

/* What a thread remembers. The address also names the thread. */
struct ag_thread {
    struct ag_found {
        struct ag_stream *stream; /* NULL: nothing yet */
        CUstream key;
        CUcontext ctx;
        bool ptsz;
        uint32_t life; /* of the stream at that time */
    } found[AG_FOUND];
    uint64_t submitting;             /* ns that it has spent submitting what was held */
    uint32_t ops;                    /* ops that it has held */
    uint64_t asked;                  /* poll.c: what it had issued when it asked last */
    uint64_t apart, block;           /* trials.c: ns that do not count; when its block began, ns */
    uint32_t forks;                  /* times that a stream could have become a branch */
    uint32_t unrecordable;           /* copies in a row that could not be held, in any streams */
    struct ag_stream *eager;         /* stream of the op that it was last told to submit itself */
    bool watched;                    /* the library is told when the thread ends */
    bool issues;                     /* it has taken over a stream: issuer.c */
    const struct ag_context *placed; /* the last context where its default stream was counted */
    struct ag_untracked *untracked;  /* the untracked stream that it found last, or NULL */
    const struct ag_context *unseen; /* orphans.c: where it launches unseen, as is known; or NULL */
    struct ag_stream *copied;        /* read.c: where it copies to pinned memory, or NULL */
    struct ag_stream *reads;         /* where it has held such a copy last, or NULL */
    struct ag_fetch *reading;        /* fetch.c: where it reads back, or NULL */
    uint32_t read;                   /* the number of that read-back */
    unsigned left;    /* ag_orphans_mark() before its copy in a legacy stream; 0: none */
    uint64_t touched; /* bit n: it may have issued the last op of a state whose index is n modulo
                         64, or own the state */
};

extern _Thread_local struct ag_thread ag_self __attribute__((tls_model("initial-exec")));

/* Has the library told when the calling thread ends. False: it cannot be. */
bool ag_thread_watch(void);

/* What is called before the first thread is watched; and when a watched thread ends, by that
   thread. To be set before. */
extern void (*ag_thread_first)(void), (*ag_thread_ends)(void);

#endif
