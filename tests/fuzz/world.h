/* SPDX-License-Identifier: MIT */
/*
 * What a fuzz program runs in: contexts, lanes (a stream with memory of its own), threads.
 *
 * No locks but the threads' own: outside PAR one thread runs at a time, and in PAR a thread uses
 * only lanes that it owns. In TURNS it also uses those that are shared, while it is its turn.
 */
#ifndef FUZZ_WORLD_H
#define FUZZ_WORLD_H

#include <pthread.h>

#include "api.h"
#include "kernels.h"
#include "program.h"

/* Areas of a lane's pinned memory, BUFFER_WORDS each. */
enum pinned {
    PINNED_SOURCE, /* host to device copies read it; host functions write it */
    PINNED_TARGET, /* device to host copies write it */
    PINNED_MAPPED, /* BUFFER_HOST */
    PINNED_READ,   /* for READ */
    PINNED_PASS,   /* for EXCHANGE between contexts */
    PINNED_WATCH,  /* for WATCH; and what the device has seen there */
    PINNED_SEEN,
    PINNED_WORDS, /* single words, below */
    PINNED_AREAS
};
enum { WORD_FLAG, WORD_SPIN, WORD_DEVICE, WORD_TIME, WORD_WATCH, WORD_GATE, WORD_FILL };
enum { SLOTS = 256 };

struct context {
    bool live, primary;
    CUdevice device;
    CUcontext handle;
    unsigned generation; /* goes up with RESET */
    CUmodule module;
    CUfunction function[KERNEL_LAYOUTS];
    CUmodule words; /* wait and set, for EDGE_DEVICE */
    CUfunction wait, set;
    CUfunction fork; /* values pass at forks */
};

struct record; /* what a host function is told */

struct lane {
    int index;
    enum lane_kind kind;
    struct context *context;
    int thread;
    bool turned;        /* the stream is named the other way, see below */
    struct lane *share; /* whose stream it uses, or NULL */
    bool shared;        /* another lane uses its stream */
    int priority;
    CUstream stream;
    const struct api *api;  /* whose stream 0 fits the stream's name */
    const struct api *sync; /* for calls without a stream: they are ordered with this lane's */

    CUdeviceptr state, a, b, spare, temp; /* temp: 0 outside TEMP */
    struct {
        CUdeviceptr base; /* 0: not made yet */
        size_t size;      /* of each half */
        bool closed;      /* some of the access is taken */
        bool readonly;    /* and that is the right to write */
    } mapping;            /* access.c */
    CUdeviceptr slots;    /* for PASS, each written once */
    int slots_used;
    uint32_t *pinned;
    CUdeviceptr mapped;
    uint32_t pageable[BUFFER_WORDS];
    uint32_t heap[LARGE_WORDS];
    CUdeviceptr large; /* as many words, which uploads from there write */
    CUevent event[2];
    CUevent stamp[2]; /* with timing, for TIME */
    CUevent watched;  /* for WATCH */
    CUevent left;     /* for LEAVE */
    CUdeviceptr seen; /* what a copy has seen, and behind that what it is to see */
    unsigned watches; /* so far */
    struct {
        CUevent event, join;   /* of the lane as a fork, and as a branch */
        CUdeviceptr gift, out; /* what its branches get; what each lane gets of it as a branch */
        bool open;             /* it forks just now */
        unsigned late, owed;   /* lanes that are to be joined, and those that give values then */
    } fork;
    unsigned event_turn;
    bool stray;      /* its last op went to the legacy stream, and a wait for its own may miss it */
    uint32_t flag;   /* last value written to WORD_FLAG */
    uint32_t device; /* and to WORD_DEVICE */
    uint32_t ticket; /* to WORD_WATCH */
    uint32_t gate;   /* that a kernel waits for in WORD_GATE */
    uint32_t full;   /* and in WORD_FILL */
    uint32_t ops;

    CUmodule own_module;
    CUfunction own;
    int variant;

    bool capturing;
    struct lane *origin; /* of the capture that it is part of */
    CUgraphExec exec;
    unsigned joined; /* lanes whose memory the exec touches, besides its own; a bit each */

