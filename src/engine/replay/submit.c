/* SPDX-License-Identifier: MIT */
/* Submitting held ops, by replay or eagerly; and what happens at the end of a sequence. */
#include "engine/replay/submit.h"

#include "config/config.h"
#include "driver/driver.h"
#include "engine/base/branch.h"
#include "engine/base/clock.h"
#include "engine/decide/budget.h"
#include "engine/decide/launch_model.h"
#include "engine/decide/trials.h"
#include "engine/hot.h"
#include "engine/replay/execs.h"
#include "engine/replay/limbo.h"
#include "engine/replay/make.h"
#include "engine/replay/relay.h"
#include "engine/replay/staging.h"
#include "engine/stream/helper.h"
#include "engine/stream/copies.h"
#include "engine/stream/eager.h"
#include "engine/stream/failure.h"
#include "engine/stream/branches.h"
#include "engine/stream/issuer.h"
#include "engine/stream/paths.h"
#include "engine/stream/pinned.h"
#include "engine/stream/sequence.h"
#include "engine/tell/account.h"
#include "engine/tell/observe.h"
#include "graph/node.h"
#include "graph/variant.h"
#include "mutant.h"
#include "observe/range.h"

/* Whether the program records the events of the trace as it did when that was made. Else the next
   trace has a node for each record. */
static __attribute__((noinline)) bool matches(struct ag_stream *stream, struct ag_trace *trace)
{
    if (ag_fork_matches(trace->step, &trace->ends) || AG_MUTANT(records_lost)) {
        CUresult result = ag_trace_set_records(trace);
        ag_failure_note(stream, result, "giving a graph its events");
        if (result == CUDA_SUCCESS)
            return true;
    }
    trace->leaf->apart = true;
    ag_execs_drop(stream, trace);
    return false;
}

/* Replays the longest trace that begins the held ops; returns its length, 0 without one. */
static INLINE uint32_t submit_prefix(struct ag_stream *stream, uint32_t held, CUstream target)
{
    uint32_t length = held;
    while (length > 0 && stream->seq.path[length]->trace == NULL)
        length--;
    if (length == 0)
        return 0;
    struct ag_trace *trace = ag_variant_choose(stream->seq.path[length]->trace);
    trace->leaf->trace = trace; /* the one in use */
    if (UNLIKELY(trace->ends.branches > 1) && !matches(stream, trace))
        return 0;
    if (UNLIKELY(trace->paths > 1) && !AG_MUTANT(paths_take_no_queue) &&
        !ag_paths_take(stream, trace))
        return 0;
    uint64_t patches = stream->counters.patches;
    CUresult result = ag_trace_replay(trace, target, &stream->counters);
    if (result != CUDA_SUCCESS && !AG_MUTANT(refused_replay_counts)) {
        ag_failure_note(stream, result, "replaying a trace");
        ag_make_failed(stream, trace->leaf);
        ag_execs_drop(stream, trace);
        return 0;
    }
    if (UNLIKELY(atomic_load_explicit(&ag_ranges, memory_order_relaxed)))
        ag_range_note(trace->length); /* a profiler sees the replay as a range */
    if (UNLIKELY(trace->ends.branches > 1)) {
        ag_trace_keep_records(trace);
        ag_branches_replayed(stream, trace);
    }
    if (stream->counters.patches != patches)
        ag_variant_observe(trace, (uint32_t)(stream->counters.patches - patches));
    ag_execs_replayed(stream, trace);
    stream->counters.replays++;
    stream->counters.replayed += length;
    ag_recorder_paid(&stream->recorder, length);
    ag_budget_earn(stream->id.context, trace->leaf->weight);
    return length;
}

/* One of the launches and calls by which what is held goes out. */
struct part {
    uint32_t replayed; /* ops, the first of those that are held */
    uint64_t began;    /* ns, by the trace file's clock */
    uint64_t patches;  /* of the stream before */
};

