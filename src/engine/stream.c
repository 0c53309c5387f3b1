/* SPDX-License-Identifier: MIT */
/* Finding, making and killing the states of streams. */
#include "engine/stream.h"

#include <stdlib.h>
#include <time.h>

#include "config/config.h"
#include "driver/driver.h"
#include "engine/aside.h"
#include "engine/audit.h"
#include "engine/barrier.h"
#include "engine/engine.h"
#include "engine/event.h"
#include "engine/handle.h"
#include "engine/memory.h"
#include "engine/observe.h"
#include "engine/pace.h"
#include "engine/submit.h"
#include "engine/young.h"
#include "graph/function.h"
#include "observe/thread.h"
#include "trace/policy.h"

_Thread_local struct ag_thread ag_self __attribute__((tls_model("initial-exec")));

static pthread_mutex_t registry = PTHREAD_MUTEX_INITIALIZER;
static struct ag_stream *_Atomic streams; /* writes under registry */
static uint32_t stream_count;             /* registry; of all that ever lived */

enum { BUCKETS = 1024 }; /* of the table of states by name */

/* All under registry: live states by name; vacant ones, which have been vacant for longest first;
   states that nobody uses. */
static struct ag_stream *buckets[BUCKETS], *vacant, *unused;
static struct ag_stream **vacant_end = &vacant; /* the link behind the last */
static _Atomic unsigned vacant_count;           /* writes under registry */
static _Atomic unsigned state_count;            /* likewise, and goes up only */

/* Which states are busy, a bit each; and the states by number, each written once. */
enum {
    BITS = 64, /* in a word */
    WORDS = AG_MOST_STREAMS / BITS,
};
static _Atomic uint64_t busy[WORDS];
static struct ag_stream *_Atomic states[AG_MOST_STREAMS];

struct ag_stream *ag_stream_all(void)
{
    return atomic_load_explicit(&streams, memory_order_acquire);
}

bool ag_stream_lock_within(struct ag_stream *stream, uint64_t ns)
{
    uint64_t began = ag_pace_now();
    for (unsigned i = 0; !ag_stream_trylock(stream); i++) {
        if (i < AG_LOCK_SPINS && ns != 0)
            continue;
        if (ag_pace_now() - began > ns)
            return false;
        ag_thread_pause(AG_PATIENCE_LOOK_NS);
    }
    return true;
}

/* -- Streams -------------------------------------------------------------- */

static bool names(const struct ag_stream *stream, CUstream name, CUcontext current)
{
    if (!stream->live || stream->handle != name)
        return false;
    if (!ag_stream_is_default(name))
        return true;
    return stream->context->ctx == current &&
           (name == CU_STREAM_LEGACY || stream->owner == &ag_self);
}

static struct ag_stream **bucket_of(CUstream name, const void *owner)
{
    uintptr_t key = name == CU_STREAM_PER_THREAD ? (uintptr_t)owner : (uintptr_t)name;
    return &buckets[(key * 0x9e3779b97f4a7c15u >> 40) % BUCKETS];
}

/* Registry lock held. */
static struct ag_stream *find(CUstream name, CUcontext current)
{
    struct ag_stream *stream = *bucket_of(name, &ag_self);
    while (stream != NULL && !names(stream, name, current))
        stream = stream->alike;
    return stream;
}

/* *life becomes the life that was found. */
static struct ag_stream *peek(CUstream name, CUcontext current, uint32_t *life)
{
    pthread_mutex_lock(&registry);
    struct ag_stream *stream = find(name, current);
    *life = stream != NULL ? stream->life : 0;
    pthread_mutex_unlock(&registry);
    return stream;
}

struct ag_stream *ag_stream_peek_slow(CUstream handle, bool ptsz, CUcontext current)
{
    uint32_t life;
    return peek(ag_stream_name(handle, ptsz), current, &life);
}

/* A free state or a new one, with its lock held. Registry lock held: nobody else looks for one. */
static struct ag_stream *state_take(void)
{
    for (struct ag_stream **link = &unused, *stream; (stream = *link) != NULL;
         link = &stream->alike)
        if (ag_stream_trylock(stream)) {
            *link = stream->alike;
            return stream;
        }
    struct ag_stream *stream = state_count < AG_MOST_STREAMS ? calloc(1, sizeof *stream) : NULL;
    if (stream == NULL)
        return NULL;
    (void)ag_stream_trylock(stream); /* nobody else knows it: not against the order */
    stream->index = state_count++;
    stream->next = ag_stream_all();
    atomic_store_explicit(&states[stream->index], stream, memory_order_release);
    atomic_store_explicit(&streams, stream, memory_order_release);
    return stream;
}

