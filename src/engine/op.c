/* SPDX-License-Identifier: MIT */
/* Ops: hold what matches, record what does not. The first function is the hot path. */
#include "engine/engine.h"

#include "config/config.h"
#include "driver/driver.h"
#include "engine/aside.h"
#include "engine/audit.h"
#include "engine/barrier.h"
#include "engine/describe.h"
#include "engine/event.h"
#include "engine/grow.h"
#include "engine/observe.h"
#include "engine/stream.h"
#include "engine/submit.h"
#include "engine/trial.h"
#include "engine/young.h"
#include "graph/function.h"
#include "observe/callsite.h"
#include "trace/policy.h"

#define LIKELY(condition)   __builtin_expect(!!(condition), 1)
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

/* Of what each held op goes through: as calls these were 19 of a launch's 352 instructions. */
#define INLINE inline __attribute__((always_inline))

/* Whether some trace leads through or ends at this node, so that holding it can pay. */
static bool promising(const struct ag_node *node)
{
    return ag_node_leads(node) && !node->bad;
}

/* The op at `node`, the cursor's child, has been stored there: holds it, or replays with it. */
static INLINE void hold(struct ag_stream *stream, struct ag_node *node)
{
    stream->path[node->depth] = node;
    atomic_store_explicit(&stream->held, node->depth, memory_order_release);
    stream->recorder.cursor->next = node;
    stream->recorder.cursor = node;
    stream->counters.ops++;
    ag_self.ops++;
    if (ag_recorder_ends(&stream->recorder, node))
        ag_stream_end(stream, false, AG_REASON_SEQUENCE_END);
}

/* -- Kernels that match the prediction -------------------------------------- */

static bool step(struct ag_stream *stream, bool described, struct ag_described *call);

/* Whether ops of this stream, called with this context, may be held at all. While the program
   captures, the driver is not even asked about them: a question can end a capture. */
static bool eligible(const struct ag_stream *stream, CUcontext current)
{
    const struct ag_context *context = stream->context;
    return !stream->plain && context->ctx == current && atomic_load(&ag_hold_bans) == 0 &&
           !atomic_load_explicit(&context->green, memory_order_relaxed);
}

/* Whether an op with this mark passes unseen; it is counted, and if it fails, that says nothing of
   any other. */
static INLINE bool passes(struct ag_stream *stream, uint64_t mark)
{
    if (!ag_recorder_passes(&stream->recorder, mark))
        return false;
    stream->counters.ops++;
    stream->last = NULL;
    return true;
}

/* `function` is what is known of the kernel's; or the op is that of the node `same`. The lock is
   held. */
__attribute__((noinline)) static bool kernel_slow(struct ag_stream *stream,
                                                  const struct ag_kernel_call *call,
                                                  const struct ag_function *function,
                                                  const struct ag_node *same, CUcontext current)
{
    struct ag_described op;
    if (passes(stream, ag_mark(AG_OP_KERNEL, call->func, call->shape.grid[0])))
        return false;
    ag_cause = ag_cause_kernel;
    bool described = eligible(stream, current);
    if (same != NULL) {
        op.op = same->op;
        op.from = call->params;
    } else if (described) {
        described = ag_describe_kernel(&op, call, function);
    }
    return step(stream, described, &op);
}

/* The thread goes on from this stream to another one of the context, which may share its queue:
   what is held never goes beyond that place. So its sequences end there whether they are held or
   not, and those that come again are replayed. The other's lock is held. */
static __attribute__((noinline)) void cut(struct ag_stream *stream,
                                          const struct ag_context *context)
{
    if (!atomic_load_explicit(&stream->open, memory_order_relaxed) || !ag_stream_trylock(stream))
        return;
    if (stream->live && stream->context == context && stream->thread == &ag_self)
        ag_stream_end(stream, true, AG_REASON_QUEUE);
    ag_stream_unlock(stream);
}

/* The thread goes on from one stream to another. */
static void turn_to(struct ag_stream *stream)
{
    struct ag_stream *last = ag_self.eager;
    if (last != NULL) {
        atomic_store_explicit(&last->left, true, memory_order_relaxed);
        if (atomic_load_explicit(&stream->context->shares, memory_order_relaxed))
            cut(last, stream->context);
    }
    atomic_store_explicit(&stream->left, false, memory_order_relaxed);
    ag_self.eager = stream;
}

