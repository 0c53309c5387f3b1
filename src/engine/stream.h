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

#include "engine/context.h"
#include "engine/engine.h"
#include "engine/lock.h"
#include "graph/keep.h"
#include "graph/trace.h"
#include "trace/recorder.h"

enum ag_pace_known { AG_PACE_UNKNOWN, AG_PACE_DOUBTED /* measured once only */, AG_PACE_KNOWN };

/* How fast the program issues ops, and how long its sequences are therefore; see pace.h. */
struct ag_pace {
    uint64_t began;      /* when the hold began that is being measured, ns; 0: none is */
    const void *thread;  /* that began it */
    uint64_t submitting; /* what it had spent submitting then, ns */
    uint32_t op_ns;      /* between two ops that are held, ns */
    uint32_t eager_ns;   /* until then: of an op in eager sequences; 0: not known yet */
    uint64_t ended;      /* when the last one of these ended, ns; 0: not known */
    uint32_t any_ns;     /* of the program between two ops of any streams of the thread */
    uint32_t replay_ns;  /* that a replay takes the thread */
    uint32_t ops_before; /* of the thread, when that hold began */
    uint32_t run;        /* ops since the last barrier */
    uint32_t runs;       /* ops between two barriers, on average */
    uint32_t length;     /* ops of a sequence: what the recorder was told */
    uint32_t first;      /* of one behind a wait */
    uint32_t better;     /* what has been better for the last `times` looks */
    uint32_t times;
    int late;         /* how much the watchdog has had to do of late */
    uint32_t cap;     /* ops of a sequence, since longer ones were late; 0: as many as it likes */
    uint32_t cap_for; /* looks for which that holds */
    uint32_t cap_next;

    enum ag_pace_known known; /* op_ns and any_ns */
};

/* The open sequence, or the last one until the next begins, if it is part of a trial; see trial.h.
 */
struct ag_timed {
    struct ag_node *head; /* NULL: it is not */
    uint64_t began;       /* ns */
    uint64_t spent;       /* ns of recording it, if it is eager */
    uint32_t ops;         /* of the sequence, once it has ended */
    bool eager;
};

/* Whether it pays to follow the stream; see audit.h. */
struct ag_audit {
    uint32_t since;            /* ops that were recorded until the last look or window */
    uint32_t after;            /* and are to be, for the next look */
    uint64_t replayed, traces; /* the stream's counters at the last look */
    uint32_t again;            /* `after`, the next time that following wins */
    uint32_t window;           /* ops */
    uint64_t clock;            /* replays before the audit */
    uint64_t began, issued;    /* ns, and ops of the stream, when the window began */
    uint64_t followed_ps;      /* of an op in the pair's first window */
    bool on, rests;            /* an audit is under way; in the second window of a pair */
    uint8_t won, lost;         /* pairs */
};

/* Times that hot sequences found no room since a trace was in one, after which it makes room for
   another: the program has gone on to something else, or cuts fall on other ops. */
enum { AG_STARVED = 48 };

enum { AG_WANTED = 16, AG_FREES = 64, AG_CUTS = 32, AG_MOST_STREAMS = 4096 };

struct ag_stream {
    struct ag_lock lock; /* guards everything below but where it says otherwise */

    /* Constant while the state is live; written under this lock and the registry's. */
    struct ag_context *context; /* barriers look at these two without a lock: see barrier.c */
    enum ag_stream_kind kind;
    _Atomic unsigned *_Atomic ahead; /* ag_context_ahead() of the two: what each op looks at */
    CUstream handle; /* CU_STREAM_LEGACY and CU_STREAM_PER_THREAD for the default streams */
    uint32_t number; /* of this life, in reports and traces; from 1 */
    const void *_Atomic owner; /* per-thread default stream: whose (address of its ag_thread) */
    _Atomic bool live;
    _Atomic bool vacant;   /* live, but its stream is gone: see ag_stream_vacate() */
    unsigned vacated;      /* then, how many sequences of the context had found no exec */
    unsigned behind;       /* registry lock; vacant: the context's `left` that counts the stream, if
                              its work may not be done yet, else 0 */
    _Atomic uint32_t life; /* goes up when it dies, so that threads forget what they remember */

