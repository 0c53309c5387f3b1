/* SPDX-License-Identifier: MIT */
/* Measuring a program's pace, and choosing the length of sequences by it. */
#include "engine/pace.h"

#include <time.h>

#include "config/config.h"
#include "observe/log.h"

/* What one more piece costs, ns: the launch of a graph (1,200 of CPU time), its start on an idle
   GPU, and patching, where pieces of the same ops share a graph. Measured with loops of 8 to 64 ops
   that wait (H200, driver 580): 1,200 makes pieces that are too short, 8,000 gives no loop away. */
enum { PIECE_NS = 8000 };

/* A program that issues ops faster than this is faster than any GPU executes them (0.5 us for a
   kernel that does nothing). */
enum { FAST_NS = 400 };

/* Programs that never wait are taken for ones that wait this seldom. */
enum { LONGEST_RUN = 1024 };

/* Each hold of so many is measured; looks after which a better length is taken. */
enum { SAMPLE = 4, TIMES = 4 };

/* What one submission by the watchdog weighs against one that was in time, and when sequences get
   shorter: a program slow enough to be late more than now and then. */
enum { LATE_WEIGHT = 4, LATE_MOST = 16 };

/* What a better length must save of the program's own time between two barriers, one part in so
   many: its sequences have to get hot anew, and it may not stay the better one. */
enum { WORTH = 64 };

/* Where all ops between two barriers are one piece either way, a length is as good as another that
   is so many times as long, or less. */
enum { LIKE = 4 };

/* Ops of an eager sequence from which on its time says something, and what is slow for each, ns:
   more than eight threads that meet in the driver take for a launch (11,400; H200, driver 580). */
enum { TELLING = 16, SLOW_NS = 16000 };

/* Looks for which they stay so short at first, and at most. */
enum { CAP_FIRST = 8, CAP_LAST = 1 << 16 };

#ifdef AG_TURNS
static _Atomic uint64_t skipped; /* ns */

void ag_pace_skip(uint64_t since)
{
    skipped += ag_pace_now() - since;
}
#else
enum { skipped = 0 };
#endif

