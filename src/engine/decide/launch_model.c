/* SPDX-License-Identifier: MIT */
/* Measuring a program's model, and choosing the length of sequences by it. */
#include "engine/decide/launch_model.h"

#include "config/config.h"
#include "driver/limits.h"
#include "engine/base/clock.h"
#include "engine/base/watchdog.h"
#include "engine/stream/issuer.h"
#include "observe/log.h"
#include "policy/policy.h"

static void resize(struct ag_stream *stream, uint32_t length)
{
    struct ag_launch_model *model = &stream->model;
    model->length = length < ag_opt.trace_min_length ? (uint32_t)ag_opt.trace_min_length : length;
    ag_log(AG_LOG_DETAIL, "sequences of %u ops in stream %p: %u ns for each, %u between waits",
           model->length, (void *)stream->id.handle, model->op_ns, model->runs);
    /* The usual one leaves a long loop in longer pieces than a short one is unrolled to. */
    bool usual = model->length >= ag_opt.trace_unroll;
    uint32_t unroll = usual ? (uint32_t)ag_opt.trace_unroll : model->length;
    uint32_t most = usual ? (uint32_t)ag_opt.trace_max_length : model->length;
    ag_recorder_resize(&stream->recorder, unroll, most < model->bound ? most : model->bound);
}

void ag_model_start(struct ag_stream *stream)
{
    stream->model = (struct ag_launch_model){
        .length = (uint32_t)ag_opt.trace_unroll, .first = UINT32_MAX, .bound = UINT32_MAX};
}

void ag_model_bound(struct ag_stream *stream, uint32_t ops)
{
    ag_recorder_bound(&stream->recorder, ops);
    while ((ops & (ops - 1)) != 0)
        ops &= ops - 1;
    if (ops >= stream->model.bound)
        return;
    stream->model.bound = ops;
    resize(stream, stream->model.length);
}

uint64_t ag_model_clock(void)
{
    return ag_opt.trace_length == AG_LENGTH_AUTO ? ag_clock_now() : 0;
}

/* Whether the model of held ops is known. */
static bool is_known(const struct ag_launch_model *model)
{
    return model->holds >= AG_MODEL_WINDOW;
}

void ag_model_begun(struct ag_stream *stream)
{
    struct ag_launch_model *model = &stream->model;
    model->began = 0;
    if (stream->seq.epoch % AG_MODEL_WINDOW != 0 && (model->runs == 1 || is_known(model)))
        return;
    model->began = ag_model_clock();
    model->thread = &ag_self;
    model->submitting = ag_self.submitting;
    model->ops_before = ag_self.ops;
}

/* The average of a time, ns, after one more measurement; a pause of the machine counts little. */
static uint32_t average(uint32_t before, uint64_t ns)
{
    uint64_t most = before == 0 ? UINT32_MAX / 8 : (uint64_t)before * AG_MODEL_OUTLIER;
    uint32_t last = (uint32_t)(ns < most ? ns : most);
    if (before == 0)
        return last + 1;
    return before + (uint32_t)(((int64_t)last - (int64_t)before) / AG_MODEL_WINDOW);
}

/* The same of one of the first times that something is measured: a pause makes it longer only. */
static uint32_t least(uint32_t before, uint64_t ns)
{
    return before != 0 && ns >= before ? before : average(0, ns);
}

void ag_model_spent(struct ag_stream *stream, uint64_t ns, bool whole)
{
    struct ag_launch_model *model = &stream->model;
    if (ns == 0)
        return;
    ag_self.submitting += ns;
    bool patched = stream->counters.patches != model->patches;
    model->patches = stream->counters.patches;
    if (whole)
        model->replay_ns = patched || !is_known(model) ? least(model->replay_ns, ns)
                                                       : average(model->replay_ns, ns);
}

/* Takes in the time between two held ops of the stream, and of its thread. */
static void learn(struct ag_launch_model *model, uint64_t op_ns, uint64_t any_ns)
{
    bool known = is_known(model);
    model->op_ns = known ? average(model->op_ns, op_ns) : least(model->op_ns, op_ns);
    model->any_ns = known ? average(model->any_ns, any_ns) : least(model->any_ns, any_ns);
    model->holds += !known;
}

void ag_model_submitted(struct ag_stream *stream, uint32_t held, bool overdue, uint64_t now)
{
    struct ag_launch_model *model = &stream->model;
    /* This thread has issued the last of two ops at least. If it has the first one, too, it is
       known what else it did meanwhile. What the watchdog submits tells the model if it was still
       getting longer. */
    bool last =
        overdue ? stream->overdue.looks_alike < AG_WATCHDOG_LOOKS
                : atomic_load_explicit(&stream->issuer.thread, memory_order_relaxed) == &ag_self;
    if (model->began != 0 && now != 0 && last && held > 1) {
        bool both = model->thread == &ag_self;
        uint64_t ns = ag_clock_less(now, model->began);
        uint32_t all = both ? ag_self.ops - model->ops_before : held;
        uint64_t own_ns = ag_clock_less(ns, both ? ag_self.submitting - model->submitting : 0);
        learn(model, ns / (held - 1), own_ns / ((all > held ? all : held) - 1));
    }
    model->began = 0;
}

