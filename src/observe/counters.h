/* SPDX-License-Identifier: MIT */
/*
 * The counters of the exit report, and the reasons for which ops are not held, or held ops flushed.
 * Plain integers: each stream has its own set, guarded by the stream's lock, and they are added up
 * when somebody asks.
 */
#ifndef AG_COUNTERS_H
#define AG_COUNTERS_H

#include <stdint.h>

/* Why held ops were submitted one by one (reasons.def). */
enum ag_reason {
#define AG_REASON(id, word, help) AG_REASON_##id,
#include "observe/reasons.def"
    AG_REASON_COUNT
};

/* Why an op is not held; AG_WHY_HELD: it is. */
enum ag_why {
#define AG_WHY(id, word, help) AG_WHY_##id,
#include "observe/reasons.def"
    AG_WHY_COUNT
};

extern const char *const ag_reason_names[AG_REASON_COUNT];
extern const char *const ag_why_names[AG_WHY_COUNT];

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
    uint64_t traces;      /* execs made */
    uint64_t making_ns;   /* ns that making them took */
    uint64_t evictions;   /* of these execs, those that were destroyed to make room for others */
    uint64_t trials;      /* that are over */
    uint64_t trials_lost; /* of these, those that holding has lost */
    uint64_t errors;      /* driver calls of the library that failed */
    uint64_t flushes[AG_REASON_COUNT];
    /* Each op that was not replayed is in one of these two: ops that were held and went out one by
       one, and ops that were not held. */
    uint64_t given_up[AG_REASON_COUNT];
    uint64_t eager[AG_WHY_COUNT];
};

#endif
