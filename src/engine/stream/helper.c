/* SPDX-License-Identifier: MIT */
/* A thread that makes calls for others: see helper.h. */
#include "engine/stream/helper.h"

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>

#include "driver/driver.h"
#include "engine/context/fetch.h"
#include "engine/hot.h"
#include "engine/stream/issuer.h"
#include "engine/stream/untracked.h"
#include "observe/futex.h"
#include "observe/patience.h"
#include "observe/thread.h"

struct job {
    CUresult (*run)(struct job *job);
    void (*undo)(struct job *job); /* NULL: what nobody waits for is done all the same */
    bool deep;                     /* needs more stack than a launch */
    struct ag_context *context;
    CUresult result;
    bool done, lost; /* lost: nobody waits for it, and the thread frees it */
    struct job *next;
    struct ag_trace *trace;
    CUevent event;
    struct ag_relay relay;
    struct ag_pinned pinned;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of what follows; innermost */
static pthread_cond_t asked = PTHREAD_COND_INITIALIZER;
static _Atomic uint32_t ended;           /* jobs; a futex */
static struct job *jobs, **last = &jobs; /* the first one is being run */
static bool serving;                     /* there is the thread */
static _Atomic unsigned lost_jobs;

bool ag_helper_waits(void)
{
    return atomic_load(&lost_jobs) != 0;
}

/* -- The thread ------------------------------------------------------------ */

/* The lock is held. */
static void leave_queue(struct job *job)
{
    jobs = job->next;
    if (jobs == NULL)
        last = &jobs;
    atomic_fetch_add(&ended, 1);
    ag_futex(&ended, FUTEX_WAKE_PRIVATE, INT_MAX, NULL);
}

/* In its context; what destroys needs none. The context is left before anybody is told that the job
   has ended: an error of that is counted by then. */
static void in_context(struct job *job, bool undo)
{
    bool pushed, entered = ag_context_enter(job->context, &pushed);
    if (undo)
        job->undo(job);
    else if (entered || job->undo == NULL)
        job->result = job->run(job);
    else
        job->result = CUDA_ERROR_INVALID_CONTEXT;
    ag_context_leave(pushed);
}

static void run(struct job *job)
{
    pthread_mutex_lock(&lock);
    bool lost = job->lost;
    pthread_mutex_unlock(&lock);
    bool runs = !lost || job->undo == NULL; /* or what it makes would be for nobody */
    if (runs)
        in_context(job, false);
    pthread_mutex_lock(&lock);
    lost = job->lost;
    job->done = true;
    if (!lost)
        leave_queue(job); /* and it is no longer ours */
    pthread_mutex_unlock(&lock);
    if (!lost)
        return;
    if (job->undo != NULL)
        in_context(job, true);
    pthread_mutex_lock(&lock);
    leave_queue(job);
    pthread_mutex_unlock(&lock);
    atomic_fetch_sub(&lost_jobs, 1);
    free(job);
}

static void serve(struct ag_own_thread *self)
{
    (void)self;
    ag_depth++; /* what the driver calls back is none of the program's */
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED; /* see query.h */
    if (ag_real.cuThreadExchangeStreamCaptureMode(&mode) != CUDA_SUCCESS)
        atomic_fetch_add(&ag_context_errors, 1);
    for (;;) {
        pthread_mutex_lock(&lock);
        while (jobs == NULL)
            pthread_cond_wait(&asked, &lock);
        struct job *job = jobs;
        pthread_mutex_unlock(&lock);
        run(job);
    }
}

bool ag_helper_start(void)
{
    static struct ag_own_thread thread = {.name = "ag-helper", .run = serve};
    bool made = ag_thread_start(&thread);
    pthread_mutex_lock(&lock);
    serving = made;
    pthread_mutex_unlock(&lock);
    return made;
}

/* Waits until a job has ended. False: `most` ns have been slept. The lock is held, and given back
   meanwhile. */
static bool wait_for_end(uint64_t *slept, uint64_t most)
{
    uint32_t before = atomic_load(&ended);
    pthread_mutex_unlock(&lock);
    bool lasts = ag_patience_awaits(slept, most, &ended, before);
    pthread_mutex_lock(&lock);
    return lasts;
}

/* Has the thread run the job, or does it here if there is none. False: it takes too long, and the
   job is the thread's. It may wait for a lock that the caller has, and is not waited for for ever.
   `shared`: it may also wait for what other threads do, as one that is ahead of it may. */
static bool ask(struct job *job, bool shared)
{
    uint64_t slept = 0;
    pthread_mutex_lock(&lock);
    if (!serving) {
        pthread_mutex_unlock(&lock);
        job->result = job->run(job);
        return true;
    }
    uint64_t most = shared || jobs != NULL ? AG_PATIENCE_NS : AG_PATIENCE_LONG_NS;
    *last = job;
    last = &job->next;
    pthread_cond_signal(&asked);
    while (!job->done && !ag_helper_waits() && wait_for_end(&slept, most))
        continue;
    bool done = job->done;
    job->lost = !done;
    atomic_fetch_add(&lost_jobs, !done);
    pthread_mutex_unlock(&lock);
    return done;
}

void ag_helper_settle(const struct ag_context *context)
{
    uint64_t slept = 0;
    pthread_mutex_lock(&lock);
    for (struct job *job = jobs; job != NULL;) {
        if (context == NULL || job->context == context) {
            (void)wait_for_end(&slept, UINT64_MAX);
            job = jobs; /* again: it may be another's now */
        } else {
            job = job->next;
        }
    }
    pthread_mutex_unlock(&lock);
}

/* -- Jobs ------------------------------------------------------------------- */

/* Threads of which the library does not know the streams. */
static bool others_unseen(void)
{
    return atomic_load(&ag_stateless_kernels) || ag_untracked_others();
}

bool ag_helper_others(void)
{
    return ag_issuer_are_many() || others_unseen();
}

bool ag_helper_shares(const struct ag_context *context)
{
    if (others_unseen())
        return true;
    const struct ag_stream *stream = ag_stream_all();
    while (stream != NULL && !(atomic_load(&stream->id.live) &&
                               __atomic_load_n(&stream->id.context, __ATOMIC_RELAXED) == context &&
                               ag_issuer_is_another(stream)))
        stream = stream->place.next;
    return stream != NULL;
}

/* The result of the job, which has run, or CUDA_ERROR_NOT_READY, which no such call returns. */
static CUresult run_helped(struct job *job)
{
    bool shared = ag_helper_shares(job->context);
    struct job *other = shared || job->deep ? malloc(sizeof *other) : NULL;
    if (other == NULL) {
        job->result = job->run(job);
    } else {
        *other = *job;
        if (!ask(other, shared))
            return CUDA_ERROR_NOT_READY;
        *job = *other;
        free(other);
    }
    return job->result != CUDA_ERROR_NOT_READY ? job->result : CUDA_ERROR_UNKNOWN;
}

/* The same where the result does not matter to who has not waited for it. */
static CUresult sooner_or_later(struct job *job)
{
    CUresult result = run_helped(job);
    return result != CUDA_ERROR_NOT_READY ? result : CUDA_SUCCESS;
}

/* The driver sets a flag of the context (driver 580), which the program is not to see. */
static CUresult instantiate(struct job *job)
{
    unsigned flags;
    if (ag_real.cuCtxGetFlags(&flags) == CUDA_SUCCESS && (flags & CU_CTX_LMEM_RESIZE_TO_MAX) == 0)
        atomic_store(&job->context->resizes, true);
    CUresult result = ag_trace_instantiate(job->trace);
    if (result == CUDA_SUCCESS)
        ag_context_made_exec(job->context, job->trace->length, job->trace->grows);
    return result;
}

static CUresult destroy(struct job *job)
{
    uint32_t ops = job->trace->length;
    unsigned paths = job->trace->paths;
    bool made = job->trace->exec != NULL;
    if (job->trace->placed)
        atomic_fetch_sub(&job->context->paths, paths);
    CUresult result = ag_trace_destroy(job->trace);
    ag_context_give_exec(job->context, ops, paths, made);
    return result;
}

/* Whether the driver may wait for running kernels before it has destroyed the exec (driver 580). */
static bool may_wait(const struct ag_trace *trace)
{
    return trace->exec != NULL && trace->paths > 1;
}

static void bury(struct ag_context *context, struct ag_trace *trace)
{
    pthread_mutex_lock(&lock);
    trace->next = context->buried;
    context->buried = trace;
    pthread_mutex_unlock(&lock);
    atomic_fetch_add(&ag_wanted_traces, 1);
}

/* Nobody is left to be told. It is not buried: nobody can take its events away any more. */
static void destroy_lost(struct job *job)
{
    (void)destroy(job);
}

CUresult ag_helper_instantiate(struct ag_context *context, struct ag_trace *trace)
{
    return run_helped(&(struct job){.run = instantiate,
                                    .undo = destroy_lost,
                                    .deep = true,
                                    .context = context,
                                    .trace = trace});
}

CUresult ag_helper_destroy(struct ag_context *context, struct ag_trace *trace, bool may_stay)
{
    if (may_stay && may_wait(trace)) {
        bury(context, trace);
        return CUDA_SUCCESS;
    }
    return sooner_or_later(&(struct job){.run = destroy, .context = context, .trace = trace});
}

CUresult ag_helper_destroy_buried(struct ag_context *context)
{
    CUresult first = CUDA_SUCCESS;
    pthread_mutex_lock(&lock);
    struct ag_trace *trace = context->buried;
    context->buried = NULL;
    pthread_mutex_unlock(&lock);
    for (struct ag_trace *next; trace != NULL; trace = next) {
        next = trace->next;
        struct job job = {.run = destroy, .context = context, .trace = trace};
        CUresult result = sooner_or_later(&job);
        first = first != CUDA_SUCCESS ? first : result;
        atomic_fetch_sub(&ag_wanted_traces, 1);
    }
    return first;
}

static CUresult create_event(struct job *job)
{
    CUresult result = ag_real.cuEventCreate(&job->event, CU_EVENT_DISABLE_TIMING);
    if (result != CUDA_SUCCESS)
        job->event = NULL;
    return result;
}

static CUresult destroy_event(struct job *job)
{
    return job->event != NULL ? ag_real.cuEventDestroy_v2(job->event) : CUDA_SUCCESS;
}

static void destroy_lost_event(struct job *job)
{
    (void)destroy_event(job);
}

CUresult ag_helper_event(struct ag_context *context, CUevent *event)
{
    struct job job = {.run = create_event, .undo = destroy_lost_event, .context = context};
    CUresult result = run_helped(&job);
    *event = job.event;
    return result;
}

CUresult ag_helper_destroy_event(struct ag_context *context, CUevent event)
{
    return sooner_or_later(&(struct job){.run = destroy_event, .context = context, .event = event});
}

/* What of it has been made; the first error. */
static CUresult destroy_relay(const struct ag_relay *relay)
{
    const CUevent event[] = {relay->mark, relay->done};
    CUresult result = CUDA_SUCCESS;
    for (unsigned i = 0; i < 2; i++) {
        CUresult one = event[i] != NULL ? ag_real.cuEventDestroy_v2(event[i]) : CUDA_SUCCESS;
        result = result != CUDA_SUCCESS ? result : one;
    }
    CUresult one = relay->stream != NULL ? ag_real.cuStreamDestroy_v2(relay->stream) : CUDA_SUCCESS;
    return result != CUDA_SUCCESS ? result : one;
}

/* If the host waits for one, which is seldom, it sleeps: the context may ask for that. */
enum { RELAY_EVENT = CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC };

static CUresult create_relay(struct job *job)
{
    struct ag_relay *relay = &job->relay;
    CUresult result = ag_real.cuStreamCreate(&relay->stream, CU_STREAM_DEFAULT);
    if (result != CUDA_SUCCESS)
        relay->stream = NULL;
    else if ((result = ag_real.cuEventCreate(&relay->mark, RELAY_EVENT)) != CUDA_SUCCESS)
        relay->mark = NULL;
    else if ((result = ag_real.cuEventCreate(&relay->done, RELAY_EVENT)) != CUDA_SUCCESS)
        relay->done = NULL;
    if (result == CUDA_SUCCESS)
        return result;
    (void)destroy_relay(relay); /* new and unused */
    *relay = (struct ag_relay){NULL, NULL, NULL};
    return result;
}

static CUresult give_relay(struct job *job)
{
    CUresult result = destroy_relay(&job->relay);
    atomic_fetch_sub(&job->context->relays, 1);
    return result;
}

static void destroy_lost_relay(struct job *job)
{
    (void)give_relay(job);
}

CUresult ag_helper_relay(struct ag_context *context, struct ag_relay *relay)
{
    struct job job = {
        .run = create_relay, .undo = destroy_lost_relay, .deep = true, .context = context};
    CUresult result = run_helped(&job);
    *relay = job.relay;
    return result;
}

CUresult ag_helper_destroy_relay(struct ag_context *context, const struct ag_relay *relay)
{
    return sooner_or_later(
        &(struct job){.run = give_relay, .deep = true, .context = context, .relay = *relay});
}

/* What is missing of it is made. */
static CUresult complete_pinned(struct ag_pinned *pinned)
{
    CUresult result = CUDA_SUCCESS;
    for (unsigned part = 0; part < AG_STAGING_PARTS && result == CUDA_SUCCESS; part++)
        if (pinned->done[part] == NULL &&
            (result = ag_real.cuEventCreate(&pinned->done[part], CU_EVENT_DISABLE_TIMING)) !=
                CUDA_SUCCESS)
            pinned->done[part] = NULL;
    void *memory = pinned->memory;
    if (result == CUDA_SUCCESS && memory == NULL)
        result =
            ag_real.cuMemHostAlloc(&memory, (size_t)AG_STAGING_PARTS * AG_STAGING_PART_KB << 10, 0);
    if (result == CUDA_SUCCESS) {
        CUpointer_attribute name = CU_POINTER_ATTRIBUTE_BUFFER_ID;
        unsigned long long number = 0;
        void *value = &number;
        pinned->memory = memory;
        result = ag_real.cuPointerGetAttributes(1, &name, &value, (CUdeviceptr)memory);
        pinned->buffer = number;
    }
    return result;
}

/* What nobody gets is for who asks next. It is not freed: that waits for running kernels. */
static void keep_pinned(struct job *job)
{
    struct ag_pinned *none = NULL, *spare = malloc(sizeof *spare);
    if (spare == NULL)
        return;
    *spare = job->pinned;
    if (!atomic_compare_exchange_strong(&job->context->spare, &none, spare))
        free(spare); /* no thread makes these calls: two have failed at a time */
}

static CUresult allocate_pinned(struct job *job)
{
    struct ag_pinned *spare = atomic_exchange(&job->context->spare, NULL);
    if (spare != NULL)
        job->pinned = *spare;
    free(spare);
    CUresult result = complete_pinned(&job->pinned);
    if (result == CUDA_SUCCESS)
        return result;
    keep_pinned(job);
    job->pinned = (struct ag_pinned){.memory = NULL};
    return result;
}

static void keep_lost_pinned(struct job *job)
{
    if (job->pinned.memory != NULL)
        keep_pinned(job);
}

CUresult ag_helper_pinned(struct ag_context *context, struct ag_pinned *pinned)
{
    struct job job = {
        .run = allocate_pinned, .undo = keep_lost_pinned, .deep = true, .context = context};
    CUresult result = run_helped(&job);
    *pinned = job.pinned;
    return result;
}

static CUresult load_fetch(struct job *job)
{
    return ag_fetch_load(&job->context->fetch, job->context->ctx) ? CUDA_SUCCESS
                                                                  : CUDA_ERROR_UNKNOWN;
}

/* What has been loaded stays. */
static void keep_fetch(struct job *job)
{
    (void)job;
}

CUresult ag_helper_fetch(struct ag_context *context)
{
    return run_helped(
        &(struct job){.run = load_fetch, .undo = keep_fetch, .deep = true, .context = context});
}