    unsigned index;          /* constant, below AG_MOST_STREAMS */
    bool busy;               /* counted among the busy ones */
    struct ag_stream *alike; /* registry lock: next in the bucket of its name, or unused state */
    struct ag_stream **bucket;
    struct ag_stream *next; /* registry lock: all states, in use or free */

    /* Of this life. */
    uint32_t lives;      /* streams that have had this state */
    bool began_before;   /* it began before it had the state, or its first ops pass */
    uint64_t ops_before; /* of earlier ones; and likewise, all issued, and replays */
    uint64_t issued_before, replays_before;
    _Atomic uint64_t passed; /* ops that passed while the recorder rested */
    _Atomic uint64_t used;   /* graphs of the program that it was given, in all lives */
    _Atomic uint64_t waited; /* what had been issued when the program had waited for all of it */
    struct ag_counters counters;

    /* Written under the lock, peeked at without: program order makes a thread see what it must. */
    _Atomic uint32_t held; /* ops held: those on the path to the recorder's cursor */
    _Atomic bool open;     /* a sequence is open: counted in ag_held_streams */
    _Atomic bool curious;  /* wants to hear of the next barrier: counted in ag_curious_streams */
    _Atomic bool relayed;  /* ops went out in its name, see submit.c: counted likewise */
    /* 1: it holds, and its own ops find it among those `ahead`. */
    _Atomic unsigned counted;
    _Atomic uint64_t sequence;  /* goes up when one ends that has records or waits */
    const void *_Atomic thread; /* the thread that issued the last op */
    _Atomic bool left;          /* which has gone on to another stream since */

    bool holding;           /* all ops of the open sequence have been held so far */
    bool watched;           /* by the watchdog */
    bool plain;             /* never held: attributes, capture support or contexts are beyond us */
    bool captured;          /* the program began a capture on it */
    _Atomic uint32_t epoch; /* goes up when a hold begins; the watchdog compares */
    uint32_t epoch_seen;    /* watchdog only */
    uint32_t held_seen;     /* ops in that hold; watchdog only */
    uint32_t looks_alike;   /* how often it has seen these; watchdog only */
    uint32_t looks;         /* how often it has seen that hold; watchdog only */
    unsigned served;        /* the last flush that was asked for and is done here; watchdog only */
    _Atomic bool late;      /* a barrier has waited long enough for the hold to be submitted */
    _Atomic bool stuck;     /* the lock is not given back any more: its thread is at exit */
    _Atomic uint32_t freed; /* if memory was given back in it: one more than the life that did */
    uint64_t clock;         /* replays so far */
    uint64_t starved;       /* hot sequences that found no exec */
    struct ag_pace pace;
    struct ag_timed timed;
    struct ag_audit audit;
    uint32_t won; /* trials in a row that replay has won */

    struct ag_recorder recorder;
    struct ag_node *path[128 + 1]; /* the held ops: path[1 .. held] */
    struct ag_trace *traces;
    bool events;                 /* the open sequence has some: counted in ag_open_events */
    CUdeviceptr frees[AG_FREES]; /* memory to be given back behind the held ops */
    unsigned free_count;
    struct ag_node *wanted[AG_WANTED]; /* hot, and waiting for an exec */
    unsigned wanted_count;
    struct ag_keep keep;           /* arguments of held kernels, where the driver keeps them */
    struct ag_answers *answers;    /* what is known of memory; NULL: nothing yet */
    uint32_t foreign;              /* copies in a row that cannot be held */
    _Atomic uint32_t foreign_next; /* copies that are taken for such without a look */
    _Atomic bool bare;    /* nothing has been recorded since an op that cannot be held, or at all */
    struct ag_node *last; /* of the last op that went out eagerly; NULL: not recorded */
    uint64_t awaited_at;  /* its ops when another thread last waited for what is held; */
    uint64_t awaited_every; /* how many come between two such waits, or a divisor of that; */
    uint32_t awaited;       /* and for how many in a row there has been one, but for 1 */
    uint32_t crossed;       /* one more than the recorder's ops at the last wait for what another
                               thread had recorded; 0: there has been none */

