/* SPDX-License-Identifier: MIT */
/*
 * What the engine keeps for each stream: its state. Locks, and walks over all states.
 *
 * A state is made of structs. The comment of each names the file that writes it; other files read
 * it. Counters are the exception: whoever counts something adds to them.
 *
 * Memory of states is never returned to the system, only used again. So a stale pointer is always a
 * pointer to some state, whose lock can be taken and whose `id.live` can be read.
 *
 * Lock order: at most one stream (another is only tried), then the registry, then the contexts or
 * the table of functions, innermost. The registry's lock is never held across a driver call;
 * a stream's is while its held ops are submitted, since that is what keeps their order.
 */
#ifndef AG_STREAM_H
#define AG_STREAM_H

#include <pthread.h>

#include "config/config.h"
#include "engine/base/lock.h"
#include "engine/base/thread.h"
#include "engine/context/context.h"
#include "graph/fork.h"
#include "graph/trace.h"
#include "policy/backoff.h"
#include "trace/recorder.h"

enum {
    AG_WANTED = 16,         /* hot sequences of a stream that wait for an exec, at most */
    AG_FREES = 64,          /* frees that wait for the held ops of a stream, at most */
    AG_GONE = 32,           /* destroyed events that held ops name, at most */
    AG_CUTS = 32,           /* causes of cuts that are told apart for a stream */
    AG_MOST_STREAMS = 4096, /* states at most; streams without one go straight to the driver */
};

/* stream.c: where the state is among all states. */
struct ag_listing {
    unsigned index;         /* constant, below AG_MOST_STREAMS */
    struct ag_stream *next; /* all states, in use or free; constant */
    bool listens;           /* counted in ag_subscribers */
    bool busy;              /* it listens, or wants the next barrier */
    uint64_t times_idle;    /* how often it has become idle: doors may pass calls for an idle
                               stream on without a word to the engine */
};

/* registry.c: which stream has the state. */
struct ag_identity {
    /* Constant while the state is live; written under its lock and the registry's. */
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

    struct ag_stream *alike; /* registry lock: next in the bucket of its name, or unused state */
    struct ag_stream **bucket;

    uint32_t lives;      /* streams that have had this state, with the present one */
    bool began_before;   /* the stream had ops before it had the state, or its first ops pass */
    uint64_t ops_before; /* counters.ops less the ops that the trace file has of this life */
    uint64_t issued_before, replays_before; /* ag_issuer_issued(), counters.replays of these */
    bool captured;                          /* the program began a capture on it */
};

/* issuer.c: who issues the stream's ops, and how many. */
struct ag_issuer {
    const void *_Atomic thread; /* the thread that issued the last op */
    _Atomic bool elsewhere;     /* that thread has gone on to another stream since */
    _Atomic uint64_t passed;    /* ops that passed while the recorder rested, in all lives */
    _Atomic uint64_t used;      /* launches of the program's own graphs, in all lives */
    _Atomic uint64_t branched;  /* ops that another stream's sequence took, in all lives */
    _Atomic uint64_t untold;    /* times that it may have been given work that nobody counts */
    _Atomic uint64_t waited;    /* of what was issued, the part that the program has waited for */
    _Atomic uint64_t recorded;  /* counters.ops when the last sequence ended, in all lives */
};

/* sequence.h has the machine. */
enum ag_state { AG_BETWEEN, AG_RECORDING, AG_HOLDING };

/* sequence.c: the open sequence, and what is held of it. Written under the lock, read without it: a
   thread always sees what it wrote itself. */
struct ag_sequence {
    enum ag_state state;          /* read without the lock by ag_sequence_seems_open() only */
    _Atomic uint32_t held;        /* ops held: those on the path to the recorder's cursor */
    _Atomic bool subscribes_next; /* wants to hear of the next barrier: in ag_next_subscribers */
    _Atomic unsigned counted;     /* 1: it holds, and is counted in `ahead` of its own ops */
    _Atomic uint64_t number;      /* goes up when a sequence ends that has records or waits */
    _Atomic uint32_t epoch;       /* holds so far; the watchdog compares */
    bool watched;                 /* the watchdog looks at the hold */
    bool events;                  /* it has events: counted in ag_event_streams */
    uint8_t barred;               /* an ag_why: why nothing is ever held; AG_WHY_HELD: ops may be */
    unsigned free_count, gone_count;
    CUdeviceptr frees[AG_FREES];              /* memory that is freed behind the held ops */
    CUevent gone[AG_GONE];                    /* events that are destroyed behind them */
    struct ag_node *path[AG_MOST_LENGTH + 1]; /* the held ops: path[1 .. held] */
};