/* Tells of a part; so many ops are held behind it. */
static inline void tell(struct ag_stream *stream, struct part part, enum ag_reason reason,
                        uint32_t behind)
{
    AG_NOTE(ag_note_submit(stream, part.replayed, reason, part.began, part.patches, behind));
    if (part.replayed != 0)
        AG_ACCOUNT(ag_account_replay(stream, stream->seq.path[part.replayed]->trace,
                                     stream->counters.patches - part.patches));
}

/* The nodes that the ops behind the first `count` held ones have where a sequence begins with them.
   Returns the length of the longest trace there; 0: there is none of two ops or more. */
static uint32_t find_anew(struct ag_stream *stream, uint32_t count,
                          struct ag_node *anew[AG_MOST_LENGTH])
{
    struct ag_tree *tree = &stream->recorder.tree;
    struct ag_node *node = &tree->root;
    uint32_t rest = stream->seq.held - count, length = 0;
    for (uint32_t i = 0; i < rest; i++) {
        const struct ag_node *held = stream->seq.path[count + 1 + i];
        if (ag_node_is_event(held) || ag_op_branch(&held->op) != 0)
            break;
        node = anew[i] = ag_tree_find(tree, node, &held->op);
        if (node == NULL || !ag_node_leads(node) || node->blacklisted != 0)
            break;
        length = node->trace != NULL && i > 0 ? i + 1 : length;
    }
    return length;
}

/* The first `count` held ops have gone out. The `length` ops behind them are held at these nodes
   from now on, which come earlier in the tree: none is a node of the path that is still to come. */
static void hold_anew(struct ag_stream *stream, uint32_t count, uint32_t length,
                      struct ag_node *const anew[AG_MOST_LENGTH])
{
    struct ag_node **path = stream->seq.path;
    uint32_t rest = stream->seq.held - count;
    for (uint32_t i = 0; i < rest; i++) {
        struct ag_node *held = path[count + 1 + i];
        if (i < length) {
            (void)ag_node_reshape(anew[i], &held->op);
            ag_node_store(anew[i], held->params);
        }
        path[1 + i] = i < length ? anew[i] : held;
    }
    atomic_store_explicit(&stream->seq.held, rest, memory_order_release);
}

/* A part of what is held has been replayed. What comes behind is, too, as far as traces begin with
   it. */
__attribute__((noinline)) static struct part replay_rest(struct ag_stream *stream, struct part part,
                                                         CUstream target, enum ag_reason reason)
{
    struct ag_node *anew[AG_MOST_LENGTH];
    uint32_t held, length;
    while (part.replayed != 0 && part.replayed < (held = stream->seq.held) &&
           (length = find_anew(stream, part.replayed, anew)) != 0) {
        tell(stream, part, reason, held - part.replayed);
        hold_anew(stream, part.replayed, length, anew);
        part.began = ag_tracefile_now();
        part.patches = stream->counters.patches;
        part.replayed = submit_prefix(stream, held - part.replayed, target);
    }
    return part;
}

/* Submits a held op by itself. A read-back is none of the program's ops: if the driver refuses it
   the program's own copy is made (read.c). */
static void submit_one(struct ag_stream *stream, struct ag_node *node, CUstream target)
{
    struct ag_fetch *fetch = &stream->id.context->fetch;
    CUresult result = ag_node_submit(node, target);
    if (LIKELY(result == CUDA_SUCCESS))
        return;
    ag_failure_spoil(stream, node);
    if (node->op.kind == AG_OP_KERNEL && node->op.func == atomic_load(&fetch->func)) {
        fetch->lost = true;
        ag_failure_note(stream, result, "reading back");
    } else {
        ag_failure_refused(stream, result, "submitting a held op");
    }
}

