/* SPDX-License-Identifier: MIT */
/* Measuring a program's pace, and choosing the length of sequences by it. */
#include "engine/pace.h"

#include "config/config.h"
#include "engine/clock.h"
#include "engine/issuer.h"
#include "observe/log.h"
#include "policy/policy.h"

static void resize(struct ag_stream *stream, uint32_t length)
{
    struct ag_pace *pace = &stream->pace;
    pace->length = length < ag_opt.trace_min_length ? (uint32_t)ag_opt.trace_min_length : length;
    pace->times = 0;
    ag_log(AG_LOG_DETAIL, "sequences of %u ops in stream %p: %u ns for each, %u between waits",
           pace->length, (void *)stream->id.handle, pace->op_ns, pace->runs);
    /* The usual one leaves a long loop in longer pieces than a short one is unrolled to. */
    bool usual = pace->length >= ag_opt.trace_unroll;
    ag_recorder_resize(&stream->recorder, usual ? (uint32_t)ag_opt.trace_unroll : pace->length,
                       usual ? (uint32_t)ag_opt.trace_max_length : pace->length);
}

void ag_pace_start(struct ag_stream *stream)
{
    stream->pace = (struct ag_pace){.length = (uint32_t)ag_opt.trace_unroll, .first = UINT32_MAX};
}

void ag_pace_begun(struct ag_stream *stream)
{
    bool measured =
        stream->seq.epoch % AG_PACE_SAMPLE == 0 || stream->pace.known == AG_PACE_DOUBTED;
    stream->pace.began = measured ? ag_pace_clock() : 0;
    stream->pace.thread = &ag_self;
    stream->pace.submitting = ag_self.submitting;
    stream->pace.ops_before = ag_self.ops;
}

uint64_t ag_pace_clock(void)
{
    return ag_opt.trace_length == AG_LENGTH_AUTO ? ag_clock_now() : 0;
}

/* The average of a time, ns, after one more measurement; a pause of the machine counts little. */
static uint32_t average(uint32_t before, uint64_t ns)
{
    if (before == 0)
        return ns > UINT32_MAX / 8 ? UINT32_MAX / 8 : (uint32_t)ns + 1;
    if (ns < AG_PACE_OUTLIER * (uint64_t)before)
        return before + (uint32_t)(((int64_t)ns - (int64_t)before) / AG_PACE_WEIGHT);
    return before + before / AG_PACE_WEIGHT + 1;
}

void ag_pace_spent(struct ag_stream *stream, uint64_t ns, bool whole)
{
    if (ns == 0)
        return;
    ag_self.submitting += ns;
    if (whole)
        stream->pace.replay_ns = average(stream->pace.replay_ns, ns);
}

/* Ops of one piece: the length of sequences, or fewer where barriers come before that. */
static uint32_t piece(const struct ag_pace *pace)
{
    return pace->runs != 0 && pace->runs < pace->length ? pace->runs : pace->length;
}

/* Takes in the time between two ops of the stream, and between two ops of its thread. The first
   time may have met a pause of the machine: the lesser of the first and the second counts. */
static void learn(struct ag_pace *pace, uint64_t op_ns, uint64_t any_ns)
{
    if (pace->known == AG_PACE_DOUBTED && op_ns < pace->op_ns)
        pace->op_ns = pace->any_ns = 0;
    if (pace->known != AG_PACE_DOUBTED || pace->op_ns == 0) {
        pace->op_ns = average(pace->op_ns, op_ns);
        pace->any_ns = average(pace->any_ns, any_ns);
    }
    pace->known = pace->known == AG_PACE_UNKNOWN ? AG_PACE_DOUBTED : AG_PACE_KNOWN;
}

void ag_pace_submitted(struct ag_stream *stream, uint32_t held, bool late, uint64_t now)
{
    struct ag_pace *pace = &stream->pace;
    /* This thread has issued the last of two ops at least. If it has the first one, too, it is
       known what else it did meanwhile. What the watchdog submits tells the pace if it was still
       getting longer. */
    bool last =
        late ? stream->late.looks_alike < AG_WATCHDOG_LOOKS
             : atomic_load_explicit(&stream->issuer.thread, memory_order_relaxed) == &ag_self;
    if (pace->began != 0 && now != 0 && last && held > 1) {
        bool both = pace->thread == &ag_self;
        uint64_t ns = ag_clock_less(now, pace->began);
        uint32_t all = both ? ag_self.ops - pace->ops_before : held;
        uint64_t own_ns = ag_clock_less(ns, both ? ag_self.submitting - pace->submitting : 0);
        learn(pace, ns / (held - 1), own_ns / ((all > held ? all : held) - 1));
    }
    pace->began = 0;
}

/* The most ops that can be held without being late if each takes so many ns, with some slack. */
static uint32_t most_held(uint32_t op_ns)
{
    enum { NS_PERCENT = 1000 / 100 }; /* ns of a us that a percent of it has */
    uint64_t us = AG_WATCHDOG_BOUNDS * (uint64_t)ag_opt.hold_bound_us;
    uint64_t most = us * AG_PACE_PLANNED * NS_PERCENT / (op_ns | 1);
    return most < UINT32_MAX ? (uint32_t)most : UINT32_MAX;
}