    /* Per-thread default stream; see submit.c. */
    CUstream relay;
    CUevent mark, done;
    CUevent placeholder; /* in execs, for events that have been destroyed; NULL: not needed yet */

    struct ag_counters seen; /* account.c: the counters when somebody peeked */
    bool seen_live;
    struct ag_cut cuts[AG_CUTS]; /* account.c */
    uint32_t cut_count;
};

/* Ops of a short life. */
enum { AG_FEW_OPS = 16 };

/* Copies in a row that cannot be held, from which on as many more are taken for such. */
enum { AG_MOST_FOREIGN = 16 };

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
    uint64_t submitting;     /* ns that it has spent submitting what was held */
    uint32_t ops;            /* that it has held */
    uint32_t foreign;        /* the last copies that it has seen looked at, and cannot be held */
    struct ag_stream *eager; /* where the op goes that this thread was last told to submit */
    bool watched;            /* its end will be heard of */
    const struct ag_context *placed; /* the last where its default stream was placed */
    struct ag_young *young; /* where it has found a stream last that is not followed yet, or NULL */
    uint64_t touched; /* bit n: perhaps a state whose index is n modulo 64 says that this is the
                         thread that issued its last op, or its owner */
};

extern _Thread_local struct ag_thread ag_self __attribute__((tls_model("initial-exec")));

/* Ops in streams that have no state; and that there may have been kernels among them, so that it
   cannot be told any more when the device is idle. */
extern _Atomic uint64_t ag_unfollowed_ops;
extern _Atomic bool ag_unfollowed;

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
 * The streams that barriers have to look at: those with an open sequence, curious and relayed ones.
 * Programs have hundreds of streams, and barriers are many. `last`: the one before, NULL for the
 * first; they come in no order that means anything.
 */
struct ag_stream *ag_stream_next_busy(const struct ag_stream *last);

/* Of these, such as the calling thread may have issued the last op of, and some others. */
struct ag_stream *ag_stream_next_touched(const struct ag_stream *last);

/* Whether the calling thread's end will be heard of, from now on. */
bool ag_stream_watch_thread(void);

/* To be called whenever one of the three has changed. Wants the stream's lock. */
void ag_stream_update_busy(struct ag_stream *stream);

/* The program's capture on this stream has ended, if there was one. The stream's lock is held. */
void ag_stream_capture_ends(struct ag_stream *stream);

/* Kills a state that holds nothing. Wants its lock, and its context where that still lives. */
void ag_stream_kill(struct ag_stream *stream);

/*
 * The same for the state of a stream that is being destroyed, with work `left` as the context
 * counts that, or 0. But what it has learnt may stay, as a vacant state, for the next stream of its
 * kind in the context: programs that make streams in each step do the same in them. A vacant state
 * is live: it must hear of the end of whatever its graphs and nodes refer to. Wants the context.
 */
void ag_stream_vacate(struct ag_stream *stream, unsigned left);

/* Forgets the context, unless a stream has a state in it, again: another thread may use its streams
   meanwhile, and go on, for a release need not be the last. False: one has. */
bool ag_stream_forget_context(struct ag_context *context);

/* The program has waited for the context, and what streams had left in it by then is done. */
void ag_stream_settle(const struct ag_context *context);

/* Kills the state that has been vacant for longest; in a context: if it has been for long. False:
   there is none. Another stream's lock may be held. */
