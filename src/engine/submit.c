/* SPDX-License-Identifier: MIT */
/* Submitting held ops, by replay or eagerly; and what happens at the end of a sequence. */
#include "engine/submit.h"

#include "config/config.h"
#include "driver/driver.h"
#include "engine/account.h"
#include "engine/audit.h"
#include "engine/credit.h"
#include "engine/execs.h"
#include "engine/failure.h"
#include "engine/hot.h"
#include "engine/make.h"
#include "engine/observe.h"
#include "engine/pace.h"
#include "engine/relay.h"
#include "engine/sequence.h"
#include "engine/staging.h"
#include "engine/trial.h"
#include "graph/node.h"
#include "graph/variant.h"

/* Replays the longest trace that begins the held ops; returns its length, 0 without one. */
static uint32_t submit_prefix(struct ag_stream *stream, uint32_t held, CUstream target)
{
    uint32_t length = held;
    while (length > 0 && stream->seq.path[length]->trace == NULL)
        length--;
    if (length == 0)
        return 0;
    struct ag_trace *trace = ag_variant_choose(stream->seq.path[length]->trace);
    trace->leaf->trace = trace; /* the one in use */
    uint64_t patches = stream->counters.patches;
    CUresult result = ag_trace_replay(trace, target, &stream->counters);
    if (result != CUDA_SUCCESS) {
        ag_failure_note(stream, result, "replaying a trace");
        ag_make_failed(trace->leaf);
        ag_execs_drop(stream, trace);
        return 0;
    }
    if (stream->counters.patches != patches)
        ag_variant_observe(trace, (uint32_t)(stream->counters.patches - patches));
    ag_execs_replayed(stream, trace);
    stream->counters.replays++;
    stream->counters.replayed += length;
    ag_recorder_paid(&stream->recorder, length);
    ag_credit_pay(stream->id.context, length);
    return length;
}

bool ag_stream_submit(struct ag_stream *stream, enum ag_reason reason)
{
    uint32_t held = stream->seq.held;
    if (held == 0)
        return true;
    bool pushed, relay = ag_relay_is_needed(stream);
    CUstream target = relay ? stream->relay.stream : stream->id.handle;
    uint64_t clock = ag_pace_clock();
    ag_pace_submitted(stream, held, reason == AG_REASON_WATCHDOG, clock);
    uint64_t began = ag_tracefile_now(), patches = stream->counters.patches;
    ag_depth++;
    bool entered = ag_context_enter(stream->id.context, &pushed);
    if (relay)
        ag_relay_begins(stream);
    /* Without a context the driver crashes when a node's arguments are set (driver 580). */
    uint32_t replayed = entered ? submit_prefix(stream, held, target) : 0;
    for (uint32_t i = replayed + 1; i <= held; i++)
        if (ag_failure_refused(stream, ag_node_submit(stream->seq.path[i], target),
                               "submitting a held op"))
            stream->seq.path[i]->bad |= AG_BAD;
    for (unsigned i = 0; i < stream->seq.free_count; i++)
        ag_failure_refused(stream, ag_real.cuMemFreeAsync(stream->seq.frees[i], target),
                           "freeing memory");
    ag_staging_submitted(stream, target);
    if (relay)
        ag_relay_ends(stream);
    ag_context_leave(pushed);
    ag_depth--;
    AG_NOTE(ag_note_submit(stream, replayed, reason, began, patches));
    if (replayed != 0)
        AG_ACCOUNT(ag_account_replay(stream, stream->seq.path[replayed]->trace,
                                     stream->counters.patches - patches));
    if (replayed < held) {
        stream->counters.flushes[reason]++;
        AG_ACCOUNT(ag_account_cut(stream, reason, held - replayed));
    }
    ag_trial_submitted(stream->seq.path[1], replayed != 0);
    ag_sequence_turn(stream, AG_RECORDING);
    ag_pace_spent(stream, clock, replayed == held);
    return replayed == held;
}

/* -- The end of a sequence: flush, close, decide, make ------------------------ */

/* What is held goes out. Returns the leaf of the sequence if its trace has been replayed and wants
   a variant; else NULL. */
static struct ag_node *flush(struct ag_stream *stream, enum ag_reason reason)
{
    const struct ag_recorder *rec = &stream->recorder;
    struct ag_node *leaf = rec->cursor;
    if (!ag_stream_submit(stream, reason) || leaf->trace == NULL)
        return NULL;
    if (leaf->depth >= rec->max_length)
        leaf->trace->rounds = false; /* no longer one will come */
    bool wanted = !leaf->trace->rounds && ag_variant_wanted(leaf->trace) &&
                  !ag_execs_is_wanted(stream, leaf) && ag_context_owes(stream->id.context) <= 0;
    return wanted ? leaf : NULL;
}

/* The sequence has gone out eagerly. */
static void note_eager(struct ag_stream *stream, bool barrier, enum ag_reason reason)
{
    const struct ag_node *leaf = stream->recorder.cursor;
    if (leaf->trace != NULL && ag_trial_prevents(stream, leaf))
        ag_execs_used(stream, leaf->trace); /* but for the trial it would have been */
    else if (ag_accounting && barrier && leaf->depth != 0 && !ag_trial_prevents(stream, leaf))
        ag_account_cut(stream, reason, leaf->depth);
}

/* Tells all who count the ops of a sequence. Returns its leaf if the sequence has become hot; else
   NULL. */
static struct ag_node *close_sequence(struct ag_stream *stream, bool barrier, enum ag_reason reason)
{
    struct ag_recorder *rec = &stream->recorder;
    ag_trial_ended(stream, rec->cursor->depth);
    ag_pace_ended(stream, rec->cursor->depth, barrier);
    struct ag_node *hot = ag_recorder_end(rec, barrier, ag_credit_hot(stream, rec->cursor),
                                          (uint32_t)ag_opt.trace_min_length);
    if (barrier && reason == AG_REASON_HOST_WAIT)
        ag_recorder_waited(rec, stream->pace.first);
    return hot;
}

/* The leaf of which a trace is to be made; NULL: of none. */
static struct ag_node *decide(struct ag_node *hot, struct ag_node *variant)
{
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
    ag_sequence_be_curious(stream, !barrier && stream->id.live);
    if (stream->seq.held != 0)
        variant = flush(stream, reason);
    else
        note_eager(stream, barrier, reason);
    ag_sequence_settles_events(stream);
    if (stream->id.live) {
        struct ag_node *hot = close_sequence(stream, barrier, reason);
        struct ag_node *leaf = decide(hot, variant);
        if (leaf != NULL)
            make(stream, leaf);
        if (barrier && __builtin_expect(ag_audit_is_due(stream), 0))
            ag_audit_look(stream);
    }
    ag_sequence_turn(stream, AG_BETWEEN);
}