/* The state of a call's stream, which the thread does not remember. It may be young if it is an
   op's. NULL: it has none, and nothing is held that the call could have to follow. */
static __attribute__((noinline)) struct ag_stream *find(CUstream handle, bool ptsz,
                                                        CUcontext current, bool op)
{
    if (op && ag_young_op(handle, ptsz, current))
        return NULL;
    struct ag_stream *stream = ag_stream_find_slow(handle, ptsz, current);
    if (stream == NULL && atomic_load(&ag_listeners) != 0)
        ag_engine_barrier_all(AG_REASON_BARRIER);
    return stream;
}

/* The same of any stream, locked, after what CUDA orders before the call. */
static INLINE struct ag_stream *find_locked(CUstream handle, bool ptsz, CUcontext current, bool op)
{
    const struct ag_found *found = ag_stream_slot(handle);
    struct ag_stream *stream = found->stream;
    if (UNLIKELY(!ag_stream_is_found(found, handle, ptsz, current)) &&
        (stream = find(handle, ptsz, current, op)) == NULL)
        return NULL;
    ag_order_before(stream);
    ag_stream_lock(stream);
    return stream;
}

/* The state is locked, and its last op was this thread's. */
static INLINE struct ag_stream *go_on(struct ag_stream *stream)
{
    if (UNLIKELY(ag_self.eager != stream))
        turn_to(stream);
    if (UNLIKELY(stream->relayed))
        ag_stream_absorb(stream);
    return stream;
}

/* The last op in the state that has been locked was not this thread's. Its life may have ended
   before the lock was there, though the stream lives on: when another thread releases a primary
   context that is retained elsewhere. The lock keeps a life. */
static __attribute__((noinline)) struct ag_stream *
take_over(struct ag_stream *stream, CUstream handle, bool ptsz, CUcontext current)
{
    while (ag_stream_slot(handle)->life != stream->life) {
        ag_stream_unlock(stream);
        stream = find_locked(handle, ptsz, current, false);
        if (stream == NULL)
            return NULL;
    }
    if (stream->thread != &ag_self)
        ag_stream_take_over(stream);
    return go_on(stream);
}

/* Gets the stream of a call, locked, for the calling thread. */
static INLINE struct ag_stream *enter(CUstream handle, bool ptsz, CUcontext current, bool op)
{
    struct ag_stream *stream = find_locked(handle, ptsz, current, op);
    if (UNLIKELY(stream == NULL))
        return NULL;
    if (UNLIKELY(atomic_load_explicit(&stream->thread, memory_order_relaxed) != &ag_self))
        return take_over(stream, handle, ptsz, current);
    return go_on(stream);
}

/* An op goes to a stream that has no state. */
static void unfollowed(void)
{
    atomic_fetch_add_explicit(&ag_unfollowed_ops, 1, memory_order_relaxed);
    if (atomic_load(&ag_hold_bans) == 0) /* or it will not run now */
        atomic_store(&ag_unfollowed_kernels, true);
}

/* The same for an op, which is counted in any case. */
static INLINE struct ag_stream *enter_op(CUstream handle, bool ptsz, CUcontext current)
{
    struct ag_stream *stream = enter(handle, ptsz, current, true);
    if (UNLIKELY(stream == NULL) && current != NULL && !ag_young_has(handle))
        unfollowed();
    return stream;
}

/* Whether the launch is the op at this node, but for its arguments. */
static inline bool is_same(const struct ag_node *node, const struct ag_kernel_call *call)
{
    return node != NULL && node->op.func == call->func && node->op.kind == AG_OP_KERNEL &&
           memcmp(node->op.shape, &call->shape, sizeof call->shape) == 0 &&
           call->shape.nattrs == 0 && call->extra == NULL &&
           (call->params != NULL || node->op.layout->count == 0);
}

/* Whether this op may be the head of a loop that has come round often enough to end the open
   sequence. hurries() says whether it is. */
static inline bool may_hurry(const struct ag_stream *stream, const struct ag_op *op)
{
    return ag_recorder_counts(&stream->recorder, op) && ag_opt.trace_length == AG_LENGTH_AUTO &&
           ag_context_owes(stream->context) < AG_HURRY_NS;
}

static bool hurries(struct ag_stream *stream, const struct ag_op *op)
{
    struct ag_recorder *rec = &stream->recorder;
    return !stream->holding && may_hurry(stream, op) && !ag_trial_prevents(stream, rec->cursor) &&
           rec->cursor->weight >= ag_opt.trace_min_length && ag_recorder_rounds(rec);
}

