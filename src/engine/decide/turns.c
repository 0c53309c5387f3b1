/* SPDX-License-Identifier: MIT */
/* Blocks of a context's work that take turns: see turns.h. */
#include "engine/decide/turns.h"

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
    uint64_t sum = atomic_load_explicit(&context->turns.gone, memory_order_relaxed);
    for (struct ag_stream *stream = ag_stream_all(); stream != NULL; stream = stream->place.next)
        if (__atomic_load_n(&stream->id.context, __ATOMIC_RELAXED) == context)
            sum += issued_there(stream) -
                   atomic_load_explicit(&stream->turn.before, memory_order_relaxed);
    return sum;
}

/* Since the block began. A state that goes to another context meanwhile may be missing. */
static uint64_t issued_since(const struct ag_turns *turns, uint64_t all)
{
    return all > turns->ops ? all - turns->ops : 0;
}

void ag_turns_move(struct ag_stream *stream)
{
    struct ag_context *last = stream->id.context;
    uint64_t now = issued_there(stream), before = atomic_load(&stream->turn.before);
    if (last != NULL)
        atomic_fetch_add_explicit(&last->turns.gone, now - before, memory_order_relaxed);
    stream->turn = (struct ag_turn){.before = now};
}

/* A block begins now, after so many ops of the context. */
static void begin_block(struct ag_turns *turns, uint64_t now, uint64_t ops)
{
    turns->began = ag_self.block = now;
    turns->ops = ops;
    turns->apart = ag_self.apart;
    atomic_store_explicit(&turns->eager, ag_duel_is_eager(&turns->duel), memory_order_relaxed);
}

/* The calling thread leads a duel, whose first block is still to begin. */
static void begin_duel(struct ag_context *context)
{
    struct ag_turns *turns = &context->turns;
    ag_duel_begin(&turns->duel);
    begin_block(turns, 0, issued(context));
    turns->mark = ag_done.waits + ag_done.graphs;
}

/* The duel is over. */
static void end_duel(struct ag_stream *stream, enum ag_duel_verdict verdict)
{
    struct ag_turns *turns = &stream->id.context->turns;
    bool lost = verdict == AG_DUEL_EAGER;
    stream->counters.duels++;
    ag_account_duel(stream->id.context, &turns->duel, lost);
    ag_log(AG_LOG_NOTE, "holding %s after %u pairs: %.0f ns for an op, %.0f without",
           lost                      ? "does not pay"
           : verdict == AG_DUEL_HELD ? "pays"
                                     : "makes no difference",
           turns->duel.pairs, turns->duel.mean_ns[0], turns->duel.mean_ns[1]);
    stream->counters.duels_lost += lost;
    ag_backoff_reset(lost ? &turns->again : &turns->rests);
    atomic_store(&turns->rest, lost ? ag_backoff_next(&turns->rests, AG_DUEL_REST) : 0);
    atomic_fetch_add(&turns->lost, lost);
    atomic_store(&turns->left, ag_backoff_next(&turns->again, AG_DUEL_AGAIN));
    atomic_store(&turns->eager, false);
    atomic_store(&turns->leader, NULL);
}

/* A sequence of the leader begins. */
static void arrive(struct ag_stream *stream)
{
    struct ag_turns *turns = &stream->id.context->turns;
    uint32_t mark = ag_done.waits + ag_done.graphs;
    uint64_t all = issued(stream->id.context), ops = issued_since(turns, all), now;
    bool waited = mark != turns->mark, first = turns->began == 0;
    uint32_t least = first ? 0 : AG_DUEL_BLOCK; /* the first block begins behind a wait, too */
    enum ag_duel_verdict verdict = AG_DUEL_OPEN;
    turns->mark = mark;
    uint32_t most = 2 * AG_DUEL_BLOCK + ag_recorder_awaits_barrier(&stream->recorder);
    if (ops < (waited ? least : most))
        return;
    now = ag_clock_now();
    if (!first)
        verdict = ag_duel_block(
            &turns->duel,
            ag_clock_less(ag_clock_less(now, turns->began), ag_self.apart - turns->apart), ops);
    if (verdict == AG_DUEL_OPEN)
        begin_block(turns, now, all);
    else
        end_duel(stream, verdict);
}

