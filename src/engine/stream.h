/* SPDX-License-Identifier: MIT */
/*
 * The engine's view of streams, and how they are found.
 *
 * A stream's state is found by what the program names in a call: an explicit handle, the legacy
 * default stream of the current context, or the calling thread's default stream in it. Memory of
 * states is never returned to the system, only used again, so that a stale pointer is always a
 * pointer to some state, whose lock can be taken and whose `live` can be read.
 *
 * Lock order: at most one stream (another is only tried), then the registry, then the contexts or
 * the table of functions, which are leaves. The registry's lock is never held across a driver call;
 * a stream's is while its held ops are submitted, since that is what keeps their order.
 */
#ifndef AG_STREAM_H
#define AG_STREAM_H

#include <pthread.h>

#include "config/config.h"
#include "engine/context.h"
#include "engine/lock.h"
#include "graph/keep.h"
#include "graph/trace.h"
#include "trace/policy.h"
#include "trace/recorder.h"

enum ag_pace_known { AG_PACE_UNKNOWN, AG_PACE_DOUBTED /* measured once only */, AG_PACE_KNOWN };

/* How fast the program issues ops, and the lengths of sequences that follow from it; see pace.h. */
struct ag_pace {
    uint64_t began;      /* when the hold began that is being timed, ns; 0: none is */
    const void *thread;  /* the thread that began it */
    uint64_t submitting; /* ns that this thread had spent submitting by then */
    uint32_t op_ns;      /* time between two held ops of the stream, ns, on average */
    uint32_t eager_ns; /* until something is held: time of an op in eager sequences; 0: not known */
    uint64_t ended;    /* when the last eager sequence ended, ns; 0: not known */
    uint32_t any_ns;   /* the program's own time between two ops of a thread in any streams, ns */
    uint32_t replay_ns;  /* time that a replay takes the thread, ns, on average */
    uint32_t ops_before; /* ops that the thread had held when the hold began */
    uint32_t run;        /* ops since the last barrier */
    uint32_t runs;       /* ops between two barriers, on average */
    uint32_t length;     /* ops of a sequence, as the recorder was told */
    uint32_t first;      /* ops of the first sequence behind a wait */
    uint32_t better;     /* the length, ops, that the last `times` looks found better */
    uint32_t times;
    int late;          /* goes up when the watchdog submits, down when a piece is in time */
    uint32_t cap;      /* ops of a sequence at most, since longer ones were late; 0: any number */
    uint32_t cap_for;  /* looks for which the cap stays */
    uint32_t cap_next; /* looks for which the next cap will stay */

    enum ag_pace_known known; /* how well op_ns and any_ns are known */
};

/* A sequence of a trial that is being timed, until the next sequence begins; see trial.h. */
struct ag_timed {
    struct ag_node *head; /* NULL: none is being timed */
    uint64_t began;       /* ns */
    uint64_t spent;       /* ns that recording it took, if it is eager */
    uint32_t ops;         /* of the sequence, once it has ended */
    bool eager;           /* it goes out eagerly, to be compared with held ones */
};

/* Whether it pays to follow the stream; see audit.h. */
struct ag_audit {
    uint32_t since;            /* the recorder's ops at the last look, or when the window began */
    uint32_t after;            /* ops from there to the next look */
    uint64_t replayed, traces; /* the stream's counters at the last look */
    uint32_t again;            /* `after` for the next time that following wins */
    uint32_t window;           /* ops of a window */
    uint64_t clock;            /* the stream's replays before the audit */
    uint64_t began, issued;    /* when the window began: ns, and ops that the stream had had */
    uint64_t followed_ps;      /* time of an op in the pair's first window, ps */
    bool on, rests;    /* an audit is under way; its stream rests, for a pair's second window */
    uint8_t won, lost; /* pairs that following has won and lost */
};

enum {
    AG_WANTED = 16,         /* hot sequences of a stream that wait for an exec, at most */
    AG_FREES = 64,          /* frees that wait for the held ops of a stream, at most */
    AG_CUTS = 32,           /* causes of cuts that are told apart for a stream */
    AG_MOST_STREAMS = 4096, /* states at most; streams without one go straight to the driver */
};

struct ag_stream {
    struct ag_lock lock; /* guards everything below but where it says otherwise */

