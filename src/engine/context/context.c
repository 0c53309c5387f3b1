/* SPDX-License-Identifier: MIT */
/* The states of contexts, and what each may have of execs. */
#include "engine/context/context.h"

#include <pthread.h>
#include <stdlib.h>

#include "config/config.h"
#include "driver/driver.h"
#include "driver/limits.h"
#include "engine/base/facts.h"
#include "engine/base/thread.h"
#include "engine/hot.h"
#include "graph/trace.h"
#include "mutant.h"
#include "policy/policy.h"

_Atomic unsigned ag_context_errors;
_Atomic bool ag_many_devices;
_Atomic int ag_program_execs;
_Atomic int ag_program_execs_gone;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* innermost */
static struct ag_context *_Atomic contexts; /* never freed, ctx NULL when dead; writes under lock */

CUcontext ag_context_current(void)
{
    CUcontext current = NULL;
    if (ag_real.cuCtxGetCurrent(&current) != CUDA_SUCCESS)
        return NULL;
    return current;
}

CUcontext ag_context_ask_current(void)
{
    ag_current.changes = atomic_load_explicit(&ag_changes, memory_order_relaxed);
    return ag_current.context = ag_context_current();
}

bool ag_context_refused(CUcontext *current)
{
    CUresult result = ag_real.cuCtxGetCurrent(current);
    if (result != CUDA_SUCCESS)
        *current = NULL;
    return result == CUDA_ERROR_NOT_PERMITTED;
}

bool ag_context_enter(const struct ag_context *context, bool *pushed)
{
    *pushed = false;
    if (ag_context_current() == context->ctx)
        return true;
    *pushed = ag_real.cuCtxPushCurrent_v2(context->ctx) == CUDA_SUCCESS;
    if (!*pushed)
        atomic_fetch_add(&ag_context_errors, 1);
    return *pushed;
}

void ag_context_leave(bool pushed)
{
    CUcontext popped;
    if (pushed && ag_real.cuCtxPopCurrent_v2(&popped) != CUDA_SUCCESS)
        atomic_fetch_add(&ag_context_errors, 1);
}

/* Without the lock: states are only ever added, at the head. */
static struct ag_context *find(CUcontext ctx)
{
    struct ag_context *context = atomic_load_explicit(&contexts, memory_order_acquire);
    while (context != NULL && __atomic_load_n(&context->ctx, __ATOMIC_ACQUIRE) != ctx)
        context = context->next;
    return context;
}

struct ag_context *ag_context_next(const struct ag_context *last)
{
    return last != NULL ? last->next : atomic_load_explicit(&contexts, memory_order_acquire);
}

struct ag_context *ag_context_peek(CUcontext ctx)
{
    return ctx != NULL ? find(ctx) : NULL;
}

/* -- Queues -------------------------------------------------------------- */

/* Queues of the device that a context has: CUDA Programming Guide, "CUDA Environment Variables",
   CUDA_DEVICE_MAX_CONNECTIONS. */
enum {
    QUEUES = 8,       /* where the variable is not set */
    MOST_QUEUES = 32, /* whatever it says */
};

/* What the variable says; what the driver makes of other values is not known, and the least is
   always right. `otherwise`: it is not set. */
static unsigned asked_for(const char *variable, unsigned otherwise)
{
    const char *text = getenv(variable);
    if (text == NULL)
        return otherwise;
    char *end;
    long number = strtol(text, &end, 10);
    return end == text || *end != 0 || number < 1 || number > MOST_QUEUES ? 1 : (unsigned)number;
}

/* Copies have queues of their own. */
static unsigned queues(void)
{
    unsigned of_kernels = asked_for("CUDA_DEVICE_MAX_CONNECTIONS", QUEUES);
    unsigned of_copies = asked_for("CUDA_DEVICE_MAX_COPY_CONNECTIONS", of_kernels);
    return of_copies < of_kernels ? of_copies : of_kernels;
}

static unsigned queues_at_start = MOST_QUEUES;

void ag_contexts_start(void)
{
    queues_at_start = queues();
}

/* Processes that share the device by MPS share its queues, and how many each gets is not known
   ("GPU Deployment and Management", MPS, CUDA_DEVICE_MAX_CONNECTIONS). */
static bool has_few(CUdevice device)
{
    int mps = 0;
    CUresult result = ag_real.cuDeviceGetAttribute(&mps, CU_DEVICE_ATTRIBUTE_MPS_ENABLED, device);
    return result == CUDA_SUCCESS ? mps != 0 : result != CUDA_ERROR_INVALID_VALUE;
}