/* What sequences of `length` ops cost between two barriers, ns; see pace.h. If there are no more
   ops between two barriers they are one piece. */
static uint64_t cost(const struct ag_pace *pace, uint32_t length)
{
    uint32_t ops = length < pace->runs ? length : pace->runs;
    uint32_t pieces = (pace->runs + length - 1) / length;
    return (uint64_t)ops * pace->any_ns + (uint64_t)pieces * AG_PACE_PIECE_NS;
}

/* The power of two next to sqrt(AG_PACE_PIECE_NS * runs / any_ns) that the options and the bound
   allow; a longer one where its fewer pieces cost less. The present length stays if it is hardly
   worse, or if most runs are one piece with either length. */
static uint32_t best_length(const struct ag_pace *pace)
{
    uint64_t square = (uint64_t)AG_PACE_PIECE_NS * pace->runs / (pace->any_ns | 1);
    uint32_t most = most_held(pace->op_ns), length = 2;
    while (2 * (uint64_t)length * length < square && 2 * length <= most)
        length *= 2;
    while (pace->runs > length && 2 * length <= most && cost(pace, 2 * length) < cost(pace, length))
        length *= 2;
    length = length < ag_opt.trace_unroll ? length : (uint32_t)ag_opt.trace_unroll;
    if (length == pace->length || pace->length > most)
        return length;
    if (pace->runs <= length && pace->runs <= pace->length) /* one piece */
        return pace->length <= AG_PACE_LIKE * length ? pace->length : length;
    uint64_t worth = (uint64_t)pace->any_ns * pace->runs / AG_PACE_WORTH;
    return cost(pace, pace->length) <= cost(pace, length) + worth ? pace->length : length;
}

/* An eager sequence has ended before anything was held. If the program is slow, even for one whose
   launches count, sequences become only as long as ops can be held at its pace. */
__attribute__((noinline)) static void guess(struct ag_stream *stream, uint32_t ops, bool barrier)
{
    struct ag_pace *pace = &stream->pace;
    uint64_t before = pace->ended, now = 0;
    if (ops >= AG_PACE_TELLING && (now = ag_pace_clock()) != 0 && before != 0) {
        pace->eager_ns = average(pace->eager_ns, ag_clock_less(now, before) / ops);
        uint32_t length = (uint32_t)ag_opt.trace_unroll;
        while (pace->eager_ns > AG_PACE_SLOW_NS && length > AG_PACE_TELLING &&
               length > most_held(pace->eager_ns))
            length /= 2;
        if (length != pace->length)
            resize(stream, length);
    }
    pace->ended = barrier ? 0 : now; /* not what the program waits for */
}

/*
 * The ops of the first piece behind a wait: the power of two next to a quarter of a piece, if the
 * GPU would otherwise wait for the other ops for longer than one more replay takes. A replay takes
 * long where threads meet in the driver. Once pieces are split less is enough, so that it does not
 * come and go.
 */
static uint32_t best_first(const struct ag_pace *pace)
{
    uint32_t ops = piece(pace), first = 2;
    while (2 * AG_PACE_FIRST * first <= ops)
        first *= 2;
    uint64_t early_ns = (uint64_t)(ops > first ? ops - first : 0) * pace->any_ns;
    bool split = pace->first != UINT32_MAX;
    bool slow = pace->any_ns > (split ? AG_PACE_FAST_SPLIT_NS : AG_PACE_FAST_NS);
    uint64_t worth_ns =
        pace->replay_ns + pace->replay_ns / (split ? AG_PACE_SPLIT_STAYS : AG_PACE_SPLIT);
    return !slow && early_ns > worth_ns ? first : UINT32_MAX;
}

/* Chooses lengths anew: something has been held. (Out of line, like guess(): most sequences need
   neither.) */
__attribute__((noinline)) static void look(struct ag_stream *stream)
{
    struct ag_pace *pace = &stream->pace;
    uint32_t best = best_length(pace);
    pace->first = best_first(pace);
    if (best == pace->length || best != pace->better)
        pace->times = 0;
    pace->better = best;
    if (best != pace->length && ++pace->times >= AG_PACE_TIMES)
        resize(stream, best);
}

void ag_pace_ended(struct ag_stream *stream, uint32_t ops, bool barrier)
{
    struct ag_pace *pace = &stream->pace;
    pace->run += ops;
    bool counts = pace->run != 0 && (barrier || pace->run >= AG_PACE_LONGEST_RUN);
    if (counts) {
        uint32_t run = pace->run < AG_PACE_LONGEST_RUN ? pace->run : AG_PACE_LONGEST_RUN;
        uint32_t sum = (AG_PACE_WEIGHT - 1) * pace->runs + run;
        pace->runs = pace->runs == 0 ? run : (sum + AG_PACE_WEIGHT / 2) / AG_PACE_WEIGHT;
        pace->run = 0;
    }
    if (pace->known != AG_PACE_UNKNOWN) {
        if (counts && pace->known == AG_PACE_KNOWN)
            look(stream);
    } else if (ops >= AG_PACE_TELLING || pace->ended != 0) {
        guess(stream, ops, barrier);
    }
}