/* Whether the open sequence, which goes out eagerly, ends at `node`: where any does, and in a
   trial, where its ops would be replayed if they were held. */
static bool ends(const struct ag_stream *stream, const struct ag_node *node)
{
    const struct ag_recorder *rec = &stream->recorder;
    bool trial = UNLIKELY(stream->timed.head != NULL) && stream->timed.eager;
    return trial ? ag_recorder_ends(rec, node) : ag_recorder_full(rec, node);
}

/* The launch goes out eagerly, as the op at `node`, which came here the last time too: what step()
   and record() would do. False: they are needed. */
static inline bool record_again(struct ag_stream *stream, struct ag_node *node, CUcontext current)
{
    struct ag_recorder *rec = &stream->recorder;
    if (rec->cursor->depth == 0 || stream->holding || ag_recorder_rests(rec) ||
        ag_recorder_cuts(rec, &node->op) || may_hurry(stream, &node->op) ||
        !eligible(stream, current))
        return false;
    rec->cursor = node;
    stream->counters.ops++;
    stream->last = node;
    if (ends(stream, node))
        ag_stream_end(stream, false, AG_REASON_SEQUENCE_END);
    return true;
}

/* Whether the thread knows the state of the stream of this slot. */
static inline bool is_known(const struct ag_found *found)
{
    return found->stream != NULL &&
           found->life == atomic_load_explicit(&found->stream->life, memory_order_acquire);
}

/* Takes one from a number; false: it is 0. What another thread takes meanwhile may be lost. */
static inline bool take_one(_Atomic uint32_t *number)
{
    uint32_t left = atomic_load_explicit(number, memory_order_relaxed);
    if (left == 0)
        return false;
    atomic_store_explicit(number, left - 1, memory_order_relaxed);
    return true;
}

/* Without the stream's lock, if this thread has issued the ops before. A copy passes, too, that is
   taken for one that cannot be held, a barrier to the recorder: behind another one it changes
   nothing. */