/* What the program has freed and destroyed behind the held ops. */
static __attribute__((noinline)) void release(struct ag_stream *stream, CUstream target,
                                              bool entered)
{
    const struct ag_sequence *seq = &stream->seq;
    for (unsigned i = 0; i < seq->free_count; i++)
        ag_failure_refused(stream, ag_real.cuMemFreeAsync(seq->frees[i], target), "freeing memory");
    for (unsigned i = 0; i < seq->gone_count; i++) {
        bool all = entered && ag_execs_replace_event(stream, seq->gone[i]);
        if (ag_limbo_submitted(seq->gone[i]) ||
            (!all && ag_limbo_add(seq->gone[i], stream->id.context, false)))
            continue;
        ag_failure_note(stream, ag_helper_destroy_event(stream->id.context, seq->gone[i]),
                        "destroying an event");
    }
}

bool ag_stream_submit(struct ag_stream *stream, enum ag_reason reason)
{
    uint32_t held = stream->seq.held;
    if (held == 0)
        return true;
    bool pushed, relay = ag_relay_is_needed(stream);
    CUstream target = relay ? stream->relay.stream : stream->id.handle;
    uint64_t clock = ag_model_clock();
    ag_model_submitted(stream, held, reason == AG_REASON_WATCHDOG, clock);
    uint64_t began = ag_tracefile_now(), patches = stream->counters.patches;
    ag_depth++;
    bool entered = ag_context_enter(stream->id.context, &pushed);
    if (relay)
        ag_relay_begins(stream);
    /* Without a context the driver crashes when a node's arguments are set (driver 580). */
    struct part part = {entered ? submit_prefix(stream, held, target) : 0, began, patches};
    bool whole = part.replayed == held, any = part.replayed != 0;
    uint32_t less = any ? part.replayed - 1 : 0; /* calls than ops */
    if (UNLIKELY(!whole && any)) {
        part = replay_rest(stream, part, target, reason);
        held = stream->seq.held;
    }
    for (uint32_t i = part.replayed + 1; i <= held; i++) {
        struct ag_node *node =
            stream->seq.path[AG_MUTANT(order_reversed) ? held + part.replayed + 1 - i : i];
        submit_one(stream, node,
                   AG_MUTANT(branches_to_host) ? target
                                               : ag_branches_target(stream, &node->op, target));
    }
    ag_pinned_flush(stream, target);
    if (UNLIKELY((stream->seq.free_count | stream->seq.gone_count) != 0))
        release(stream, target, entered);
    ag_staging_submitted(stream, target, less);
    if (relay)
        ag_relay_ends(stream);
    ag_context_leave(pushed);
    ag_depth--;
    tell(stream, part, reason, 0);
    stream->counters.flushes[reason] += part.replayed < held;
    stream->counters.given_up[reason] += held - part.replayed;
    AG_ACCOUNT(ag_account_cut(stream, reason, AG_WHY_HELD, held - part.replayed));
    ag_sequence_turn(stream, AG_RECORDING);
    uint64_t ns = clock != 0 ? ag_clock_since(clock) : 0;
    ag_model_spent(stream, ns, whole);
    ag_trials_submitted(stream, held, ns);
    return part.replayed == held;
}

/* -- The end of a sequence: flush, close, decide, make ------------------------ */

/* What is held goes out. Returns the leaf of the sequence if its trace has been replayed and wants
   a variant; else NULL. */
static struct ag_node *flush(struct ag_stream *stream, enum ag_reason reason)
{
    struct ag_node *leaf = stream->recorder.cursor;
    if (!ag_stream_submit(stream, reason) || leaf->trace == NULL)
        return NULL;
    bool wanted = ag_variant_wanted(leaf->trace) && !ag_execs_is_wanted(stream, leaf) &&
                  ag_context_overspent(stream->id.context) <= 0;
    return wanted ? leaf : NULL;
}

/* The open sequence has gone out eagerly: counts its ops by the reason. Where no graph has them a
   call is to blame only if the sequence is too short for one. */
