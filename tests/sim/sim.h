/* SPDX-License-Identifier: MIT */
/* sim.h: the simulated driver's inside.
 *
 * Locking. One mutex, sim.lock, guards everything here unless a field says
 * otherwise. Doors (the sim_cu* functions) take it with sim_lock() and give it
 * back before they return. Two things happen without it: the execution of an
 * operation on a worker thread (the operation's payload, `struct work`, does
 * not change from the moment it is enqueued) and calls into the program (host
 * functions, kernel bodies). log.c has a mutex of its own, taken last.
 * Functions that begin with sim_cu are doors; the others expect the lock held
 * unless their comment says "unlocked".
 *
 * Handles are addresses of objects in one region per type (object.c), never
 * unmapped: a stale or invented handle is recognised, not followed.
 */
#ifndef SIM_H
#define SIM_H

#define _GNU_SOURCE
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <cudaProfiler.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>
#include <string.h>
#include <stdlib.h>

#include "agsim.h"
#include "newer.h"
#include "impl.h"

#define EXPORT            __attribute__((visibility("default")))
#define RETURN_ADDRESS    __builtin_return_address(0)
#define UNLIKELY(x)       __builtin_expect(!!(x), 0)
#define COUNT(a)          (sizeof(a) / sizeof((a)[0]))
#define MAX_DEVICES       16
#define MAX_CONNECTIONS   32
#define MAX_PARAMS        4096
#define MAX_ARGS_SIZE     32764
#define DEVICE_MEMORY     ((size_t)8 << 30)
#define SHARED_DEFAULT    49152
#define SHARED_MAX        232448
#define GREATEST_PRIORITY (-5)
#define PRIORITY_OF_NODES INT_MIN

/* -- Doors (api.c is generated, proc.c) -- */

struct sim_api {
    const char *name;
    int since; /* first driver version that has it */
    bool before_init;
    bool in_callback;   /* works on the thread of a host function */
    atomic_ulong calls; /* counted only under AGSIM_CALLS */
    unsigned stack;     /* bytes of the caller's stack that a call uses, only under AGSIM_STACK */
};
struct sim_look_up {
    const char *name;
    int version;
    int per_thread;
    void *symbol;
};
extern struct sim_api sim_apis[];
extern const unsigned sim_napis;
extern const struct sim_look_up sim_look_ups[];
extern const unsigned sim_nlook_ups;

/* What every driver call does first, and last. Unlocked. */
CUresult sim_enter(struct sim_api *api, void *caller);
CUresult sim_leave(CUresult result);

/* Whether an exported function is meant: its name, or that without _ptsz or _ptds, or without _vN
 * too. */
bool name_matches(const char *asked, const char *name);

/* Sets how much stack each call uses. Unlocked, before any call. */
void stack_init(void);
/* Uses so many bytes of the stack. */
void stack_use(unsigned bytes);

/* -- Objects (object.c) -- */

enum obj_type {
    OBJ_CTX,
    OBJ_STREAM,
    OBJ_EVENT,
    OBJ_MODULE,
    OBJ_LIBRARY,
    OBJ_KERNEL,
    OBJ_FUNCTION,
    OBJ_GRAPH,
    OBJ_NODE,
    OBJ_EXEC,
    OBJ_POOL,
    OBJ_MEMORY,
    OBJ_TYPES
};
struct obj {
    uint32_t type;
    bool alive;   /* the handle is valid */
    bool in_use;  /* the slot is taken: work may still need a dead object */
    uint64_t gen; /* never the same for two objects in one slot */
    uint64_t id;  /* counts the objects of its type, from 1 */
    struct obj *next_free;
};
void *obj_new(enum obj_type type); /* zeroed; NULL: none left */
void *obj_get(enum obj_type type, const void *handle);
bool obj_is(enum obj_type type, const void *handle); /* ever handed out as this type */
void obj_free(void *obj);
/* Walks the living objects of a type: start with NULL. */
void *obj_next(enum obj_type type, void *after);

/* -- State -- */

/* A queue of the device, which several streams may share: the operations in it that have not begun,
   in the order of submission. */