    struct record *records;
};

enum { MOST_DEPTH = 16 };

struct thread {
    struct world *world;
    int index;
    struct life *life; /* the last one, which goes on */
    uint64_t hash;     /* of all return codes and data read, in this thread's order */

    const struct statement *statement; /* that it does now */
    int away;                          /* of it, where it may be so */

    const struct context *current;
    unsigned generation; /* of current */

    bool may_fail; /* the statement's calls, for want of access */
    bool par;      /* inside PAR or TURNS */
    bool turn;     /* it is its turn */
    int capturing; /* captures of its own inside PAR */
    int depth;
    int trip[MOST_DEPTH]; /* of the loops around, the innermost last */

    /* The job that it is to do; under the world's lock. */
    void (*job)(struct thread *, const void *);
    const void *job_of;
    pthread_cond_t wake;
    int busy; /* jobs that it has, one within the other */
};

/* Kernels that wait for the host, in the order in which it comes; under the world's lock. */
enum { GATES = 64 };
struct gate {
    struct lane *lane;
    uint32_t value;
    int us;
};
struct gates {
    struct gate list[GATES];
    unsigned closed, opened;
    bool quit;
    pthread_t thread;
    pthread_cond_t wake;
};

struct world {
    bool gpu, trace;
    enum api_route route;
    int nthreads, ncontexts, nlanes;
    bool par_captures;
    bool fills;    /* it has kernels that need the whole device: none may wait for another kernel */
    int capturing; /* captures under way outside PAR */
    int forks;     /* open ones outside PAR */
    CUlibrary library;
    CUkernel kernel[KERNEL_LAYOUTS];
    struct context context[MOST_CONTEXTS];
    struct lane lane[MOST_LANES];
    struct thread thread[MOST_THREADS + 1]; /* and the one that sees what others wait for */
    struct gates gates;
    unsigned shared; /* lanes that TURNS shares, a bit each */
    unsigned turn;   /* turns that are over; under the lock */
    pthread_cond_t turned;
    pthread_mutex_t lock;
    _Atomic unsigned long ops; /* that the program issued */
    _Atomic unsigned errors;   /* return codes that no statement asked for */
};

struct outcome {
    uint64_t hash;
    unsigned long ops;
    unsigned errors;
};

/* Runs a program in a world of its own; false, after a line on stderr, if there can be none. */
bool world_run(const struct statement *program, bool gpu, bool trace, struct outcome *outcome);

/* Captures under way that what the thread does may disturb. */
static inline int captures(const struct thread *t)
{
    return t->par ? t->capturing : t->world->capturing;
}

/* Whether the thread may use the lane now. */
static inline bool may_use(const struct thread *t, const struct lane *l)
{
    bool shared = t->world->shared >> l->index & 1;
    return !t->par || (shared ? t->turn : l->thread == t->index);
}

/* -- For statements -------------------------------------------------------- */

uint64_t hash_mix(uint64_t hash, uint64_t value);

/* A return code becomes part of the result; `what` is for the trace. */
void note(struct thread *t, CUresult result, const char *what);
/* The same, and it is an error if it is not CUDA_SUCCESS and no capture explains that. */
void must_succeed(struct thread *t, CUresult result, const char *what);
#define NOTE(t, call) note(t, call, #call)
#define MUST(t, call) must_succeed(t, call, #call)

/* Words that the host has read become part of the result. */
void look(struct thread *t, const uint32_t *words, int count);

/* Makes the lane's context current. */
void world_enter(struct thread *t, const struct context *context);

/* The same before an op in the lane's stream, unless the statement wants another one. */
void lane_enter(struct thread *t, const struct lane *l);

void stream_make(struct thread *t, struct lane *l);
void own_load(struct thread *t, struct lane *l, int variant);
void context_reset(struct thread *t, int index, int how);

/* Launches the context's `wait` or `set` in the lane's stream. */
CUresult word_launch(struct lane *l, CUfunction what, CUdeviceptr word, uint32_t value);
CUdeviceptr word_address(const struct lane *l, int word); /* in its pinned memory */

