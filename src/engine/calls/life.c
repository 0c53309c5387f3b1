/* SPDX-License-Identifier: MIT */
/* What begins and ends: streams, captures, contexts, modules, the process. */
#include "engine/engine.h"

#include <pthread.h>
#include <string.h>

#include "config/fnv.h"
#include "driver/driver.h"
#include "engine/base/handle.h"
#include "engine/base/watchdog.h"
#include "engine/context/query.h"
#include "engine/order/barrier.h"
#include "engine/order/find.h"
#include "engine/order/fork.h"
#include "engine/order/event_flush.h"
#include "engine/replay/execs.h"
#include "engine/replay/limbo.h"
#include "engine/replay/submit.h"
#include "engine/stream/helper.h"
#include "engine/stream/event.h"
#include "engine/stream/issuer.h"
#include "engine/stream/outstanding.h"
#include "engine/stream/sequence.h"
#include "engine/stream/untracked.h"
#include "engine/tell/observe.h"
#include "graph/function.h"
#include "graph/setting.h"
#include "mutant.h"
#include "observe/callsite.h"
#include "observe/patience.h"

/* -- Streams ----------------------------------------------------------------- */

void ag_engine_stream_created(CUstream handle, unsigned flags)
{
    CUcontext current = ag_context_ask_current(); /* what it says is relied on later */
    struct ag_context *context = ag_context_find(current);
    if (context != NULL)
        ag_order_place(context);
    bool green = context != NULL && atomic_load(&context->green);
    ag_handle_created(green ? NULL : handle, current, flags);
}

/* The stream is about to be destroyed. What may still run in it cannot be asked for any more; nor
   now, during a capture, which may be of this stream. */
static void stream_goes(struct ag_stream *stream)
{
    ag_stream_end(stream, true, AG_REASON_DESTROY);
    CUstream handle = stream->id.handle;
    bool captures = atomic_load(&ag_hold_bans) != 0;
    unsigned left = 0;
    if (captures || ag_outstanding_in_stream(stream))
        left = ag_context_leave_behind(stream->id.context,
                                       captures || !ag_issuer_has_room(stream) ? NULL : handle,
                                       stream->id.kind == AG_STREAM_BLOCKING);
    if (captures)
        ag_stream_kill(stream);
    else
        ag_stream_vacate(stream, AG_MUTANT(graphs_inherited_at_once) ? 0 : left);
}

/* The next stream of that name is another one. The calling thread sees that by the name alone. */
static void forget(CUstream handle)
{
    struct ag_found *found = ag_stream_slot(handle);
    if (found->key == handle)
        *found = (struct ag_found){0};
}

void ag_engine_stream_destroy(CUstream handle)
{
    CUcontext current;
    ag_handle_destroyed(handle);
    if (ag_context_refused(&current)) { /* and so is the call that follows */
        (void)ag_watchdog_flush(AG_REASON_BARRIER);
        return;
    }
    struct ag_stream *stream = NULL;
    if (!atomic_load(&ag_any_untracked) || !ag_untracked_destroy(handle))
        stream = ag_stream_peek(handle, false, current);
    if (stream == NULL || stream->id.kind == AG_STREAM_LEGACY ||
        stream->id.kind == AG_STREAM_PER_THREAD)
        return;
    if (!atomic_load_explicit(&ag_streams_go, memory_order_relaxed))
        atomic_store(&ag_streams_go, true);
    ag_order_before(stream);
    ag_fork_leave(stream, AG_REASON_DESTROY);
    ag_stream_lock(stream);
    bool pushed;
    if (stream->id.live && stream->id.handle == handle) {
        if (ag_context_enter(stream->id.context, &pushed))
            stream_goes(stream);
        ag_context_leave(pushed);
    }
    ag_stream_unlock(stream);
    forget(handle);
    AG_CALLSITE();
}

