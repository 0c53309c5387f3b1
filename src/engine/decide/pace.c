/* SPDX-License-Identifier: MIT */
/* Measuring a program's pace, and choosing the length of sequences by it. */
#include "engine/decide/pace.h"

#include "config/config.h"
#include "driver/limits.h"
#include "engine/base/clock.h"
#include "engine/base/watchdog.h"
#include "engine/stream/issuer.h"
#include "observe/log.h"
#include "policy/policy.h"

static void resize(struct ag_stream *stream, uint32_t length)
{
    struct ag_pace *pace = &stream->pace;
    pace->length = length < ag_opt.trace_min_length ? (uint32_t)ag_opt.trace_min_length : length;
    ag_log(AG_LOG_DETAIL, "sequences of %u ops in stream %p: %u ns for each, %u between waits",
           pace->length, (void *)stream->id.handle, pace->op_ns, pace->runs);
    /* The usual one leaves a long loop in longer pieces than a short one is unrolled to. */
    bool usual = pace->length >= ag_opt.trace_unroll;
    uint32_t unroll = usual ? (uint32_t)ag_opt.trace_unroll : pace->length;
    uint32_t most = usual ? (uint32_t)ag_opt.trace_max_length : pace->length;
    ag_recorder_resize(&stream->recorder, unroll, most < pace->bound ? most : pace->bound);
}

void ag_pace_start(struct ag_stream *stream)
{
    stream->pace = (struct ag_pace){
        .length = (uint32_t)ag_opt.trace_unroll, .first = UINT32_MAX, .bound = UINT32_MAX};
}

void ag_pace_bound(struct ag_stream *stream, uint32_t ops)
{
    ag_recorder_bound(&stream->recorder, ops);
    while ((ops & (ops - 1)) != 0)
        ops &= ops - 1;
    if (ops >= stream->pace.bound)
        return;
    stream->pace.bound = ops;
    resize(stream, stream->pace.length);
}

uint64_t ag_pace_clock(void)
{
    return ag_opt.trace_length == AG_LENGTH_AUTO ? ag_clock_now() : 0;
}

/* Whether the pace of held ops is known. */
static bool is_known(const struct ag_pace *pace)
{
    return pace->holds >= AG_PACE_WINDOW;
}

void ag_pace_begun(struct ag_stream *stream)
{
    struct ag_pace *pace = &stream->pace;
    pace->began = 0;
    if (stream->seq.epoch % AG_PACE_WINDOW != 0 && (pace->runs == 1 || is_known(pace)))
        return;
    pace->began = ag_pace_clock();
    pace->thread = &ag_self;
    pace->submitting = ag_self.submitting;
    pace->ops_before = ag_self.ops;
}

/* The average of a time, ns, after one more measurement; a pause of the machine counts little. */
static uint32_t average(uint32_t before, uint64_t ns)
{
    uint64_t most = before == 0 ? UINT32_MAX / 8 : (uint64_t)before * AG_PACE_OUTLIER;
    uint32_t last = (uint32_t)(ns < most ? ns : most);
    if (before == 0)
        return last + 1;
    return before + (uint32_t)(((int64_t)last - (int64_t)before) / AG_PACE_WINDOW);
}

/* The same of one of the first times that something is measured: a pause makes it longer only. */
static uint32_t least(uint32_t before, uint64_t ns)
{
    return before != 0 && ns >= before ? before : average(0, ns);
}

void ag_pace_spent(struct ag_stream *stream, uint64_t ns, bool whole)
{
    struct ag_pace *pace = &stream->pace;
    if (ns == 0)
        return;
    ag_self.submitting += ns;
    bool patched = stream->counters.patches != pace->patches;
    pace->patches = stream->counters.patches;
    if (whole)
        pace->replay_ns =
            patched || !is_known(pace) ? least(pace->replay_ns, ns) : average(pace->replay_ns, ns);
}