/* Registry lock held. */
static void state_give(struct ag_stream *stream)
{
    stream->alike = unused;
    unused = stream;
}

/* A live state goes into a bucket, or leaves the one that it is in. Registry lock held. */
static void list_join(struct ag_stream *stream, struct ag_stream **bucket)
{
    stream->bucket = bucket;
    stream->alike = *bucket;
    *bucket = stream;
}

static void list_leave(struct ag_stream *stream)
{
    struct ag_stream **link = stream->bucket;
    while (*link != stream)
        link = &(*link)->alike;
    *link = stream->alike;
    if (stream->bucket == &vacant) {
        if (vacant_end == &stream->alike)
            vacant_end = link;
        vacant_count--;
        ag_unsettled -= stream->behind != 0;
    }
}

/* Of those whose bit is in the mask. */
static struct ag_stream *next_busy(const struct ag_stream *last, uint64_t mask)
{
    unsigned from = last != NULL ? last->index + 1 : 0;
    for (unsigned word = from / BITS; word * BITS < atomic_load(&state_count); word++) {
        uint64_t bits = atomic_load(&busy[word]) & mask;
        if (word == from / BITS)
            bits &= ~(uint64_t)0 << from % BITS;
        if (bits != 0)
            return atomic_load(&states[word * BITS + (unsigned)__builtin_ctzll(bits)]);
    }
    return NULL;
}

struct ag_stream *ag_stream_next_busy(const struct ag_stream *last)
{
    return next_busy(last, ~(uint64_t)0);
}

struct ag_stream *ag_stream_next_touched(const struct ag_stream *last)
{
    return next_busy(last, ag_self.touched);
}

void ag_stream_update_busy(struct ag_stream *stream)
{
    bool now = atomic_load_explicit(&stream->open, memory_order_relaxed) ||
               atomic_load_explicit(&stream->curious, memory_order_relaxed) ||
               atomic_load_explicit(&stream->relayed, memory_order_relaxed);
    if (now == stream->busy)
        return;
    stream->busy = now;
    uint64_t bit = (uint64_t)1 << stream->index % BITS;
    if (now)
        atomic_fetch_or(&busy[stream->index / BITS], bit);
    else
        atomic_fetch_and(&busy[stream->index / BITS], ~bit);
}

static pthread_key_t exit_key;
static pthread_once_t begun = PTHREAD_ONCE_INIT;
static bool exit_key_made;

/* The state's thread ends. */
static void thread_leaves(struct ag_stream *stream, void *self)
{
    const void *thread = self;
    if (atomic_load_explicit(&stream->thread, memory_order_relaxed) == self)
        atomic_compare_exchange_strong(&stream->thread, &thread, NULL);
    ag_lock_disown(&stream->lock, self);
    if (stream->owner != self)
        return;
    ag_stream_lock(stream);
    bool pushed;
    if (stream->live && stream->owner == self && ag_context_enter(stream->context, &pushed)) {
        stream->owner = NULL; /* the handle has lost its meaning: what is held goes by relay */
        ag_stream_end(stream, true, AG_REASON_DESTROY);
        atomic_fetch_add(&stream->context->left, 1); /* nor can it be asked for its work */
        ag_stream_kill(stream);
        ag_context_leave(pushed);
    }
    ag_stream_unlock(stream);
}

/* A thread ends: its default streams go, and what they still hold is submitted by another route. (A
   program may have hundreds of threads, with a stream each: all states are not looked at.) */
static void thread_exits(void *self)
{
    if (!ag_engine_on) /* in a forked child locks may be taken for ever */
        return;
    unsigned count = atomic_load(&state_count);
    ag_self.watched = false; /* unless something else that ends now makes another */
    ag_young_thread_leaves();
    for (uint64_t bits = ag_self.touched; bits != 0; bits &= bits - 1)
        for (unsigned i = (unsigned)__builtin_ctzll(bits); i < count; i += 64) {
            struct ag_stream *stream = atomic_load(&states[i]);
            if (stream != NULL) /* or another thread is about to set it */
                thread_leaves(stream, self);
        }
}

/* Before the first stream has a state. */
static void begin(void)
{
    exit_key_made = pthread_key_create(&exit_key, thread_exits) == 0;
    ag_engine_context_begins(); /* of a program that has not made it by a function known here */
}