uint64_t ag_pace_now(void)
{
    struct timespec t;
    return clock_gettime(CLOCK_MONOTONIC, &t) == 0
               ? (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec - skipped
               : 0;
}

static void resize(struct ag_stream *stream, uint32_t length)
{
    struct ag_pace *pace = &stream->pace;
    pace->length = length < ag_opt.trace_min_length ? ag_opt.trace_min_length : length;
    pace->times = 0;
    pace->late = 0;
    ag_log(AG_LOG_DETAIL, "sequences of %u ops in stream %p: %u ns for each, %u between waits",
           pace->length, (void *)stream->handle, pace->op_ns, pace->runs);
    /* The usual one leaves a long loop in longer pieces than a short one is unrolled to. */
    bool usual = pace->length >= ag_opt.trace_unroll;
    ag_recorder_resize(&stream->recorder, usual ? ag_opt.trace_unroll : pace->length,
                       usual ? ag_opt.trace_max_length : pace->length);
}

void ag_pace_start(struct ag_stream *stream)
{
    stream->pace = (struct ag_pace){.length = ag_opt.trace_unroll, .first = UINT32_MAX};
}

void ag_pace_begun(struct ag_stream *stream)
{
    bool measured = stream->epoch % SAMPLE == 0 || stream->pace.known == AG_PACE_DOUBTED;
    stream->pace.began = measured ? ag_pace_clock() : 0;
    stream->pace.thread = &ag_self;
    stream->pace.submitting = ag_self.submitting;
    stream->pace.ops_before = ag_self.ops;
}

uint64_t ag_pace_clock(void)
{
    return ag_opt.trace_length == AG_LENGTH_AUTO ? ag_pace_now() : 0;
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

void ag_pace_spent(struct ag_stream *stream, uint64_t began, bool whole)
{
    if (began == 0)
        return;
    uint64_t ns = ag_pace_now() - began;
    ag_self.submitting += ns;
    if (whole)
        stream->pace.replay_ns = average(stream->pace.replay_ns, ns);
}

/* Ops of a sequence that a barrier ends, or its length. */
static uint32_t piece(const struct ag_pace *pace)
{
    return pace->runs != 0 && pace->runs < pace->length ? pace->runs : pace->length;
}

/* What two ops have taken, of a stream and of its thread. The first time may have met a pause: of
   that and the second one the lesser counts. */
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
    if (late) {
        if ((pace->late += LATE_WEIGHT) > LATE_MOST) {
            uint32_t ops = held > piece(pace) ? held : piece(pace);
            pace->cap = pace->length / 2;
            while (pace->cap >= ops && pace->cap > 1)
                pace->cap /= 2;
            pace->cap_for = pace->cap_next != 0 ? pace->cap_next : CAP_FIRST;
            pace->cap_next = pace->cap_for < CAP_LAST ? 2 * pace->cap_for : CAP_LAST;
            resize(stream, pace->cap);
        }
    } else {
        pace->late -= pace->late > 0;
        /* This thread has issued the last of two ops at least. If it has the first one, too, it is
           known what else it did meanwhile. */
        bool last = atomic_load_explicit(&stream->thread, memory_order_relaxed) == &ag_self;
        if (pace->began != 0 && now != 0 && last && held > 1) {
            bool both = pace->thread == &ag_self;
            uint64_t ns = now - pace->began;
            uint32_t all = both ? ag_self.ops - pace->ops_before : held;
            uint64_t own_ns = ns - (both ? ag_self.submitting - pace->submitting : 0);
            learn(pace, ns / (held - 1), own_ns / ((all > held ? all : held) - 1));
        }
    }
    pace->began = 0;
}

/* The most ops that can be held without being late if each takes so many ns, with some slack. */
static uint32_t most_held(uint32_t op_ns)
{
    uint64_t most = AG_MOST_BOUNDS * 600ull * (uint64_t)ag_opt.hold_bound_us / (op_ns | 1);
    return most < UINT32_MAX ? (uint32_t)most : UINT32_MAX;
}

/* What sequences of so many ops cost between two barriers, ns; see pace.h. Where there are no more
   ops than that they are one piece. */
static uint64_t cost(const struct ag_pace *pace, uint32_t length)
{
    uint32_t ops = length < pace->runs ? length : pace->runs;
    uint32_t pieces = (pace->runs + length - 1) / length;
    return (uint64_t)ops * pace->any_ns + (uint64_t)pieces * PIECE_NS;
}

/* The power of two next to sqrt(PIECE_NS * runs / any_ns) that the options and the bound allow, or
   a longer one if that costs less, since fewer pieces are needed; what it is now if that is hardly
   worse, or makes no difference to most runs and little to others. */
static uint32_t best_length(const struct ag_pace *pace)
{
    uint64_t square = (uint64_t)PIECE_NS * pace->runs / (pace->any_ns | 1);
    uint32_t most = most_held(pace->op_ns), length = 2;
    if (pace->cap != 0 && most > pace->cap)
        most = pace->cap;
    while (2 * (uint64_t)length * length < square && 2 * length <= most)
        length *= 2;
    while (pace->runs > length && 2 * length <= most && cost(pace, 2 * length) < cost(pace, length))
        length *= 2;
    length = length < ag_opt.trace_unroll ? length : ag_opt.trace_unroll;
    if (length == pace->length || pace->length > most)
        return length;
    if (pace->runs <= length && pace->runs <= pace->length) /* one piece */
        return pace->length <= LIKE * length ? pace->length : length;
    uint64_t worth = (uint64_t)pace->any_ns * pace->runs / WORTH;
    return cost(pace, pace->length) <= cost(pace, length) + worth ? pace->length : length;
}

/* Nothing has been held yet, and a sequence has ended: sequences as long as ops can be held at the
   program's pace, if that is slow although the launches count, too. */
__attribute__((noinline)) static void guess(struct ag_stream *stream, uint32_t ops, bool barrier)
{
    struct ag_pace *pace = &stream->pace;
    uint64_t before = pace->ended, now = 0;
    if (ops >= TELLING && (now = ag_pace_clock()) != 0 && before != 0) {
        pace->eager_ns = average(pace->eager_ns, (now - before) / ops);
        uint32_t length = ag_opt.trace_unroll;
        while (pace->eager_ns > SLOW_NS && length > TELLING && length > most_held(pace->eager_ns))
            length /= 2;
        if (length != pace->length)
            resize(stream, length);
    }
    pace->ended = barrier ? 0 : now; /* not what the program waits for */
}

/*
 * The power of two next to a quarter of the first piece behind a wait, if the GPU would otherwise
 * wait for the rest for longer than one more replay takes, which is much where threads meet in the
 * driver. With some slack: 16 of 64 ops first made such loops 7 % faster, 4 of 16 made no
 * difference (H200, driver 580, 170 ns for each op and 2 us for a replay); and so that it does not
 * come and go.
 */
static uint32_t best_first(const struct ag_pace *pace)
{
    uint32_t ops = piece(pace), first = 2;
    while (8 * first <= ops)
        first *= 2;
    uint64_t early_ns = (uint64_t)(ops > first ? ops - first : 0) * pace->any_ns;
    bool split = pace->first != UINT32_MAX;
    bool slow = pace->any_ns > (split ? FAST_NS + FAST_NS / 4 : FAST_NS);
    uint64_t worth_ns = pace->replay_ns + pace->replay_ns / (split ? 8 : 2);
    return !slow && early_ns > worth_ns ? first : UINT32_MAX;
}

/* Something has been held. (Out of line, as guess(): most sequences need neither.) */
__attribute__((noinline)) static void look(struct ag_stream *stream)
{
    struct ag_pace *pace = &stream->pace;
    if (pace->cap_for != 0 && --pace->cap_for == 0)
        pace->cap = 0;
    uint32_t best = best_length(pace);
    pace->first = best_first(pace);
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
    bool counts = pace->run != 0 && (barrier || pace->run >= LONGEST_RUN);
    if (counts) {
        uint32_t run = pace->run < LONGEST_RUN ? pace->run : LONGEST_RUN;
        pace->runs = pace->runs == 0 ? run : (3 * pace->runs + run + 2) / 4;
        pace->run = 0;
    }
    if (pace->known != AG_PACE_UNKNOWN) {
        if (counts && pace->known == AG_PACE_KNOWN)
            look(stream);
    } else if (ops >= TELLING || pace->ended != 0) {
        guess(stream, ops, barrier);
    }
}
