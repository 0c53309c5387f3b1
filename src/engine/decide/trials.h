/* SPDX-License-Identifier: MIT */
/*
 * Trials: now and then a context's streams are held and eager in turn, and a trial (policy/trial.h)
 * says which way the program is faster.
 *
 * One thread leads: a block begins and ends where a sequence of its begins, behind a wait of the
 * thread or a graph of its own. If it does not wait, blocks have more ops. In a block all sequences
 * of the context are held, or none is. All ops of all its streams count, whoever issues them: a
 * replay may save its own thread what others lose. Recording goes on while nothing is held, so that
 * sequences are cut at the same places either way. The time for that does not count, and neither
 * does the time to make graphs.
 *
 * If holding loses, each stream of the context rests from its next sequence on. Its ops pass, for
 * longer each time. An op of a kind that the stream has not had ends its rest: the loop is another
 * one. Its traces stay, and there is another trial once its ops have been held again.
 *
 * If holding wins the next trial comes later each time; sooner where traces are made.
 *
 * All functions want the stream's lock.
 */
#ifndef AG_TRIALS_H
#define AG_TRIALS_H

#include "engine/base/branch.h"
#include "driver/limits.h"
#include "engine/base/clock.h"
#include "engine/stream/stream.h"

/* Whether nothing is held in the stream at present because of a trial. */
static inline bool ag_trials_are_eager(const struct ag_stream *stream)
{
    return UNLIKELY(atomic_load_explicit(&stream->id.context->trials.eager, memory_order_relaxed));
}

/* ag_trials_hold() where there is a trial, or one is due or has been lost. */
bool ag_trials_hold_slow(struct ag_stream *stream);

/* A sequence begins that could be held. False: it goes out eagerly. */
static inline bool ag_trials_hold(struct ag_stream *stream)
{
    const struct ag_trials *trials = &stream->id.context->trials;
    bool usual = atomic_load_explicit(&trials->leader, memory_order_relaxed) == NULL &&
                 atomic_load_explicit(&trials->left, memory_order_relaxed) > 0 &&
                 atomic_load_explicit(&trials->lost, memory_order_relaxed) == stream->trials.lost;
    return LIKELY(usual) || ag_trials_hold_slow(stream);
}

/* What was held, so many ops, has been submitted in so many ns (0: not known). If that took longer
   than launches take, it counts like so many launches: the next trial comes the sooner. */
static inline void ag_trials_submitted(struct ag_stream *stream, uint32_t ops, uint64_t ns)
{
    struct ag_trials *trials = &stream->id.context->trials;
    uint64_t launches = ns / AG_GAIN_NS;
    int64_t left = atomic_load_explicit(&trials->left, memory_order_relaxed); /* about */
    atomic_store_explicit(&trials->left, left - (int64_t)(launches > ops ? launches : ops),
                          memory_order_relaxed);
}

/* The state is about to be one of another context, or of its context anew. */
void ag_trials_move(struct ag_stream *stream);

/* A first trace of a sequence has been made: the loop may be a new one. */
void ag_trials_made(struct ag_stream *stream);

/* A known sequence has come that was faster without graphs. Counts as the context's first trial,
   which is lost. Whether the stream rests for it: else a trial has been lost before, and it is
   judged anew. */
bool ag_trials_rest(struct ag_stream *stream);

/* Whether an op with this mark passes, where it did not look like one that does: in a rest after a
   lost trial, in which the kinds of ops are learnt. */
bool ag_trials_pass(struct ag_stream *stream, uint64_t mark);

/* The time, ns, if what the calling thread does now for the stream does not count; else 0. */
static inline uint64_t ag_trials_clock(const struct ag_stream *stream)
{
    return ag_trials_are_eager(stream) ? ag_clock_now() : 0;
}

/* Since `began` (ag_trials_clock()) the library has recorded an op. What came before the block
   under way does not belong to it. */
void ag_trials_spent_slow(const struct ag_stream *stream, uint64_t began);
static inline void ag_trials_spent(const struct ag_stream *stream, uint64_t began)
{
    if (UNLIKELY(began != 0))
        ag_trials_spent_slow(stream, began);
}

#endif
