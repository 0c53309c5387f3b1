/* SPDX-License-Identifier: MIT */
/*
 * What the exit report is made of: numbers and names, no CUDA. Whoever gathers them owns the
 * memory.
 */
#ifndef AG_ACCOUNT_H
#define AG_ACCOUNT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "observe/counters.h"

/* A stream's state, which several streams may have used one after the other. */
struct ag_stream_account {
    uint32_t number; /* of the last one */
    uint32_t lives;
    const char *kind;
    uint64_t ops, replayed, replays, traces;
};

enum { AG_TRACE_NAMES = 16 };

/* A trace. Kept until the process ends; the counters are written under a stream's lock, and may be
   read at any time. */
struct ag_trace_account {
    struct ag_trace_account *next;
    uint32_t number, length;
    _Atomic uint32_t stream; /* the last one that it was made or replayed for */
    _Atomic uint64_t replays, patches;
    const uint64_t
        *keys; /* of its ops, for the profile; NULL: nobody wants them, or one has none */
    const void *context;
    uint64_t judged;   /* `replays` at the last trial of the context */
    _Atomic bool lost; /* that trial was lost */
    struct {
        const char *name; /* NULL: further kernels */
        uint32_t count;
    } kernels[AG_TRACE_NAMES];
    uint32_t names;
};

/* What cut sequences of ops, or had held ops submitted one by one. */
struct ag_cut {
    const char *function; /* of the driver, constant; NULL: no call did it */
    enum ag_reason reason;
    enum ag_why why; /* why these ops are not held; AG_WHY_HELD: they were, or there are none */
    uint64_t calls;
    uint64_t ops; /* ops that were not replayed for this cause */
};

enum { AG_SITE_FRAMES = 4 };

/* Where the program makes calls that cut sequences. */
struct ag_callsite {
    const char *function;
    const void *address[AG_SITE_FRAMES];
    uint32_t frames;
    uint64_t samples;
    struct ag_frame {
        const char *module, *symbol; /* kept strings, or NULL */
        uint64_t offset, symbol_offset;
    } frame[AG_SITE_FRAMES];
};

enum { AG_GPUS = 16 };

struct ag_account {
    struct ag_counters counters;
    struct ag_stream_account *streams;
    struct ag_trace_account **traces;
    struct ag_cut *cuts;
    uint32_t stream_count, trace_count, cut_count;
    uint64_t traces_left_out;
    uint64_t held_ns, eager_ns; /* for an op, by the last trial; 0: there was none */
    double trial_variance;      /* of the difference between these, relative to their average */
    const char *gpus[AG_GPUS];  /* names of the devices that had a context */
    uint32_t gpu_count;
    uint64_t pool_allocations;  /* of stream-ordered memory, of the device's pool */
    uint64_t pool_behind_waits; /* of these, first ones behind a wait of the host */
    int64_t pool_keeps;         /* bytes that this keeps at a wait; less than 0: not known */
    uint64_t graph_memory_kb;   /* of the device, that graphs have taken in one context at most */
    bool partial;               /* a stream was in use, and its last numbers are missing */
    bool barred;                /* nothing is ever held in one of the streams */
    const char *stopped;        /* why nothing is held; NULL: ops may be held */
    double seconds;
    bool complete; /* the process ends */
};

#endif