void ag_engine_stream_attributes(CUstream handle, bool ptsz)
{
    struct ag_stream *stream = ag_stream_find(handle, ptsz, ag_context_current());
    if (stream == NULL) {
        /* It could be followed later, without them: nothing is held from now on. */
        atomic_fetch_add(&ag_hold_bans, 1);
        return;
    }
    ag_fork_leave(stream, AG_REASON_ATTRIBUTES);
    ag_stream_lock(stream);
    ag_stream_end(stream, true, AG_REASON_ATTRIBUTES);
    ag_sequence_bar(stream, AG_WHY_BARRED);
    ag_stream_unlock(stream);
    AG_CALLSITE();
}

/* -- Capture ----------------------------------------------------------------- */

/*
 * While the program captures, nothing is held anywhere: launches may be illegal then, and only the
 * real call knows. Streams that join a capture through events are found by asking the driver at
 * each head.
 */
void ag_engine_capture_prepare(CUstream handle, bool ptsz)
{
    (void)ag_stream_find(handle, ptsz, ag_context_current()); /* known from now on: see begun */
    atomic_fetch_add(&ag_captures_beginning, 1);
    uint64_t slept = 0;
    while (atomic_load(&ag_capture_breakers) != 0 && !AG_MUTANT(capture_waits_for_nobody) &&
           ag_patience_lasts(&slept, AG_PATIENCE_LONG_NS))
        continue;
    if (atomic_load(&ag_subscribers) != 0 && !AG_MUTANT(capture_leaves_held))
        ag_barrier_all(AG_REASON_CAPTURE);
}

void ag_engine_capture_refused(void)
{
    atomic_fetch_sub(&ag_captures_beginning, 1);
}

void ag_engine_capture_begun(CUstream handle, bool ptsz)
{
    atomic_fetch_add(&ag_hold_bans, 1);
    atomic_fetch_sub(&ag_captures_beginning, 1);
    struct ag_stream *stream = ag_stream_peek(handle, ptsz, ag_context_current());
    if (stream == NULL)
        return; /* its end will not be known: nothing is held from now on */
    ag_stream_lock(stream);
    ag_stream_capture_begins(stream);
    ag_stream_unlock(stream);
}

void ag_engine_capture_ended(CUstream handle, bool ptsz)
{
    struct ag_stream *stream = ag_stream_peek(handle, ptsz, ag_context_current());
    if (stream == NULL)
        return;
    ag_stream_lock(stream);
    ag_stream_capture_ends(stream);
    ag_stream_unlock(stream);
}

void ag_engine_program_made_exec(void)
{
    atomic_fetch_add(&ag_program_execs, 1);
    ag_engine_flags_set();
}

void ag_engine_program_destroyed_exec(void)
{
    atomic_fetch_add(&ag_program_execs_gone, 1);
}

/* -- Flags of contexts ---------------------------------------------------------- */

void ag_engine_flags_set(void)
{
    struct ag_context *context = ag_context_peek(ag_context_current());
    if (context != NULL)
        atomic_store(&context->resizes, false);
}

void ag_engine_flags_told(unsigned *flags)
{
    const struct ag_context *context = ag_context_peek(ag_context_current());
    if (context != NULL && atomic_load(&context->resizes))
        *flags &= ~(unsigned)CU_CTX_LMEM_RESIZE_TO_MAX;
}

/* -- Contexts and modules ------------------------------------------------------ */

static void streams_kill(const struct ag_context *context)
{
    for (struct ag_stream *stream = ag_stream_all(); stream != NULL; stream = stream->place.next) {
        ag_stream_lock(stream);
        if (stream->id.live && stream->id.context == context) {
            ag_stream_end(stream, true, AG_REASON_DESTROY);
            ag_stream_kill(stream);
        }
        ag_stream_unlock(stream);
    }
}

/* Calls `drop` for each stream that lives, in its context and with its lock. False: a context is
   beyond us. Nothing is held there any more, its nodes stay, and so must what they know of
   functions.
 */