static void count_eager(struct ag_stream *stream, bool barrier, enum ag_reason reason)
{
    const struct ag_node *leaf = stream->recorder.cursor;
    enum ag_why why = ag_eager_why(stream);
    uint64_t ops = ag_eager_open(stream);
    bool eager = ag_trials_are_eager(stream);
    if (why == AG_WHY_NOVEL && leaf->unmade != AG_WHY_HELD)
        why = (enum ag_why)leaf->unmade;
    if (why == AG_WHY_NOVEL && barrier && !eager && leaf->weight < ag_opt.trace_min_length)
        why = AG_WHY_SHORT;
    stream->counters.eager[why] += ops;
    if (barrier && !eager)
        AG_ACCOUNT(ag_account_cut(stream, reason, why == AG_WHY_SHORT ? why : AG_WHY_HELD,
                                  why == AG_WHY_SHORT ? ops : 0));
}

/* Nothing is held. */
static void end_eagerly(struct ag_stream *stream, bool barrier, enum ag_reason reason)
{
    const struct ag_node *leaf = stream->recorder.cursor;
    if (ag_trials_are_eager(stream) && leaf->trace != NULL)
        ag_execs_used(stream, leaf->trace); /* but for the trial it would have been */
    if (leaf->depth != 0)
        count_eager(stream, barrier, reason);
}

/* The sequence may be a known one. Behind a barrier it is known that its last op has been taken. */
static void prepare_known(struct ag_stream *stream, bool barrier)
{
    stream->recorder.overspent =
        ag_context_overspent(stream->id.context) > ag_opt.graph_credit_ms * 1000000;
    if (barrier)
        ag_eager_settle(stream);
}

/* Tells all who count the ops of a sequence. Returns its leaf if the sequence has become hot; else
   NULL. */
static struct ag_node *close_sequence(struct ag_stream *stream, bool barrier, enum ag_reason reason)
{
    struct ag_recorder *rec = &stream->recorder;
    if (UNLIKELY(ag_known_any))
        prepare_known(stream, barrier);
    ag_model_ended(stream, rec->cursor->depth, barrier);
    ag_copies_closed(stream, rec->cursor->depth);
    struct ag_node *hot = ag_recorder_end(rec, barrier, ag_budget_hot(stream, rec->cursor),
                                          (uint32_t)ag_opt.trace_min_length);
    if (barrier && reason == AG_REASON_HOST_WAIT)
        ag_recorder_waited(rec, stream->model.first);
    return hot;
}

/* The leaf of which a trace is to be made; NULL: of none. A known sequence may rest instead. */
static struct ag_node *decide(struct ag_stream *stream, struct ag_node *hot,
                              struct ag_node *variant)
{
    bool lost = hot != NULL && UNLIKELY(hot->known != NULL) && hot->known->lost;
    if (lost && ag_trials_rest(stream))
        return NULL;
    return hot != NULL ? hot : variant;
}

static void make(struct ag_stream *stream, struct ag_node *leaf)
{
    bool pushed;
    ag_depth++;
    if (ag_context_enter(stream->id.context, &pushed)) {
        ag_make(stream, leaf);
        ag_context_leave(pushed);
    }
    ag_depth--;
}

void ag_stream_end(struct ag_stream *stream, bool barrier, enum ag_reason reason)
{
    struct ag_node *variant = NULL;
    if (barrier)
        ag_pinned_followed(stream, reason);
    bool subscribed = !barrier || reason == AG_REASON_EVENT || ag_branches_listen(stream);
    ag_sequence_subscribe(stream, subscribed && stream->id.live);
    if (stream->seq.held != 0)
        variant = flush(stream, reason);
    else
        end_eagerly(stream, barrier, reason);
    ag_branches_end(stream);
    ag_sequence_settles_events(stream);
    ag_failure_forgive(stream);
    ag_issuer_counts(stream);
    if (stream->id.live) {
        struct ag_node *hot = close_sequence(stream, barrier, reason);
        struct ag_node *leaf = decide(stream, hot, variant);
        if (leaf != NULL)
            make(stream, leaf);
    }
    ag_sequence_turn(stream, AG_BETWEEN);
}
