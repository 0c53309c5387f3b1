/* SPDX-License-Identifier: MIT */
/* Pace by a clock of its own: how long sequences are (tests/policy/test_launch_model.py has the
 * rest). */
#include <time.h>

#include "config/config.h"
#include "engine/base/watchdog.h"
#include "engine/decide/launch_model.h"
#include "observe/log.h"
#include "unit/test.h"

/* -- What launch_model.c calls ---------------------------------------------------- */

static uint64_t now = 1;
struct ag_options ag_opt = {.trace_min_length = 1,
                            .trace_unroll = 64,
                            .trace_max_length = 128,
                            .trace_length = AG_LENGTH_AUTO,
                            .hold_bound_us = 300};
_Thread_local struct ag_thread ag_self;

int clock_gettime(clockid_t clock, struct timespec *time)
{
    (void)clock;
    *time = (struct timespec){.tv_sec = (time_t)(now / 1000000000u),
                              .tv_nsec = (long)(now % 1000000000u)};
    return 0;
}

void ag_log(enum ag_log_level level, const char *format, ...)
{
    (void)level;
    (void)format;
}

static uint32_t resized, resizes;

void ag_recorder_resize(struct ag_recorder *rec, uint32_t unroll, uint32_t most)
{
    (void)rec;
    (void)most;
    resized = unroll;
    resizes++;
}

/* -- A program --------------------------------------------------------------- */

static struct ag_stream stream;
static uint64_t op_ns, replay_ns; /* of the program's own, before each op; of a replay */
static uint64_t pause_ns;         /* in the next piece */
static bool patched;              /* replays set arguments */

static void begin(uint64_t op, uint64_t replay)
{
    stream = (struct ag_stream){.issuer.thread = &ag_self};
    op_ns = op;
    replay_ns = replay;
    pause_ns = 0;
    patched = false;
    ag_model_start(&stream);
}

static void piece(uint32_t ops, bool barrier)
{
    ag_model_begun(&stream);
    now += (ops - 1) * op_ns + pause_ns;
    ag_self.ops += ops;
    pause_ns = 0;
    ag_model_submitted(&stream, ops, false, now);
    now += replay_ns;
    stream.counters.patches += patched;
    ag_model_spent(&stream, replay_ns, true);
    now += op_ns;
    stream.seq.epoch++;
    ag_model_ended(&stream, ops, barrier);
}

/* The same of what nothing is held of yet, or can be. */
static void eager(uint32_t ops, uint64_t op)
{
    now += ops * op;
    ag_model_ended(&stream, ops, false);
}

/* So many ops between two waits, in pieces of the stream's length. */
static void run(unsigned times, uint32_t ops)
{
    while (times-- > 0)
        for (uint32_t left = ops, n; left > 0; left -= n) {
            n = left < stream.model.length ? left : stream.model.length;
            if (left == ops && stream.model.first < n)
                n = stream.model.first;
            piece(n, left == n);
        }
}

static uint32_t length_of(uint64_t op, uint32_t ops)
{
    begin(op, 2000);
    run(400, ops);
    return stream.model.length;
}

static uint32_t first_of(uint64_t op, uint64_t replay, uint32_t ops)
{
    begin(op, replay);
    run(400, ops);
    return stream.model.first;
}

/* -- Lengths ------------------------------------------------------------------ */

TEST(a_program_that_is_slow_and_waits_has_short_pieces)
{
    CHECK(length_of(100, 64) == 64);
    CHECK(length_of(1000, 64) == 16);
    CHECK(length_of(10000, 64) == 8);
    CHECK(resized == 8);
}

TEST(a_program_that_never_waits_has_longer_ones)
{
    begin(1000, 2000);
    for (unsigned i = 0; i < 400; i++)
        piece(64, false);
    CHECK(stream.model.length == 64 && stream.model.runs == 1024);
}

TEST(no_piece_is_longer_than_can_be_held)
{
    begin(40000, 2000); /* four bounds: 30 ops */
    for (unsigned i = 0; i < 400; i++)
        piece(stream.model.length, false);
    CHECK(stream.model.length <= 16);
}

TEST(a_better_length_must_be_worth_it)
{
    begin(1000, 2000);
    run(400, 64);
    CHECK(stream.model.length == 16);
    op_ns = 700; /* 32 is best, and by less than a quarter */
    run(400, 64);
    CHECK(stream.model.length == 16);
    op_ns = 100;
    run(400, 64);
    CHECK(stream.model.length == 64);
}