struct queue {
    struct op *head, *tail;
};

struct ctx {
    struct obj o;
    int device;
    bool primary, cig; /* cig: made for captures to a graphics interface */
    unsigned flags;
    unsigned refs; /* of a primary context */
    size_t limit[CU_LIMIT_MAX];
    CUfunc_cache cache;
    struct stream *legacy;
    struct stream *streams;               /* all, through stream->next_in_ctx */
    unsigned made;                        /* of these, that the program has ever created */
    unsigned in_room;                     /* submissions that wait until a stream takes more */
    struct queue queues[MAX_CONNECTIONS]; /* sim.connections of them; see queue.c */
    unsigned placed;                      /* streams that have got one of these */
    struct stream *reading; /* the library's last read-back is this stream's, up to there */
    uint64_t reading_seq, reading_since; /* since: ns */
    /* The model of instantiation: short execs and long ones. */
    unsigned nexecs[2]; /* living */
    unsigned
        exec_memory[2], /* that the context has memory for; that of long ones is good for short */
        exec_fresh;     /* that it has memory for besides, which none has used yet */
};

struct device {
    struct ctx *primary; /* allocated at first use, then kept */
    unsigned primary_flags;
    struct pool *default_pool, *pool;
};

struct tls {
    bool per_thread; /* stream 0 is the per-thread default stream */
    bool callback;   /* a driver thread inside the program's host function */
    bool by_host;    /* the host says when what the thread executes ends */
    bool registered; /* the thread's exit will release its streams */
    unsigned depth;
    struct {
        struct ctx *ctx;
        uint64_t gen;
    } stack[32];
    CUstreamCaptureMode capture_mode;
    const void *caller; /* of the call */
    const char *api;    /* its name */
    unsigned nstreams;  /* per-thread default streams, one per context */
    struct {
        struct stream *stream;
        uint64_t stream_gen;
    } * streams;
};
extern __thread struct tls sim_tls;

struct sim {
    pthread_mutex_t lock;
    pthread_cond_t thaw;  /* a call that held the driver is over */
    pthread_cond_t quiet; /* no kernel executes any more */
    pthread_cond_t room;  /* a submission has stopped to wait for room */
    atomic_bool initialized, forked, watched;
    bool frozen;
    int ndevices;
    int version;
    uint64_t seed;
    unsigned delay_us;
    unsigned launch_us, graph_launch_us, switch_us, instantiate_us, pointer_us, sync_us;
    atomic_ulong spun;     /* waits for events that spin where the context asks for others */
    unsigned graph_free;   /* execs a context has memory for; 0: no limit */
    unsigned streams_free; /* streams that a context gives without a wait; 0: no limit */
    bool graphs_wait, streams_wait; /* such a limit is asked for; else strict.c alone knows one */
    unsigned room_entries;          /* operations that a stream takes before a launch blocks */
    unsigned late_us;               /* after which an operation begins that nobody waits for */
    unsigned connections;           /* queues of a context */
    uint64_t deal;         /* by which streams are dealt out to them at random; 0: in turn */
    bool setters_pass;     /* setters of functions do not wait for launches that wait for room */
    bool events_by_handle; /* an event with the handle of a destroyed one is taken for that */
    bool reuse;            /* memory that another stream gives back is there, behind that */
    bool early;            /* kernels behind a programmatic edge do not wait for the one before */
    bool lazy;             /* a kernel is loaded when it is first asked for */
    unsigned launch_only;  /* a launch attribute that nodes do not take; 0: none */
    bool blocking;       /* CUDA_LAUNCH_BLOCKING: a launch returns when its kernel has ended; looked
                            at in cuInit(), and again for each context (H200) */
    int node_priorities; /* CUDA_GRAPHS_USE_NODE_PRIORITY: of all graphs; -1: each as it asks */
    atomic_int error;    /* a kernel has failed: what every call returns from now on */
    unsigned running;    /* kernels that execute now */
    struct device devices[MAX_DEVICES];
};
extern struct sim sim;

