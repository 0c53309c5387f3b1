/* SPDX-License-Identifier: MIT */
/* The list of a stream's traces. */
#include "engine/replay/execs.h"

#include "engine/context/query.h"
#include "engine/hot.h"
#include "engine/stream/helper.h"
#include "engine/stream/failure.h"
#include "engine/stream/outstanding.h"
#include "engine/stream/paths.h"
#include "graph/variant.h"
#include "mutant.h"
#include "policy/policy.h"

void ag_execs_add(struct ag_stream *stream, struct ag_trace *trace)
{
    ag_execs_used(stream, trace);
    trace->next = stream->execs.traces;
    stream->execs.traces = trace;
}

/* What a vacant state's stream has left, the context knows. */
bool ag_execs_have_run(struct ag_stream *stream)
{
    return stream->id.vacant
               ? ag_orphans_has_settled(&stream->id.context->orphans, stream->id.behind)
               : !ag_outstanding_in_stream(stream);
}

/* Of one stream, which is locked. */
static bool settle(struct ag_stream *stream)
{
    return ag_context_any_run(&stream->execs.running) && ag_execs_have_run(stream) &&
           ag_context_have_run(stream->id.context, &stream->execs.running);
}

bool ag_execs_settle(struct ag_stream *stream)
{
    struct ag_context *context = stream->id.context;
    if (atomic_load(&context->running) == 0)
        return false;
    bool any = ag_query_is_settled(context) && ag_context_settle_execs(context);
    any |= settle(stream);
    for (struct ag_stream *other = ag_stream_all(); other != NULL; other = other->place.next) {
        if (other == stream || !ag_stream_trylock(other))
            continue;
        any |= other->id.live && other->id.context == context && settle(other);
        ag_stream_unlock(other);
    }
    return any;
}

/* Whether the exec names only an event that stays, so that it may outlive the others. */
static bool takes_leave(const struct ag_context *context, struct ag_trace *trace)
{
    bool pushed;
    CUevent grave = atomic_load(&context->grave);
    if (trace->paths == 1 || trace->exec == NULL || grave == NULL ||
        !ag_context_enter(context, &pushed))
        return false;
    bool done = ag_trace_replace_event(trace, NULL, grave) == CUDA_SUCCESS;
    if (!done)
        atomic_fetch_add(&ag_context_errors, 1);
    ag_context_leave(pushed);
    return done;
}

static CUresult destroy(struct ag_stream *stream, struct ag_trace *trace)
{
    ag_depth++;
    bool may_stay = takes_leave(stream->id.context, trace);
    ag_depth--;
    return ag_helper_destroy(stream->id.context, trace, may_stay);
}

void ag_execs_drop(struct ag_stream *stream, struct ag_trace *trace)
{
    struct ag_trace **link = &stream->execs.traces;
    while (*link != trace) /* NOLINT(clang-analyzer-core.NullDereference): it is in the list */
        link = &(*link)->next;
    *link = trace->next;
    stream->paths.placed -= trace->placed;
    ag_node_set_trace(trace->leaf, ag_variant_leave(trace));
    if (trace->paths == 1 && !AG_MUTANT(destroyed_leaves_room) &&
        !ag_execs_have_run(stream)) /* others are destroyed when they have run */
        ag_context_keep_exec(stream->id.context, &stream->execs.running, trace->length);
    ag_failure_note(stream, destroy(stream, trace), "destroying a trace");
}

void ag_execs_drop_all(struct ag_stream *stream)
{
    ag_depth++;
    while (stream->execs.traces != NULL)
        ag_execs_drop(stream, stream->execs.traces);
    ag_depth--;
}