/* It is not known when the driver looks: when it is initialised, or for each context. One that
   comes back, as a primary context does of which somebody else has a reference, may have its
   streams still. Lock held. */
static void find_queues(struct ag_context *context, CUcontext ctx, bool few)
{
    unsigned now = few ? 1 : queues();
    context->queues = now < queues_at_start ? now : queues_at_start;
    if (context->was != ctx)
        atomic_store(&context->placed, 0);
    atomic_store(&context->shares, atomic_load(&context->placed) > context->queues);
}

bool ag_context_place(struct ag_context *context)
{
    unsigned before = atomic_fetch_add(&context->placed, 1);
    return before >= context->queues && !atomic_exchange(&context->shares, true);
}

bool ag_context_reserve(struct ag_context *context)
{
    unsigned placed = atomic_load(&context->placed);
    if (AG_MUTANT(relays_take_no_queue))
        return true;
    while (placed < context->queues)
        if (atomic_compare_exchange_weak(&context->placed, &placed, placed + 1))
            return true;
    return false;
}

/* -- Finding and making ---------------------------------------------------- */

/* A dead one: no stream refers to it any more. That of a context of this name, if there is one.
   Lock held. */
static struct ag_context *find_dead(CUcontext ctx)
{
    struct ag_context *found = NULL, *context = contexts;
    for (; context != NULL && (found == NULL || found->was != ctx); context = context->next)
        if (context->ctx == NULL)
            found = context;
    return found;
}

/* Lock held. */
static struct ag_context *make(CUcontext ctx, CUdevice device, bool few)
{
    struct ag_context *context = find(ctx);
    if (context != NULL)
        return context;
    context = find_dead(ctx);
    if (context == NULL) {
        context = calloc(1, sizeof *context);
        if (context == NULL)
            return NULL;
        context->next = atomic_load(&contexts);
        atomic_store(&contexts, context);
    }
    context->device = device;
    find_queues(context, ctx, few);
    atomic_store(&context->green, false);
    atomic_store(&context->paths, 0);
    context->grown[0] = context->grown[1] = context->shorts = context->sure = 0;
    context->useless_lives = 0;
    ag_backoff_reset(&context->rears);
    atomic_store(&context->untracked, 0);
    context->trials =
        (struct ag_trials){.left = AG_TRIAL_AGAIN.first, .again.last = AG_TRIAL_AGAIN.first};
    __atomic_store_n(&context->ctx, ctx, __ATOMIC_RELEASE); /* found from now on */
    return context;
}

struct ag_context *ag_context_find(CUcontext ctx)
{
    struct ag_context *context = ag_context_peek(ctx);
    if (context != NULL)
        return context;
    CUdevice device = 0;
    int devices = 0;
    if (ag_real.cuDeviceGetCount(&devices) != CUDA_SUCCESS || devices > 1)
        atomic_store(&ag_many_devices, true);
    /* One that is destroyed may still be a thread's current one, and tells its device, but not its
       cache configuration; to push it kills driver 580. */
    CUfunc_cache cache;
    bool pushed, known = ag_context_enter(&(struct ag_context){.ctx = ctx}, &pushed) &&
                         ag_real.cuCtxGetDevice(&device) == CUDA_SUCCESS &&
                         ag_real.cuCtxGetCacheConfig(&cache) == CUDA_SUCCESS;
    ag_context_leave(pushed);
    if (!known)
        return NULL;
    ag_facts_gpu(device);
    bool few = has_few(device);
    pthread_mutex_lock(&lock);
    context = make(ctx, device, few);
    pthread_mutex_unlock(&lock);
    return context;
}

CUresult ag_context_refusal(struct ag_context *context)
{
    CUresult result = (CUresult)atomic_exchange(&context->refused, CUDA_SUCCESS);
    if (result != CUDA_SUCCESS)
        atomic_fetch_sub(&ag_refused, 1);
    return result;
}

void ag_context_forget(struct ag_context *context)
{
    (void)ag_context_refusal(context); /* nobody can be told any more */
    ag_fetch_forget(&context->fetch);
    ag_orphans_forget(&context->orphans);
    (void)ag_context_settle_execs(context);
    free(atomic_exchange(&context->spare, NULL)); /* the memory goes with the context */
    atomic_store(&context->grave, NULL);          /* so does the event */
    if (ag_self.unseen == context)
        ag_self.unseen = NULL;
    atomic_store(&context->resizes, false);
    pthread_mutex_lock(&lock);
    context->was = context->ctx;
    __atomic_store_n(&context->ctx, NULL, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&lock);
}

