/* SPDX-License-Identifier: MIT */
/* Making traces. */
#include "engine/replay/make.h"

#include "config/config.h"
#include "driver/driver.h"
#include "driver/limits.h"
#include "engine/base/clock.h"
#include "engine/context/query.h"
#include "engine/decide/budget.h"
#include "engine/decide/launch_model.h"
#include "engine/decide/trials.h"
#include "engine/hot.h"
#include "engine/replay/execs.h"
#include "engine/replay/registry.h"
#include "engine/replay/relay.h"
#include "engine/replay/staging.h"
#include "engine/stream/helper.h"
#include "engine/stream/event.h"
#include "engine/stream/failure.h"
#include "engine/stream/paths.h"
#include "engine/tell/account.h"
#include "engine/tell/observe.h"
#include "graph/fork.h"
#include "graph/node.h"
#include "graph/setting.h"
#include "graph/variant.h"
#include "mutant.h"
#include "observe/log.h"
#include "observe/verbose.h"
#include "policy/policy.h"

AG_HOLDS(struct ag_node, failures, AG_FAILURES);
AG_HOLDS(struct ag_node, depth, AG_MOST_LENGTH);
AG_HOLDS(struct ag_node, weight, AG_MOST_LENGTH);

/* -- Room ------------------------------------------------------------------- */

/* What comes of asking for an exec. */
enum room { NO_ROOM, TOO_MANY_PATHS, TOO_MANY_COPIES, ROOM_WHEN_IDLE, ROOM };

/* The trace that makes room for one of the leaf; NULL: none does yet. It is not in use any more,
   and was used longest ago. */
static struct ag_trace *find_room(const struct ag_stream *stream, const struct ag_node *leaf)
{
    struct ag_trace *oldest = NULL;
    for (struct ag_trace *trace = stream->execs.traces; trace != NULL; trace = trace->next)
        if (oldest == NULL || trace->used < oldest->used)
            oldest = trace;
    return oldest != NULL && ag_execs_is_stale(stream, oldest, leaf) ? oldest : NULL;
}

/* Those within the device. */
static uint32_t copies(const struct ag_node *leaf)
{
    uint32_t count = 0;
    for (const struct ag_node *node = leaf; node->parent != NULL; node = node->parent)
        count += node->op.kind == AG_OP_COPY && !ag_op_is_from_host(&node->op);
    return AG_MUTANT(many_copies) ? 0 : count;
}

static void destroy_buried(struct ag_stream *stream, bool idle)
{
    if (idle)
        ag_failure_note(stream, ag_helper_destroy_buried(stream->id.context), "destroying a trace");
}

/* An exec for one more trace: a free one, or in place of other traces. *grows: see context.h. */
static enum room take_exec(struct ag_stream *stream, struct ag_node *leaf, bool idle, bool *grows)
{
    struct ag_context *context = stream->id.context;
    uint32_t ops = leaf->depth, copied = copies(leaf);
    unsigned paths = ag_fork_paths(leaf);
    if (paths > 1 &&
        !ag_context_has_branches(context, paths)) { /* shorter ones have fewer, maybe */
        ag_model_bound(stream, ops * (paths - 1) / paths);
        return TOO_MANY_PATHS;
    }
    if (copied > AG_MOST_COPIES) {
        ag_model_bound(stream, ops * AG_MOST_COPIES / copied);
        return TOO_MANY_COPIES;
    }
    if (idle)
        (void)ag_execs_settle(stream);
    while (!ag_context_take_exec(context, ops, paths, idle, grows)) {
        if (ag_execs_settle(stream))
            continue;
        if (ag_stream_kill_vacant(context)) {
            destroy_buried(stream, idle);
            continue;
        }
        struct ag_trace *room = find_room(stream, leaf);
        if (room == NULL) {
            if (!idle) { /* not each time that the same ones are tried again */
                ag_execs_starve(stream, leaf);
            }
            return ag_context_allows(context, ops) ? ROOM_WHEN_IDLE : NO_ROOM;
        }
        /* A launch that still runs keeps what its exec has taken. */
        if (!idle && (room->paths > 1 || !ag_execs_have_run(stream)))
            return ROOM_WHEN_IDLE;
        ag_execs_drop(stream, room);
        destroy_buried(stream, idle);
        stream->counters.evictions++;
    }
    return ROOM;
}

/* -- Making ------------------------------------------------------------------ */

void ag_make_failed(struct ag_stream *stream, struct ag_node *leaf)
{
    if (++leaf->failures < AG_FAILURES)
        return;
    leaf->failures = 1; /* it leads to something still */
    ag_failure_spoil(stream, leaf);
}