bool ag_stream_kill_vacant(const struct ag_context *context);

/* Drops what was recorded of functions that were retired up to `stamp`, and the traces that contain
   one; if there is any, the open sequence ends. What another thread retires meanwhile stays: that
   thread comes by itself. Wants the lock and the context. */
void ag_stream_forget_retired(struct ag_stream *stream, uint32_t stamp);

extern _Atomic int ag_captures; /* captures of the program that are under way */
extern _Atomic int ag_pauses;   /* of these, pauses that the program asked for */

/*
 * The library's questions and graphs must not meet a capture that begins in another thread: the
 * driver ends a capture whose stream is asked about, or uploaded to. Who is about to do such a
 * thing counts itself, and then looks for captures; who is about to begin one counts that, and then
 * waits until nobody does, for a second at most.
 */
extern _Atomic unsigned ag_making, ag_beginning;
static inline bool ag_captures_about(void)
{
    return atomic_load(&ag_captures) != 0 || atomic_load(&ag_beginning) != 0;
}

/* Whether its thread is in step with another one: it has waited for what that has recorded, not
   many ops ago. Wants the lock. */
static inline bool ag_stream_in_step(const struct ag_stream *stream)
{
    enum { STEP_MOST = 1 << 10 };
    return stream->crossed != 0 && stream->recorder.ops + 1 - stream->crossed <= STEP_MOST;
}

/* It waits for what another thread has recorded. Wants the lock. */
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

/* The calling thread issues ops there, or owns it: it will be looked at when the thread ends. */
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

/* Takes the lock unless another thread has it; waits a moment if the lock is biased to one. */
static inline bool ag_stream_lock_soon(struct ag_stream *stream)
{
    return ag_stream_trylock(stream) || (ag_lock_is_settling(&stream->lock) &&
                                         ag_stream_lock_within(stream, 2 * AG_LOCK_VISIBLE_NS));
}

/* Whether the thread remembers the stream there. */
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

/* -- Submitting (submit.c): all want the stream's lock --------------------- */

/*
 * Submits what the stream holds: a replay of the longest trace that is a prefix of it, the rest
 * eagerly, in order. The recorder's sequence stays open. Counts `reason` if ops went out eagerly.
 * Returns whether all of it went by a replay.
 */
bool ag_stream_submit(struct ag_stream *stream, enum ag_reason reason);

/*
 * Ends the open sequence, if there is one: submits what it holds, and makes a trace of it if it has
 * become hot. `barrier`: the anchor ends too.
 */
void ag_stream_end(struct ag_stream *stream, bool barrier, enum ag_reason reason);

/* Whether the stream is to hear of the next barrier even if it holds nothing. */
void ag_stream_be_curious(struct ag_stream *stream, bool curious);

/* Whether the stream may begin to hold with `head`, the first op of a sequence; if so it has begun.
 */
bool ag_stream_hold_begins(struct ag_stream *stream, struct ag_node *head);

/* A sequence is open: doors have to tell of barriers now. */
void ag_stream_open(struct ag_stream *stream);

/* Has the driver keep the arguments of a kernel that is to be held. False: it cannot be. */
bool ag_stream_keep(struct ag_stream *stream, struct ag_node *node, void *const *from);

/* Per-thread default stream, owner only: what is held, or will be, comes behind all that has been
   submitted there by now, whoever submits it. False: it may not be held. */
bool ag_stream_mark(struct ag_stream *stream);

/* Takes a trace from its stream and destroys it; nothing may be held. */
void ag_stream_drop_trace(struct ag_stream *stream, struct ag_trace *trace);

/* Destroys all traces of sequences that begin at `head` (NULL: at any) and were in use when the
   stream had had `clock` replays, or later; nothing may be held. */
void ag_stream_drop_traces(struct ag_stream *stream, const struct ag_node *head, uint64_t clock);

