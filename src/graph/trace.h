/* SPDX-License-Identifier: MIT */
/*
 * A trace made executable: a CUDA graph of the ops on a path of the tree, one after the other or in
 * branches (graph/fork.h), instantiated. Built explicitly, never by capturing a stream
 * of the program.
 *
 * All functions want the trace's context to be current, and the lock of the stream it belongs to.
 * Each returns the first driver error, after which the caller submits the ops eagerly; a trace
 * that failed must be destroyed.
 */
#ifndef AG_GRAPH_TRACE_H
#define AG_GRAPH_TRACE_H

#include <cuda.h>

#include "graph/fork.h"
#include "driver/limits.h"
#include "observe/account.h"
#include "observe/counters.h"
#include "trace/tree.h"

struct ag_trace {
    struct ag_trace *next;            /* of the same stream; the engine's */
    struct ag_trace *variant;         /* the next in the ring of those with the same leaf */
    struct ag_history *history;       /* of its arguments, or NULL; see graph/variant.h */
    uint32_t number;                  /* in reports and traces; the engine's */
    struct ag_trace_account *account; /* for the report, or NULL; the engine's */
    struct ag_node *leaf;             /* the node that carries this trace */
    uint64_t used;                    /* the stream's `clock` at the last replay; the engine's */
    uint64_t starved;                 /* the stream's `starved` at the last replay; the engine's */
    CUgraph graph;                    /* its nodes name those of the exec; lives as long */
    CUgraphExec exec;
    CUcontext ctx;
    uint32_t length;
    uint8_t paths;     /* see ag_fork_paths() */
    bool placed;       /* a launch may be under way, and its paths have queues; the engine's */
    uint64_t launched; /* the stream's number of its last launch with branches; the engine's */
    bool grows;        /* its context gets memory for it once it is made; the engine's */
    bool by_node; /* cuGraphExecUpdate cannot give it arguments: it has events, or was refused once
                   */
    bool events;  /* nodes have events of the program's, which are not those of `ends` */
    bool prioritized;    /* some launch asks for a priority: it is for streams of one priority */
    bool differs;        /* some launch asks for another priority than its stream's */
    struct ag_ends ends; /* of its branches; see graph/fork.h */
    struct ag_step step[];
};

/*
 * Builds the trace of the path from the root to `leaf`, for `stream`, without its exec. Its
 * branches' records may need `own` events, which outlive it. NULL on failure, with the driver's
 * error in *error (CUDA_SUCCESS: there is no memory on the host, or memory that an op names has
 * been freed).
 */
struct ag_trace *ag_trace_build(struct ag_node *leaf, CUcontext ctx, CUstream stream,
                                const CUevent *own, CUresult *error);

/*
 * Makes the trace's exec. Reads only its graph. Once a context has about 31 execs this waits for
 * running kernels: the caller keeps to fewer.
 */
CUresult ag_trace_instantiate(struct ag_trace *trace);

/*
 * Gives the exec the arguments of its nodes where they changed, node by node or by updating it from
 * the source graph, whichever costs less, and launches it in `stream`. Counts patches, updates and
 * refused updates. Nothing has been executed when it fails.
 */
CUresult ag_trace_replay(struct ag_trace *trace, CUstream stream, struct ag_counters *counters);

/* Before a replay of a trace with branches, for which ag_fork_matches() holds: gives the nodes of
   records the events of the library's that they need now. */
CUresult ag_trace_set_records(struct ag_trace *trace);

/* Behind that replay, which says of all nodes that they have the program's arguments. */
void ag_trace_keep_records(struct ag_trace *trace);

/* Puts `other` in place of the event (NULL: of each event) in the exec, until the next replay gives
   it the op's event. */
CUresult ag_trace_replace_event(struct ag_trace *trace, CUevent event, CUevent other);

/* Device memory of an exec with so many ops, KiB: an estimate, not too low. */
static inline long ag_exec_kb(uint32_t ops)
{
    return ops <= AG_EXEC_SHORT ? AG_EXEC_SHORT_KB : AG_EXEC_LONG_KB;
}

/* Frees everything. Replays in flight go on (the driver keeps what they need). */
CUresult ag_trace_destroy(struct ag_trace *trace);

#endif