bool ag_stream_watch_thread(void)
{
    pthread_once(&begun, begin);
    if (!ag_self.watched)
        ag_self.watched = exit_key_made && pthread_setspecific(exit_key, &ag_self) == 0;
    return ag_self.watched;
}

/* The vacant state for a new stream of this kind, locked; NULL: there is none. Prefers the calling
   thread's own states, oldest first, so that streams which are made anew in each step find theirs
   again. Leaves out states whose graphs may still run: the next launch of such an exec waits for
   the last one (CUDA driver API, cuGraphLaunch), and the program has not asked for a wait.
   Registry lock held. */
static struct ag_stream *vacant_take(const struct ag_context *context, enum ag_stream_kind kind)
{
    struct ag_stream *found = NULL;
    for (struct ag_stream *stream = vacant; stream != NULL; stream = stream->alike) {
        if (stream->context != context || stream->kind != kind || stream->behind != 0)
            continue;
        bool own = atomic_load_explicit(&stream->thread, memory_order_relaxed) == &ag_self;
        if (found == NULL || own)
            found = stream;
        if (own || ag_self.touched == 0) /* then none is this thread's */
            break;
    }
    if (found == NULL || !ag_stream_trylock(found))
        return NULL;
    if (found->plain) { /* it is beyond us */
        ag_stream_unlock(found);
        return NULL;
    }
    list_leave(found);
    return found;
}

/* A life begins, or ends, in a state. Registry lock and the stream's held. Where new streams are
   young (young.h), a default stream cannot be: its first ops pass instead. */
static void life_begins(struct ag_stream *stream, bool late)
{
    stream->issued_before = ag_stream_issued(stream);
    stream->replays_before = stream->counters.replays;
    stream->began_before = late || ag_lives_take(stream->context);
    if (stream->began_before && !late)
        ag_recorder_doze(&stream->recorder, AG_FEW_OPS, ag_tree_heads(&stream->recorder.tree));
}

static void life_ends(struct ag_stream *stream)
{
    if (stream->began_before)
        ag_recorder_wake(&stream->recorder, AG_FEW_OPS);
    ag_lives_end(stream->context,
                 !stream->began_before &&
                     ag_stream_issued(stream) - stream->issued_before <= AG_FEW_OPS,
                 stream->counters.replays != stream->replays_before);
}

/* A state for a new stream, locked; NULL: no memory. Registry lock held. */
static struct ag_stream *state_for(struct ag_context *context, enum ag_stream_kind kind)
{
    struct ag_stream *stream = vacant_take(context, kind);
    if (stream != NULL || (stream = state_take()) == NULL)
        return stream;
    if (!ag_recorder_init(&stream->recorder, (uint32_t)ag_opt.trace_memory,
                          (uint32_t)ag_opt.trace_unroll, (uint32_t)ag_opt.trace_max_length)) {
        ag_tree_clear(&stream->recorder.tree);
        state_give(stream);
        ag_stream_unlock(stream);
        return NULL;
    }
    __atomic_store_n(&stream->context, context, __ATOMIC_RELAXED);
    __atomic_store_n(&stream->kind, kind, __ATOMIC_RELAXED);
    atomic_store_explicit(&stream->ahead, ag_context_ahead(context, kind), memory_order_relaxed);
    stream->won = 0;
    ag_pace_start(stream);
    ag_audit_start(stream);
    return stream;
}

static bool no_state_is_left(void)
{
    if (atomic_load(&state_count) < AG_MOST_STREAMS)
        return false;
    pthread_mutex_lock(&registry);
    bool none = unused == NULL && vacant == NULL;
    pthread_mutex_unlock(&registry);
    return none;
}