/*
 * The event is about to be destroyed, and no exec may name it then: the driver would refuse that
 * node another one, and die of a launch if it is a wait (driver 580). A stream whose lock another
 * thread keeps for a millisecond also keeps such execs; they are made anew when they are refused.
 */
void ag_stream_forget_event(struct ag_stream *stream, CUevent event);

/* The calling thread, which may have the lock of the stream, issues its ops from now on, where
   another one did. While more execs are made, which waits for running kernels, it brings no kernel.
 */
void ag_stream_take_over(struct ag_stream *stream);
extern _Atomic bool ag_many_threads; /* more than one has done so */

/* The part of that which waits. And: goes up when such a thing begins, and when it ends. */
void ag_stream_wait_for_growth(void);
extern _Atomic uint32_t ag_growths;

/* Makes the traces that are wanted; the device is idle. */
void ag_stream_grow(struct ag_stream *stream);

/* Whether the stream, whose context is current, has done all that was submitted. Ends no capture of
   another thread, but that of a blocking stream if this is the legacy one: not to be asked while
   the program is known to capture. */
bool ag_stream_is_done(struct ag_stream *stream);

/* The same of a stream that has no state. */
bool ag_stream_handle_is_done(CUstream handle);

/* Forgets what is wanted: its nodes are going away. */
void ag_stream_want_none(struct ag_stream *stream);

/* Per-thread default stream, owner only: waits for what other threads submitted in its name. */
void ag_stream_absorb(struct ag_stream *stream);

/* -- Barriers (barrier.c) -------------------------------------------------- */

/* Before an op on `stream`: submits what CUDA orders before it implicitly, and where streams share
   queues, what any of them holds. No lock held, and the state may get another life meanwhile: who
   locks it then looks for the stream again. */
void ag_order_before_slow(const struct ag_stream *stream);

static inline void ag_order_before(const struct ag_stream *stream)
{
    const _Atomic unsigned *ahead = atomic_load_explicit(&stream->ahead, memory_order_relaxed);
    if (__builtin_expect(atomic_load_explicit(ahead, memory_order_relaxed) !=
                             atomic_load_explicit(&stream->counted, memory_order_relaxed),
                         0))
        ag_order_before_slow(stream);
}

/* The same before a call on a stream that has no state, of any context if it has a handle. */
void ag_order_before_unknown(CUstream handle, bool ptsz, CUcontext current);

/* Submits what all streams but this one, if it is not NULL, hold. No lock held. */
void ag_order_behind_all(const struct ag_stream *stream);

/* One more stream has been made in the context, or used, if it is a default one. If its streams
   share queues from now on, submits what they hold. No lock held. */
void ag_order_place(struct ag_context *context);

/* The same for the calling thread's own default stream there, once. A thread that calls the
   functions which mean that one by NULL has one, though most calls that use it are not seen. */
void ag_order_place_own(struct ag_context *context);

/* Behind a capture that has begun: submits what all streams hold, and ends their sequences. True:
   nothing is held, and nothing will be before that capture ends. */
bool ag_barrier_last(void);

/* -- Watchdog (watchdog.c) ------------------------------------------------- */

/* Bounds (hold.bound_us) that a hold may take in all, while it gets longer in each of them. */
enum { AG_MOST_BOUNDS = 4 };

/* Starts the watchdog, once; it sleeps. False: there is none. */
bool ag_watchdog_start(void);

/* A hold begins that may stay: wakes the watchdog if it sleeps. False: there is none, and nothing may
   be held. And: that hold has ended. */
bool ag_watchdog_watch(void);
void ag_watchdog_unwatch(void);

/* Whether there is such a hold in the process. */
bool ag_watchdog_watches(void);
void ag_watchdog_stop(void);

/* Has the watchdog submit all that is held, for a thread that may not; waits for it, a second at
   most. False: that was not enough. Takes no lock. */
bool ag_watchdog_flush(enum ag_reason reason);

#endif
