/* SPDX-License-Identifier: MIT */
/* Which calls another thread makes, and how long a thread of the program waits for them. */
#include "engine/stream/helper.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "driver/driver.h"
#include "engine/context/fetch.h"
#include "engine/hot.h"
#include "engine/stream/stream.h"
#include "engine/stream/untracked.h"
#include "observe/futex.h"
#include "observe/patience.h"
#include "unit/test.h"

/* -- A context that another thread uses, and a driver that can wait --------------- */

/* Nothing takes so long. Whoever waits for some time waits then for the event itself, however busy
   the machine is. */
static bool patient = true;

bool ag_patience_awaits(uint64_t *slept, uint64_t most, _Atomic uint32_t *word, uint32_t value)
{
    struct timespec time = {.tv_nsec = (long)(most - *slept)};
    if (*slept >= most)
        return false;
    if (ag_futex(word, FUTEX_WAIT_PRIVATE, value, patient ? NULL : &time) == AG_WOKEN_BY_TIME)
        *slept = most;
    return true;
}

static struct ag_context context, other_context;
static char other_thread;
static struct ag_stream stream = {
    .id.context = &context, .id.live = true, .issuer.thread = &other_thread};

_Atomic unsigned ag_context_errors;
_Atomic unsigned ag_issuer_threads;
_Thread_local struct ag_thread ag_self __attribute__((tls_model("initial-exec")));

bool ag_untracked_others(void)
{
    return false;
}

struct ag_stream *ag_stream_all(void)
{
    return &stream;
}

static _Atomic unsigned inside; /* threads in the context */

bool ag_context_enter(const struct ag_context *entered, bool *pushed)
{
    (void)entered;
    *pushed = true;
    inside++;
    return true;
}

void ag_context_leave(bool pushed)
{
    usleep(1000); /* who does not wait for it sees it */
    inside -= pushed;
}

static _Atomic unsigned given;

void ag_context_give_exec(struct ag_context *to, uint32_t ops, unsigned paths, bool made)
{
    (void)to, (void)made;
    given += ops * paths;
}

static _Atomic unsigned grew;

void ag_context_made_exec(struct ag_context *to, uint32_t ops, bool grows)
{
    (void)to;
    grew += grows ? ops : 0;
}

static _Atomic bool full; /* a launch waits for room */
static _Atomic unsigned made, destroyed;
static _Atomic bool elsewhere; /* the last call was made in another thread than the main one */
static _Atomic bool outside;   /* and a call of that was made without the context */
static CUresult answer;

static CUresult call(_Atomic unsigned *count)
{
    while (full)
        usleep(100);
    elsewhere = ag_depth != 0;
    outside |= elsewhere && inside != 1;
    (*count)++;
    return answer;
}

CUresult ag_trace_instantiate(struct ag_trace *trace)
{
    (void)trace;
    return call(&made);
}

CUresult ag_trace_destroy(struct ag_trace *trace)
{
    CUresult result = call(&destroyed);
    free(trace);
    return result;
}

static CUresult create_event(CUevent *event, unsigned flags)
{
    (void)flags;
    *event = (CUevent)16;
    return call(&made);
}

static CUresult destroy_event(CUevent event)
{
    (void)event;
    return call(&destroyed);
}

bool ag_fetch_load(struct ag_fetch *fetch, CUcontext ctx)
{
    (void)fetch;
    (void)ctx;
    return call(&made) == CUDA_SUCCESS;
}

static CUresult exchange(CUstreamCaptureMode *mode)
{
    (void)mode;
    return CUDA_SUCCESS;
}

static CUresult get_flags(unsigned *flags)
{
    *flags = 0;
    return CUDA_SUCCESS;
}

struct ag_driver ag_real = {.cuCtxGetFlags = get_flags,
                            .cuEventCreate = create_event,
                            .cuEventDestroy_v2 = destroy_event,
                            .cuThreadExchangeStreamCaptureMode = exchange};

