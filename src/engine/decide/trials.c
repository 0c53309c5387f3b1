/* SPDX-License-Identifier: MIT */
/* Blocks of a context's work that take turns: see trials.h. */
#include "engine/decide/trials.h"

#include "config/config.h"
#include "engine/hot.h"
#include "engine/stream/issuer.h"
#include "engine/tell/account.h"
#include "observe/log.h"
#include "policy/policy.h"

/* Ops and graphs of the state in all lives. Of a stream that another thread is at work on, those of
   the open sequence are missing. */
static uint64_t issued_there(const struct ag_stream *stream)
{
    return atomic_load_explicit(&stream->issuer.recorded, memory_order_relaxed) +
           atomic_load_explicit(&stream->issuer.passed, memory_order_relaxed) +
           atomic_load_explicit(&stream->issuer.used, memory_order_relaxed);
}

/* Ops and graphs of all streams of the context, those too whose states went to other contexts. */
static uint64_t issued(const struct ag_context *context)
{
    uint64_t sum = atomic_load_explicit(&context->trials.gone, memory_order_relaxed);
    for (struct ag_stream *stream = ag_stream_all(); stream != NULL; stream = stream->place.next)
        if (__atomic_load_n(&stream->id.context, __ATOMIC_RELAXED) == context)
            sum += issued_there(stream) -
                   atomic_load_explicit(&stream->trials.before, memory_order_relaxed);
    return sum;
}

/* Since the block began. A state that goes to another context meanwhile may be missing. */
static uint64_t issued_since(const struct ag_trials *trials, uint64_t all)
{
    return all > trials->ops ? all - trials->ops : 0;
}

void ag_trials_move(struct ag_stream *stream)
{
    struct ag_context *last = stream->id.context;
    uint64_t now = issued_there(stream), before = atomic_load(&stream->trials.before);
    if (last != NULL)
        atomic_fetch_add_explicit(&last->trials.gone, now - before, memory_order_relaxed);
    stream->trials = (struct ag_stream_trials){.before = now};
}

/* A block begins now, after so many ops of the context. */
static void begin_block(struct ag_trials *trials, uint64_t now, uint64_t ops)
{
    trials->began = ag_self.block = now;
    trials->ops = ops;
    trials->apart = ag_self.apart;
    atomic_store_explicit(&trials->eager, ag_trial_is_eager(&trials->trial), memory_order_relaxed);
}

/* The calling thread leads a trial, whose first block is still to begin. */
static void begin_trial(struct ag_context *context)
{
    struct ag_trials *trials = &context->trials;
    ag_trial_begin(&trials->trial);
    begin_block(trials, 0, issued(context));
    trials->mark = ag_done.waits + ag_done.graphs;
}

/* The trial is over. */
static void end_trial(struct ag_stream *stream, enum ag_trial_verdict verdict)
{
    struct ag_trials *trials = &stream->id.context->trials;
    bool lost = verdict == AG_TRIAL_EAGER;
    stream->counters.trials++;
    ag_account_trial(stream->id.context, &trials->trial, lost);
    ag_log(AG_LOG_NOTE, "holding %s after %u pairs: %.0f ns for an op, %.0f without",
           lost                       ? "does not pay"
           : verdict == AG_TRIAL_HELD ? "pays"
                                      : "makes no difference",
           trials->trial.pairs, trials->trial.mean_ns[0], trials->trial.mean_ns[1]);
    stream->counters.trials_lost += lost;
    ag_backoff_reset(lost ? &trials->again : &trials->rests);
    atomic_store(&trials->rest, lost ? ag_backoff_next(&trials->rests, AG_TRIAL_REST) : 0);
    atomic_fetch_add(&trials->lost, lost);
    atomic_store(&trials->left, ag_backoff_next(&trials->again, AG_TRIAL_AGAIN));
    atomic_store(&trials->eager, false);
    atomic_store(&trials->leader, NULL);
}

/* A sequence of the leader begins. */
static void arrive(struct ag_stream *stream)
{
    struct ag_trials *trials = &stream->id.context->trials;
    uint32_t mark = ag_done.waits + ag_done.graphs;
    uint64_t all = issued(stream->id.context), ops = issued_since(trials, all), now;
    bool waited = mark != trials->mark, first = trials->began == 0;
    uint32_t least = first ? 0 : AG_TRIAL_BLOCK; /* the first block begins behind a wait, too */
    enum ag_trial_verdict verdict = AG_TRIAL_OPEN;
    trials->mark = mark;
    uint32_t most = 2 * AG_TRIAL_BLOCK + ag_recorder_awaits_barrier(&stream->recorder);
    if (ops < (waited ? least : most))
        return;
    now = ag_clock_now();
    if (!first)
        verdict = ag_trial_block(
            &trials->trial,
            ag_clock_less(ag_clock_less(now, trials->began), ag_self.apart - trials->apart), ops);
    if (verdict == AG_TRIAL_OPEN)
        begin_block(trials, now, all);
    else
        end_trial(stream, verdict);
}