TEST(what_is_one_piece_either_way_stays)
{
    begin(150, 2000);
    resizes = 0;
    run(400, 16);
    CHECK(stream.model.length == 64 && resizes == 0);
    for (unsigned i = 0; i < 400; i++) {
        op_ns = i / 40 % 2 == 0 ? 120 : 1500;
        run(1, 2 + i / 8 % 4);
    }
    CHECK(resizes == 0);
}

TEST(a_short_rest_is_a_piece)
{
    CHECK(length_of(3000, 4) == 64);
    CHECK(length_of(3000, 6) == 64);
    CHECK(length_of(30000, 6) == 2);
}

TEST(a_pause_of_the_machine_does_not_make_pieces_short)
{
    begin(100, 2000);
    for (unsigned i = 0; i < 100; i++) {
        pause_ns = 100000000;
        run(20, 64);
        CHECK(stream.model.length == 64);
    }
}

TEST(nor_does_one_in_the_first_hold)
{
    resized = 0;
    for (uint64_t pause = 1000; pause < 1000000000; pause *= 10) {
        begin(100, 2000);
        pause_ns = pause;
        run(20, 64);
        CHECK(resized == 0);
    }
}

/* The watchdog submits what has 64 ops to come. */
static void late(uint32_t ops, bool grows)
{
    ag_model_begun(&stream);
    now += ops * op_ns + pause_ns;
    stream.overdue.looks_alike = grows ? 1 : AG_WATCHDOG_LOOKS;
    ag_model_submitted(&stream, ops, true, now);
    stream.seq.epoch++;
    ag_model_ended(&stream, 64, true);
}

TEST(what_is_too_slow_to_become_whole_gets_shorter)
{
    begin(60000, 2000);
    for (unsigned i = 0; i < 40; i++)
        late(20, true);
    CHECK(stream.model.length == 4);
    begin(100, 2000);
    for (unsigned i = 0; i < 40; i++) {
        pause_ns = 300000; /* which is no time that an op takes */
        late(20, false);
    }
    CHECK(stream.model.length == 64);
}

static uint32_t eager_length(uint64_t op)
{
    begin(0, 0);
    for (unsigned i = 0; i < 10; i++)
        eager(64, op);
    return stream.model.length;
}

TEST(what_would_be_late_is_not_tried)
{
    CHECK(eager_length(25000) == 32);
    CHECK(eager_length(100000) == 8);
}

TEST(launches_that_take_long_do_not_make_a_program_slow)
{
    CHECK(eager_length(12000) == 64); /* as where threads meet in the driver */
}

TEST(fixed_lengths_stay)
{
    ag_opt.trace_length = AG_LENGTH_FIXED;
    uint32_t length = length_of(10000, 64);
    ag_opt.trace_length = AG_LENGTH_AUTO;
    CHECK(length == 64);
}

/* -- The first piece behind a wait ---------------------------------------------- */

TEST(the_gpu_starts_early_where_that_saves_more_than_a_replay_takes)
{
    CHECK(first_of(150, 2000, 64) == 16);
    CHECK(first_of(300, 2000, 32) == 8);
    CHECK(first_of(1000, 2000, 500) == 8);
    CHECK(first_of(120, 2000, 16) == UINT32_MAX);
    CHECK(first_of(120, 5000, 64) == UINT32_MAX);
}

static uint32_t foreseen(uint64_t op)
{
    begin(0, 0);
    for (unsigned i = 0; i < 4; i++) {
        eager(32, op);
        now += 32 * op;
        ag_model_ended(&stream, 32, true);
    }
    return stream.model.first;
}

TEST(eager_ops_tell_it_before_there_is_a_graph)
{
    CHECK(foreseen(4500) == 8);
    CHECK(foreseen(2600) == 32);
    CHECK(foreseen(2000) == UINT32_MAX);
}

TEST(replays_that_set_arguments_do_not_lengthen_it)
{
    begin(300, 2000);
    run(400, 32);
    patched = true;
    replay_ns = 20000;
    run(400, 32);
    CHECK(stream.model.first == 8);
    patched = false;
    run(400, 32);
    CHECK(stream.model.first == UINT32_MAX);
}

TEST(and_it_does_not_come_and_go)
{
    begin(300, 2000);
    run(400, 32);
    CHECK(stream.model.first == 8);
    replay_ns = 3500;
    run(400, 32);
    CHECK(stream.model.first == 8);
    replay_ns = 6000;
    run(400, 32);
    CHECK(stream.model.first == UINT32_MAX);
    replay_ns = 3500;
    run(400, 32);
    CHECK(stream.model.first == 16);
    replay_ns = 2000;
    run(400, 32);
    CHECK(stream.model.first == 16);
}