bool ag_engine_passes(CUstream handle, bool ptsz, enum ag_op_kind kind, CUfunction func,
                      uint32_t grid)
{
    const struct ag_found *found = ag_stream_slot(handle);
    struct ag_stream *stream = found->stream;
    ag_passing.key = 0;
    if (atomic_load(&ag_listeners) != 0 || atomic_load(&ag_refused) != 0 || !is_known(found))
        return false;
    bool rests = ag_recorder_rests(&stream->recorder);
    if ((LIKELY(!rests) && kind != AG_OP_COPY) || found->key != handle || found->ptsz != ptsz ||
        AG_TRACING() || atomic_load_explicit(&stream->thread, memory_order_relaxed) != &ag_self)
        return false;
    uint64_t heads = atomic_load_explicit(&stream->recorder.heads, memory_order_relaxed);
    _Atomic uint32_t *left = &stream->recorder.rest;
    if (!rests || (heads & ag_mark(kind, func, grid)) != 0) {
        if (kind != AG_OP_COPY || !atomic_load_explicit(&stream->bare, memory_order_relaxed))
            return false;
        heads = AG_COPIES_PASS;
        left = &stream->foreign_next;
    }
    if (!take_one(left))
        return false;
    ag_passing = (struct ag_passing){.key = ag_passing_key(handle, ptsz),
                                     .life = found->life,
                                     .living = &stream->life,
                                     .heads = heads,
                                     .left = left,
                                     .passed = &stream->passed};
    atomic_store_explicit(&stream->passed,
                          atomic_load_explicit(&stream->passed, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    ag_self.eager = NULL;
    return true;
}

bool ag_engine_stream_rests(CUstream handle)
{
    const struct ag_found *found = ag_stream_slot(handle);
    return is_known(found) && ag_recorder_rests(&found->stream->recorder);
}

/* A launch may record an event: before that goes what has to be submitted before a record. */
static __attribute__((noinline)) void settle_events(const struct ag_kernel_call *call)
{
    for (uint32_t i = 0; i < call->shape.nattrs; i++) {
        const CUlaunchAttribute *attr = &call->attrs[i];
        if (attr->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT)
            (void)ag_event_settle(attr->value.programmaticEvent.event, true, AG_REASON_EVENT);
        else if (attr->id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT)
            (void)ag_event_settle(attr->value.launchCompletionEvent.event, true, AG_REASON_EVENT);
    }
}

/* The launch goes out, and its stream has no state. What must precede it because of its events, or
   because it loads the function, goes first. */
static __attribute__((noinline)) void launch_unfollowed(const struct ag_kernel_call *call,
                                                        CUcontext current)
{
    if (current == NULL && !ag_stream_is_default(call->stream))
        unfollowed(); /* no context is needed where there is a handle */
    if (ag_young_has(call->stream) && ag_anything_held()) {
        settle_events(call);
        ag_engine_barrier_load(call->func);
    }
    AG_TRACE(ag_note_kernel(NULL, call));
}

bool ag_engine_kernel(const struct ag_kernel_call *call)
{
    CUcontext current = call->current != NULL ? call->current : ag_engine_current(call->stream);
    struct ag_stream *stream;
    struct ag_node *node;
    const struct ag_function *function = NULL;
    bool same, learnt = false, settled = call->attrs == NULL;
    for (;;) {
        stream = enter_op(call->stream, call->ptsz, current);
        if (UNLIKELY(stream == NULL)) {
            launch_unfollowed(call, current);
            return false;
        }
        node = stream->recorder.cursor->next;
        same = is_same(node, call) && stream->context->ctx == current;
        if (LIKELY(same))
            break; /* it is known, and need not be described */
        if (UNLIKELY(!settled) && atomic_load(&ag_event_streams) != 0) {
            ag_stream_unlock(stream);
            settle_events(call);
            settled = true;
            continue;
        }
        function = ag_function_find(call->func, current);
        if (function != NULL || learnt)
            break;
        ag_stream_unlock(stream);
        ag_engine_barrier_load(call->func);
        learnt = true;
    }
    AG_TRACE(ag_note_kernel(stream, call));
    bool held = false;
    if (LIKELY(same && stream->holding && promising(node) && !ag_node_is_kept(node))) {
        ag_node_store(node, call->params);
        hold(stream, node);
        held = true;
    } else {
        uint64_t began = ag_trial_clock(stream);
        held = (!same || !record_again(stream, node, current)) &&
               kernel_slow(stream, call, function, same ? node : NULL, current);
        ag_trial_spent(stream, began);
    }
    ag_stream_unlock(stream);
    return held;
}

/* -- Everything else --------------------------------------------------------- */

/*
 * The rest of every door but the kernels'. What the stream's state decides is a function of its
 * own, `describe` being run with the lock held: what is described is large, and a thread that
 * issues a few ops has as little of its stack touched as without the library.
 */
#define FOLLOWED_OP(type, kind, describe)                                                          \
    static __attribute__((noinline)) bool decide_##type(                                           \
        struct ag_stream *stream, const struct ag_##type##_call *call, CUcontext current)          \
    {                                                                                              \
        struct ag_described op;                                                                    \
        uint64_t began = ag_trial_clock(stream);                                                   \
        bool held = false;                                                                         \
        if (!passes(stream, ag_mark(kind, NULL, 0)))                                               \
            held = step(stream, eligible(stream, current) && describe(&op, call), &op);            \
        ag_trial_spent(stream, began);                                                             \
        return held;                                                                               \
    }

#define OTHER_OP(type, note)                                                                       \
    CUcontext current = ag_engine_current(call->stream);                                           \
    struct ag_stream *stream = enter_op(call->stream, call->ptsz, current);                        \
    AG_TRACE(note(stream, call));                                                                  \
    if (stream == NULL)                                                                            \
        return false;                                                                              \
    bool held = decide_##type(stream, call, current);                                              \
    ag_stream_unlock(stream);                                                                      \
    AG_CALLSITE();                                                                                 \
    return held

#define DESCRIBE(op, call) ag_describe_memset(op, call, &stream->answers)
FOLLOWED_OP(memset, AG_OP_MEMSET, DESCRIBE)
#undef DESCRIBE

bool ag_engine_follows_default(bool ptsz)
{
    if (ag_stream_peek(NULL, ptsz, ag_context_current()) != NULL)
        return true;
    AG_TRACE(ag_note_barrier(ag_cause, 0));
    return false;
}

bool ag_engine_memset(const struct ag_memset_call *call)
{
    OTHER_OP(memset, ag_note_memset);
}

/* To describe a copy the driver is asked about its memory. A stream that copies pageable memory all
   the time need not pay for that each time, nor need a new stream of a thread whose last copies
   could not be held. */
static bool describe_copy(struct ag_stream *stream, struct ag_described *op,
                          const struct ag_copy_call *call)
{
    if (take_one(&stream->foreign_next))
        return false;
    bool described = ag_describe_copy(op, call, &stream->answers);
    ag_self.foreign = described ? 0 : ag_self.foreign + 1;
    uint32_t passed = stream->foreign < AG_COPIES_FOREIGN ? 0 : stream->foreign;
    stream->foreign = described ? 0 : stream->foreign + passed + 1;
    if (stream->foreign > AG_COPIES_FOREIGN_MOST)
        stream->foreign = AG_COPIES_FOREIGN_MOST;
    if (stream->foreign >= AG_COPIES_FOREIGN)
        atomic_store_explicit(&stream->foreign_next, stream->foreign, memory_order_relaxed);
    return described;
}

/* Whether the copy may be one between two devices: in the default stream it comes behind all work
   of both (CUDA Programming Guide, "Peer-to-Peer Memory Copy"). */
static bool may_change_device(const struct ag_copy_call *call)
{
    return call->params.srcMemoryType != CU_MEMORYTYPE_HOST &&
           call->params.dstMemoryType != CU_MEMORYTYPE_HOST;
}

#define DESCRIBE(op, call) describe_copy(stream, op, call)
FOLLOWED_OP(copy, AG_OP_COPY, DESCRIBE)
#undef DESCRIBE

bool ag_engine_copy(const struct ag_copy_call *call)
{
    if (atomic_load(&ag_many_devices) &&
        ag_stream_name(call->stream, call->ptsz) == CU_STREAM_LEGACY && may_change_device(call) &&
        ag_anything_held())
        ag_order_behind_all(ag_stream_peek(CU_STREAM_LEGACY, false, ag_context_current()));
    OTHER_OP(copy, ag_note_copy);
}

/*
 * A wait goes to the GPU behind all that preceded it in the program: two streams may share one of
 * the GPU's queues, where a write that comes behind the wait for it would never be reached.
 */
static bool waits(const struct ag_value_call *call)
{
    return call->operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 ||
           call->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
}

#define DESCRIBE(op, call) ag_describe_value(op, call, &stream->answers)
FOLLOWED_OP(value, AG_OP_VALUE, DESCRIBE)
#undef DESCRIBE

bool ag_engine_value(const struct ag_value_call *call)
{
    if (waits(call) && atomic_load(&ag_hold_bans) != 0)
        atomic_store(&ag_graphs_wait, true);
    if (waits(call) && atomic_load(&ag_listeners) != 0)
        ag_order_behind_all(ag_stream_peek(call->stream, call->ptsz, ag_context_current()));
    OTHER_OP(value, ag_note_value);
}

/* The only stream that has given memory back, in the life that it says; or more than one has. */
static struct ag_stream *const several = (struct ag_stream *)1;
static struct ag_stream *_Atomic freeing;

static bool frees_alone(const struct ag_stream *stream)
{
    return atomic_load(&freeing) == stream && stream->freed == atomic_load(&stream->life) + 1;
}

void ag_engine_frees(CUstream handle, bool ptsz)
{
    if (atomic_load(&freeing) == several)
        return;
    struct ag_stream *stream = ag_stream_find(handle, ptsz, ag_context_current()), *none = NULL;
    if (stream != NULL && frees_alone(stream))
        return;
    if (stream != NULL && atomic_compare_exchange_strong(&freeing, &none, stream))
        atomic_store(&stream->freed, atomic_load(&stream->life) + 1);
    else
        atomic_store(&freeing, several);
}

void ag_engine_allocates(CUstream handle, bool ptsz)
{
    if (atomic_load(&freeing) == NULL || !ag_anything_held())
        return;
    CUcontext current = ag_context_current();
    const struct ag_stream *stream = ag_stream_peek(handle, ptsz, current);
    if (stream == NULL || !frees_alone(stream))
        ag_engine_barrier_stream(handle, ptsz, AG_REASON_STREAM_BARRIER);
}

/* Only the relay of a per-thread default stream could come ahead. */
void ag_engine_allocated(CUstream handle, bool ptsz)
{
    if (ag_stream_name(handle, ptsz) != CU_STREAM_PER_THREAD || !ag_anything_held())
        return;
    struct ag_stream *stream = ag_stream_peek(handle, ptsz, ag_context_current());
    if (stream == NULL)
        return;
    ag_depth++;
    ag_stream_lock(stream);
    if (stream->held != 0 && stream->watched && !ag_stream_mark(stream))
        ag_stream_end(stream, true, AG_REASON_STREAM_BARRIER);
    ag_stream_unlock(stream);
    ag_depth--;
}

/* A free that can only succeed: an allocation of a pool, which is not being freed already. */
static bool free_is_certain(const struct ag_stream *stream, CUdeviceptr address)
{
    for (unsigned i = 0; i < stream->free_count; i++)
        if (stream->frees[i] == address)
            return false;
    CUmemoryPool pool = NULL;
    CUdeviceptr start = 0;
    CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
                                   CU_POINTER_ATTRIBUTE_RANGE_START_ADDR};
    void *values[] = {&pool, &start};
    return ag_real.cuPointerGetAttributes(2, names, values, address) == CUDA_SUCCESS &&
           pool != NULL && start == address;
}

bool ag_engine_free(CUdeviceptr address, CUstream handle, bool ptsz)
{
    if (atomic_load(&ag_listeners) == 0)
        return false;
    CUcontext current = ag_engine_current(handle);
    struct ag_stream *stream = enter(handle, ptsz, current, false);
    if (stream == NULL)
        return false;
    bool waits = stream->held != 0 && stream->free_count < AG_FREES &&
                 stream->context->ctx == current && free_is_certain(stream, address);
    if (waits)
        stream->frees[stream->free_count++] = address;
    else if (stream->held != 0)
        ag_stream_end(stream, true, AG_REASON_STREAM_BARRIER);
    ag_stream_unlock(stream);
    AG_CALLSITE();
    return waits;
}

/* The open sequence has a record of the event or a wait for it. False: other threads were faster,
   and nobody would find it there. */
static bool note(struct ag_stream *stream, const struct ag_event_call *call)
{
    if (!ag_event_hold(call->event, stream, call->wait))
        return false;
    if (!stream->events)
        atomic_fetch_add(&ag_event_streams, 1);
    stream->events = true;
    return true;
}

/* Whether a wait here for an event that was recorded there (NULL: that is not known) is most likely
   for another thread. Such waits are not held. */
static bool waits_across(const struct ag_context *there, const struct ag_context *here)
{
    return there != here && ag_many_threads && (there != NULL || ag_many_devices);
}

/*
 * An event's first record in a context goes out eagerly, and with it the driver has said that the
 * event is good there; so has the record, for a wait.
 */
bool ag_engine_event(const struct ag_event_call *call)
{
    CUcontext current = ag_engine_current(call->stream);
    struct ag_event_known known = ag_event_settle(call->event, !call->wait, AG_REASON_EVENT);
    struct ag_stream *stream = enter_op(call->stream, call->ptsz, current);
    AG_TRACE(ag_note_event(stream, call));
    if (stream == NULL)
        return false;
    const struct ag_context *context = stream->context;
    struct ag_described op;
    bool held = false;
    if (!passes(stream, ag_mark(call->wait ? AG_OP_WAIT : AG_OP_RECORD, NULL, 0))) {
        bool good = known.context == context && eligible(stream, current);
        uint64_t serial = good ? known.serial : 0;
        held = step(stream, ag_describe_event(&op, call, serial), &op);
        /* Held or not: sequences must be cut at the same places either way. */
        if (serial != 0 && stream->recorder.cursor->depth != 0 && UNLIKELY(!note(stream, call)))
            ag_stream_end(stream, true, AG_REASON_EVENT);
        if (call->wait && waits_across(known.context, context))
            ag_stream_cross(stream);
    }
    ag_stream_unlock(stream);
    if (!held && !call->wait && known.context != context)
        (void)ag_event_recorded(call->event, context); /* without room it is never held */
    return held;
}

void ag_engine_event_destroy(CUevent event)
{
    CUcontext current;
    struct ag_stream *users[AG_EVENT_USERS];
    (void)ag_event_settle(event, true, AG_REASON_EVENT);
    unsigned count = ag_event_forget(event, users);
    if (count == 0 || atomic_load(&ag_hold_bans) > atomic_load(&ag_pauses) ||
        ag_context_refused(&current))
        return;
    if (ag_aside_waits()) /* as the driver's call will; a graph that is being made may name it */
        ag_aside_settle(NULL);
    while (count > 0)
        ag_stream_forget_event(users[--count], event);
}

/* The op goes out eagerly: records it. */
static void record(struct ag_stream *stream, const struct ag_described *call)
{
    struct ag_recorder *rec = &stream->recorder;
    stream->holding = false;
    stream->counters.ops++;
    struct ag_node *node = ag_recorder_step(rec, &call->op);
    stream->last = node;
    if (node == NULL) { /* the tree may have been pruned */
        ag_stream_want_none(stream);
        stream->timed.head = NULL;
        ag_stream_end(stream, true, AG_REASON_SEQUENCE_END);
        return;
    }
    ag_stream_open(stream);
    /* Memset and copy nodes are made with addresses that are good now; kernels need none. */
    if (call->op.kind != AG_OP_KERNEL && !ag_recorder_is_unseen(rec) && ag_node_arguments(node))
        ag_node_store(node, call->from);
    if (ends(stream, node))
        ag_stream_end(stream, false, AG_REASON_SEQUENCE_END);
}

/* An op has come that does not pass in an audit; whether it does after all, since that is lost. */
static __attribute__((noinline)) bool still_rests(struct ag_stream *stream, const struct ag_op *op)
{
    ag_audit_arrived(stream);
    return passes(stream, ag_op_mark(op));
}

/* An op that the hot path could not hold. The lock is held. */
static bool step(struct ag_stream *stream, bool described, struct ag_described *call)
{
    struct ag_recorder *rec = &stream->recorder;
    struct ag_node *expected = rec->cursor->next;
    atomic_store_explicit(&stream->bare, !described, memory_order_relaxed);
    if (!described) {
        ag_stream_end(stream, true, AG_REASON_STREAM_BARRIER);
        if (atomic_load(&ag_pauses) == 0)
            ag_recorder_foreign(rec);
        stream->counters.ops++;
        stream->last = NULL;
        if (atomic_load(&ag_hold_bans) != 0)
            stream->timed.head = NULL;
        return false;
    }
    if (UNLIKELY(stream->audit.rests) && rec->cursor->depth == 0 && still_rests(stream, &call->op))
        return false;
    if (expected != NULL && ag_op_alike(&expected->op, &call->op)) {
        call->op.token = expected->op.token;
    } else {
        expected = NULL;
        ag_op_hash(&call->op);
    }
    if (rec->cursor->depth != 0 && (ag_recorder_cuts(rec, &call->op) || hurries(stream, &call->op)))
        ag_stream_end(stream, false, AG_REASON_SEQUENCE_END);
    for (;;) {
        struct ag_node *node = expected;
        if (node == NULL || node != rec->cursor->next)
            node = ag_recorder_find(rec, &call->op);
        bool head = rec->cursor->depth == 0;
        if (head && UNLIKELY(stream->timed.head != NULL))
            ag_trial_arrived(stream);
        bool able = (head || stream->holding) && node != NULL && promising(node) &&
                    ag_described_is_certain(call, &stream->answers) &&
                    (LIKELY(!ag_node_is_kept(node)) || ag_stream_keep(stream, node, call->from));
        if (head) {
            if (UNLIKELY(rec->ended != NULL) && ag_context_owes(stream->context) > 0)
                ag_recorder_stays(rec);
            ag_recorder_head(rec, call->op.token);
            stream->holding = able && ag_stream_hold_begins(stream, node);
        }
        if (able && stream->holding) {
            ag_node_store(node, call->from);
            hold(stream, node);
            return true;
        }
        if (stream->held == 0)
            break;
        bool whole = ag_stream_submit(stream, AG_REASON_SIDE_EXIT);
        if (!whole || ag_recorder_goes_on(rec))
            break;
        ag_stream_end(stream, false, AG_REASON_SEQUENCE_END); /* the op begins the next one */
    }
    record(stream, call);
    return false;
}

void ag_engine_failed(void)
{
    struct ag_stream *stream = ag_self.eager;
    if (stream == NULL)
        return;
    ag_stream_lock(stream);
    if (stream->last != NULL) {
        stream->last->bad = true; /* no trace that contains it is made or used from now on */
        stream->last = NULL;
        ag_stream_end(stream, true, AG_REASON_FAILURE);
    }
    ag_stream_unlock(stream);
}