/* *life becomes its life; `late`: it has begun without a state. */
static struct ag_stream *make(CUstream name, CUcontext current, bool late, uint32_t *life)
{
    enum ag_stream_kind kind = AG_STREAM_LEGACY;
    CUcontext ctx = current;
    unsigned flags = 0;
    bool known = true;
    if (no_state_is_left()) /* the driver need not be asked each time */
        return NULL;
    if (name == CU_STREAM_PER_THREAD) {
        kind = AG_STREAM_PER_THREAD;
    } else if (name != CU_STREAM_LEGACY) {
        known = ag_handle_learn(name, &ctx, &flags);
        kind = flags & CU_STREAM_NON_BLOCKING ? AG_STREAM_NONBLOCKING : AG_STREAM_BLOCKING;
    }
    if (!known)
        return NULL;
    struct ag_context *context;
    for (;;) {
        context = ag_context_find(ctx);
        if (context == NULL)
            return NULL;
        pthread_mutex_lock(&registry);
        if (ag_context_peek(ctx) == context) /* it has not been forgotten meanwhile */
            break;
        pthread_mutex_unlock(&registry);
    }
    struct ag_stream *stream = find(name, current);
    if (stream == NULL && (stream = state_for(context, kind)) != NULL) {
        stream->handle = name;
        stream->owner = kind == AG_STREAM_PER_THREAD ? &ag_self : NULL;
        ag_stream_touch(stream);
        stream->plain = false;
        stream->holding = false;
        stream->relayed = false;
        stream->crossed = 0;
        stream->foreign = ag_self.foreign < AG_COPIES_FOREIGN ? 0 : AG_COPIES_FOREIGN;
        atomic_store_explicit(&stream->foreign_next,
                              stream->foreign != 0 ? stream->foreign : AG_COPIES_FIRST,
                              memory_order_relaxed);
        atomic_store_explicit(&stream->bare, true, memory_order_relaxed);
        stream->number = ++stream_count;
        stream->lives++;
        stream->ops_before = stream->counters.ops;
        life_begins(stream, late);
        stream->vacant = false;
        stream->live = true;
        list_join(stream, bucket_of(name, &ag_self));
        AG_TRACE(ag_note_stream(stream));
        ag_stream_unlock(stream);
    }
    if (stream != NULL)
        *life = stream->life;
    pthread_mutex_unlock(&registry);
    if (name == CU_STREAM_LEGACY) /* others are placed when they are made */
        ag_order_place(context);
    return stream;
}

static struct ag_context *context_of(const struct ag_stream *stream)
{
    return __atomic_load_n(&stream->context, __ATOMIC_RELAXED);
}

struct ag_stream *ag_stream_find_slow(CUstream handle, bool ptsz, CUcontext current)
{
    if (current == NULL)
        return NULL;
    uint32_t life;
    CUstream name = ag_stream_name(handle, ptsz);
    struct ag_stream *stream = peek(name, current, &life);
    bool young = ag_young_has(name);
    if (stream == NULL && ag_stream_watch_thread())
        stream = make(name, current, young, &life);
    if (stream == NULL)
        return NULL;
    ag_young_leave(name); /* only now: it must be known in one way or the other */
    if (ptsz || name == CU_STREAM_PER_THREAD)
        ag_order_place_own(context_of(stream));
    *ag_stream_slot(handle) = (struct ag_found){
        .stream = stream, .key = handle, .ctx = current, .ptsz = ptsz, .life = life};
    return stream;
}

/* What the driver keeps for the tree's nodes, and what points into the tree. */
static void drop_pointers(struct ag_stream *stream)
{
    stream->counters.errors += ag_keep_free(&stream->keep) != CUDA_SUCCESS;
    ag_stream_want_none(stream);
    stream->last = NULL;
    stream->timed.head = NULL;
    ag_recorder_drop(&stream->recorder);
}

static void drop_traces(struct ag_stream *stream)
{
    struct ag_trace *trace;
    while ((trace = stream->traces) != NULL) {
        stream->traces = trace->next;
        ag_node_set_trace(trace->leaf, NULL);
        stream->counters.errors += ag_aside_destroy(stream->context, trace) != CUDA_SUCCESS;
    }
    drop_pointers(stream);
}

static bool is_retired(const struct ag_node *node, const void *stamp)
{
    return node->op.kind == AG_OP_KERNEL &&
           ag_function_is_retired(node->op.layout, *(const uint32_t *)stamp);
}

void ag_stream_forget_retired(struct ag_stream *stream, uint32_t stamp)
{
    if (!ag_tree_has(&stream->recorder.tree, is_retired, &stamp))
        return;
    ag_stream_end(stream, true, AG_REASON_ATTRIBUTES);
    for (struct ag_trace *trace = stream->traces, *next; trace != NULL; trace = next) {
        uint32_t i = 0;
        next = trace->next;
        while (i < trace->length && !is_retired(trace->step[i].node, &stamp))
            i++;
        if (i < trace->length)
            ag_stream_drop_trace(stream, trace);
    }
    drop_pointers(stream);
    ag_tree_drop(&stream->recorder.tree, is_retired, &stamp);
}

void ag_stream_capture_ends(struct ag_stream *stream)
{
    if (!stream->captured)
        return;
    stream->captured = false;
    ag_event_distrust(NULL);
    atomic_fetch_sub(&ag_hold_bans, 1); /* events may be held again */
}