    /* Constant while the state is live; written under this lock and the registry's. */
    struct ag_context *context; /* barriers look at these two without a lock: see barrier.c */
    enum ag_stream_kind kind;
    _Atomic unsigned *_Atomic ahead; /* the count that each op looks at: ag_context_ahead() */
    CUstream handle; /* CU_STREAM_LEGACY and CU_STREAM_PER_THREAD for the default streams */
    uint32_t number; /* of this life, in reports and traces; from 1 */
    const void *_Atomic owner; /* per-thread default stream: whose (address of its ag_thread) */
    _Atomic bool live;
    _Atomic bool vacant;   /* live, but its stream is gone: see ag_stream_vacate() */
    unsigned vacated;      /* the context's `starved` when the state became vacant */
    unsigned behind;       /* registry lock; vacant: the context's `left` when the stream went, if
                              work that it left may still run; else 0 */
    _Atomic uint32_t life; /* goes up when it dies, so that threads forget what they remember */

    unsigned index;          /* constant, below AG_MOST_STREAMS */
    bool busy;               /* counted among the busy ones */
    struct ag_stream *alike; /* registry lock: next in the bucket of its name, or unused state */
    struct ag_stream **bucket;
    struct ag_stream *next; /* registry lock: all states, in use or free */

    /* Of this life. */
    uint32_t lives;      /* streams that have had this state, with the present one */
    bool began_before;   /* the stream had ops before it had the state, or its first ops pass */
    uint64_t ops_before; /* counters.ops of earlier lives */
    uint64_t issued_before, replays_before; /* ag_stream_issued(), counters.replays of these */
    _Atomic uint64_t passed; /* ops that passed while the recorder rested, in all lives */
    _Atomic uint64_t used;   /* launches of the program's own graphs, in all lives */
    _Atomic uint64_t waited; /* of what was issued, the part that the program has waited for */
    struct ag_counters counters;

    /* Written under the lock, read without it: a thread always sees what it wrote itself. */
    _Atomic uint32_t held;      /* ops held: those on the path to the recorder's cursor */
    _Atomic bool open;          /* a sequence is open: counted in ag_listeners */
    _Atomic bool curious;       /* wants to hear of the next barrier: in ag_curious_streams */
    _Atomic bool relayed;       /* ops went out in its name (submit.c): in ag_listeners */
    _Atomic unsigned counted;   /* 1: it holds, and is counted in `ahead` of its own ops */
    _Atomic uint64_t sequence;  /* goes up when a sequence ends that has records or waits */
    const void *_Atomic thread; /* the thread that issued the last op */
    _Atomic bool left;          /* that thread has gone on to another stream since */

    bool holding;           /* all ops of the open sequence have been held so far */
    bool watched;           /* the watchdog looks at the hold */
    bool plain;             /* nothing is ever held: its attributes or its context forbid it */
    bool captured;          /* the program began a capture on it */
    _Atomic uint32_t epoch; /* holds so far; the watchdog compares */

    /* The watchdog's. */
    uint32_t epoch_seen;  /* the hold that it saw last */
    uint32_t held_seen;   /* ops in that hold */
    uint32_t looks_alike; /* looks in a row that found so many ops */
    uint32_t looks;       /* looks that found that hold */
    unsigned served;      /* the last flush request that is done for this stream */

    _Atomic bool late;      /* a barrier has waited in vain for the hold: the next does not wait */
    _Atomic bool stuck;     /* the lock is never given back: its thread is at exit */
    _Atomic uint32_t freed; /* the life in which memory was freed in it, plus 1; 0: never */
    uint64_t clock;         /* replays so far */
    uint64_t starved;       /* hot sequences that found no exec */
    struct ag_pace pace;
    struct ag_timed timed;
    struct ag_audit audit;
    uint32_t won; /* trials in a row that replay has won */

    struct ag_recorder recorder;
    struct ag_node *path[AG_MOST_LENGTH + 1]; /* the held ops: path[1 .. held] */
    struct ag_trace *traces;
    bool events;                 /* the open sequence has events: counted in ag_event_streams */
    CUdeviceptr frees[AG_FREES]; /* memory that is freed behind the held ops */
    unsigned free_count;
    struct ag_node *wanted[AG_WANTED]; /* leaves of hot sequences that wait for an exec */
    unsigned wanted_count;
    struct ag_keep keep;           /* arguments of held kernels, where the driver keeps them */
    struct ag_answers *answers;    /* what the driver said of memory; NULL: nothing yet */
    uint32_t foreign;              /* copies in a row that could not be held */
    _Atomic uint32_t foreign_next; /* next copies that count as such without a look */
    _Atomic bool bare;             /* nothing has been recorded since an op that cannot be held */
    struct ag_node *last; /* node of the last op that went out eagerly; NULL: it has none */