static struct ag_trace *trace_of(uint32_t ops)
{
    struct ag_trace *trace = calloc(1, sizeof *trace);
    if (trace == NULL)
        abort();
    trace->length = ops;
    trace->paths = 1;
    return trace;
}

static double ms_since(const struct timespec *begin)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - begin->tv_sec) * 1e3 +
           (double)(now.tv_nsec - begin->tv_nsec) / 1e6;
}

static void begin(CUresult result)
{
    full = false;
    answer = result;
    made = destroyed = given = grew = 0;
    outside = false;
    ag_stateless_kernels = false;
    stream.issuer.thread = &other_thread;
}

/* -- Tests ------------------------------------------------------------------------ */

TEST(a_thread_that_is_alone_calls_itself)
{
    begin(CUDA_SUCCESS);
    stream.issuer.thread = &ag_self;
    struct ag_trace *trace = trace_of(3);
    CHECK(ag_helper_instantiate(&context, trace) == CUDA_SUCCESS && made == 1 && !elsewhere);
    CHECK(ag_helper_destroy(&context, trace, true) == CUDA_SUCCESS && destroyed == 1 && given == 3);
    CHECK(!elsewhere);
    stream.issuer.thread = &other_thread;
    CHECK(ag_helper_destroy(&other_context, trace_of(1), true) == CUDA_SUCCESS && !elsewhere);
}

TEST(a_thread_that_is_alone_is_called_for_where_a_call_goes_deep)
{
    begin(CUDA_SUCCESS);
    CHECK(ag_helper_start());
    stream.issuer.thread = &ag_self;
    struct ag_trace *trace = trace_of(3);
    CHECK(ag_helper_instantiate(&context, trace) == CUDA_SUCCESS && made == 1 && elsewhere);
    CHECK(ag_helper_destroy(&context, trace, true) == CUDA_SUCCESS && !elsewhere);
    CHECK(ag_helper_fetch(&context) == CUDA_SUCCESS && made == 2 && elsewhere);
    answer = CUDA_ERROR_OUT_OF_MEMORY;
    CHECK(ag_helper_fetch(&context) == CUDA_ERROR_UNKNOWN && !ag_helper_waits());
}

TEST(others_are_called_for)
{
    begin(CUDA_SUCCESS);
    struct ag_trace *trace = trace_of(3);
    CHECK(ag_helper_instantiate(&context, trace) == CUDA_SUCCESS && made == 1 && elsewhere);
    CHECK(ag_helper_destroy(&context, trace, true) == CUDA_SUCCESS && destroyed == 1 && given == 3);
    CUevent event;
    CHECK(ag_helper_event(&context, &event) == CUDA_SUCCESS && event == (CUevent)16);
    CHECK(!ag_helper_waits());
    stream.issuer.thread = NULL;
    ag_stateless_kernels = true;
    CHECK(ag_helper_destroy_event(&context, event) == CUDA_SUCCESS && elsewhere);
}

TEST(the_context_is_left_before_a_job_has_ended)
{
    begin(CUDA_SUCCESS);
    struct ag_trace *trace = trace_of(3);
    CHECK(ag_helper_instantiate(&context, trace) == CUDA_SUCCESS && inside == 0);
    CHECK(ag_helper_destroy(&context, trace, true) == CUDA_SUCCESS && inside == 0);
    CHECK(elsewhere && !outside);
}

TEST(errors_are_told)
{
    begin(CUDA_ERROR_OUT_OF_MEMORY);
    struct ag_trace *trace = trace_of(3);
    CHECK(ag_helper_instantiate(&context, trace) == CUDA_ERROR_OUT_OF_MEMORY && given == 0);
    CUevent event = (CUevent)32;
    CHECK(ag_helper_event(&context, &event) == CUDA_ERROR_OUT_OF_MEMORY && event == NULL);
    answer = CUDA_ERROR_NOT_READY; /* which would say that the trace is not ours */
    CHECK(ag_helper_instantiate(&context, trace) == CUDA_ERROR_UNKNOWN);
    CHECK(ag_helper_instantiate(&other_context, trace) == CUDA_ERROR_UNKNOWN && elsewhere);
    CHECK(ag_helper_destroy(&context, trace, true) == CUDA_ERROR_UNKNOWN && given == 3);
}

