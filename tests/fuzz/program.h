/* SPDX-License-Identifier: MIT */
/*
 * Fuzz programs: trees of statements, and their text.
 *
 * A program first says what there is (PROGRAM, CONTEXT, LANE), then what is done. A lane is a
 * stream with memory of its own, which only its ops touch; values pass between lanes by EXCHANGE
 * alone, which orders them. So what a program leaves in memory does not depend on chance.
 *
 * A statement of a lane may name a thread (1 and up) that does it while the others wait; and, where
 * the stream has a handle, what is current meanwhile: 1 + a context, or one more: none.
 *
 * Text: a statement a line, `name field=value ...`, fields that are 0 left out; a block's line ends
 * with `{`, and a line `}` ends the block; `#` begins a comment line.
 */
#ifndef FUZZ_PROGRAM_H
#define FUZZ_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* X(id, name, block) */
#define STATEMENTS(X)                                                                              \
    /* threads; how: route to the driver; mode: 1 the first context is a primary one */            \
    X(PROGRAM, "program", false)                                                                   \
    /* n: device */                                                                                \
    X(CONTEXT, "context", false)                                                                   \
    /* how: kind of stream; n: context; thread: its owner; more: 1 names the stream the other way; \
       mode: 1 + lane whose stream it uses as well; k: priority */                                 \
    X(LANE, "lane", false)                                                                         \
    /* n: trips; more: changes with the loop around it, by up to that many */                      \
    X(LOOP, "loop", true)                                                                          \
    /* every n-th trip, the k-th of them; how: 1 irregularly */                                    \
    X(IF, "if", true)                                                                              \
    /* another thread does the block, this one waits */                                            \
    X(ON, "on", true)                                                                              \
    /* the blocks in it, all ON, at the same time */                                               \
    X(PAR, "par", true)                                                                            \
    /* n: layout, KERNEL_LAYOUTS is the lane's own kernel; how: kind of call; attrs: bits;         \
       dst, src; size: words; more: 1 dst and src change places every other trip, 2 attrs change   \
     */                                                                                            \
    X(KERNEL, "kernel", false)                                                                     \
    /* n: element width; how: 0 1D, 1 2D, 2 synchronous; dst; at, size: words; shape */            \
    X(MEMSET, "memset", false)                                                                     \
    /* how: enum copy_how; dst; src; at, size: words; shape; mode: 1 a large upload */             \
    X(COPY, "copy", false)                                                                         \
    /* the lane's stream changes host memory that copies read */                                   \
    X(HOST, "host", false)                                                                         \
    /* cuStreamWriteValue32 to word `at` of dst */                                                 \
    X(VALUE, "value", false)                                                                       \
    /* values pass from lane `other` to lane, which other then waits for; how: enum edge;          \
       mode: 0 a kernel takes them, 1 a copy, 2 a copy to the host */                              \
    X(EXCHANGE, "exchange", false)                                                                 \
    /* the same without waiting: what passes is never written again */                             \
    X(PASS, "pass", false)                                                                         \
    /* how: enum edge, those where the host waits */                                               \
    X(SYNC, "sync", false)                                                                         \
    /* memory of the lane becomes part of the result; how: 0 async, 1 sync, 2 pageable, 3 mapped   \
     */                                                                                            \
    X(READ, "read", false)                                                                         \
    /* the host waits for the lane, then changes memory that copies read */                        \
    X(POKE, "poke", false)                                                                         \
    /* the host spins on a word that a kernel writes, and calls nothing meanwhile */               \
    X(SPIN, "spin", false)                                                                         \
    /* n: microseconds for which the host does something else */                                   \
    X(PAUSE, "pause", false)                                                                       \
    /* the time between two events is not shorter than n microseconds, for which the host pauses   \
       between their records; how: bits: a kernel behind the first, before the second */           \
    X(TIME, "time", false)                                                                         \
    /* memory for the block: how: 0 cuMemAllocAsync, 1 cuMemAlloc, 2 the first and cuMemFree */    \
    X(TEMP, "temp", true)                                                                          \
    /* the block is captured, n: times launched; mode; how: 1 updates the last graph; more: keeps  \
       it for REPLAY */                                                                            \
    X(CAPTURE, "capture", true)                                                                    \
    /* the last captured graph is launched again */                                                \
    X(REPLAY, "replay", false)                                                                     \
    /* an explicit graph of n nodes is made, launched, patched, launched */                        \
    X(GRAPH, "graph", false)                                                                       \
    /* a call that fails; how: which */                                                            \
    X(FAIL, "fail", false)                                                                         \
    /* the own kernel's shared memory limit becomes n */                                           \
    X(LIMIT, "limit", false)                                                                       \
    /* the own kernel, or its context, gets another setting; how: which, n: its value */           \
    X(SETTING, "setting", false)                                                                   \
    /* the own kernel's module is unloaded and loaded, with layout n */                            \
    X(RELOAD, "reload", false)                                                                     \
    /* the lane's stream is destroyed and made again; n: 1 without waiting, 2 waiting afterwards   \
     */                                                                                            \
    X(RENEW, "renew", false)                                                                       \
    /* the lane's spare memory is freed and allocated */                                           \
    X(REALLOC, "realloc", false)                                                                   \
    /* memory is mapped for the lane, the first time; then access to it is taken, and given back;  \
       how: 1 it may still be read; n: bits of the two halves that it is for */                    \
    X(ACCESS, "access", false)                                                                     \
    /* context n is destroyed and made again, with all that is in it; how: 1 nobody looks before,  \
       2 nor is a primary one released, but reset */                                               \
    X(RESET, "reset", false)                                                                       \
    /* the lane's work goes on in the BRANCH blocks in it, side by side; how: 1 their statements   \
       take turns; n: enum twist; mode: 1 no values pass to the branches */                        \
    X(FORK, "fork", true)                                                                          \
    /* the lane waits for the fork's lane, does the block, and is joined; how: enum join;          \
       mode: 1 no values pass back */                                                              \
    X(BRANCH, "branch", true)                                                                      \
    /* the host waits for a copy to pinned memory; each n-th time another thread sees that memory, \
       too; how: enum watch; mode: 1 it acts before the copy may run; more: its pause; size:       \
       words; other: a lane for what acts elsewhere */                                             \
    X(WATCH, "watch", false)                                                                       \
    /* a kernel that waits for the host, which comes n microseconds later */                       \
    X(GATE, "gate", false)                                                                         \
    /* a kernel that needs the whole device; how: enum fill; n: microseconds; other: a lane */     \
    X(FILL, "fill", false)                                                                         \
    /* n times the threads run the ON blocks in it at the same time, and take turns to do the rest \
       of it; lane, other: lanes that are nobody's, but whose turn it is */                        \
    X(TURNS, "turns", true)                                                                        \
    /* the thread ends, the 1st is 1, and another one takes its place; how: 0 its default streams  \
       have been waited for, 1 an event orders them, 2 the host waits behind; mode: 1 meanwhile    \
       others go on */                                                                             \
    X(LEAVE, "leave", false)