/* Runs job(thread, of) on the thread with that index, in the caller's loops, and waits. */
void thread_call(struct thread *caller, int index, void (*job)(struct thread *, const void *),
                 const void *of);

/* The same without waiting until thread_end; the call's job, of and par are set. */
struct call {
    void (*job)(struct thread *, const void *);
    const void *of;
    bool par;
    struct thread *caller;
    int index;
    bool done;
    int depth, trip[MOST_DEPTH];
};
void thread_begin(struct thread *caller, struct call *call, int index);
void thread_end(struct thread *caller, struct call *call);

/* It begins, or ends when it has nothing to do. */
void thread_start(struct thread *t);
void thread_stop(struct thread *t);

/* Whether it does something, or waits for another thread that does. */
bool thread_is_busy(struct thread *t);
/* It ends, and another one goes on with what it does from now on. Waits for its end, or not. */
void thread_renew(struct thread *t, bool waits);

/* -- Statements ------------------------------------------------------------- */

/* run.c: a list of statements. */
void run(struct thread *t, const struct statement *list);

/* ops.c */
void op_run(struct thread *t, struct lane *l, const struct statement *s);
uint32_t op_value(struct thread *t, struct lane *l, const struct statement *s);
CUresult op_launch(struct thread *t, struct lane *l, const struct statement *s, CUdeviceptr dst,
                   CUdeviceptr src, uint32_t k);
CUdeviceptr lane_buffer(const struct lane *l, int buffer);
void lane_free_records(struct lane *l);

/* access.c: memory whose access comes and goes. */
void access_run(struct thread *t, struct lane *l, const struct statement *s);
CUdeviceptr access_memory(const struct lane *l); /* or a, where there is none */
bool access_is_in(const struct lane *l, int buffer);
bool access_takes_words(const struct lane *l, int buffer); /* or one would end the context */
void access_look(struct thread *t, struct lane *l); /* what is there becomes part of the result */
void access_free(struct thread *t, struct lane *l);

/* shape.c: the statement as it is this time. */
struct statement shape_now(const struct thread *t, const struct lane *l, const struct statement *s);

/* order.c: statements about order. */
void order_run(struct thread *t, struct lane *l, const struct statement *s);
/* What `from` has done is done before what `to` does from now on. False: in a broken capture. */
bool order_edge(struct thread *t, struct lane *from, struct lane *to, int how);
/* Whether a kernel of `to` may wait for what `from` is given later, and nothing that anybody does
   in between waits for kernels. */
bool order_may_wait_ahead(const struct thread *t, const struct lane *from, const struct lane *to);
/* A record of the event in the lane, and a wait for it, by a thread that can name the stream. */
void order_record(struct thread *t, struct lane *l, CUevent event);
void order_await(struct thread *t, struct lane *l, CUevent event);

/* The host waits for what the lane's stream has; how: enum edge. */
void order_wait(struct thread *t, struct lane *l, int how);

/* times.c: the host does something else for a while; and what the device's clock says of that. */
void host_pauses(int us);
void time_run(struct thread *t, struct lane *l, const struct statement *s);

/* turns.c: threads take turns; one ends. */
void turns_run(struct thread *t, const struct statement *s);
void leave_run(struct thread *t, const struct statement *s);

/* watch.c: another thread sees what a copy writes; kernels wait for the host. */
void watch_run(struct thread *t, struct lane *l, const struct statement *s);
void gate_run(struct thread *t, struct lane *l, const struct statement *s);
void fill_run(struct thread *t, struct lane *l, const struct statement *s);
void gates_begin(struct world *w);
void gates_end(struct world *w);

/* fork.c: lanes that fork and join. */
void fork_make(struct thread *t, struct lane *l);
void fork_free(struct thread *t, struct lane *l);
void fork_run(struct thread *t, const struct statement *s);

/* graph.c: the program's own graphs. */
void graph_run(struct thread *t, struct lane *l, const struct statement *s);

#endif