/*
 * The program may have destroyed an event since it was recorded or waited for, and the driver makes
 * no node of it. A variant can wait until there is another one. False: no graph can be made now.
 */
static bool avoid_destroyed(struct ag_stream *stream, struct ag_node *leaf)
{
    bool forks = ag_fork_branches(leaf) > 1;
    for (struct ag_node *node = leaf; node->parent != NULL; node = node->parent) {
        struct ag_event_arguments arguments;
        if (!ag_node_is_event(node) || ag_node_is_linked(node) || !ag_node_arguments(node))
            continue;
        memcpy(&arguments, node->args, sizeof arguments);
        bool own = forks && arguments.serial == AG_EVENT_GONE && node->op.kind == AG_OP_RECORD;
        if (own || ag_event_is(arguments.event, arguments.serial))
            continue;
        if (leaf->trace != NULL || ag_execs_own_event(stream, 0) == NULL)
            return false;
        arguments = (struct ag_event_arguments){.event = ag_execs_own_event(stream, 0)};
        memcpy(node->args, &arguments, sizeof arguments);
        node->version++;
    }
    return true;
}

/* Whether the library's events are there that a graph of several branches may need. */
static bool prepare_events(struct ag_stream *stream, const struct ag_node *leaf)
{
    unsigned branches = ag_fork_branches(leaf), i = 0;
    while (branches > 1 && i < branches && ag_execs_own_event(stream, i) != NULL)
        i++;
    if (ag_fork_paths(leaf) > 1)
        ag_paths_prepare(stream);
    return branches <= 1 || i == branches;
}

/* Makes the exec of a trace that has been built; on an error the trace is gone, NULL, and its exec
   given back. The first launch uploads it: an upload takes a place in the stream, and would wait
   for one if the program has filled the stream. */
static CUresult complete(struct ag_stream *stream, struct ag_trace **trace)
{
    CUresult result = ag_helper_instantiate(stream->id.context, *trace);
    if (result == CUDA_SUCCESS && AG_MUTANT(making_takes_a_place))
        result = ag_real.cuEventRecord(ag_execs_own_event(stream, 0), stream->id.handle);
    if (result == CUDA_SUCCESS)
        return result;
    if (result != CUDA_ERROR_NOT_READY) /* or it is not ours */
        (void)ag_helper_destroy(stream->id.context, *trace,
                                false); /* the first error is the one to tell */
    *trace = NULL;
    return result;
}

/* There is room for a trace of this leaf. */
static void build(struct ag_stream *stream, struct ag_node *leaf, bool grows)
{
    CUresult result = CUDA_SUCCESS;
    uint64_t began = ag_clock_now();
    struct ag_trace *trace = NULL;
    if (avoid_destroyed(stream, leaf) && prepare_events(stream, leaf) &&
        ag_staging_prepare(stream, leaf, &result))
        trace = ag_trace_build(leaf, stream->id.context->ctx, stream->id.handle, stream->execs.own,
                               &result);
    if (trace == NULL) {
        ag_context_give_exec(stream->id.context, leaf->depth, ag_fork_paths(leaf), false);
    } else {
        trace->grows = grows;
        result = complete(stream, &trace);
    }
    uint64_t ns = ag_clock_since(began);
    ag_self.apart += ns;
    ag_budget_spend(stream, leaf, ns);
    if (result == CUDA_ERROR_NOT_READY)
        ag_log(AG_LOG_NOTE, "no trace in stream %p: another thread's launch waits for room",
               (void *)stream->id.handle);
    else
        ag_failure_note(stream, result, "making a trace");
    if (trace == NULL) {
        if (leaf->trace != NULL)
            ag_variant_refused(leaf->trace);
        else if (result != CUDA_ERROR_NOT_READY)
            ag_make_failed(stream, leaf);
        if (result == CUDA_SUCCESS && !leaf->blacklisted)
            ag_execs_want_living(stream, leaf);
        return;
    }
    static _Atomic uint32_t number;
    trace->number = atomic_fetch_add(&number, 1) + 1;
    if (trace->number == 1)
        ag_verbose_first(trace->length);
    AG_NOTE(ag_note_trace(stream, trace));
    if (leaf->trace == NULL) /* what the stream issued before its first trace of that path */
        (void)ag_account_moves(stream, AG_WHY_FIRST,
                               (uint64_t)leaf->depth * ag_budget_hot(stream, leaf));
    AG_ACCOUNT(ag_account_trace(stream, trace));
    ag_execs_add(stream, trace);
    if (leaf->trace != NULL) {
        ag_variant_join(leaf->trace, trace);
    } else {
        ag_node_set_trace(leaf, trace);
        ag_trials_made(stream);
    }
    ag_recorder_has_trace(&stream->recorder, ag_node_head(leaf));
    stream->counters.traces++;
    ag_log(AG_LOG_NOTE, "made a trace of %u ops in stream %p", trace->length,
           (void *)stream->id.handle);
}