static bool each_stream(void (*drop)(struct ag_stream *stream, const void *data), const void *data)
{
    bool all = true;
    for (struct ag_stream *stream = ag_stream_all(); stream != NULL; stream = stream->place.next) {
        ag_stream_lock(stream);
        bool pushed, known = stream->id.live && !stream->id.context->green;
        if (known && ag_context_enter(stream->id.context, &pushed)) {
            drop(stream, data);
            ag_context_leave(pushed);
        } else if (known) {
            ag_sequence_bar(stream, AG_WHY_BARRED);
            all = false;
        }
        ag_stream_unlock(stream);
    }
    return all;
}

static bool is_retired(const struct ag_node *node, const void *stamp)
{
    return node->op.kind == AG_OP_KERNEL &&
           ag_function_is_retired(node->op.layout, *(const uint32_t *)stamp);
}

/* Drops the nodes and traces that refer to functions which were retired up to a stamp. If there are
   any the open sequence ends. Functions that another thread retires meanwhile stay: that thread
   comes by itself. */
static void forget_retired(struct ag_stream *stream, const void *stamp)
{
    if (!ag_tree_has(&stream->recorder.tree, is_retired, stamp))
        return;
    ag_stream_end(stream, true, AG_REASON_ATTRIBUTES);
    for (struct ag_trace *trace = stream->execs.traces, *next; trace != NULL; trace = next) {
        uint32_t i = 0;
        next = trace->next;
        while (i < trace->length && !is_retired(trace->step[i].node, stamp))
            i++;
        if (i < trace->length)
            ag_execs_drop(stream, trace);
    }
    ag_stream_drop_pointers(stream);
    ag_tree_drop(&stream->recorder.tree, is_retired, stamp);
}

/* Functions have been retired. */
static void forget_functions(uint32_t retired)
{
    if (retired == 0)
        return;
    bool all = each_stream(forget_retired, &retired);
    ag_helper_settle(NULL);
    if (all)
        ag_functions_sweep(retired);
}

static void functions_gone(const struct ag_functions *which)
{
    AG_NOTE(ag_note_functions_changed());
    forget_functions(AG_MUTANT(functions_stay) ? 0 : ag_functions_retire(which));
    AG_CALLSITE();
}

void ag_engine_code_gone(CUmodule module, CUlibrary library)
{
    bool is_module = module != NULL;
    functions_gone(
        &(struct ag_functions){.of = is_module ? AG_FUNCTIONS_OF_MODULE : AG_FUNCTIONS_OF_LIBRARY,
                               .owner = is_module ? (const void *)module : (const void *)library});
}

static void context_kill(struct ag_context *context)
{
    bool pushed;
    CUcontext name = context->ctx;
    bool entered = ag_context_enter(context, &pushed);
    enum { TIMES = 4 }; /* if its streams are still used then, the context stays */
    unsigned times = 0;
    ag_untracked_forget(context);
    do {
        streams_kill(context);
        if (ag_helper_destroy_buried(context) != CUDA_SUCCESS)
            atomic_fetch_add(&ag_context_errors, 1);
        ag_limbo_settle();
        ag_helper_settle(context); /* while it has its name */
    } while (!ag_stream_forget_context(context) && ++times < TIMES);
    ag_limbo_forget(context);
    if (entered)
        ag_context_leave(pushed);
    ag_event_distrust(context);
    functions_gone(&(struct ag_functions){.of = AG_FUNCTIONS_OF_CONTEXT, .owner = name});
}

void ag_engine_context_destroy(CUcontext ctx)
{
    struct ag_context *context = ag_context_peek(ctx);
    if (context != NULL)
        context_kill(context);
}

void ag_engine_device_reset(CUdevice device)
{
    struct ag_context *context = NULL; /* each once: other threads may bring new ones for ever */
    while ((context = ag_context_of_device(device, context)) != NULL)
        context_kill(context);
}

