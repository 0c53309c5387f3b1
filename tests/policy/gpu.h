/* SPDX-License-Identifier: MIT */
/*
 * The GPU: when each stream is done with what it was given. An op begins once its stream, and what
 * it waits for, is done. All streams run at one time: the GPU has room for all.
 *
 * A stream has a queue of the program's ops that have been issued, and not yet submitted. A launch
 * takes what it launches from there, with the time that the GPU needs for it.
 */
#ifndef PLAY_GPU_H
#define PLAY_GPU_H

#include <stdbool.h>
#include <stdint.h>

enum play_kind {
    PLAY_OP_KERNEL,
    PLAY_OP_MEMSET,
    PLAY_OP_COPY, /* on the device */
    PLAY_OP_UPLOAD,
    PLAY_OP_DOWNLOAD,
    PLAY_OP_RECORD,
    PLAY_OP_WAIT,
    PLAY_OP_VALUE,
    PLAY_OP_FETCH, /* the library's kernel for read-backs */
    PLAY_OP_HOST,  /* a host function */
};

struct play_event {
    uint64_t time; /* when the GPU reaches its last record; 0: it has none */
    bool known;    /* the engine knows that it was created */
};

struct play_op {
    enum play_kind kind;
    uint64_t ns; /* of the GPU, without what each op costs there */
    struct play_event *event;
};

enum {
    PLAY_QUEUE = 1021 /* launches that a stream takes: measurements.md, "What waits while a launch
                         waits for room?" */
};

struct play_context {
    uint32_t number;         /* from 1 */
    bool has_streams;        /* in the program */
    uint64_t blocking_end;   /* of all its blocking streams */
    struct play_gpu *legacy; /* its legacy stream */
};

struct play_gpu {
    struct play_context *context;
    uint32_t number, kind, flags; /* of the program; number 0: the library's own stream */
    uint64_t end;                 /* when all is done */
    bool copies;                  /* the last op was a copy engine's */
    bool captures;
    uint64_t launches, ends[PLAY_QUEUE]; /* of the last launches */
    struct play_op *op;                  /* issued, not submitted; a ring */
    uint32_t first, count, room;
};

/* The program issues an op. */
void play_gpu_issue(struct play_gpu *stream, const struct play_op *op);

/* The op that was issued longest ago and is not submitted, of those of the kind that name the
   event; what was issued before it is gone. Without one: an op that takes the time of its kind. */
struct play_op play_gpu_take(struct play_gpu *stream, enum play_kind kind,
                             struct play_event *event);

/* Waits until the stream has room for a launch. */
void play_gpu_room(struct play_gpu *stream);

/* The calling thread has submitted an op by itself, or a graph. Returns when it will be done. */
uint64_t play_gpu_submit(struct play_gpu *stream, const struct play_op *op);
uint64_t play_gpu_launch(struct play_gpu *stream, const struct play_op *op, uint32_t count);

/* When all that the stream has, or waits for, is done. */
uint64_t play_gpu_end(const struct play_gpu *stream);

/* The calling thread waits until the GPU is there. */
void play_gpu_wait(uint64_t until);

/* The time of an op of the kind that moves so many bytes, ns. */
uint64_t play_gpu_ns(enum play_kind kind, uint64_t bytes);

#endif
