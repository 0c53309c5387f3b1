/* SPDX-License-Identifier: MIT */
/* Queues for the paths of graphs. */
#include "engine/stream/paths.h"

#include "driver/driver.h"
#include "engine/context/query.h"
#include "engine/stream/helper.h"
#include "engine/stream/failure.h"
#include "engine/stream/issuer.h"
#include "engine/stream/untracked.h"

/* -- Launches that have ended ------------------------------------------------ */

/* The number of the last launch that has ended for sure. */
static uint64_t ended(struct ag_stream *stream)
{
    struct ag_paths *paths = &stream->paths;
    bool done = stream->id.vacant
                    ? ag_orphans_has_settled(&stream->id.context->orphans, stream->id.behind)
                    : ag_query_is_idle(stream->id.handle);
    if (done)
        return paths->launches;
    if (paths->marked == 0 || !ag_query_has_run(paths->mark))
        return 0;
    uint64_t last = paths->marked;
    paths->marked = 0;
    return last;
}

/* Traces whose last launch has ended need no queues. */
static void give_back(struct ag_stream *stream)
{
    if (stream->paths.placed == 0)
        return;
    uint64_t last = ended(stream);
    for (struct ag_trace *trace = stream->execs.traces; trace != NULL; trace = trace->next) {
        if (!trace->placed || trace->launched > last)
            continue;
        trace->placed = false;
        stream->paths.placed--;
        atomic_fetch_sub(&stream->id.context->paths, trace->paths);
    }
}

/* In all streams of the context. */
static void give_all_back(struct ag_stream *own)
{
    give_back(own);
    for (struct ag_stream *stream = ag_stream_all(); stream != NULL; stream = stream->place.next) {
        if (stream == own || !atomic_load(&stream->id.live) || !ag_stream_trylock(stream))
            continue;
        if (stream->id.live && stream->id.context == own->id.context)
            give_back(stream);
        ag_stream_unlock(stream);
    }
}

/* From now on it can be known when what has been launched so far has ended, also in a stream that
   is never idle; but not where the record might have to wait for room. */
static void mark(struct ag_stream *stream)
{
    struct ag_paths *paths = &stream->paths;
    if (paths->placed == 0 || paths->marked != 0 || paths->mark == NULL ||
        !ag_issuer_has_room(stream))
        return;
    CUresult result = ag_real.cuEventRecord(paths->mark, stream->id.handle);
    ag_failure_note(stream, result, "recording an event");
    if (result == CUDA_SUCCESS)
        paths->marked = paths->launches;
}

/* -- Queues ------------------------------------------------------------------------ */

/* Streams that have had work. The library's own have it with those that they are for. */
static unsigned used(const struct ag_context *context)
{
    return atomic_load(&context->used) + atomic_load(&context->relays) + ag_untracked_count();
}

/* A stream that is gone has its queue until its work is done. */
bool ag_context_has_queues(const struct ag_context *context, unsigned more)
{
    return used(context) + ag_orphans_count(&context->orphans) + atomic_load(&context->paths) +
               more <=
           context->queues;
}

bool ag_context_has_branches(const struct ag_context *context, unsigned more)
{
    return used(context) + more <= context->queues;
}

/* -- Taking ----------------------------------------------------------------------- */

static unsigned needs(const struct ag_trace *trace)
{
    return trace->placed ? 0 : trace->paths;
}

static bool find_queues(struct ag_stream *stream, const struct ag_trace *trace)
{
    struct ag_context *context = stream->id.context;
    if (ag_context_has_queues(context, needs(trace)))
        return true;
    (void)ag_query_is_settled(context);
    give_all_back(stream);
    if (ag_context_has_queues(context, needs(trace)))
        return true;
    mark(stream);
    return false;
}

/* Two threads that take at the same time may take a queue too many: neither is launched then. */
static bool place(struct ag_stream *stream, struct ag_trace *trace)
{
    struct ag_context *context = stream->id.context;
    atomic_fetch_add(&context->paths, trace->paths);
    trace->placed = ag_context_has_queues(context, 0);
    if (!trace->placed)
        atomic_fetch_sub(&context->paths, trace->paths);
    stream->paths.placed += trace->placed;
    return trace->placed;
}

bool ag_paths_take(struct ag_stream *stream, struct ag_trace *trace)
{
    if (!find_queues(stream, trace) || (!trace->placed && !place(stream, trace)))
        return false;
    trace->launched = ++stream->paths.launches;
    return true;
}

/* -- The event ----------------------------------------------------------------------- */

/* The event that buried execs of the context name (execs.c). */
static CUresult prepare_grave(struct ag_context *context)
{
    CUevent event = NULL, none = NULL;
    if (atomic_load(&context->grave) != NULL)
        return CUDA_SUCCESS;
    CUresult result = ag_helper_event(context, &event);
    if (event == NULL || atomic_compare_exchange_strong(&context->grave, &none, event))
        return result;
    return ag_helper_destroy_event(context, event); /* another thread was faster */
}

void ag_paths_prepare(struct ag_stream *stream)
{
    CUresult made = prepare_grave(stream->id.context);
    stream->counters.errors += made != CUDA_SUCCESS && made != CUDA_ERROR_NOT_READY;
    if (stream->paths.mark != NULL)
        return;
    CUresult result = ag_helper_event(stream->id.context, &stream->paths.mark);
    stream->counters.errors += result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY;
}

void ag_paths_forget(struct ag_stream *stream)
{
    struct ag_paths *paths = &stream->paths;
    if (paths->mark != NULL)
        stream->counters.errors +=
            ag_helper_destroy_event(stream->id.context, paths->mark) != CUDA_SUCCESS;
    *paths = (struct ag_paths){.mark = NULL};
}