/* Takes in the time between two held ops of the stream, and of its thread. */
static void learn(struct ag_pace *pace, uint64_t op_ns, uint64_t any_ns)
{
    bool known = is_known(pace);
    pace->op_ns = known ? average(pace->op_ns, op_ns) : least(pace->op_ns, op_ns);
    pace->any_ns = known ? average(pace->any_ns, any_ns) : least(pace->any_ns, any_ns);
    pace->holds += !known;
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

/* The most ops that can be held without being late if each takes as long as now. */
static uint32_t most_held(const struct ag_pace *pace)
{
    uint64_t most = AG_WATCHDOG_BOUNDS * (uint64_t)ag_opt.hold_bound_us * 1000 / (pace->op_ns | 1);
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

/* The power of two that costs least, of those that the option and the bound allow, and of equal
   ones the longest. The present length stays if it is hardly worse. */
static uint32_t best_length(const struct ag_pace *pace)
{
    uint32_t most = most_held(pace), best = 2;
    for (uint32_t length = 4; length <= most && length / 2 < ag_opt.trace_unroll; length *= 2)
        best = cost(pace, length) <= cost(pace, best) ? length : best;
    best = best < ag_opt.trace_unroll ? best : (uint32_t)ag_opt.trace_unroll;
    uint64_t least = cost(pace, best);
    bool stays =
        pace->length <= most && cost(pace, pace->length) <= least + least / (2 * AG_PACE_WINDOW);
    return stays ? pace->length : best;
}

/* The ops of the first piece behind a wait: the longest power of two of which one more piece would
   save no more of the GPU's time than its replay takes. UINT32_MAX: all is one piece. The present
   one stays if the best is hardly another, lest it come and go. */
static uint32_t best_first(const struct ag_pace *pace)
{
    bool usual = pace->length >= ag_opt.trace_unroll;
    uint32_t most = usual ? (uint32_t)ag_opt.trace_max_length : pace->length;
    uint32_t ops = pace->runs < most ? pace->runs : most, first = AG_LOOK_FIRST;
    while (2 * first <= ops && (uint64_t)first * pace->any_ns <= pace->replay_ns)
        first *= 2;
    if (2 * first > ops)
        return UINT32_MAX;
    bool near = first / 2 == pace->first || first * 2 == pace->first;
    return near ? pace->first : first;
}

/* Chooses lengths anew: something has been held. (Out of line, like guess(): most sequences need
   neither.) */
__attribute__((noinline)) static void look(struct ag_stream *stream)
{
    uint32_t best = best_length(&stream->pace);
    stream->pace.first = best_first(&stream->pace);
    if (best != stream->pace.length)
        resize(stream, best);
}

/* The ops of the first piece behind a wait, if a call of the driver less is made for each op, and a
   replay takes as long as a call. */
static uint32_t foresee(const struct ag_pace *pace)
{
    struct ag_pace held = *pace;
    held.any_ns = pace->op_ns > AG_GAIN_NS ? pace->op_ns - AG_GAIN_NS : 0;
    held.replay_ns = AG_GAIN_NS;
    return best_first(&held);
}

/* An eager sequence has ended before anything was held. Sequences become only as long as ops can be
   held at its pace. */
__attribute__((noinline)) static void guess(struct ag_stream *stream, uint32_t ops, bool barrier)
{
    struct ag_pace *pace = &stream->pace;
    uint64_t before = pace->ended;
    uint64_t now = ops > 1 && (before != 0 || !barrier) ? ag_pace_clock() : 0;
    if (now != 0 && before != 0) {
        pace->op_ns = average(pace->op_ns, ag_clock_less(now, before) / ops);
        uint32_t length = (uint32_t)ag_opt.trace_unroll;
        while (length > 2 && length > most_held(pace))
            length /= 2;
        if (length != pace->length)
            resize(stream, length);
        if (barrier)
            pace->first = foresee(pace);
    }
    pace->ended = barrier ? 0 : now; /* not what the program waits for */
}

void ag_pace_ended(struct ag_stream *stream, uint32_t ops, bool barrier)
{
    struct ag_pace *pace = &stream->pace;
    uint32_t most = AG_REACH.first; /* as if a program that seldom waits waited */
    pace->run += ops;
    bool counts = pace->run != 0 && (barrier || pace->run >= most);
    if (counts) {
        uint32_t run = pace->run < most ? pace->run : most;
        uint32_t sum = (AG_PACE_WINDOW - 1) * pace->runs + run;
        pace->runs = pace->runs == 0 ? run : (sum + AG_PACE_WINDOW / 2) / AG_PACE_WINDOW;
        pace->run = 0;
    }
    if (counts && is_known(pace))
        look(stream);
    else if (pace->holds == 0 && (ops > 1 || pace->ended != 0))
        guess(stream, ops, barrier);
}
