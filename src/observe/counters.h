/* SPDX-License-Identifier: MIT */
/*
 * The counters of the exit report, and the reasons for which held ops are flushed.
 * Plain integers: each stream has its own set, guarded by the stream's lock, and they are added up
 * when somebody asks.
 */
#ifndef AG_COUNTERS_H
#define AG_COUNTERS_H

#include <stdint.h>

/* Why held ops were submitted eagerly: name in the report, meaning. */
#define AG_REASONS(X)                                                                              \
    X(SIDE_EXIT, "side_exit", "the program left the trace")                                        \
    X(STREAM_BARRIER, "stream_barrier", "a call on the same stream that cannot be held")           \
    X(HOST_WAIT, "host_wait", "the host waits for the stream")                                     \
    X(BARRIER, "barrier", "a call that anything may be ordered against")                           \
    X(LEGACY, "legacy_order", "implicit ordering with the legacy default stream")                  \
    X(WATCHDOG, "watchdog", "held for longer than the bound")                                      \
    X(EVENT, "event", "an event in held work is looked at or used again")                          \
    X(CAPTURE, "capture", "the program captures a graph")                                          \
    X(DESTROY, "destroy", "stream, context or module goes away")                                   \
    X(ATTRIBUTES, "attributes", "a function's or stream's attributes change")                      \
    X(FAILURE, "failure", "a graph call of the library failed")                                    \
    X(EXIT, "exit", "the process ends")                                                            \
    X(REQUEST, "request", "the program asked for it")                                              \
    X(QUEUE, "shared_queue", "an op of another stream, which may share a queue of the device")     \
    X(SEQUENCE_END, "sequence_end", "the library ended the sequence, which was full or begins anew")

enum ag_reason {
#define X(id, name, help) AG_REASON_##id,
    AG_REASONS(X)
#undef X
        AG_REASON_COUNT
};

extern const char *const ag_reason_names[AG_REASON_COUNT];

/* Why cuGraphExecUpdate refused: CUgraphExecUpdateResult, in its order. */
#define AG_REFUSALS(X)                                                                             \
    X("none")                                                                                      \
    X("error")                                                                                     \
    X("topology_changed")                                                                          \
    X("node_type_changed")                                                                         \
    X("function_changed")                                                                          \
    X("parameters_changed")                                                                        \
    X("not_supported")                                                                             \
    X("unsupported_function_change")                                                               \
    X("attributes_changed")

enum { AG_REFUSAL_COUNT = 9 };

extern const char *const ag_refusal_names[AG_REFUSAL_COUNT];

struct ag_counters {
    uint64_t ops;      /* ops that the program issued */
    uint64_t replayed; /* of these, submitted by a graph launch */
    uint64_t replays;  /* graph launches */
    uint64_t waited;   /* of these, the first ones behind a wait of the host */
    uint64_t patches;  /* nodes whose arguments were set before a replay */
    uint64_t updates;  /* execs updated as a whole from their source graph */
    uint64_t refusals[AG_REFUSAL_COUNT];
    uint64_t traces;       /* execs made */
    uint64_t making_ns;    /* ns that making them took */
    uint64_t evictions;    /* of these execs, those that were destroyed to make room for others */
    uint64_t duels;        /* that are over */
    uint64_t duels_lost;   /* of these, those that holding has lost */
    uint64_t first_rounds; /* ops that went out eagerly before there was a graph of them */
    uint64_t trials;       /* ops that went out eagerly since a duel wanted it */
    uint64_t unwatched;    /* ops that passed since nothing seemed to repeat */
    uint64_t errors;       /* driver calls of the library that failed */
    uint64_t flushes[AG_REASON_COUNT];
};

#endif