/* Whether a node takes settings that its function does not have now. To set them waits while a
   launch of another thread waits for room. */
static bool needs_setter(const struct ag_node *leaf)
{
    const struct ag_node *node = leaf;
    while (node->parent != NULL && !ag_moment_is_needed(&node->op))
        node = node->parent;
    return node->parent != NULL;
}

/* Why no graph can be made now; AG_WHY_HELD: one can be. */
static enum ag_why cannot_make(struct ag_stream *stream, const struct ag_node *leaf)
{
    if (!ag_fork_is_whole(leaf) && !AG_MUTANT(branches_unjoined))
        return AG_WHY_UNJOINED;
    bool waits = (ag_helper_others() && needs_setter(leaf)) || ag_relay_is_needed(stream) ||
                 ag_helper_waits();
    return waits || ag_captures_about() || ag_query_captures(stream->id.handle) ? AG_WHY_DELAYED
                                                                                : AG_WHY_HELD;
}

/* Why no graph is made; AG_WHY_HELD: it is. */
static enum ag_why try_to_make(struct ag_stream *stream, struct ag_node *leaf, bool idle)
{
    static const enum ag_why no_room[] = {AG_WHY_ROOM, AG_WHY_PATHS, AG_WHY_COPIES, AG_WHY_IDLE};
    enum ag_why why = cannot_make(stream, leaf);
    CUstreamCaptureMode mode;
    if (why != AG_WHY_HELD)
        return why;
    if (!ag_query_relax(&mode))
        return AG_WHY_DELAYED;
    bool grows = false;
    enum room room = take_exec(stream, leaf, idle, &grows);
    if (room == ROOM)
        build(stream, leaf, grows);
    else if (room == ROOM_WHEN_IDLE && !idle) /* or each wait would look at all streams for it */
        ag_execs_want(stream, leaf);
    else if (leaf->trace != NULL) /* or each replay would ask for a variant */
        ag_variant_refused(leaf->trace);
    ag_query_unrelax(mode);
    if (room != ROOM)
        return no_room[room];
    return leaf->trace != NULL ? AG_WHY_HELD : AG_WHY_UNMADE;
}

/* Sequences are shorter from now on: this one does not come again. */
static bool is_too_long(enum ag_why why)
{
    return why == AG_WHY_COPIES || why == AG_WHY_PATHS;
}

static void make(struct ag_stream *stream, struct ag_node *leaf, bool idle)
{
    atomic_fetch_add(&ag_capture_breakers, 1);
    enum ag_why why = try_to_make(stream, leaf, idle);
    leaf->unmade = (uint8_t)why;
    if (is_too_long(why))
        (void)ag_account_moves(stream, why, (uint64_t)leaf->depth * ag_budget_hot(stream, leaf));
    atomic_fetch_sub(&ag_capture_breakers, 1);
}

void ag_make(struct ag_stream *stream, struct ag_node *leaf)
{
    make(stream, leaf, AG_MUTANT(grows_without_wait));
}

void ag_make_wanted(struct ag_stream *stream)
{
    struct ag_node *wanted[AG_WANTED];
    unsigned count = ag_execs_want_none(stream, wanted);
    for (unsigned i = 0; i < count; i++)
        if (!wanted[i]->blacklisted &&
            (wanted[i]->trace == NULL || ag_variant_wanted(wanted[i]->trace)))
            make(stream, wanted[i], true);
}

void ag_make_living(struct ag_stream *stream)
{
    struct ag_node *leaf = stream->execs.living, *node = leaf;
    bool pushed;
    while (node->depth > stream->recorder.cursor->depth)
        node = node->parent;
    if (node != stream->recorder.cursor)
        return;
    ag_execs_want_living(stream, NULL);
    ag_depth++;
    if (leaf->trace == NULL && ag_node_is_good(leaf) &&
        ag_context_enter(stream->id.context, &pushed)) {
        make(stream, leaf, false);
        ag_context_leave(pushed);
    }
    ag_depth--;
}
