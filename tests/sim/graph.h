/* SPDX-License-Identifier: MIT */
/* graph.h: graphs, execs and captures, a part of sim.h. */
#ifndef SIM_GRAPH_H
#define SIM_GRAPH_H

/* -- Graphs (graph.c, params.c, node.c, exec.c, plan.c) -- */

struct edge {
    struct node *from, *to;
    CUgraphEdgeData data;
};
struct node {
    struct obj o;
    struct graph *graph;
    CUgraphNodeType type;
    struct work work;
    unsigned index;   /* in its graph */
    uint64_t copy_of; /* gen-unique mark of the node that it was cloned from */
    void **params;    /* what GetParams hands out, made when asked for */
};
struct graph {
    struct obj o;
    bool inner;     /* belongs to a child graph node */
    bool capturing; /* not finished */
    bool has_memory_nodes;
    unsigned nnodes, cap_nodes;
    struct node **nodes;
    unsigned nedges, cap_edges;
    struct edge *edges;
};
struct graph *graph_new(void);
void graph_free(struct graph *g);
CUresult graph_get(CUgraph handle, struct graph **out);
CUresult node_get(CUgraphNode handle, struct node **out);
/* Adds a node that takes over what w owns, also on failure. */
CUresult graph_add(struct graph *g, struct work *w, const CUgraphNode *deps,
                   const CUgraphEdgeData *data, size_t ndeps, struct node **out);
CUresult graph_clone(const struct graph *from, struct graph **out);
/* Parameters of the public form into a payload, checked (params.c). */
CUresult params_to_work(const CUgraphNodeParams *p, struct work *w);
CUresult params_from_work(struct node *n, CUgraphNodeParams *p);

/* The shape of an exec, shared by all its plans. */
struct shape {
    unsigned refs, nnodes, nedges;
    bool chain;      /* each node but the last leads to the next one, and nowhere else */
    unsigned paths;  /* chains that it falls into */
    unsigned fewest; /* of these, by any choice */
    uint64_t look;   /* the last look at running graphs that has seen it (branches.c) */
    struct shape_edge {
        unsigned from, to;
        CUgraphEdgeData data;
    } * edges;
    unsigned *indegree;
    unsigned *first; /* edges of a node: edges[first[i]] to edges[first[i + 1] - 1] */
};
/* An immutable executable: a launch holds on to the one it was made with. */
struct plan {
    unsigned refs;
    struct ctx
        *keeps; /* its exec has been destroyed, but has its memory there while a launch runs */
    struct shape *shape;
    struct plan_node {
        struct work work;
        bool disabled;
        struct node *origin;
        uint64_t origin_gen;
    } * nodes;
};
struct exec {
    struct obj o;
    struct ctx *ctx;
    cuuint64_t flags;
    size_t stack; /* of the context when it was made: its kernels have no more (H200) */
    struct plan *plan;
    struct stream *last_stream; /* its last launch */
    uint64_t last_seq;
};
CUresult plan_new(const struct graph *g, struct plan **out, struct node **bad);
void plan_drop(struct plan *p);
/* The exec's node made from this one, in a plan that may be written; NULL: none. */
struct plan_node *plan_writable(struct plan **p, struct node *origin);
CUresult plan_markers(const struct plan *p, struct stream *s, struct work *launch);
unsigned plan_events(const struct plan *p); /* records and waits, with those of child graphs */
/* What a launch in the stream comes behind since it finds no queue for each path (branches.c).
   Returns how many of `deps` there are: as many as the context has streams, at most. */
unsigned branches_behind(const struct exec *e, const struct stream *s, struct dep *deps);
/* Queues that a launch of such a graph in the stream lacks, even if it has as few paths as can be:
   a path shares one. */
unsigned branches_lack(const struct shape *shape, const struct stream *s);
void plan_execute(struct stream *s, struct work *launch); /* unlocked; branches.c */
CUresult plan_update(struct plan **p, const struct graph *g, bool priorities,
                     CUgraphExecUpdateResultInfo *info);
/* May this exec's node become that? The reason if not. */
CUgraphExecUpdateResult work_may_become(const struct work *old, const struct work *now,
                                        bool priorities);
CUresult exec_set(CUgraphExec exec, CUgraphNode node, const CUgraphNodeParams *p); /* a door */
void exec_gives(struct ctx *ctx, const struct plan *plan); /* an exec's memory back */
void exec_release_ctx(struct ctx *ctx);

/* -- Capture (capture.c) -- */

struct capture {
    struct capture *next; /* of all active ones */
    uint64_t id;
    struct graph *graph;
    bool own_graph; /* made by the capture: destroyed when it fails */
    bool invalid;
    CUstreamCaptureMode mode;
    pthread_t thread;
    struct stream *origin;
};
void capture_set_free(struct capture_set *set);
void capture_invalidate(struct capture *c);
void capture_stream_gone(struct stream *s);
/* Operations on a capturing stream. */
CUresult capture_add(struct stream *s, struct work *w);
CUresult capture_record(struct stream *s, struct event *e, unsigned flags);
/* Either the stream captures or the event was recorded by a capture. */
CUresult capture_wait(struct stream *s, struct event *e, unsigned flags);
/* Calls that capture forbids. Each also invalidates what it would have broken. */
CUresult capture_check_unsafe(void); /* allocation and the like, by the thread's mode */
CUresult
capture_check_legacy(struct stream *s); /* s is the legacy stream, a blocking one captures */
CUresult capture_check_ctx_sync(struct ctx *ctx);
CUresult capture_check_event_sync(struct event *e);

#endif