void sim_lock(void);
void sim_unlock(void);
/* Waits for all running kernels with the driver locked: calls of other threads wait too. */
void sim_wait_quiet(void);
const char *sim_env(const char *name); /* NULL when unset or empty */
void variables_read(void);             /* those that are looked at for a context, too */
/* Whether the call that the thread is in comes from the library under test. */
bool sim_called_by_library(void);
bool sim_is_library(const char *file);
unsigned long sim_env_number(const char *name, unsigned long otherwise);
void sim_busy(unsigned us); /* the calling thread is at work; without the lock */
uint64_t sim_hash(uint64_t hash, const void *data, size_t size);

/* -- Contexts (context.c) -- */

CUresult ctx_current(struct ctx **ctx);
CUresult ctx_get(CUcontext handle, struct ctx **ctx);
CUcontext ctx_handle(struct ctx *ctx);
CUresult ctx_synchronize(struct ctx *ctx); /* lets go of the lock while it waits */

/* -- Memory (memory.c) -- */

enum alloc_kind { ALLOC_DEVICE, ALLOC_HOST, ALLOC_REGISTERED, ALLOC_MANAGED };
struct alloc {
    uintptr_t base;
    size_t size;     /* what the program asked for */
    size_t capacity; /* what is taken of the arena */
    enum alloc_kind kind;
    struct ctx *ctx;
    int device;
    unsigned flags;
    uint64_t id;
    struct pool *pool;                 /* of a stream-ordered allocation */
    bool freed;                        /* by cuMemFreeAsync: not the program's any more */
    bool graph;                        /* made by an allocation node */
    bool synchronizes;                 /* CU_POINTER_ATTRIBUTE_SYNC_MEMOPS */
    unsigned holders;                  /* then: the node, and execs with it */
    bool foreign;                      /* memory of another process (ipc.c) */
    struct memory *memory;             /* that is mapped here (virtual.c) */
    unsigned char access[MAX_DEVICES]; /* then: what each may do, 0, 1 read, or 3 */
    struct stream *free_stream;
    uint64_t free_gen;
};
struct pool {
    struct obj o;
    int device;
    cuuint64_t threshold;
    size_t used, used_high;
};
struct memory { /* that can be mapped */
    struct obj o;
    size_t size;
    int fd;
    int device; /* -1: the host's */
    unsigned mappings;
    bool released;
};
/* The allocation that holds all of [p, p + size), or NULL. */
struct alloc *alloc_find(CUdeviceptr p, size_t size);
bool range_is_device(CUdeviceptr p, size_t size); /* the device can reach it */
/* Whether the device may read, or write, all of it, where it is known memory. */
bool range_is_open(CUdeviceptr p, size_t size, int device, bool write);
/* Whether a call may name a word there. */
bool range_takes_words(CUdeviceptr p, size_t size, int device);
unsigned alloc_access(const struct alloc *a, int device); /* CU_POINTER_ATTRIBUTE_ACCESS_FLAGS */
void access_is_used(void);                                /* some memory has less than all */
uintptr_t range_reserve(size_t size);                     /* 0: there is no room */
void range_release(uintptr_t p);
size_t range_reserved(CUdeviceptr p); /* the size of the range that is reserved around p, or 0 */
bool range_is_ours(uintptr_t p);      /* in the arenas; unlocked */
bool range_is_host(uintptr_t p);      /* likewise: the host's, pinned or pageable */
void alloc_release_ctx(struct ctx *ctx);
/* Executes a stream-ordered free: the memory is anybody's from now on. */
void alloc_free_done(CUdeviceptr p, uint64_t id);
CUresult alloc_new(struct ctx *ctx, enum alloc_kind kind, size_t size, struct alloc **out);
void alloc_drop(struct alloc *a);
struct alloc *alloc_mapped(uintptr_t at, size_t size, struct memory *memory);
struct alloc *alloc_first(uintptr_t at, size_t size); /* the first that begins there; or NULL */
void alloc_forget(struct alloc *a);                   /* it is unmapped */
struct alloc *alloc_foreign(struct ctx *ctx, uintptr_t at, size_t size); /* of another process */
int alloc_shared(uintptr_t *base);     /* the file that device memory is, from there on, or -1 */
uintptr_t alloc_virtual(size_t *room); /* addresses for virtual.c, and how many bytes */
/* One holder more or less (change: 1, -1) of a graph's memory; the last one takes it along. */
void alloc_hold(CUdeviceptr p, uint64_t id, int change);
void alloc_init(void);
unsigned alloc_count(void);
struct alloc *alloc_at(unsigned i);              /* in order of address */
void alloc_reborn(struct alloc *a, size_t size); /* another allocation in its place */

