/* SPDX-License-Identifier: MIT */
/* Audits by a clock of their own: when they begin, and what they decide. */
#include "config/config.h"
#include "engine/audit.h"
#include "engine/clock.h"
#include "engine/hot.h"
#include "observe/log.h"
#include "unit/test.h"

/* -- What audit.c calls --------------------------------------------------- */

static uint64_t now, dropped_since;
static unsigned drops; /* verdicts that give up */
struct ag_options ag_opt = {.trace_trial = true};
_Thread_local struct ag_thread ag_self;
_Thread_local struct ag_done ag_done;

uint64_t ag_clock_now(void)
{
    return now;
}

void ag_log(enum ag_log_level level, const char *format, ...)
{
    (void)level;
    (void)format;
}

/* -- A stream ---------------------------------------------------------------- */

enum { STEP = 5 }; /* ops between two barriers */

static struct ag_stream stream;
static unsigned replayed = 2;            /* ops of each step */
static uint64_t followed_ns, rested_ns;  /* that a step takes */
static uint64_t pause_ns, pauses_at;     /* of the machine, in this step of all */
static unsigned steps, rested, followed; /* ops that passed, or did not, in audits */
static bool in_step;                     /* with another thread */
static unsigned graphs; /* of the program's own that the thread launches in each step */

static void begin(void)
{
    ag_tree_free(&stream.recorder.tree);
    stream = (struct ag_stream){.pace.runs = STEP};
    CHECK(ag_recorder_init(&stream.recorder, 1024, 64, 128));
    ag_audit_start(&stream);
    drops = steps = rested = followed = 0;
}

/* As the engine does. */
static void arrived(void)
{
    uint32_t least;
    if (!ag_audit_arrived(&stream, &least))
        return;
    drops++;
    dropped_since = stream.audit.clock;
    ag_recorder_give_up(&stream.recorder, least);
}

static void step(void)
{
    struct ag_recorder *rec = &stream.recorder;
    bool passes = ag_recorder_rests(rec);
    for (unsigned i = 0; i < STEP; i++) {
        if (ag_recorder_passes(rec, 1)) {
            stream.issuer.passed++;
            continue;
        }
        if (stream.audit.rests)
            arrived();
        stream.counters.ops++;
        rec->ops++;
        if (in_step)
            stream.issuer.crossed = rec->ops + 1;
    }
    rested += stream.audit.on && passes ? STEP : 0;
    followed += stream.audit.on && !passes ? STEP : 0;
    ag_done.graphs += graphs;
    stream.counters.replayed += passes ? 0 : replayed;
    stream.counters.replays += passes ? 0 : replayed != 0;
    stream.execs.clock = stream.counters.replays;
    now += (passes ? rested_ns : followed_ns) + (steps++ == pauses_at ? pause_ns : 0);
    if (!passes && ag_audit_is_due(&stream))
        ag_audit_look(&stream);
}

/* After so many steps an audit is over; 0: none has been within `most`. */
static unsigned audited(unsigned most)
{
    uint64_t before = stream.counters.trials;
    for (unsigned i = 1; i <= most; i++) {
        step();
        if (stream.counters.trials != before)
            return i;
    }
    return 0;
}

static bool pays(uint64_t with, uint64_t without)
{
    begin();
    followed_ns = with;
    rested_ns = without;
    return audited(4096) != 0 && stream.counters.given_up == 0;
}

/* -- Audits ------------------------------------------------------------------ */

TEST(a_stream_that_is_faster_is_followed)
{
    CHECK(pays(10000, 30000) && rested < 1700 && drops == 0);
    CHECK(pays(10000, 11000) && rested < 1700 && drops == 0);
}

TEST(and_one_that_is_not_rests)
{
    CHECK(!pays(10000, 10000) && drops == 1);
    CHECK(!pays(10800, 10000) && drops == 1);
    CHECK(dropped_since > 700 && dropped_since < 900);
    CHECK(ag_recorder_rests(&stream.recorder) && stream.recorder.heads == 0);
    CHECK(audited(6000) == 0); /* it rests */
    CHECK(audited(4096) != 0 && stream.counters.given_up == 2);
}

