/* SPDX-License-Identifier: MIT */
/* Measuring a program's pace, and choosing the length of sequences by it. */
#include "engine/pace.h"

#include <time.h>

#include "config/config.h"

/* What one more piece costs, ns: the launch of a graph (1,200 of CPU time), its start on an idle
   GPU, and patching, where pieces of the same ops share a graph. Measured with loops of 8 to 64 ops
   that wait (H200, driver 580): 1,200 makes pieces that are too short, 8,000 gives no loop away. */
enum { PIECE_NS = 8000 };

/* Programs that never wait are taken for ones that wait this seldom. */
enum { LONGEST_RUN = 1024 };

/* Each hold of so many is measured; looks after which a better length is taken. */
enum { SAMPLE = 4, TIMES = 4 };

/* What one submission by the watchdog weighs against one that was in time, and when sequences get
   shorter: a program slow enough to be late more than now and then. */
enum { LATE_WEIGHT = 4, LATE_MOST = 16 };

uint64_t ag_pace_now(void)
{
    struct timespec t;
    return clock_gettime(CLOCK_MONOTONIC, &t) == 0
               ? (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec
               : 0;
}

static void resize(struct ag_stream *stream, uint32_t length)
{
    struct ag_pace *pace = &stream->pace;
    pace->length = length < ag_opt.trace_min_length ? ag_opt.trace_min_length : length;
    pace->times = 0;
    pace->late = 0;
    /* The usual one leaves a long loop in longer pieces than a short one is unrolled to. */
    bool usual = pace->length >= ag_opt.trace_unroll;
    ag_recorder_resize(&stream->recorder, usual ? ag_opt.trace_unroll : pace->length,
                       usual ? ag_opt.trace_max_length : pace->length);
}

void ag_pace_start(struct ag_stream *stream)
{
    stream->pace = (struct ag_pace){.length = ag_opt.trace_unroll};
}

void ag_pace_begun(struct ag_stream *stream)
{
    bool measured = stream->epoch % SAMPLE == 0 && ag_opt.trace_length == AG_LENGTH_AUTO;
    stream->pace.began = measured ? ag_pace_now() - ag_self.submitting : 0;
    stream->pace.ops_before = ag_self.ops;
}

uint64_t ag_pace_clock(void)
{
    return ag_opt.trace_length == AG_LENGTH_AUTO ? ag_pace_now() : 0;
}

void ag_pace_spent(uint64_t began)
{
    if (began != 0)
        ag_self.submitting += ag_pace_now() - began;
}

/* What takes so long this time on average; a pause of the machine counts little. */
static uint32_t average(uint32_t before, uint64_t ns)
{
    if (before == 0)
        return ns > UINT32_MAX / 8 ? UINT32_MAX / 8 : (uint32_t)ns + 1;
    if (ns < 8 * (uint64_t)before)
        return before + (uint32_t)(((int64_t)ns - (int64_t)before) / 4);
    return before + before / 4 + 1;
}

void ag_pace_submitted(struct ag_stream *stream, uint32_t held, bool late, uint64_t now)
{
    struct ag_pace *pace = &stream->pace;
    if (late) {
        if ((pace->late += LATE_WEIGHT) > LATE_MOST)
            resize(stream, pace->length / 2);
    } else {
        pace->late -= pace->late > 0;
        /* The last of two ops at least. */
        bool own = atomic_load_explicit(&stream->thread, memory_order_relaxed) == &ag_self;
        uint32_t all = ag_self.ops - pace->ops_before;
        if (pace->began != 0 && now != 0 && own && held > 1 && all >= held) {
            uint64_t ns = now - ag_self.submitting - pace->began;
            pace->op_ns = average(pace->op_ns, ns / (held - 1));
            pace->any_ns = average(pace->any_ns, ns / (all - 1));
        }
    }
    pace->began = 0;
}

/* The power of two next to sqrt(PIECE_NS * runs / any_ns) that the options and the bound allow; the
   next one if that leaves no short rest. */
static uint32_t best_length(const struct ag_pace *pace)
{
    uint64_t square = (uint64_t)PIECE_NS * pace->runs / (pace->any_ns | 1);
    uint32_t most = ag_opt.hold_bound_us * 600u / (pace->op_ns | 1), length = 2;
    while (2 * (uint64_t)length * length < square && 2 * length <= most)
        length *= 2;
    if (pace->runs > length && pace->runs <= length + length / 4 && 2 * length <= most)
        length *= 2;
    return length < ag_opt.trace_unroll ? length : ag_opt.trace_unroll;
}

static void look(struct ag_stream *stream)
{
    struct ag_pace *pace = &stream->pace;
    if (pace->op_ns == 0)
        return;
    uint32_t best = best_length(pace);
    if (best == pace->length || best != pace->better)
        pace->times = 0;
    pace->better = best;
    if (best != pace->length && ++pace->times >= TIMES)
        resize(stream, best);
}

void ag_pace_ended(struct ag_stream *stream, uint32_t ops, bool barrier)
{
    struct ag_pace *pace = &stream->pace;
    pace->run += ops;
    if (pace->run == 0 || (!barrier && pace->run < LONGEST_RUN))
        return;
    uint32_t run = pace->run < LONGEST_RUN ? pace->run : LONGEST_RUN;
    pace->runs = pace->runs == 0 ? run : (3 * pace->runs + run + 2) / 4;
    pace->run = 0;
    look(stream);
}