/* A duel has been lost since this stream's last sequence. */
static void rest(struct ag_stream *stream)
{
    struct ag_turns *turns = &stream->id.context->turns;
    uint32_t ops = atomic_load(&turns->rest);
    stream->turn.lost = atomic_load(&turns->lost);
    if (ops == 0)
        return;
    stream->turn.rests = true;
    stream->turn.began = ag_issuer_issued(stream);
    ag_recorder_paid(&stream->recorder, 0); /* or it would soon let all kinds of ops pass */
    ag_recorder_rest(&stream->recorder, ops, ~stream->turn.known);
}

bool ag_turns_rest(struct ag_stream *stream)
{
    struct ag_turns *turns = &stream->id.context->turns;
    if (!ag_opt.trace_duel || atomic_load(&turns->leader) != NULL)
        return false;
    if (!atomic_exchange(&turns->busy, true)) {
        if (atomic_load(&turns->lost) == 0) {
            atomic_store(&turns->rest, ag_backoff_next(&turns->rests, AG_DUEL_REST));
            atomic_store(&turns->lost, 1);
            ag_log(AG_LOG_NOTE, "holding did not pay in an earlier run");
        }
        atomic_store(&turns->busy, false);
    }
    if (atomic_load(&turns->lost) != stream->turn.lost)
        rest(stream);
    return stream->turn.rests;
}

/* Nobody else does this now. A leader that has not come for long is another thread from now on. */
static void take_turn(struct ag_stream *stream)
{
    struct ag_context *context = stream->id.context;
    struct ag_turns *turns = &context->turns;
    const void *leader = atomic_load(&turns->leader);
    bool astray = leader != NULL && leader != &ag_self &&
                  issued_since(turns, issued(context)) > AG_DUEL_AGAIN.first;
    if (leader == &ag_self) {
        arrive(stream);
    } else if (astray || (leader == NULL && atomic_load(&turns->left) <= 0)) {
        atomic_store(&turns->leader, &ag_self);
        begin_duel(context);
    }
}

bool ag_turns_hold_slow(struct ag_stream *stream)
{
    struct ag_turns *turns = &stream->id.context->turns;
    if (!ag_opt.trace_duel)
        return true;
    if (atomic_load(&turns->lost) != stream->turn.lost) {
        rest(stream);
        return !stream->turn.rests;
    }
    if (!atomic_exchange(&turns->busy, true)) {
        take_turn(stream);
        atomic_store(&turns->busy, false);
    }
    return !ag_turns_are_eager(stream);
}

void ag_turns_made(struct ag_stream *stream)
{
    struct ag_turns *turns = &stream->id.context->turns;
    int64_t left = atomic_load_explicit(&turns->left, memory_order_relaxed);
    if (left > AG_DUEL_AGAIN.first)
        atomic_store_explicit(&turns->left, left / 2, memory_order_relaxed);
}

bool ag_turns_pass(struct ag_stream *stream, uint64_t mark)
{
    struct ag_recorder *rec = &stream->recorder;
    if (rec->cursor->depth != 0)
        return false;
    bool rests = ag_recorder_rests(rec);
    enum { LEARNS = 8 * AG_DUEL_BLOCK }; /* ops of a rest: what kinds of them the stream has */
    bool learns = ag_issuer_issued(stream) - stream->turn.began < LEARNS;
    stream->turn.known |= mark;
    if (rests && learns) {
        ag_recorder_lets_pass(rec, mark);
        return true;
    }
    if (rests) { /* the loop is another one */
        struct ag_turns *turns = &stream->id.context->turns;
        ag_backoff_reset(&turns->rests);
        atomic_store(&turns->rest, 0);
        ag_recorder_resume(rec, UINT32_MAX);
    }
    stream->turn.rests = false;
    return false;
}

void ag_turns_spent_slow(const struct ag_stream *stream, uint64_t began)
{
    if (ag_turns_are_eager(stream))
        ag_self.apart += ag_clock_since(began > ag_self.block ? began : ag_self.block);
}