    /* Waits of other threads for what is held; see barrier.c. */
    uint64_t awaited_at;    /* counters.ops at the last such wait */
    uint64_t awaited_every; /* the greatest number of which all distances are multiples, ops */
    uint32_t awaited;       /* waits in a row whose distances have such a number above 1 */

    uint32_t crossed; /* the recorder's ops, plus 1, when the stream last waited for what another
                         thread had recorded; 0: never */

    /* Per-thread default stream; see submit.c. */
    CUstream relay;
    CUevent mark, done;
    CUevent placeholder; /* in execs, for events that have been destroyed; NULL: not needed yet */

    struct ag_counters seen; /* account.c: the counters when somebody peeked */
    bool seen_live;
    struct ag_cut cuts[AG_CUTS]; /* account.c */
    uint32_t cut_count;
};

/* Streams that a thread remembers. */
enum { AG_FOUND = 16 };

/* What a thread remembers. The address also names the thread. */
struct ag_thread {
    struct ag_found {
        struct ag_stream *stream; /* NULL: nothing yet */
        CUstream key;
        CUcontext ctx;
        bool ptsz;
        uint32_t life; /* of the stream at that time */
    } found[AG_FOUND];
    uint64_t submitting;             /* ns that it has spent submitting what was held */
    uint32_t ops;                    /* ops that it has held */
    uint32_t foreign;                /* copies in a row that could not be held, in any streams */
    struct ag_stream *eager;         /* stream of the op that it was last told to submit itself */
    bool watched;                    /* the library is told when the thread ends */
    const struct ag_context *placed; /* the last context where its default stream was counted */
    struct ag_young *young;          /* the young stream that it found last, or NULL */
    uint64_t touched; /* bit n: it may have issued the last op of a state whose index is n modulo
                         64, or own the state */
};

extern _Thread_local struct ag_thread ag_self __attribute__((tls_model("initial-exec")));

/*
 * The state of the stream that a call names, made when it is new; NULL when the engine has no use
 * for it (no current context, no memory). For an explicit handle it may be one of another context
 * than `current`.
 */
struct ag_stream *ag_stream_find_slow(CUstream handle, bool ptsz, CUcontext current);
struct ag_stream *ag_stream_peek_slow(CUstream handle, bool ptsz, CUcontext current);

/* The head of the list of all states; follow ->next. States are only ever added, at the head. */
struct ag_stream *ag_stream_all(void);

/*
 * The busy stream behind `last` (NULL: the first), in no particular order. A stream is busy if it
 * has an open sequence, is curious or is relayed. Barriers look at busy streams only: programs have
 * hundreds of streams, and barriers are many.
 */
struct ag_stream *ag_stream_next_busy(const struct ag_stream *last);

/* The next busy stream whose last op the calling thread may have issued. Some other busy streams
   come, too. */
struct ag_stream *ag_stream_next_touched(const struct ag_stream *last);

/* Has the library told when the calling thread ends. False: it cannot be. */
bool ag_stream_watch_thread(void);

/* To be called whenever `open`, `curious` or `relayed` has changed. Wants the stream's lock. */
void ag_stream_update_busy(struct ag_stream *stream);

/* The program's capture on this stream has ended, if there was one. The stream's lock is held. */
void ag_stream_capture_ends(struct ag_stream *stream);

/* Kills a state that holds nothing. Wants its lock, and its context where that still lives. */
void ag_stream_kill(struct ag_stream *stream);

/*
 * A stream is being destroyed: kills its state, or keeps the state vacant for the next stream of
 * its kind in the context. Programs that make streams in each step do the same work in them. A
 * vacant state is live: it must hear of the end of whatever its graphs and nodes refer to. `left`:
 * the context's `left` with this stream, if work may still run in it; else 0. Wants the context.
 */
void ag_stream_vacate(struct ag_stream *stream, unsigned left);

/* Forgets the context if no stream has a state in it. False: a stream has. Another thread may have
   used one meanwhile, since the release of a context need not be the last one. */
bool ag_stream_forget_context(struct ag_context *context);

/* The program has waited for the context: what destroyed streams had left in it is done. */
void ag_stream_settle(const struct ag_context *context);

/* Kills the state that has been vacant for longest. With a context: of that context, and only if it
   has been vacant for long. False: there is none. Another stream's lock may be held. */