void ag_execs_clear(struct ag_stream *stream)
{
    struct ag_execs *execs = &stream->execs;
    struct ag_trace *trace;
    while ((trace = execs->traces) != NULL) {
        execs->traces = trace->next;
        ag_node_set_trace(trace->leaf, NULL);
        if (trace->paths == 1)
            ag_context_keep_exec(stream->id.context, &execs->running, trace->length);
        stream->counters.errors += destroy(stream, trace) != CUDA_SUCCESS;
    }
    if (ag_context_any_run(&execs->running))
        ag_context_leave_execs(stream->id.context, &execs->running);
    (void)ag_context_settle_execs(stream->id.context);
    for (unsigned i = 0; i < AG_BRANCHES && execs->own[i] != NULL; i++) {
        stream->counters.errors +=
            ag_helper_destroy_event(stream->id.context, execs->own[i]) != CUDA_SUCCESS;
        execs->own[i] = NULL;
    }
    ag_paths_forget(stream);
}

/* -- Room -------------------------------------------------------------------- */

void ag_execs_starve(struct ag_stream *stream, struct ag_node *leaf)
{
    leaf->starved = (uint32_t)++stream->execs.starved;
    atomic_fetch_add(&stream->id.context->starved, 1);
}

bool ag_execs_is_stale(const struct ag_stream *stream, const struct ag_trace *trace,
                       const struct ag_node *leaf)
{
    return trace->starved < leaf->starved && (stream->execs.clock - trace->used >= AG_STALE ||
                                              stream->execs.starved - trace->starved >= AG_STALE);
}

bool ag_execs_is_wanted(const struct ag_stream *stream, const struct ag_node *leaf)
{
    unsigned i = 0;
    while (i < stream->execs.wanted_count && stream->execs.wanted[i] != leaf)
        i++;
    return i < stream->execs.wanted_count;
}

void ag_execs_want(struct ag_stream *stream, struct ag_node *leaf)
{
    if (ag_execs_is_wanted(stream, leaf) || stream->execs.wanted_count == AG_WANTED)
        return;
    stream->execs.wanted[stream->execs.wanted_count++] = leaf;
    atomic_fetch_add(&ag_wanted_traces, 1);
}

unsigned ag_execs_want_none(struct ag_stream *stream, struct ag_node *wanted[AG_WANTED])
{
    unsigned count = stream->execs.wanted_count;
    if (wanted != NULL)
        memcpy(wanted, stream->execs.wanted, sizeof stream->execs.wanted);
    atomic_fetch_sub(&ag_wanted_traces, count);
    stream->execs.wanted_count = 0;
    stream->execs.living = NULL;
    return count;
}

/* -- Events that go --------------------------------------------------------- */

CUevent ag_execs_own_event(struct ag_stream *stream, unsigned i)
{
    CUevent *own = &stream->execs.own[i];
    if (*own == NULL) {
        CUresult result = ag_helper_event(stream->id.context, own);
        stream->counters.errors += result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY;
    }
    return *own;
}

bool ag_execs_replace_event(struct ag_stream *stream, CUevent event)
{
    bool all = true;
    ag_depth++;
    for (struct ag_trace *trace = stream->execs.traces, *next; trace != NULL; trace = next) {
        next = trace->next;
        if ((!trace->events && !trace->ends.asked) || AG_MUTANT(event_stays_in_exec))
            continue;
        CUevent own = ag_execs_own_event(stream, 0);
        CUresult result =
            own != NULL ? ag_trace_replace_event(trace, event, own) : CUDA_ERROR_NOT_READY;
        all &= result == CUDA_SUCCESS;
        stream->counters.errors += own != NULL && result != CUDA_SUCCESS;
    }
    ag_depth--;
    return all;
}

bool ag_execs_forget_event(struct ag_stream *stream, CUevent event)
{
    bool pushed, all = true;
    if (!ag_stream_trylock(stream))
        return false;
    if (stream->id.live && stream->execs.traces != NULL) {
        bool entered = ag_context_enter(stream->id.context, &pushed);
        all = entered && ag_execs_replace_event(stream, event);
        ag_context_leave(pushed);
    }
    ag_stream_unlock(stream);
    return all;
}