TEST(a_context_grows_by_what_has_been_made)
{
    begin(CUDA_SUCCESS);
    struct ag_trace *trace = trace_of(3);
    CHECK(ag_helper_instantiate(&context, trace) == CUDA_SUCCESS && grew == 0);
    trace->grows = true;
    CHECK(ag_helper_instantiate(&context, trace) == CUDA_SUCCESS && grew == 3);
    answer = CUDA_ERROR_OUT_OF_MEMORY;
    CHECK(ag_helper_instantiate(&context, trace) == CUDA_ERROR_OUT_OF_MEMORY && grew == 3);
    CHECK(ag_helper_destroy(&context, trace, true) == CUDA_ERROR_OUT_OF_MEMORY);
    begin(CUDA_SUCCESS); /* it comes too late: the driver has the memory all the same */
    full = true;
    patient = false;
    trace = trace_of(5);
    trace->grows = true;
    CHECK(ag_helper_instantiate(&context, trace) == CUDA_ERROR_NOT_READY && grew == 0);
    patient = true;
    full = false;
    ag_helper_settle(&context);
    CHECK(grew == 5 && given == 5);
    while (ag_helper_waits())
        usleep(100);
}

/* To destroy an exec of several paths may wait for running kernels. */
TEST(several_paths_are_buried)
{
    begin(CUDA_SUCCESS);
    struct ag_trace *trace[2];
    for (int i = 0; i < 2; i++) {
        trace[i] = trace_of(3);
        trace[i]->paths = 2;
        trace[i]->exec = (CUgraphExec)16;
        trace[i]->placed = i == 1;
        CHECK(ag_helper_destroy(&context, trace[i], true) == CUDA_SUCCESS && destroyed == 0);
    }
    atomic_store(&context.paths, 2);
    CHECK(atomic_load(&ag_wanted_traces) == 2 && given == 0);
    CHECK(ag_helper_destroy_buried(&other_context) == CUDA_SUCCESS && destroyed == 0);
    CHECK(ag_helper_destroy_buried(&context) == CUDA_SUCCESS && destroyed == 2 && given == 12);
    CHECK(atomic_load(&ag_wanted_traces) == 0 && atomic_load(&context.paths) == 0);
    CHECK(ag_helper_destroy_buried(&context) == CUDA_SUCCESS && destroyed == 2);
}

TEST(nobody_waits_for_ever)
{
    enum { MORE = 20 };
    struct timespec start;
    begin(CUDA_SUCCESS);
    full = true;
    patient = false;
    clock_gettime(CLOCK_MONOTONIC, &start);
    CHECK(ag_helper_instantiate(&context, trace_of(5)) == CUDA_ERROR_NOT_READY);
    double first = ms_since(&start);
    CHECK(first >= AG_PATIENCE_NS / 1000000 && ag_helper_waits());
    patient = true;
    for (int i = 0; i < MORE; i++) /* none of them waits again: it would be for ever */
        CHECK(ag_helper_destroy(&context, trace_of(1), true) == CUDA_SUCCESS);
    CUevent event = (CUevent)32;
    CHECK(ag_helper_event(&context, &event) == CUDA_ERROR_NOT_READY && event == NULL);
    ag_helper_settle(&other_context); /* where nothing is left to wait for */
    CHECK(made == 0 && destroyed == 0 && given == 0);
    full = false;
    ag_helper_settle(&context);
    /* What came too late is gone again. What nobody waited for was not made. */
    CHECK(made == 1 && destroyed == 1 + MORE && given == 5 + MORE);
    while (ag_helper_waits())
        usleep(100);
    CHECK(inside == 0 && !outside);
    CHECK(ag_helper_destroy(&context, trace_of(1), true) == CUDA_SUCCESS);
}
