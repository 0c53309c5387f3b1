/* SPDX-License-Identifier: MIT */
/* Finding, beginning, vacating and killing the states of streams. */
#include "engine/replay/registry.h"

#include <stdlib.h>

#include "config/config.h"
#include "driver/limits.h"
#include "engine/base/handle.h"
#include "engine/context/memory.h"
#include "engine/decide/launch_model.h"
#include "engine/decide/trials.h"
#include "engine/hot.h"
#include "engine/replay/execs.h"
#include "engine/replay/relay.h"
#include "engine/replay/staging.h"
#include "engine/stream/copies.h"
#include "engine/stream/eager.h"
#include "engine/stream/event.h"
#include "engine/stream/branches.h"
#include "engine/stream/issuer.h"
#include "engine/stream/pinned.h"
#include "engine/stream/sequence.h"
#include "engine/tell/observe.h"
#include "policy/policy.h"

static pthread_mutex_t registry = PTHREAD_MUTEX_INITIALIZER;
static uint32_t stream_count; /* registry; of all that ever lived */

enum { BUCKETS = 1024 }; /* of the table of states by name */

/* All under registry: live states by name; vacant ones, which have been vacant for longest first;
   states that nobody uses. */
static struct ag_stream *buckets[BUCKETS], *vacant, *unused;
static struct ag_stream **vacant_end = &vacant; /* the link behind the last */
static _Atomic unsigned vacant_count;           /* writes under registry */

static bool names(const struct ag_stream *stream, CUstream name, CUcontext current)
{
    if (!stream->id.live || stream->id.handle != name)
        return false;
    if (!ag_stream_is_default(name))
        return true;
    return stream->id.context->ctx == current &&
           (name == CU_STREAM_LEGACY || stream->id.owner == &ag_self);
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
        stream = stream->id.alike;
    return stream;
}

/* *life becomes the life that was found. */
static struct ag_stream *peek(CUstream name, CUcontext current, uint32_t *life)
{
    pthread_mutex_lock(&registry);
    struct ag_stream *stream = find(name, current);
    *life = stream != NULL ? stream->id.life : 0;
    pthread_mutex_unlock(&registry);
    return stream;
}

struct ag_stream *ag_stream_peek_slow(CUstream handle, bool ptsz, CUcontext current)
{
    uint32_t life;
    return peek(ag_stream_name(handle, ptsz), current, &life);
}

/* -- Lists, under the registry's lock ------------------------------------------ */

/* A free state or a new one, with its lock held. Registry lock held: nobody else looks for one. */
static struct ag_stream *state_take(void)
{
    for (struct ag_stream **link = &unused, *stream; (stream = *link) != NULL;
         link = &stream->id.alike)
        if (ag_stream_trylock(stream)) {
            *link = stream->id.alike;
            return stream;
        }
    return ag_stream_add();
}

/* Registry lock held. */
static void state_give(struct ag_stream *stream)
{
    stream->id.alike = unused;
    unused = stream;
}

/* A live state goes into a bucket, or leaves the one that it is in. Registry lock held. */
static void list_join(struct ag_stream *stream, struct ag_stream **bucket)
{
    stream->id.bucket = bucket;
    stream->id.alike = *bucket;
    *bucket = stream;
}

static void list_leave(struct ag_stream *stream)
{
    struct ag_stream **link = stream->id.bucket;
    while (*link != stream)
        link = &(*link)->id.alike;
    *link = stream->id.alike;
    if (stream->id.bucket == &vacant) {
        if (vacant_end == &stream->id.alike)
            vacant_end = link;
        vacant_count--;
    }
}

/* The vacant state for a new stream of this kind, locked; NULL: there is none. Prefers the calling
   thread's own states, oldest first, so that streams which are made anew in each step find theirs
   again. Leaves out states whose graphs may still run: the next launch of such an exec waits for
   the last one (CUDA driver API, cuGraphLaunch), and the program has not asked for a wait.
   Registry lock held. */