/* A trial has been lost since this stream's last sequence. */
static void rest(struct ag_stream *stream)
{
    struct ag_trials *trials = &stream->id.context->trials;
    uint32_t ops = atomic_load(&trials->rest);
    stream->trials.lost = atomic_load(&trials->lost);
    if (ops == 0)
        return;
    stream->trials.rests = true;
    stream->trials.began = ag_issuer_issued(stream);
    ag_recorder_paid(&stream->recorder, 0); /* or it would soon let all kinds of ops pass */
    ag_recorder_rest(&stream->recorder, ops, ~stream->trials.known);
}

bool ag_trials_rest(struct ag_stream *stream)
{
    struct ag_trials *trials = &stream->id.context->trials;
    if (!ag_opt.trace_duel || atomic_load(&trials->leader) != NULL)
        return false;
    if (!atomic_exchange(&trials->busy, true)) {
        if (atomic_load(&trials->lost) == 0) {
            atomic_store(&trials->rest, ag_backoff_next(&trials->rests, AG_TRIAL_REST));
            atomic_store(&trials->lost, 1);
            ag_log(AG_LOG_NOTE, "holding did not pay in an earlier run");
        }
        atomic_store(&trials->busy, false);
    }
    if (atomic_load(&trials->lost) != stream->trials.lost)
        rest(stream);
    return stream->trials.rests;
}

/* Nobody else does this now. A leader that has not come for long is another thread from now on. */
static void take_turn(struct ag_stream *stream)
{
    struct ag_context *context = stream->id.context;
    struct ag_trials *trials = &context->trials;
    const void *leader = atomic_load(&trials->leader);
    bool astray = leader != NULL && leader != &ag_self &&
                  issued_since(trials, issued(context)) > AG_TRIAL_AGAIN.first;
    if (leader == &ag_self) {
        arrive(stream);
    } else if (astray || (leader == NULL && atomic_load(&trials->left) <= 0)) {
        atomic_store(&trials->leader, &ag_self);
        begin_trial(context);
    }
}

bool ag_trials_hold_slow(struct ag_stream *stream)
{
    struct ag_trials *trials = &stream->id.context->trials;
    if (!ag_opt.trace_duel)
        return true;
    if (atomic_load(&trials->lost) != stream->trials.lost) {
        rest(stream);
        return !stream->trials.rests;
    }
    if (!atomic_exchange(&trials->busy, true)) {
        take_turn(stream);
        atomic_store(&trials->busy, false);
    }
    return !ag_trials_are_eager(stream);
}

void ag_trials_made(struct ag_stream *stream)
{
    struct ag_trials *trials = &stream->id.context->trials;
    int64_t left = atomic_load_explicit(&trials->left, memory_order_relaxed);
    if (left > AG_TRIAL_AGAIN.first)
        atomic_store_explicit(&trials->left, left / 2, memory_order_relaxed);
}

bool ag_trials_pass(struct ag_stream *stream, uint64_t mark)
{
    struct ag_recorder *rec = &stream->recorder;
    if (rec->cursor->depth != 0)
        return false;
    bool rests = ag_recorder_rests(rec);
    enum { LEARNS = 8 * AG_TRIAL_BLOCK }; /* ops of a rest: what kinds of them the stream has */
    bool learns = ag_issuer_issued(stream) - stream->trials.began < LEARNS;
    stream->trials.known |= mark;
    if (rests && learns) {
        ag_recorder_lets_pass(rec, mark);
        return true;
    }
    if (rests) { /* the loop is another one */
        struct ag_trials *trials = &stream->id.context->trials;
        ag_backoff_reset(&trials->rests);
        atomic_store(&trials->rest, 0);
        ag_recorder_resume(rec, UINT32_MAX);
    }
    stream->trials.rests = false;
    return false;
}

void ag_trials_spent_slow(const struct ag_stream *stream, uint64_t began)
{
    if (ag_trials_are_eager(stream))
        ag_self.apart += ag_clock_since(began > ag_self.block ? began : ag_self.block);
}