/* relay.c: how other threads submit what a per-thread default stream holds. */
struct ag_relaying {
    CUstream stream;
    CUevent mark, done;
    _Atomic bool used; /* ops went out in its name, and its owner does not wait for them yet */
};

/* pinned.c: copies to pinned memory. */
struct ag_reading {
    uint32_t bytes; /* of one that is held behind the held ops; 0: none is */
    CUdeviceptr src;
    void *dst;
    uint64_t copied; /* one has gone out behind so many ops of the stream, less 1; 0: none has, or
                        what came behind it is known */
    uint32_t waited; /* copies in a row behind which the host has waited for the stream at once */
    bool flushed;    /* one went out behind held ops, and the trace file is to hear of it */
};

/* staging.c: pinned memory for the bytes of held uploads. */
struct ag_staging {
    struct ag_ring *ring; /* NULL: none yet */
    uint32_t taken;       /* places of ops that are held */
    uint64_t began;       /* counters.ops when the sequence began that has: */
    uint32_t bytes;       /* of places for its uploads so far, whether it is held or not */
    uint64_t barred;      /* counters.ops when memory is asked for again; 0: now */
};

/* execs.c: the graphs of the stream's sequences. */
struct ag_execs {
    struct ag_trace *traces;
    uint64_t clock;                    /* replays so far */
    uint64_t starved;                  /* hot sequences that found no exec */
    struct ag_node *wanted[AG_WANTED]; /* leaves of hot sequences that wait for an exec */
    unsigned wanted_count;
    struct ag_running running; /* that are gone */
    struct ag_node *living;    /* the leaf of a hot sequence that needs its memory alive; or NULL */
    CUevent own[AG_BRANCHES];  /* the library's events in graphs: own[0] for events that have been
                                  destroyed, others see graph/fork.h; NULL: not needed yet */
};

/* paths.c: the queues that its graphs have taken. */
struct ag_paths {
    uint64_t launches; /* of graphs with branches, so far */
    uint64_t marked;   /* how many were launched when the event was recorded; 0: it is not */
    CUevent mark;      /* the library's; NULL: not needed yet */
    unsigned placed;   /* traces that are `placed` */
};

/* launch_model.c: how fast the program issues ops, and the lengths of sequences that follow from
 * it. */
struct ag_launch_model {
    uint64_t began;      /* when the hold began that is being timed, ns; 0: none is */
    const void *thread;  /* the thread that began it */
    uint64_t submitting; /* ns that this thread had spent submitting by then */
    uint32_t ops_before; /* ops that it had held by then */
    uint32_t op_ns;      /* time between two ops of the stream, ns, on average; 0: not known */
    uint32_t holds;      /* that were measured, up to AG_MODEL_WINDOW; 0: op_ns is of eager ops */
    uint32_t any_ns;    /* the program's own time between two held ops of a thread in any streams */
    uint64_t ended;     /* when the last eager sequence ended, ns; 0: not known */
    uint32_t replay_ns; /* time that a replay takes the thread, ns, on average; of those that set
                           arguments the least counts */
    uint64_t patches;   /* of the stream when that was measured last */
    uint32_t run;       /* ops since the last barrier */
    uint32_t runs;      /* ops between two barriers, on average */
    uint32_t length;    /* ops of a sequence, as the recorder was told */
    uint32_t first;     /* ops of the first sequence behind a wait */
    uint32_t bound;     /* ops of a sequence, at most, for what its graph may contain */
};

/* trials.c: what a lost trial means for the stream. */
struct ag_stream_trials {
    uint32_t lost;           /* the context's lost trials when the stream last rested for one */
    bool rests;              /* it rests for that */
    uint64_t began;          /* ops that were issued there before that rest */
    uint64_t known;          /* marks of ops that have come in rests */
    _Atomic uint64_t before; /* what the state had issued before it was of its context */
};