/* The most ops that can be held without being late if each takes as long as now. */
static uint32_t most_held(const struct ag_launch_model *model)
{
    uint64_t most = AG_WATCHDOG_BOUNDS * (uint64_t)ag_opt.hold_bound_us * 1000 / (model->op_ns | 1);
    return most < UINT32_MAX ? (uint32_t)most : UINT32_MAX;
}

/* What sequences of `length` ops cost between two barriers, ns; see launch_model.h. If there are no
   more ops between two barriers they are one piece. */
static uint64_t cost(const struct ag_launch_model *model, uint32_t length)
{
    uint32_t ops = length < model->runs ? length : model->runs;
    uint32_t pieces = (model->runs + length - 1) / length;
    return (uint64_t)ops * model->any_ns + (uint64_t)pieces * AG_MODEL_PIECE_NS;
}

/* The power of two that costs least, of those that the option and the bound allow, and of equal
   ones the longest. The present length stays if it is hardly worse. */
static uint32_t best_length(const struct ag_launch_model *model)
{
    uint32_t most = most_held(model), best = 2;
    for (uint32_t length = 4; length <= most && length / 2 < ag_opt.trace_unroll; length *= 2)
        best = cost(model, length) <= cost(model, best) ? length : best;
    best = best < ag_opt.trace_unroll ? best : (uint32_t)ag_opt.trace_unroll;
    uint64_t least = cost(model, best);
    bool stays = model->length <= most &&
                 cost(model, model->length) <= least + least / (2 * AG_MODEL_WINDOW);
    return stays ? model->length : best;
}

/* The ops of the first piece behind a wait: the longest power of two of which one more piece would
   save no more of the GPU's time than its replay takes. UINT32_MAX: all is one piece. The present
   one stays if the best is hardly another, lest it come and go. */
static uint32_t best_first(const struct ag_launch_model *model)
{
    bool usual = model->length >= ag_opt.trace_unroll;
    uint32_t most = usual ? (uint32_t)ag_opt.trace_max_length : model->length;
    uint32_t ops = model->runs < most ? model->runs : most, first = AG_LOOK_FIRST;
    while (2 * first <= ops && (uint64_t)first * model->any_ns <= model->replay_ns)
        first *= 2;
    if (2 * first > ops)
        return UINT32_MAX;
    bool near = first / 2 == model->first || first * 2 == model->first;
    return near ? model->first : first;
}

/* Chooses lengths anew: something has been held. (Out of line, like guess(): most sequences need
   neither.) */
__attribute__((noinline)) static void look(struct ag_stream *stream)
{
    uint32_t best = best_length(&stream->model);
    stream->model.first = best_first(&stream->model);
    if (best != stream->model.length)
        resize(stream, best);
}

/* The ops of the first piece behind a wait, if a call of the driver less is made for each op, and a
   replay takes as long as a call. */
static uint32_t foresee(const struct ag_launch_model *model)
{
    struct ag_launch_model held = *model;
    held.any_ns = model->op_ns > AG_GAIN_NS ? model->op_ns - AG_GAIN_NS : 0;
    held.replay_ns = AG_GAIN_NS;
    return best_first(&held);
}

/* An eager sequence has ended before anything was held. Sequences become only as long as ops can be
   held at its model. */
__attribute__((noinline)) static void guess(struct ag_stream *stream, uint32_t ops, bool barrier)
{
    struct ag_launch_model *model = &stream->model;
    uint64_t before = model->ended;
    uint64_t now = ops > 1 && (before != 0 || !barrier) ? ag_model_clock() : 0;
    if (now != 0 && before != 0) {
        model->op_ns = average(model->op_ns, ag_clock_less(now, before) / ops);
        uint32_t length = (uint32_t)ag_opt.trace_unroll;
        while (length > 2 && length > most_held(model))
            length /= 2;
        if (length != model->length)
            resize(stream, length);
        if (barrier)
            model->first = foresee(model);
    }
    model->ended = barrier ? 0 : now; /* not what the program waits for */
}

void ag_model_ended(struct ag_stream *stream, uint32_t ops, bool barrier)
{
    struct ag_launch_model *model = &stream->model;
    uint32_t most = AG_REACH.first; /* as if a program that seldom waits waited */
    model->run += ops;
    bool counts = model->run != 0 && (barrier || model->run >= most);
    if (counts) {
        uint32_t run = model->run < most ? model->run : most;
        uint32_t sum = (AG_MODEL_WINDOW - 1) * model->runs + run;
        model->runs = model->runs == 0 ? run : (sum + AG_MODEL_WINDOW / 2) / AG_MODEL_WINDOW;
        model->run = 0;
    }
    if (counts && is_known(model))
        look(stream);
    else if (model->holds == 0 && (ops > 1 || model->ended != 0))
        guess(stream, ops, barrier);
}