#include "launch.h"

/* -- Work: the payload of an operation or graph node (work.c, memory.c, ...) -- */

enum work_kind {
    WORK_EMPTY,
    WORK_KERNEL,
    WORK_MEMSET,
    WORK_COPY,
    WORK_HOST,
    WORK_RECORD,
    WORK_WAIT,
    WORK_MEM_OP, /* write or wait value */
    WORK_ALLOC,
    WORK_FREE,
    WORK_GRAPH, /* in a stream: a launch of an exec; in a graph: a child graph */
};

/* A memory side of a copy: address of the first byte, and the steps. */
struct copy_side {
    CUmemorytype type;
    uintptr_t base; /* as given */
    size_t x, y, z, pitch, rows;
    int device;        /* whose memory it was at that time */
    struct ctx *owner; /* likewise; NULL: of no context */
    bool pooled;       /* of a stream-ordered allocation */
};

struct work {
    enum work_kind kind;
    union {
        struct {
            struct kernel_def *def;
            struct function *func; /* a graph node's; NULL in a stream */
            uint64_t func_gen;
            struct kernel *kern;
            struct ctx *ctx;
            unsigned grid[3], block[3], shared;
            struct kernel_attrs attrs;
            unsigned char *args; /* def->args_size bytes, owned */
            size_t stack;        /* bytes for a thread; of an exec's node: see struct exec */
        } kernel;
        struct {
            CUdeviceptr dst;
            size_t pitch, width, height;
            unsigned value, elem;
            int device; /* whose memory it was at that time */
            struct ctx *owner;
            struct ctx *ctx;
        } memset;
        struct {
            struct copy_side src, dst;
            size_t width, height, depth;
            unsigned char *staging; /* owned copy of a pageable source */
            bool pageable_src, pageable_dst;
            uint64_t src_id, dst_id; /* allocations of a copy between pinned host and device */
            CUcontext ctx;
        } copy;
        struct {
            CUhostFn fn;
            CUstreamCallback callback;
            CUstream stream; /* for the callback */
            void *data;
        } host;
        struct {
            struct event *event;
            uint64_t gen;
            struct marker *marker; /* owned reference; NULL in a graph */
            unsigned flags;
            bool own; /* the event is the library's; it may be gone when the work is done */
        } event;
        struct {
            CUdeviceptr addr;
            uint64_t value;
            unsigned flags;
            bool wait, wide, flush;
        } mem_op;
        struct {
            CUdeviceptr ptr;
            size_t size;
            uint64_t id;
            bool of_graph; /* an allocation that nodes and execs hold */
            CUmemPoolProps props;
        } mem;
        struct {
            struct plan *plan;       /* owned reference */
            struct graph *graph;     /* a child graph node's own graph */
            struct marker **markers; /* a launch's, one for each record node */
            unsigned nmarkers;
            int priority; /* a launch's, of all its kernels, or PRIORITY_OF_NODES */
            size_t stack; /* a launch's, of all its kernels: the exec's, or less by now */
        } graph;
    };
};
void work_clear(struct work *w); /* frees what it owns */
CUresult work_copy(struct work *to, const struct work *from);
/* Unlocked, on a worker. */
void work_execute(struct stream *s, struct work *w, bool in_graph);
char *copy_row(const struct copy_side *s, size_t y, size_t z); /* its first byte */
void work_finish(struct work *w); /* what its end means to others; locked again */
uint64_t work_hash(const struct work *w);
/* Whether the device may reach all memory of a copy, memset, word or read-back. Unlocked: the
   second, when it is about to execute. */