/* overdue.c: what the watchdog saw of the stream. */
struct ag_overdue {
    uint32_t epoch_seen;  /* the hold that it saw last */
    uint32_t held_seen;   /* ops in that hold */
    uint32_t looks_alike; /* looks in a row that found so many ops */
    uint32_t looks;       /* looks that found that hold */
    unsigned served;      /* the last flush request that is done for this stream */
    _Atomic bool stuck;   /* the lock is never given back: its thread is at exit */
};

/* barrier.c: waits of other threads for what is held. */
struct ag_order {
    _Atomic uint32_t overdue; /* the hold, by its epoch, for which a barrier has waited in vain: the
                              next does not wait */
};

/* copies.c: copies that could not be held. */
struct ag_copies {
    uint32_t unrecordable;   /* in a row, that were looked at */
    _Atomic uint32_t next;   /* next copies that count as such without a look */
    struct ag_backoff again; /* how many they are */
    uint32_t alone;          /* sequences in a row, each a copy from the host by itself */
    bool begins;             /* such a copy has been looked at between two sequences */
    _Atomic uint64_t
        expected; /* `next`, and those that have passed without the lock in all lives */
};

/* eager.h: ops that went out eagerly. */
struct ag_eager {
    struct ag_node *last;    /* node of the last one; NULL: it has none */
    const void *thread;      /* that issued it */
    _Atomic bool unrecorded; /* nothing has been recorded since an op that cannot be held */
    _Atomic unsigned why;    /* enum ag_why: why the last one is not held */
    uint64_t from; /* of an open sequence: counters.ops before the first of its eager ops */
};

/* failure.c: when nodes that are AG_BLACKLISTED are good again. */
struct ag_refusals {
    uint64_t until;          /* counters.ops by then; 0: none is bad */
    struct ag_backoff again; /* ops without one until then */
};

/* account.c: causes of cuts. */
struct ag_cuts {
    struct ag_cut cut[AG_CUTS];
    uint32_t count;
    uint32_t waits;     /* of the thread by the last replay: ag_done.waits */
    enum ag_why ending; /* why the op that ends the sequence cannot be held; else AG_WHY_HELD */
};

/* account.c: the counters when somebody peeked. */
struct ag_seen {
    struct ag_counters counters;
    bool live;
};

/* branches.c: the streams whose ops are in the open sequence. */
struct ag_forked {
    _Atomic unsigned branches; /* branches 1 to that */
    uint32_t taken;            /* depth of the last op that `fork` knows */
    bool rebegins;          /* the open sequence ends so that a later one has `next` as a branch */
    struct ag_stream *next; /* one is to begin where this stream forks; NULL: none */
    uint32_t next_life;
    struct ag_fork fork;
    struct ag_ways before; /* of `fork`, before that op */
    struct ag_forked_branch {
        struct ag_stream *stream;
        CUstream handle;
        uint32_t life;
        uint64_t given; /* ag_issuer_given() of its stream, with the ops of the branch */
    } branch[AG_BRANCHES];
};

/* branches.c: where a stream has been waited for. It still holds if the numbers are the same now.
 */
struct ag_waited_for {
    uint64_t given;                 /* ag_issuer_given() of the stream */
    uint32_t life;                  /* of the stream that it is `behind` */
    const struct ag_stream *within; /* the stream whose sequence has the wait, */
    uint64_t number;                /* the sequence, by its number, */
    uint32_t depth;                 /* and the ops of it by then; 0: it has not begun */
};

/* branches.c: the stream whose sequence takes this stream's ops. */
struct ag_branching {
    struct ag_stream *_Atomic origin; /* NULL: none */
    unsigned number;                  /* of the branch */
    struct ag_stream *_Atomic behind; /* a stream that has waited for all work of this one, so that
                                         the work comes before some op there; NULL: none known */
    struct ag_waited_for waited;      /* where that op is */
    uint32_t suspended; /* it forks in one probe of so many only; 0: it forks each time */
    uint32_t rebegun;   /* times in a row that the origin's sequence was to begin elsewhere */
    struct ag_backoff suspensions;
    uint32_t probe; /* the last one in which a branch of it did not join */
    bool told;      /* the driver has told its priority: */
    int priority;
};

enum { AG_MOST_FIELDS = 256 };