struct ag_context *ag_context_of_device(CUdevice device, const struct ag_context *last)
{
    pthread_mutex_lock(&lock);
    struct ag_context *context = last != NULL ? last->next : contexts;
    while (context != NULL && !(context->ctx != NULL && context->device == device))
        context = context->next;
    pthread_mutex_unlock(&lock);
    return context;
}

_Atomic long ag_most_graph_memory;

/* Lock held. */
static bool allows(const struct ag_context *context, uint32_t ops)
{
    return context->count < ag_opt.graph_execs &&
           context->memory + ag_exec_kb(ops) <= ag_opt.graph_memory_mb * 1024;
}

bool ag_context_allows(struct ag_context *context, uint32_t ops)
{
    pthread_mutex_lock(&lock);
    bool allowed = allows(context, ops);
    pthread_mutex_unlock(&lock);
    return allowed;
}

bool ag_context_take_exec(struct ag_context *context, uint32_t ops, unsigned paths, bool idle,
                          bool *grows)
{
    bool is_long = ops > AG_EXEC_SHORT;
    paths = AG_MUTANT(paths_count_once) ? 1 : paths;
    pthread_mutex_lock(&lock);
    long *execs = context->execs, *grown = context->grown;
    /* What execs took stays with the context when they are destroyed, and is given again without a
       wait, to such as are no longer. So what short ones have had is lost to long ones. */
    long free = ag_opt.graph_free_execs - atomic_load(&ag_program_execs) + grown[1];
    long others = execs[0] + paths - grown[0]; /* of short ones, in place of long ones */
    *grows = is_long ? execs[1] + paths + context->shorts > free
                     : others > 0 && execs[1] + others > free;
    bool taken = allows(context, ops) && (!*grows || idle);
    context->count += taken;
    execs[is_long] += taken ? paths : 0;
    if (!*grows && execs[0] - grown[0] > context->shorts)
        context->shorts = execs[0] - grown[0];
    if (taken && *grows && AG_MUTANT(not_made_counts))
        grown[is_long]++;
    if (taken)
        context->memory += ag_exec_kb(ops);
    if (context->memory > atomic_load(&ag_most_graph_memory))
        atomic_store(&ag_most_graph_memory, context->memory);
    pthread_mutex_unlock(&lock);
    return taken;
}

/* What is taken counts too much: ag_fork_paths() may, and execs that ran when they were destroyed
   may have ended. So the device may have had room for an exec that seemed to be one more. Each exec
   that it has takes one path for certain: it gave memory for those beyond what is free. */
void ag_context_made_exec(struct ag_context *context, uint32_t ops, bool grows)
{
    bool is_long = ops > AG_EXEC_SHORT;
    pthread_mutex_lock(&lock);
    long *made = context->made, *grown = context->grown;
    made[is_long]++;
    long free = ag_opt.graph_free_execs - atomic_load(&ag_program_execs) + grown[1];
    long others = made[0] > grown[0] ? made[0] - grown[0] : 0;
    if (!grows && others > context->sure)
        context->sure = others;
    grown[is_long] +=
        grows && (AG_MUTANT(unsure_grows) || is_long ? made[1] + context->sure > free
                                                     : others > 0 && made[1] + others > free);
    pthread_mutex_unlock(&lock);
}

void ag_context_give_exec(struct ag_context *context, uint32_t ops, unsigned paths, bool made)
{
    bool is_long = ops > AG_EXEC_SHORT;
    pthread_mutex_lock(&lock);
    context->count--;
    context->execs[is_long] -= AG_MUTANT(paths_count_once) ? 1 : paths;
    context->made[is_long] -= made;
    context->memory -= ag_exec_kb(ops);
    pthread_mutex_unlock(&lock);
}

/* -- Execs that run when they are destroyed -------------------------------------- */

void ag_context_keep_exec(struct ag_context *context, struct ag_running *running, uint32_t ops)
{
    bool is_long = ops > AG_EXEC_SHORT;
    pthread_mutex_lock(&lock);
    context->count++;
    context->execs[is_long]++;
    context->memory += ag_exec_kb(ops);
    running->execs[is_long]++;
    atomic_fetch_add(&context->running, 1);
    pthread_mutex_unlock(&lock);
}