enum statement_kind {
#define X(id, name, block) S_##id,
    STATEMENTS(X)
#undef X
        S_KINDS
};

#define FIELDS(X)                                                                                  \
    X(lane)                                                                                        \
    X(other)                                                                                       \
    X(thread)                                                                                      \
    X(away)                                                                                        \
    X(threads)                                                                                     \
    X(how)                                                                                         \
    X(mode)                                                                                        \
    X(n)                                                                                           \
    X(more)                                                                                        \
    X(k)                                                                                           \
    X(vary)                                                                                        \
    X(dst)                                                                                         \
    X(src)                                                                                         \
    X(at)                                                                                          \
    X(size)                                                                                        \
    X(grid)                                                                                        \
    X(block)                                                                                       \
    X(shared)                                                                                      \
    X(shape)                                                                                       \
    X(attrs)

struct statement {
    enum statement_kind kind;
#define X(name) int name;
    FIELDS(X)
#undef X
    struct statement *body; /* of a block */
    struct statement *next;
};

enum { MOST_LANES = 8, MOST_THREADS = 4, MOST_CONTEXTS = 3 };

enum lane_kind { LANE_LEGACY, LANE_BLOCKING, LANE_NONBLOCKING, LANE_PER_THREAD, LANE_KINDS };

/* How k changes from time to time (KERNEL, MEMSET, COPY, HOST, VALUE, POKE). */
enum vary {
    VARY_NOT,
    VARY_TRIP,      /* with the innermost loop's trip */
    VARY_ALTERNATE, /* every other trip */
    VARY_OUTER,     /* with the trip of the loop around */
    VARY_ALWAYS,    /* with every op of the lane */
    VARY_RARELY,    /* every fifth trip */
    VARY_KINDS
};

/* What is drawn anew for each trip, a bit each (shape.c). */
enum shape {
    SHAPE_GRID = 1,
    SHAPE_BLOCK = 2,
    SHAPE_SHARED = 4,
    SHAPE_WHICH = 8, /* the function, or a memset's width */
    SHAPE_SIZE = 16,
    SHAPE_PLACE = 32,
    SHAPE_EVER = 64 /* for each op of the lane: the next run of the loop draws others */
};

enum buffer {
    BUFFER_STATE,
    BUFFER_A,
    BUFFER_B,
    BUFFER_SPARE,
    BUFFER_HOST,
    BUFFER_TEMP,
    BUFFER_MAPPED, /* which ACCESS makes; not for kernels */
    BUFFERS
};
enum { BUFFER_WORDS = 32, KEPT_WORDS = 8 /* of the state: only kernels write them */ };
enum { LARGE_WORDS = (1 << 10) / 4 + 16 /* a little more than an upload that can be held */ };