void ag_engine_context_green(CUcontext handle)
{
    struct ag_context *context = ag_context_find(handle);
    if (context != NULL)
        atomic_store(&context->green, true);
}

/* -- Functions by name ----------------------------------------------------------- */

/* What the driver has said of names. Names with one hash are taken for one name: of 2^64. */
enum { NAMES = 256 };
static struct named {
    CUmodule module;
    uint64_t hash; /* of the name */
    CUfunction func;
    unsigned changes; /* ag_changes by then */
} named[NAMES];
static pthread_mutex_t named_lock = PTHREAD_MUTEX_INITIALIZER; /* innermost */

bool ag_engine_is_named(CUmodule module, const char *name)
{
    if (name == NULL)
        return false;
    uint64_t hash = ag_fnv(name, strlen(name));
    pthread_mutex_lock(&named_lock);
    struct named found = named[hash % NAMES];
    pthread_mutex_unlock(&named_lock);
    return found.module == module && found.hash == hash && found.func != NULL &&
           found.changes == atomic_load(&ag_changes) &&
           ag_function_find(found.func, ag_context_current()) != NULL;
}

void ag_engine_named(CUmodule module, const char *name, const CUfunction *func)
{
    uint64_t hash = ag_fnv(name, strlen(name));
    unsigned changes = atomic_load(&ag_changes);
    pthread_mutex_lock(&named_lock);
    named[hash % NAMES] = (struct named){module, hash, *func, changes};
    pthread_mutex_unlock(&named_lock);
}

/* -- Settings ------------------------------------------------------------------ */

/* What is held behind a setter goes out with the settings of its call, by a setter of the
   library's. A setter waits while a launch of another thread waits for room, where the program's
   call would not wait. So nothing stays held where several threads issue work, but for what another
   thread is submitting. */
static void settle_setter(void)
{
    if (!ag_helper_others())
        atomic_store(&ag_setters_pass, true); /* then a thread may begin: see ag_issuer_begins() */
    if (ag_helper_others() && atomic_load(&ag_subscribers) != 0)
        ag_barrier_most(AG_REASON_ATTRIBUTES);
}

bool ag_engine_setter_begins(struct ag_setter *setter)
{
    if (setter->handle != NULL)
        ag_barrier_load(setter->handle); /* the questions that follow may load it */
    if (ag_setter_repeats(setter, ag_context_current()))
        return false;
    settle_setter();
    uint32_t retired = ag_setter_prepare(setter);
    if (retired != 0 && ag_anything_held())
        ag_barrier_all(AG_REASON_ATTRIBUTES);
    forget_functions(retired);
    ag_setter_begin();
    return true;
}

void ag_engine_setter_ends(struct ag_setter *setter, CUresult result)
{
    forget_functions(ag_setter_end(setter, result));
    AG_CALLSITE();
}

static void drop_traces(struct ag_stream *stream, const void *context)
{
    if (stream->id.context != context)
        return;
    ag_stream_end(stream, true, AG_REASON_ATTRIBUTES);
    ag_execs_drop_all(stream);
}

bool ag_engine_limit_repeats(CUlimit limit, size_t value)
{
    size_t now;
    return ag_real.cuCtxGetLimit(&now, limit) == CUDA_SUCCESS && now == value;
}

/* As during a capture: another thread must not replay between the call and its end here. */
void ag_engine_stack_begins(void)
{
    atomic_fetch_add(&ag_hold_bans, 1);
    (void)ag_barrier_last(); /* who has a lock for longer submits what is from before the call */
}

void ag_engine_stack_ends(bool changed)
{
    const struct ag_context *context = ag_context_peek(ag_context_current());
    if (changed && context != NULL && !AG_MUTANT(stack_stays))
        (void)each_stream(drop_traces, context);
    atomic_fetch_sub(&ag_hold_bans, 1);
    AG_CALLSITE();
}
