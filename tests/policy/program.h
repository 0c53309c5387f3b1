/* SPDX-License-Identifier: MIT */
/*
 * A recorded program: what its threads asked of the engine, in order, and how long they computed in
 * between. CONTRIBUTING.md, "Play recorded programs", says where such files come from.
 */
#ifndef PLAY_PROGRAM_H
#define PLAY_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum play_verb {
    PLAY_KERNEL,       /* function stream gx gy gz bx by bz shared nattrs values */
    PLAY_MEMSET,       /* stream dst count height pitch value width blocks */
    PLAY_COPY,         /* stream dtype dst stype src bytes rows layers dpitch spitch blocks */
    PLAY_READ,         /* stream dst src bytes blocks */
    PLAY_RECORD,       /* stream event */
    PLAY_WAIT,         /* stream event */
    PLAY_VALUE,        /* stream operation address value flags */
    PLAY_FREE,         /* stream address */
    PLAY_ALLOCATE,     /* stream */
    PLAY_GRAPH,        /* stream nodes */
    PLAY_SYNC_STREAM,  /* stream */
    PLAY_SYNC_CONTEXT, /* */
    PLAY_SYNC_EVENT,   /* event */
    PLAY_ASK_STREAM,   /* stream result */
    PLAY_ASK_EVENT,    /* event result */
    PLAY_HOST,         /* stream */
    PLAY_BARRIER,      /* who reason name, then a stream, an event, a function or nothing */
    PLAY_CREATED,      /* stream */
    PLAY_DESTROYED,    /* stream */
    PLAY_GONE,         /* event */
    PLAY_CURRENT,      /* context */
    PLAY_CAPTURE,      /* stream, whether it ends */
    PLAY_END,          /* */
    PLAY_MEMORY,       /* address type start size id; no call */
    PLAY_VERBS
};

enum {
    PLAY_WORDS = 11,
    PLAY_GAP_MOST = 1000000, /* ns: a longer pause has the same effect, and hides all else */
};

struct play_line {
    uint64_t gap; /* ns of the thread's own time before the call */
    uint64_t own; /* ns that the driver's call took when it was recorded; 0: not known */
    uint64_t gpu; /* ns that the GPU worked on it; 0: not known */
    uint64_t word[PLAY_WORDS]; /* values of a kernel: the first one's place in `values`; names: in
                                  `names` */
    uint32_t thread;           /* 0: no call */
    uint32_t behind; /* the gap is behind the last call of this thread; 0: of its own thread */
    uint8_t verb;
    uint8_t words;
};

struct play_function {
    char name[64];
    bool known;      /* the sizes of its parameters are */
    uint32_t first;  /* of these sizes, in `sizes` */
    uint32_t params; /* so many */
};

struct play_stream {
    uint32_t context, kind, flags, thread; /* kind: as enum ag_stream_kind */
};

struct play_program {
    char name[128];
    struct play_line *line;
    size_t lines;
    uint32_t *values; /* of the parameters of all launches; a number for each value */
    uint32_t *sizes;
    char **names; /* of driver functions, and what a barrier submits, and why */
    struct play_function *function;
    struct play_stream *stream;
    bool *timed;                                            /* events: they have a time */
    uint32_t functions, streams, events, contexts, threads; /* the highest number of each */
    double slow; /* times that its calls take as long as costs.def says */
    uint64_t ns; /* as recorded: the longest thread */
};

/* Memory that stands for the host memory that a program had at the address: 80 KiB at least behind
   it may be written. */
void *play_host(uint64_t address);

/* Zeros that nobody frees, at the same address in each process. */
void *play_place(size_t bytes);

/* Whether the pointer is one that play_host() has given. */
bool play_is_host(uint64_t pointer);

/* The stream that the call names; 0: none. */
uint32_t play_stream_of(const struct play_line *line);

/* Finds out what the order of calls shows. */
void play_order(struct play_program *program);

/* Reads a program. False: `error` has a line that says what is wrong. */
bool play_read(struct play_program *program, FILE *file, char error[256]);

#endif