static struct ag_stream *vacant_take(const struct ag_context *context, enum ag_stream_kind kind)
{
    struct ag_stream *found = NULL;
    for (struct ag_stream *stream = vacant; stream != NULL; stream = stream->id.alike) {
        if (stream->id.context != context || stream->id.kind != kind ||
            !ag_orphans_has_settled(&context->orphans, stream->id.behind))
            continue;
        bool own = atomic_load_explicit(&stream->issuer.thread, memory_order_relaxed) == &ag_self;
        if (found == NULL || own)
            found = stream;
        if (own || ag_self.touched == 0) /* then none is this thread's */
            break;
    }
    if (found == NULL || !ag_stream_trylock(found))
        return NULL;
    if (found->seq.barred) { /* it is beyond us */
        ag_stream_unlock(found);
        return NULL;
    }
    list_leave(found);
    return found;
}

/* -- Lives ---------------------------------------------------------------------- */

/* A life begins, or ends, in a state. Registry lock and the stream's held. Where new streams are
   untracked (untracked.h), a default stream cannot be: its first ops pass instead. */
static void life_begins(struct ag_stream *stream, bool untracked)
{
    atomic_fetch_add(&stream->id.context->used, 1);
    stream->id.issued_before = ag_issuer_issued(stream);
    stream->id.replays_before = stream->counters.replays;
    stream->id.began_before = untracked || ag_lives_take(stream->id.context);
    if (stream->id.began_before && !untracked)
        ag_recorder_rest(&stream->recorder, AG_FEW_OPS, ag_tree_heads(&stream->recorder.tree));
}

static void life_ends(struct ag_stream *stream)
{
    atomic_fetch_sub(&stream->id.context->used, 1);
    if (stream->id.began_before)
        ag_recorder_resume(&stream->recorder, AG_FEW_OPS);
    ag_lives_end(stream->id.context,
                 !stream->id.began_before &&
                     ag_issuer_issued(stream) - stream->id.issued_before <= AG_FEW_OPS,
                 stream->counters.replays != stream->id.replays_before);
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
    ag_trials_move(stream);
    __atomic_store_n(&stream->id.context, context, __ATOMIC_RELAXED);
    __atomic_store_n(&stream->id.kind, kind, __ATOMIC_RELAXED);
    atomic_store_explicit(&stream->id.ahead, ag_context_ahead(context, kind), memory_order_relaxed);
    ag_model_start(stream);
    return stream;
}

static bool no_state_is_left(void)
{
    if (!ag_stream_are_all())
        return false;
    pthread_mutex_lock(&registry);
    bool none = unused == NULL && vacant == NULL;
    pthread_mutex_unlock(&registry);
    return none;
}

/* *life becomes its life; `untracked`: it has begun without a state. */
static struct ag_stream *make(CUstream name, CUcontext current, bool untracked, uint32_t *life)
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
        stream->id.handle = name;
        stream->id.owner = kind == AG_STREAM_PER_THREAD ? &ag_self : NULL;
        if (kind == AG_STREAM_PER_THREAD)
            atomic_store(&ag_streams_go, true); /* with their threads */
        ag_stream_touch(stream);
        ag_sequence_bar(stream, AG_WHY_HELD);
        ag_copies_start(stream);
        ag_branches_start(stream);
        ag_pinned_start(stream);
        ag_eager_start(stream);
        stream->id.number = ++stream_count;
        stream->id.lives++;
        stream->id.ops_before = stream->counters.ops;
        life_begins(stream, untracked);
        stream->id.vacant = false;
        stream->id.live = true;
        list_join(stream, bucket_of(name, &ag_self));
        AG_NOTE(ag_note_stream(stream));
        ag_stream_unlock(stream);
    }
    if (stream != NULL)
        *life = stream->id.life;
    pthread_mutex_unlock(&registry);
    return stream;
}

struct ag_stream *ag_stream_begin(CUstream handle, bool ptsz, CUcontext current, bool untracked)
{
    uint32_t life;
    CUstream name = ag_stream_name(handle, ptsz);
    struct ag_stream *stream = peek(name, current, &life);
    if (stream == NULL && current != NULL && ag_thread_watch())
        stream = make(name, current, untracked, &life);
    if (stream != NULL)
        *ag_stream_slot(handle) = (struct ag_found){
            .stream = stream, .key = handle, .ctx = current, .ptsz = ptsz, .life = life};
    return stream;
}