bool work_is_open(const struct work *w, int device);
bool work_may_run(const struct work *w, const struct ctx *ctx);
bool work_is_read_back(const struct work *w);
CUdeviceptr read_back_source(const struct work *w);
uint32_t read_back_bytes(const struct work *w);
CUresult memset_prepare(struct work *w, CUdeviceptr dst, size_t pitch, unsigned value,
                        unsigned elem, size_t width, size_t height);
CUresult mem_op_prepare(struct work *w, const CUstreamBatchMemOpParams *m);
CUresult copy_prepare(struct work *w, const CUDA_MEMCPY3D *c);
bool copy_is_stale(const struct work *w); /* an allocation of its is gone */

/* -- Streams (queue.c, stream.c) -- */

struct capture_set { /* what the next captured operation depends on */
    size_t n, cap;
    CUgraphNode *nodes;
    CUgraphEdgeData *data;
};

/* The moment when a recorded event completes. */
struct marker {
    unsigned refs;
    _Atomic uint64_t done; /* 0 or 1; read without the lock by who waits */
    bool timed;
    uint64_t seq; /* of the operation that records it, in its stream */
    uint64_t ns;  /* when it completed by the device's time */
    struct stream *stream;
    struct stream *waiters;
};
struct marker *marker_new(struct stream *s, bool takes_time);
void marker_drop(struct marker *m);
void marker_complete(struct marker *m);
void marker_wait(struct marker *m); /* lets go of the lock */

struct dep { /* work of `stream` up to `seq`, or a marker */
    struct stream *stream;
    uint64_t seq;
    struct marker *marker;
};
struct op {
    struct op *next;
    uint64_t seq;
    uint64_t given; /* when the stream got it, or its turn came in the queue; 0: nobody asks */
    struct stream *stream;
    uint64_t due; /* ns by the machine's clock: AGSIM_LATE */
    int surplus;  /* entries of the stream that the program's own calls would not have taken */
    struct queue *queue; /* where it waits for its turn to begin; NULL: nowhere, or it has begun */
    struct op *behind;   /* the next in that queue */
    struct work work;
    unsigned ndeps;
    struct dep *deps;
    struct dep inline_deps[2];
};
enum stream_kind { STREAM_USER, STREAM_LEGACY, STREAM_PER_THREAD };
struct stream {
    struct obj o;
    /* These outlive the stream in its slot, and the counts only grow: so
     * (stream, seq) stays a valid thing to wait for, while another stream has
     * the slot already. */
    _Atomic uint64_t submitted, completed; /* read without the lock by who waits */
    _Atomic uint64_t wanted; /* up to there somebody waits for it, or for what is behind */
    uint64_t program;        /* the last operation that is the program's: strict.c */
    uint64_t visit, visited; /* of strict.c: the last look at it, and up to where */
    uint64_t ended;          /* when what has completed ended by the device's time (queue.c) */
    _Atomic uint64_t
        late; /* ns, of the worker behind that time; owned by the worker while running */
    _Atomic uint32_t turns; /* goes up when something has ended for which a thread waits; a futex */
    /* Since then threads have begun to wait: the first operation that one waits for, or 0; and
       whether one waits for a marker. */
    _Atomic uint64_t awaited;
    atomic_bool marker_awaited;
    struct ctx *ctx;
    enum stream_kind kind;
    unsigned flags;
    int priority;
    bool destroyed;  /* gone for the program; the slot waits for the work */
    bool worked;     /* it has had kernels */
    unsigned number; /* in the log */
    struct stream *next_in_ctx;
    struct op *head, *tail;
    unsigned depth;
    bool running;        /* a worker has it */
    struct dep *waiting; /* what the head waits for */
    struct queue *queue; /* its operations go through */
    struct stream *next_waiter;
    struct stream *waiters; /* streams that wait for this one */
    uint64_t random;        /* owned by the worker while running */
    int graph_priority;     /* likewise, of the launch that runs: see work.graph */
    size_t graph_stack;     /* likewise */
    struct capture *capture;
    struct capture_set capture_deps;
    bool cig; /* its work goes to a graphics interface, which is not simulated: it never runs */
    CUsynchronizationPolicy sync_policy;
    CUaccessPolicyWindow window;
};
CUresult stream_get(CUstream handle, struct stream **stream);
struct stream *stream_new(struct ctx *ctx, enum stream_kind kind, unsigned flags, int priority);
void stream_destroy(struct stream *s);
bool stream_blocking(const struct stream *s); /* the legacy stream orders against it */
/* Enqueues; takes over what `w` owns also on failure. Blocks while the stream is full. */
CUresult stream_enqueue(struct stream *s, struct work *w, const struct dep *deps, unsigned ndeps);
/* What a host thread waits for: after what precedes it in the stream, but in no queue. */
CUresult stream_enqueue_end(struct stream *s);
/* Unlocked, on the stream's worker: the last node of the graph that runs begins now. */
void stream_graph_begun(struct stream *s);
bool sim_thread(void *(*run)(void *), void *arg); /* a detached thread; false: there is none */
/* The same for an operation that can be captured: a node while s captures. */
CUresult stream_submit(struct stream *s, struct work *w);
/* Waits while a submission in the context waits for room: what makes or destroys something does
   (tests/bench/room, driver 580), and a launch in the legacy stream. Others submit meanwhile. */