struct ag_stream {
    struct ag_lock lock; /* guards everything below but where it says otherwise */
    struct ag_listing place;
    struct ag_identity id;
    struct ag_issuer issuer;
    struct ag_sequence seq;
    struct ag_recorder recorder;
    struct ag_counters counters;
    struct ag_relaying relay;
    struct ag_execs execs;
    struct ag_paths paths;
    struct ag_launch_model model;
    struct ag_stream_trials trials;
    struct ag_order order;
    struct ag_overdue overdue;
    struct ag_copies copies;
    struct ag_reading reading;
    struct ag_staging staging;
    struct ag_eager eager;
    struct ag_refusals refusals;
    struct ag_answers *answers; /* memory.c: what the driver said of memory; NULL: nothing yet */
    _Atomic uint32_t freed; /* pool.c: the life in which memory was freed in it, plus 1; 0: never */
    struct ag_forked forked;
    struct ag_branching branching;
    struct ag_cuts cuts;
    struct ag_seen seen;
    void *fields[AG_MOST_FIELDS]; /* kernel.c: pointers to the arguments of a launch that has them
                                     in one buffer */
};

/* The head of the list of all states; follow ->next. States are only ever added, at the head. */
struct ag_stream *ag_stream_all(void);

/*
 * The busy stream behind `last` (NULL: the first), in no particular order. A stream is busy if it
 * has an open sequence, wants the next barrier or is relayed. Barriers look at busy streams only:
 * programs have hundreds of streams, and barriers are many.
 */
struct ag_stream *ag_stream_next_busy(const struct ag_stream *last);

/* The next busy stream whose last op the calling thread may have issued. Some other busy streams
   come, too. */
struct ag_stream *ag_stream_next_touched(const struct ag_stream *last);

/*
 * To be called whenever the state of its sequence, `relay.used` or `seq.subscribes_next` has
 * changed: it listens if a sequence is open or a relay has been used (ag_subscribers), and is busy
 * if it listens or wants the next barrier. Wants the stream's lock.
 */
void ag_stream_update(struct ag_stream *stream);

/* A new state, all zero, whose lock the caller has. NULL: there is no memory, or there are as many
   as there may be. One thread at a time. */
struct ag_stream *ag_stream_add(void);

/* Whether there are as many states as there may be. */
bool ag_stream_are_all(void);

/* The state with this index; NULL: there is none. */
struct ag_stream *ag_stream_at(unsigned index);

/* The calling thread issues the stream's ops, or owns it: the stream is looked at when the thread
   ends. */
static inline void ag_stream_touch(const struct ag_stream *stream)
{
    ag_self.touched |= (uint64_t)1 << stream->place.index % 64;
}

/* Takes the stream's lock. Never with another stream's: see above. */
static inline void ag_stream_lock(struct ag_stream *stream)
{
    ag_lock_take(&stream->lock, &ag_self);
}

/* Takes the stream's lock. False: another thread has it. If the lock was biased to another thread,
   waits until its bias is revoked: 1 ms at most. */
static inline bool ag_stream_trylock(struct ag_stream *stream)
{
    return ag_lock_try(&stream->lock, &ag_self);
}

/* Gives the stream's lock back. */
static inline void ag_stream_unlock(struct ag_stream *stream)
{
    ag_lock_give(&stream->lock, &ag_self);
}

/* Takes the lock unless another thread, which may wait for the GPU, has it for longer than `ns`. */
bool ag_stream_lock_within(struct ag_stream *stream, uint64_t ns);

/* -- The names of streams, and what a thread remembers of them ----------------- */

/* The handle, or the name of the default stream that NULL means. */
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

/* The place where the calling thread remembers the stream, if it does. */
static inline struct ag_found *ag_stream_slot(CUstream handle)
{
    uintptr_t bits = (uintptr_t)handle;
    return &ag_self.found[(bits >> 4 ^ bits >> 10) % AG_FOUND];
}

/* Whether the thread remembers that stream in this place. */
static inline bool ag_stream_is_found(const struct ag_found *found, CUstream handle, bool ptsz,
                                      CUcontext current)
{
    return __builtin_expect(
        found->key == handle && found->ptsz == ptsz && found->ctx == current &&
            found->stream != NULL &&
            found->life == atomic_load_explicit(&found->stream->id.life, memory_order_acquire),
        1);
}

#endif