/* What points into the tree. */
void ag_stream_drop_pointers(struct ag_stream *stream)
{
    (void)ag_execs_want_none(stream, NULL);
    ag_eager_forget(stream);
    ag_recorder_drop(&stream->recorder);
}

void ag_stream_disown(struct ag_stream *stream)
{
    stream->id.owner = NULL;
}

void ag_stream_capture_begins(struct ag_stream *stream)
{
    stream->id.captured = true;
}

void ag_stream_capture_ends(struct ag_stream *stream)
{
    if (!stream->id.captured)
        return;
    stream->id.captured = false;
    ag_event_distrust(NULL);
    atomic_fetch_sub(&ag_hold_bans, 1); /* events may be held again */
}

/* The state is no longer that of its stream. */
static void lose_stream(struct ag_stream *stream)
{
    ag_branches_start(stream);
    ag_sequence_subscribe(stream, false);
    ag_stream_capture_ends(stream);
    ag_relay_forget(stream);
}

void ag_stream_kill(struct ag_stream *stream)
{
    ag_execs_clear(stream);
    ag_stream_drop_pointers(stream);
    lose_stream(stream);
    ag_relay_destroy(stream);
    ag_staging_leave(stream);
    ag_tree_clear(&stream->recorder.tree);
    ag_memory_forget(stream->answers);
    ag_issuer_ends(stream, NULL); /* who waits for the lock sees that it is another life */
    pthread_mutex_lock(&registry);
    if (!stream->id.vacant)
        life_ends(stream);
    stream->id.owner = NULL;
    stream->id.live = false;
    atomic_fetch_add(&stream->id.life, 1);
    list_leave(stream);
    state_give(stream);
    pthread_mutex_unlock(&registry);
}

/* Whether what the state has learnt is worth keeping for another stream: it has nodes, and nothing
   in it depends on the stream itself. */
static bool is_of_use(const struct ag_stream *stream)
{
    if (stream->seq.barred || ag_stream_is_default(stream->id.handle) ||
        stream->recorder.tree.used == 0)
        return false;
    const struct ag_trace *trace = stream->execs.traces;
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
    (void)ag_execs_want_none(stream, NULL);
    ag_eager_forget(stream);
    pthread_mutex_lock(&registry);
    life_ends(stream);
    stream->id.vacant = true;
    stream->id.vacated = atomic_load(&stream->id.context->starved);
    stream->id.behind = ag_execs_any(stream) || ag_staging_is_used(stream) ? left : 0;
    atomic_fetch_add(&stream->id.life, 1);
    list_leave(stream);
    list_join(stream, vacant_end);
    vacant_end = &stream->id.alike;
    stream->id.bucket = &vacant; /* where it is looked for when it leaves */
    vacant_count++;
    pthread_mutex_unlock(&registry);
}

bool ag_stream_forget_context(struct ag_context *context)
{
    pthread_mutex_lock(&registry);
    const struct ag_stream *stream = ag_stream_all();
    while (stream != NULL && !(stream->id.live && stream->id.context == context))
        stream = stream->place.next;
    if (stream == NULL) {
        ag_staging_forget(context);
        ag_context_forget(context);
    }
    pthread_mutex_unlock(&registry);
    return stream == NULL;
}

/* Whether the graphs of a vacant state make room for others. */
static bool is_stale(const struct ag_stream *stream)
{
    return atomic_load(&stream->id.context->starved) - stream->id.vacated >= AG_STALE &&
           ag_orphans_has_settled(&stream->id.context->orphans, stream->id.behind);
}

bool ag_stream_kill_vacant(const struct ag_context *context)
{
    pthread_mutex_lock(&registry);
    struct ag_stream *stream = vacant;
    while (stream != NULL &&
           ((context != NULL && stream->id.context != context) || !ag_stream_trylock(stream)))
        stream = stream->id.alike;
    pthread_mutex_unlock(&registry);
    if (stream == NULL)
        return false;
    bool pushed, killed = (context == NULL || is_stale(stream)) &&
                          ag_context_enter(stream->id.context, &pushed);
    if (killed) {
        ag_stream_kill(stream);
        ag_context_leave(pushed);
    }
    ag_stream_unlock(stream);
    return killed;
}