TEST(the_next_audit_is_much_later)
{
    CHECK(pays(10000, 11000));
    CHECK(audited(13000) == 0 && audited(1200) != 0);
    CHECK(audited(52000) == 0 && audited(3000) != 0 && stream.counters.given_up == 0);
}

TEST(what_is_replayed_anyway_is_not_asked_for)
{
    replayed = 4;
    begin();
    CHECK(audited(20000) == 0);
    replayed = 2;
    begin();
    stream.pace.runs = 200;
    CHECK(audited(20000) == 0);
    begin();
    ag_opt.trace_trial = false;
    CHECK(audited(20000) == 0);
    ag_opt.trace_trial = true;
}

TEST(but_it_is_where_threads_are_in_step)
{
    in_step = true;
    replayed = STEP;
    CHECK(pays(10000, 11000) && steps < 900);
    CHECK(!pays(10000, 10000) && drops == 1);
    CHECK(audited((1 << 17) / STEP) == 0 && audited(4096) != 0); /* it has rested for long */
    begin();
    stream.pace.runs = 500;
    CHECK(audited(4096) != 0);
    begin();
    stream.pace.runs = 1025;
    CHECK(audited(20000) == 0);
    begin();
    in_step = false; /* since the first op */
    stream.issuer.crossed = 1;
    CHECK(audited(20000) == 0);
    replayed = 2;
}

TEST(and_where_the_thread_launches_graphs_of_its_own)
{
    graphs = 1;
    replayed = STEP;
    CHECK(pays(10000, 11000));
    CHECK(!pays(10000, 10000) && drops == 1);
    begin();
    stream.pace.runs = 200;
    CHECK(audited(20000) == 0);
    graphs = 0; /* since the first op */
    begin();
    CHECK(audited(20000) == 0);
    replayed = 2;
}

/* The recorder rests as well, since what is recorded would not become a trace. */
TEST(another_rest_does_not_end_it)
{
    begin();
    followed_ns = rested_ns = 10000;
    for (unsigned i = 0; i < 4096 && !stream.audit.on; i++)
        step();
    for (unsigned i = 0; i < 3; i++) {
        while (stream.recorder.ops - stream.audit.since < stream.audit.after - STEP)
            step();
        ag_recorder_rest(&stream.recorder, 2048, 2);
        stream.recorder.ops += STEP;
        ag_audit_look(&stream);
        CHECK(stream.audit.on && !stream.audit.rests);
        ag_recorder_resume(&stream.recorder, 2048);
    }
    CHECK(audited(1200) != 0 && stream.counters.given_up == 1);
}

/* What comes first behind a rest cannot be held, so that a sequence seems to end. */
TEST(nor_does_what_is_not_recorded)
{
    begin();
    followed_ns = rested_ns = 10000;
    for (unsigned i = 0; i < 4096 && stream.counters.trials == 0; i++) {
        step();
        if (stream.audit.rests && !ag_recorder_rests(&stream.recorder)) {
            CHECK(ag_audit_is_due(&stream));
            ag_audit_look(&stream);
            CHECK(!ag_recorder_rests(&stream.recorder));
        }
    }
    CHECK(stream.counters.trials == 1 && stream.counters.given_up == 1);
}

TEST(nor_in_the_first_ops)
{
    replayed = 0;
    begin();
    for (unsigned i = 0; i < 400; i++) /* of 2,048 */
        step();
    replayed = 4;
    CHECK(audited(20000) == 0);
    replayed = 2;
}

TEST(nor_while_traces_are_made)
{
    begin();
    followed_ns = rested_ns = 10000;
    for (unsigned i = 0; i < 20; i++) {
        stream.counters.traces += 2;
        CHECK(audited(400) == 0);
    }
    CHECK(audited(4096) != 0);
}

TEST(a_pause_of_the_machine_does_not_decide)
{
    pause_ns = 100000000;
    for (pauses_at = 820; pauses_at < 1200; pauses_at += 20) {
        bool slower = pays(10800, 10000), faster = drops == 1 && pays(9000, 10000);
        CHECK(!slower && drops == 0 && faster);
    }
    pauses_at = 0;
    pause_ns = 0;
}