/* The state is no longer that of its stream. */
static void lose_stream(struct ag_stream *stream)
{
    ag_stream_be_curious(stream, false);
    ag_stream_capture_ends(stream);
    if (atomic_exchange(&stream->relayed, false) && !stream->open)
        atomic_fetch_sub(&ag_listeners, 1);
    ag_stream_update_busy(stream);
}

void ag_stream_kill(struct ag_stream *stream)
{
    drop_traces(stream);
    lose_stream(stream);
    if (stream->relay != NULL) {
        const struct ag_relay relay = {stream->relay, stream->mark, stream->done};
        stream->counters.errors += ag_aside_destroy_relay(stream->context, &relay) != CUDA_SUCCESS;
        stream->relay = NULL;
    }
    if (stream->placeholder != NULL)
        stream->counters.errors +=
            ag_aside_destroy_event(stream->context, stream->placeholder) != CUDA_SUCCESS;
    stream->placeholder = NULL;
    ag_tree_clear(&stream->recorder.tree);
    ag_memory_forget(stream->answers);
    atomic_store(&stream->thread, NULL); /* who waits for the lock sees that it is another life */
    pthread_mutex_lock(&registry);
    if (!stream->vacant)
        life_ends(stream);
    stream->owner = NULL;
    stream->live = false;
    atomic_fetch_add(&stream->life, 1);
    list_leave(stream);
    state_give(stream);
    pthread_mutex_unlock(&registry);
}

/* Whether what the state has learnt is worth keeping for another stream: it has nodes, and nothing
   in it depends on the stream itself. */
static bool is_of_use(const struct ag_stream *stream)
{
    if (stream->plain || ag_stream_is_default(stream->handle) || stream->recorder.tree.used == 0)
        return false;
    const struct ag_trace *trace = stream->traces;
    while (trace != NULL && !trace->prioritized)
        trace = trace->next;
    return trace == NULL;
}

void ag_stream_vacate(struct ag_stream *stream, unsigned left)
{
    if (!ag_opt.trace_inherit || !is_of_use(stream) ||
        (atomic_load(&vacant_count) >= AG_VACANT_MOST && !ag_stream_kill_vacant(NULL))) {
        ag_stream_kill(stream);
        return;
    }
    lose_stream(stream);
    ag_stream_want_none(stream);
    stream->last = NULL;
    pthread_mutex_lock(&registry);
    life_ends(stream);
    stream->vacant = true;
    stream->vacated = atomic_load(&stream->context->starved);
    stream->behind = stream->traces != NULL ? left : 0;
    ag_unsettled += stream->behind != 0;
    atomic_fetch_add(&stream->life, 1);
    list_leave(stream);
    list_join(stream, vacant_end);
    vacant_end = &stream->alike;
    stream->bucket = &vacant; /* where it is looked for when it leaves */
    vacant_count++;
    pthread_mutex_unlock(&registry);
}

bool ag_stream_forget_context(struct ag_context *context)
{
    pthread_mutex_lock(&registry);
    const struct ag_stream *stream = ag_stream_all();
    while (stream != NULL && !(stream->live && stream->context == context))
        stream = stream->next;
    if (stream == NULL)
        ag_context_forget(context);
    pthread_mutex_unlock(&registry);
    return stream == NULL;
}

void ag_stream_settle(const struct ag_context *context)
{
    pthread_mutex_lock(&registry);
    for (struct ag_stream *stream = vacant; stream != NULL; stream = stream->alike)
        if (stream->context == context && stream->behind != 0 &&
            (int)(atomic_load(&context->settled) - stream->behind) >= 0) {
            stream->behind = 0;
            ag_unsettled--;
        }
    pthread_mutex_unlock(&registry);
}

/* Whether the graphs of a vacant state make room for others. */
static bool is_stale(const struct ag_stream *stream)
{
    return atomic_load(&stream->context->starved) - stream->vacated >= AG_STARVED;
}

bool ag_stream_kill_vacant(const struct ag_context *context)
{
    pthread_mutex_lock(&registry);
    struct ag_stream *stream = vacant;
    while (stream != NULL &&
           ((context != NULL && stream->context != context) || !ag_stream_trylock(stream)))
        stream = stream->alike;
    pthread_mutex_unlock(&registry);
    if (stream == NULL)
        return false;
    bool pushed, killed = (context == NULL || is_stale(stream)) &&
                          ag_context_enter(stream->context, &pushed);
    if (killed) {
        ag_stream_kill(stream);
        ag_context_leave(pushed);
    }
    ag_stream_unlock(stream);
    return killed;
}