bool ag_stream_kill_vacant(const struct ag_context *context);

/* Drops the nodes and traces that refer to functions which were retired up to `stamp`. If there are
   any the open sequence ends. Functions that another thread retires meanwhile stay: that thread
   comes by itself. Wants the lock and the context. */
void ag_stream_forget_retired(struct ag_stream *stream, uint32_t stamp);

/* Whether the stream's thread is in step with another thread: within the last AG_IN_STEP ops the
   stream has waited for what another thread had recorded. Wants the lock. */
static inline bool ag_stream_in_step(const struct ag_stream *stream)
{
    return stream->crossed != 0 && stream->recorder.ops + 1 - stream->crossed <= AG_IN_STEP;
}

/* The stream waits for what another thread has recorded. Wants the lock. */
static inline void ag_stream_cross(struct ag_stream *stream)
{
    stream->crossed = stream->recorder.ops + 1;
}

static inline CUstream ag_stream_name(CUstream handle, bool ptsz)
{
    if (handle == NULL)
        return ptsz ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
    return handle;
}

/* Whether that is one of the default streams, by name or NULL. */
static inline bool ag_stream_is_default(CUstream name)
{
    return name == NULL || name == CU_STREAM_LEGACY || name == CU_STREAM_PER_THREAD;
}

static inline struct ag_found *ag_stream_slot(CUstream handle)
{
    uintptr_t bits = (uintptr_t)handle;
    return &ag_self.found[(bits >> 4 ^ bits >> 10) % AG_FOUND];
}

/* The calling thread issues the stream's ops, or owns it: the stream is looked at when the thread
   ends. */
static inline void ag_stream_touch(const struct ag_stream *stream)
{
    ag_self.touched |= (uint64_t)1 << stream->index % 64;
}

/* Ops and graphs that were issued there in all lives. Wants the lock. */
static inline uint64_t ag_stream_issued(const struct ag_stream *stream)
{
    return stream->counters.ops + atomic_load_explicit(&stream->passed, memory_order_relaxed) +
           atomic_load_explicit(&stream->used, memory_order_relaxed);
}

/* Whether another thread issued the last op there, and so may issue the next. */
static inline bool ag_stream_is_of_another(const struct ag_stream *stream)
{
    const void *thread = atomic_load(&stream->thread); /* see ag_stream_take_over() */
    return thread != NULL && thread != &ag_self;
}

static inline void ag_stream_lock(struct ag_stream *stream)
{
    ag_lock_take(&stream->lock, &ag_self);
}

static inline bool ag_stream_trylock(struct ag_stream *stream)
{
    return ag_lock_try(&stream->lock, &ag_self);
}

static inline void ag_stream_unlock(struct ag_stream *stream)
{
    ag_lock_give(&stream->lock, &ag_self);
}

/* Takes the lock unless another thread, which may wait for the GPU, has it for longer than `ns`. */
bool ag_stream_lock_within(struct ag_stream *stream, uint64_t ns);

/* Takes the lock unless another thread has it. If the lock was biased to another thread, waits
   until its bias is revoked: 2 ms at most. */
static inline bool ag_stream_lock_soon(struct ag_stream *stream)
{
    return ag_stream_trylock(stream) || (ag_lock_is_settling(&stream->lock) &&
                                         ag_stream_lock_within(stream, 2 * AG_LOCK_VISIBLE_NS));
}

/* Whether the thread remembers that stream in this place. */
static inline bool ag_stream_is_found(const struct ag_found *found, CUstream handle, bool ptsz,
                                      CUcontext current)
{
    return __builtin_expect(
        found->key == handle && found->ptsz == ptsz && found->ctx == current &&
            found->stream != NULL &&
            found->life == atomic_load_explicit(&found->stream->life, memory_order_acquire),
        1);
}

static inline struct ag_stream *ag_stream_find(CUstream handle, bool ptsz, CUcontext current)
{
    const struct ag_found *found = ag_stream_slot(handle);
    return ag_stream_is_found(found, handle, ptsz, current)
               ? found->stream
               : ag_stream_find_slow(handle, ptsz, current);
}

/* The state if there is one; never makes one. */
static inline struct ag_stream *ag_stream_peek(CUstream handle, bool ptsz, CUcontext current)
{
    const struct ag_found *found = ag_stream_slot(handle);
    return ag_stream_is_found(found, handle, ptsz, current)
               ? found->stream
               : ag_stream_peek_slow(handle, ptsz, current);
}

#endif