void ctx_alone(struct ctx *ctx);
/* Somebody waits for the work up to seq, or asks for it. */
void stream_wanted(struct stream *s, uint64_t seq);
/* Waits (letting go of the lock) until the work up to seq has completed. */
void stream_wait(struct stream *s, uint64_t seq);
void clock_start(void);    /* before anything else of queue.c */
uint64_t machine_ns(void); /* by the machine's clock, whatever the program has; unlocked */
/* As cuStreamSynchronize: the legacy stream waits for the blocking ones too. */
void stream_synchronize(struct stream *s);
/* Everything that orders the host must first ask: is it legal now? */
CUresult stream_check_sync(struct stream *s);
void stream_release(struct stream *s); /* its slot, once destroyed and drained */
/* A pause at random, and whoever works for the stream makes it. The state is never 0. */
unsigned sim_random(uint64_t *state);
unsigned sim_pause_us(uint64_t *random);
void stream_pause(struct stream *s, unsigned us); /* unlocked */
unsigned stream_random(struct stream *s);

/* -- Events (event.c) -- */

struct event {
    struct obj o;
    struct ctx *ctx;
    unsigned flags;
    bool own;              /* the library under test has made it */
    struct marker *marker; /* of the last record; NULL: never recorded */
    uint64_t capture_id;   /* last recorded in this capture, 0: none */
    struct capture_set capture_deps;
};
void event_free(struct event *e);
/* Whether the event of a record or a wait has not been destroyed since. What a driver makes of an
   event that has the handle of a destroyed one is not known: it may be taken for that. */
static inline bool event_lives(const struct work *w)
{
    return w->event.event->o.alive &&
           (sim.events_by_handle || w->event.event->o.id == w->event.gen);
}
CUresult event_record(struct stream *s, struct event *e, unsigned flags); /* or captures it */

#include "graph.h"

/* -- Strictness (strict.c): the locked driver is in a call that may be the library's -- */

extern bool strict_on;
void strict_init(void);
void strict_quiet(void); /* the call waits for all running kernels, or would on a GPU */
void strict_load(void);  /* likewise, for a kernel that it loads */
void strict_wait(struct stream *s, uint64_t seq); /* it waits for a stream or an event */
void strict_alone(const struct ctx *ctx);
void strict_room(const struct stream *s, const struct work *w);
void strict_launch(struct stream *s, const struct shape *shape, const struct dep *last);
void strict_enqueued(struct op *op);

/* -- Log (log.c) -- */

void log_init(void);
bool log_on(void);
void log_op(struct stream *s, const struct work *w, bool in_graph); /* unlocked */
void log_flush(void);                                               /* unlocked */

#endif