enum launch_how {
    LAUNCH_PLAIN,
    LAUNCH_EXTRA,       /* arguments in one buffer */
    LAUNCH_EX,          /* cuLaunchKernelEx with attributes */
    LAUNCH_HANDLE,      /* a CUkernel in place of the CUfunction */
    LAUNCH_HANDLE_EX,   /* both */
    LAUNCH_COOPERATIVE, /* cuLaunchCooperativeKernel */
    LAUNCH_KINDS
};
enum {
    ATTR_PRIORITY = 1,
    ATTR_COOPERATIVE = 2,
    ATTR_DOMAIN = 4,
    ATTR_CLUSTER = 8,
    ATTR_PROGRAMMATIC = 16,
    ATTR_IGNORE = 32,
    ATTR_ALL = 63,
    /* Drivers before 13.0, 12.8 and 13.2 refuse these. */
    ATTR_NVLINK = 64,
    ATTR_PREFERRED = 128,
    ATTR_CLUSTER_MODE = 256,
    ATTR_SHARED_MODE = 512,
};
enum { ATTR_MOST = 12 }; /* and more than there are */

enum copy_how {
    COPY_DTOD,
    COPY_HTOD_PINNED,
    COPY_HTOD_PAGEABLE,
    COPY_DTOH,
    COPY_UNIFIED, /* cuMemcpyAsync, device to device */
    COPY_2D,
    COPY_3D,
    COPY_DTOD_SYNC,
    COPY_HTOD_SYNC,
    COPY_KINDS
};

enum edge {
    EDGE_EVENT,
    EDGE_VALUE,  /* cuStreamWriteValue32 and cuStreamWaitValue32 */
    EDGE_LEGACY, /* the legacy stream's implicit ordering; an event where there is none */
    EDGE_HOST,   /* from here on the host waits: cuStreamSynchronize */
    EDGE_HOST_EVENT,
    EDGE_HOST_QUERY,
    EDGE_HOST_EVENT_QUERY,
    EDGE_HOST_CONTEXT,
    EDGE_DEVICE, /* a kernel waits on the device for one that is launched right behind it; an event
                    where that would be for ever */
    EDGES
};

/* How a thread sees memory that a copy writes. */
enum watch {
    WATCH_HOST, /* a host function behind the copy */
    WATCH_CALLBACK,
    WATCH_KERNEL,
    WATCH_COPY,
    WATCH_OTHER_KERNEL, /* in another stream, behind an event */
    WATCH_OTHER_COPY,
    WATCH_WAIT, /* from here on it waits, and reads: for the stream */
    WATCH_QUERY,
    WATCH_EVENT,
    WATCH_EVENT_QUERY,
    WATCH_WRITE, /* it writes there, behind its wait */
    WATCHES
};

/* How long a kernel keeps all other kernels from the device. */
enum fill {
    FILL_WORKS, /* as long as it takes */
    FILL_WAITS, /* until the host comes, microseconds later */
    FILL_READS, /* in lane `other`, until the host has got a copy by the lane */
    FILLS
};

/* What else happens to a fork's events and streams, once the branches have begun. */
enum twist {
    TWIST_NONE,
    TWIST_TWICE,       /* the fork's event has been recorded before */
    TWIST_QUERY,       /* the host asks about it, */
    TWIST_SYNCHRONIZE, /* or waits for it */
    TWIST_RENEW,       /* it is destroyed and made again */
    TWIST_STREAM,      /* the host asks about the branches' streams */
    TWIST_JOIN_TWICE,  /* the branches record their events when they begin, too */
    TWISTS
};

enum join {
    JOIN_NOW,
    JOIN_LATE, /* before the lane's next fork */
    JOIN_NEVER,
    JOINS
};

enum failure {
    FAIL_GRID,
    FAIL_BLOCK,
    FAIL_SHARED,
    FAIL_MEMSET,
    FAIL_COPY,
    FAIL_STREAM, /* a handle that is none */
    FAIL_FUNCTION,
    FAILURES
};

enum setting {
    SETTING_CARVEOUT,
    SETTING_CACHE,
    SETTING_NONPORTABLE,
    SETTING_CONTEXT_CACHE,
    SETTING_STACK,
    SETTINGS
};

struct statement *statement_new(enum statement_kind kind);
struct statement *program_clone(const struct statement *list); /* with all that follows */
void program_free(struct statement *list);

void statement_print(FILE *to, const struct statement *s); /* its line, without its block */
void program_print(FILE *to, const struct statement *list);
/* NULL, after a line on stderr, if the text is no program. */
struct statement *program_read(FILE *from, const char *name);

/* Generates the program of a seed (generate.c). */
struct statement *program_generate(uint64_t seed);

#endif
