/* SPDX-License-Identifier: MIT */
/* The list of a stream's traces. */
#include "engine/execs.h"

#include "engine/aside.h"
#include "engine/failure.h"
#include "engine/hot.h"
#include "graph/variant.h"
#include "policy/policy.h"

void ag_execs_add(struct ag_stream *stream, struct ag_trace *trace)
{
    ag_execs_used(stream, trace);
    trace->next = stream->execs.traces;
    stream->execs.traces = trace;
}

void ag_execs_drop(struct ag_stream *stream, struct ag_trace *trace)
{
    struct ag_trace **link = &stream->execs.traces;
    while (*link != trace) /* NOLINT(clang-analyzer-core.NullDereference): it is in the list */
        link = &(*link)->next;
    *link = trace->next;
    ag_node_set_trace(trace->leaf, ag_variant_leave(trace));
    ag_failure_note(stream, ag_aside_destroy(stream->id.context, trace), "destroying a trace");
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
        stream->counters.errors += ag_aside_destroy(stream->id.context, trace) != CUDA_SUCCESS;
    }
    for (unsigned i = 0; i < AG_BRANCHES && execs->own[i] != NULL; i++) {
        stream->counters.errors +=
            ag_aside_destroy_event(stream->id.context, execs->own[i]) != CUDA_SUCCESS;
        execs->own[i] = NULL;
    }
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
        CUresult result = ag_aside_event(stream->id.context, own);
        stream->counters.errors += result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY;
    }
    return *own;
}

void ag_execs_replace_event(struct ag_stream *stream, CUevent event)
{
    ag_depth++;
    for (struct ag_trace *trace = stream->execs.traces, *next; trace != NULL; trace = next) {
        next = trace->next;
        if (!trace->events && !trace->ends.asked)
            continue;
        CUevent own = ag_execs_own_event(stream, 0);
        if (own == NULL)
            ag_execs_drop(stream, trace);
        else
            stream->counters.errors += ag_trace_replace_event(trace, event, own) != CUDA_SUCCESS;
    }
    ag_depth--;
}

void ag_execs_forget_event(struct ag_stream *stream, CUevent event)
{
    bool pushed;
    if (!ag_stream_lock_within(stream, AG_PATIENCE_EVENT_NS))
        return;
    if (stream->id.live && stream->execs.traces != NULL &&
        ag_context_enter(stream->id.context, &pushed)) {
        ag_execs_replace_event(stream, event);
        ag_context_leave(pushed);
    }
    ag_stream_unlock(stream);
}