bool ag_context_have_run(struct ag_context *context, struct ag_running *running)
{
    pthread_mutex_lock(&lock);
    bool any = ag_context_any_run(running);
    atomic_fetch_sub(&context->running, running->execs[0] + running->execs[1]);
    context->count -= running->execs[0] + running->execs[1];
    for (unsigned i = 0; i < 2; i++)
        context->execs[i] -= running->execs[i];
    context->memory -= running->execs[0] * AG_EXEC_SHORT_KB + running->execs[1] * AG_EXEC_LONG_KB;
    *running = (struct ag_running){{0, 0}};
    pthread_mutex_unlock(&lock);
    return any;
}

void ag_context_leave_execs(struct ag_context *context, struct ag_running *running)
{
    pthread_mutex_lock(&lock);
    atomic_store(&context->execs_behind, ag_orphans_mark(&context->orphans));
    for (unsigned i = 0; i < 2; i++)
        context->left_execs.execs[i] += running->execs[i];
    *running = (struct ag_running){{0, 0}};
    pthread_mutex_unlock(&lock);
}

bool ag_context_settle_execs(struct ag_context *context)
{
    return atomic_load(&context->running) != 0 &&
           ag_orphans_has_settled(&context->orphans, atomic_load(&context->execs_behind)) &&
           ag_context_have_run(context, &context->left_execs);
}

/* -- What is left behind --------------------------------------------------------- */

_Atomic bool ag_context_unknown;

/* Records the event behind the stream's work; NULL: there is none. */
static CUevent mark(CUevent event, CUstream handle)
{
    CUevent made = event;
    bool done =
        (made != NULL || ag_real.cuEventCreate(&made, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS) &&
        ag_real.cuEventRecord(made, handle) == CUDA_SUCCESS;
    if (!done)
        atomic_fetch_add(&ag_context_errors, 1);
    return done ? made : NULL;
}

/* Where streams share a queue no event is recorded: what comes behind it there would wait for the
   work, too. */
unsigned ag_context_leave_behind(struct ag_context *context, CUstream handle, bool blocking)
{
    CUevent event;
    bool own;
    unsigned number = ag_orphans_add(&context->orphans, blocking, NULL, &event, &own);
    if (handle != NULL && own && !atomic_load(&context->shares) &&
        (event = mark(event, handle)) != NULL)
        ag_orphans_marked(&context->orphans, number, event);
    return number;
}

void ag_context_unseen(void)
{
    CUevent event;
    bool own;
    struct ag_context *context = ag_context_find(ag_context_current());
    if (context == NULL)
        atomic_store(&ag_context_unknown, true);
    if (context == NULL || ag_self.unseen == context)
        return;
    (void)ag_thread_watch(); /* or it stays until the context goes */
    ag_self.unseen = context;
    (void)ag_orphans_add(&context->orphans, false, &ag_self, &event, &own);
}

void ag_context_thread_ends(void)
{
    if (ag_self.unseen == NULL)
        return;
    ag_self.unseen = NULL;
    for (struct ag_context *context = NULL; (context = ag_context_next(context)) != NULL;)
        ag_orphans_thread_ends(&context->orphans);
}

/* -- Untracked streams -------------------------------------------------------------- */

_Alignas(64) _Atomic bool ag_any_untracked;

void ag_lives_end(struct ag_context *context, bool is_short, bool gained)
{
    if (gained) {
        context->useless_lives = 0;
        ag_backoff_reset(&context->rears);
        atomic_store_explicit(&context->untracked, 0, memory_order_relaxed);
    } else if (is_short && ag_opt.trace_young != 0 &&
               ++context->useless_lives >= (uint32_t)ag_opt.trace_young) {
        uint32_t times = ag_backoff_next(&context->rears, AG_UNTRACKED);
        context->useless_lives = 0;
        atomic_store_explicit(&context->untracked, times * (uint32_t)ag_opt.trace_young,
                              memory_order_relaxed);
        atomic_store_explicit(&ag_any_untracked, true, memory_order_relaxed);
    }
}

/* Two threads that take at the same time may be counted as one. */
bool ag_lives_take(struct ag_context *context)
{
    uint32_t left = atomic_load_explicit(&context->untracked, memory_order_relaxed);
    if (left != 0)
        atomic_store_explicit(&context->untracked, left - 1, memory_order_relaxed);
    return left != 0;
}
