/* SPDX-License-Identifier: MIT */
/* Trials by a clock of their own: what counts as faster (tests/test_trial.py has the rest). */
#include <pthread.h>
#include <stdlib.h>

#include "config/config.h"
#include "engine/hot.h"
#include "engine/trial.h"
#include "observe/log.h"
#include "unit/test.h"

/* -- What trial.c calls --------------------------------------------------- */

static uint64_t now;
static unsigned given_up, eager; /* verdicts; sequences */
static uint64_t eager_op_ns;     /* as it was measured */
struct ag_options ag_opt = {.trace_trial = true};

uint64_t ag_clock_now(void)
{
    return now;
}

void ag_log(enum ag_log_level level, const char *format, ...)
{
    (void)level;
    (void)format;
}

_Thread_local struct ag_thread ag_self;
_Thread_local struct ag_done ag_done;
static struct ag_stream others = {.issuer.thread = &others}; /* of another thread */

struct ag_stream *ag_stream_all(void)
{
    return &others;
}

/* -- Trials ---------------------------------------------------------------- */

static unsigned others_hold, others_pass; /* ops in the time of one sequence */
static unsigned won;                      /* trials of other heads */
static unsigned replays;                  /* before the first trial */
static uint64_t pause_ns;                 /* of the machine */
static unsigned pauses_in;                /* this eager sequence */
static unsigned
    slow_pairs;      /* bit n: eager sequences of 16 ops are slow in pair n behind the look */
static bool in_step; /* with another thread */

/* Sequences of a lap; 0: the thread never waits. Behind the last one come ops of another
   head, which take so long, and then a wait, or a launch of a graph of the program's own. */
static unsigned of_lap;
static uint64_t rest_ns, behind_ns; /* the latter for each held sequence before */
static bool own_graphs;

static void lap_ends(struct ag_stream *stream, unsigned held)
{
    if (stream->trial.timed.head != NULL)
        ag_trial_arrived(stream);
    now += rest_ns + held * behind_ns;
    stream->counters.ops += 4;
    ag_done.waits++;
    ag_done.graphs += own_graphs;
}

/* A stream that runs sequences of `ops` ops, replayed in so many ns where they are held, until the
   trial is over. Whether holding has won. */
static bool wins(uint32_t ops, uint64_t held_ns, uint64_t eager_ns)
{
    static struct ag_stream stream;
    static struct ag_node head, leaf;
    static struct ag_trace trace;
    stream =
        (struct ag_stream){.recorder.max_length = 64, .trial.won = won, .issuer.crossed = in_step};
    head = (struct ag_node){.depth = 1, .below = 1};
    leaf = (struct ag_node){.parent = &head, .depth = (uint16_t)ops, .trace = &trace};
    if (ops == 1)
        head.trace = &trace;
    trace = (struct ag_trace){.leaf = ops == 1 ? &head : &leaf, .length = ops};
    given_up = 0;
    eager = 0;
    replays = 0;
    unsigned held_before = 0;
    ag_trial_made(&stream, &trace);
    for (unsigned i = 0; i < 10000 && stream.counters.trials == 0; i++) {
        if (stream.trial.timed.head != NULL)
            ag_trial_arrived(&stream);
        enum ag_trial_verdict verdict = ag_trial_of(&stream, &head);
        bool held = verdict == AG_TRIAL_HOLD || verdict == AG_TRIAL_KEEP;
        given_up += verdict == AG_TRIAL_GIVE_UP;
        if (verdict >= AG_TRIAL_KEEP)
            eager_op_ns = head.head->trial.all[1].ns / head.head->trial.all[1].ops;
        if (stream.counters.trials != 0)
            break;
        now += held ? held_ns : eager_ns;
        others.seq.epoch += others_hold;
        others.issuer.passed += others_pass;
        if (!held && eager >= 4 && eager < 4 + 8 * 8 && (slow_pairs >> (eager - 4) / 8 & 1) != 0)
            now += eager_ns / 4;
        if (!held && eager++ == pauses_in)
            now += pause_ns;
        stream.trial.timed.ops += ops;
        stream.counters.ops += ops;
        held_before += held;
        replays += !head.head->trial.on;
        if (held)
            ag_trial_submitted(&head, true);
        if (of_lap != 0 && i % of_lap == of_lap - 1) {
            lap_ends(&stream, held_before);
            held_before = 0;
        }
    }
    free(head.head);
    return stream.counters.trials == 1 && given_up == 0;
}

TEST(what_is_faster_wins)
{
    CHECK(wins(16, 20000, 60000));
    CHECK(wins(16, 58000, 60000));
    CHECK(!wins(16, 59500, 60000));
    CHECK(!wins(16, 70000, 60000));
}

TEST(what_is_much_faster_wins_soon)
{
    CHECK(wins(64, 20000, 200000) && eager == 2);
    CHECK(wins(16, 20000, 60000) && eager == 4);
    CHECK(wins(1, 5000, 9000) && eager == 32);
}

TEST(replays_have_to_save_more_than_chance_gives_among_threads)
{
    for (unsigned alone = 0; alone < 2; alone++) {
        others.issuer.thread = alone ? (const void *)&ag_self : &others;
        CHECK(wins(3, 28800, 30000));
        CHECK(wins(3, 29200, 30000) == alone);
        CHECK(wins(1, 7000, 9000));
        CHECK(wins(1, 28000, 30000));
        CHECK(wins(1, 19300, 20000) == alone);
        CHECK(!wins(1, 19700, 20000));
    }
    others.issuer.thread = NULL; /* nothing has been issued into it */
    CHECK(wins(1, 19300, 20000));
    others.issuer.thread = &others;
}

TEST(most_pairs_decide_where_threads_are_in_step)
{
    for (unsigned i = 0; i < 2; i++) {
        in_step = i != 0;
        slow_pairs = 1 << 1;
        CHECK(!wins(16, 60000, 60000));
        slow_pairs = 1 << 0 | 1 << 2;
        CHECK(wins(16, 60000, 60000) != in_step);
        slow_pairs = 1 << 0 | 1 << 2 | 1 << 4;
        CHECK(wins(16, 60000, 60000));
    }
    slow_pairs = 0;
    in_step = false;
}

TEST(single_ops_stay_eager_among_many_threads)
{
    others_pass = 1;
    CHECK(wins(1, 7000, 9000) && wins(16, 20000, 60000));
    others_pass = 3;
    CHECK(!wins(1, 7000, 9000) && eager == 32);
    CHECK(!wins(1, 5000, 9000) && eager == 32);
    CHECK(wins(2, 5000, 9000) && wins(16, 20000, 60000));
    others_hold = 1;
    others_pass = 1;
    CHECK(!wins(1, 5000, 9000) && eager == 32);
    others.issuer.thread = &ag_self;
    CHECK(wins(1, 5000, 9000));
    others.issuer.thread = &others;
    others_hold = 0;
    others_pass = 0;
}

TEST(heads_are_trusted_where_others_have_won)
{
    CHECK(wins(16, 20000, 60000) && replays == 16);
    won = 3;
    CHECK(wins(16, 20000, 60000) && replays == 16);
    won = 4;
    CHECK(wins(16, 20000, 60000) && replays == 256);
    CHECK(!wins(16, 70000, 60000) && replays == 256);
    CHECK(wins(1, 5000, 9000) && replays == 16);
    won = 0;
}

TEST(a_pause_of_the_machine_does_not_decide)
{
    for (pauses_in = 0; pauses_in < 4; pauses_in++) {
        pause_ns = 10000000;
        CHECK(wins(16, 20000, 60000) && eager_op_ns == 60000 / 16);
        CHECK(!wins(2, 63000, 60000));
        pause_ns = 850000;
        CHECK(!wins(2, 63000, 60000));
    }
    pause_ns = 0;
}

TEST(what_falls_behind_the_next_head_counts)
{
    rest_ns = 300000;
    for (unsigned i = 0; i < 2; i++) {
        own_graphs = i != 0;
        for (of_lap = 1; of_lap < 8; of_lap++) {
            behind_ns = 0;
            CHECK(wins(1, 6000, 8000) && wins(16, 20000, 60000) && wins(64, 20000, 200000));
            behind_ns = 2000; /* what is saved is lost again: no sequence is slower */
            CHECK(wins(1, 6000, 8000));
            behind_ns = 26000;
            CHECK(!wins(1, 6000, 8000));
            behind_ns = 80000;
            CHECK(!wins(16, 20000, 60000) && !wins(2, 8000, 60000));
        }
    }
    of_lap = 9; /* too many: each is timed by itself */
    CHECK(wins(1, 6000, 8000));
    of_lap = 0;
    own_graphs = false;
}

/* -- Heads that take turns with another one --------------------------------- */

static struct two {
    struct ag_stream stream;
    struct ag_node head[2];
    struct ag_trace trace[2];
    unsigned held[2], lost[2]; /* sequences; verdicts */
    uint64_t held_ns[2], eager_ns[2];
} two;

static void begin_two(void)
{
    memset(&two, 0, sizeof two);
    two.stream.recorder.max_length = 64;
    for (unsigned i = 0; i < 2; i++) {
        two.held_ns[i] = 6000;
        two.eager_ns[i] = 8000;
        two.head[i] = (struct ag_node){.depth = 1, .below = 1, .trace = &two.trace[i]};
        two.trace[i] = (struct ag_trace){.leaf = &two.head[i], .length = 2};
        two.trace[i].next = two.stream.execs.traces;
        two.stream.execs.traces = &two.trace[i];
        ag_trial_made(&two.stream, &two.trace[i]);
    }
}

static void end_two(void)
{
    for (unsigned i = 0; i < 2; i++)
        free(two.head[i].head);
}

/* Two ops of the head; whether they are held. */
static bool two_ops(unsigned i)
{
    if (two.stream.trial.timed.head != NULL)
        ag_trial_arrived(&two.stream);
    enum ag_trial_verdict verdict = ag_trial_of(&two.stream, &two.head[i]);
    bool is_held = verdict == AG_TRIAL_HOLD || verdict == AG_TRIAL_KEEP;
    two.lost[i] += verdict == AG_TRIAL_GIVE_UP;
    two.held[i] += is_held;
    now += is_held ? two.held_ns[i] : two.eager_ns[i];
    two.stream.trial.timed.ops += 2;
    two.stream.counters.ops += 2;
    if (is_held)
        ag_trial_submitted(&two.head[i], true);
    return is_held;
}

/* Laps of both heads, or of the second one; whichever is held, something takes so long behind. */
static void laps_of_two(unsigned count, unsigned first, uint64_t late_ns)
{
    while (count-- > 0) {
        bool any = false;
        for (unsigned i = first; i < 2; i++)
            any |= two_ops(i);
        now += 50000 + (any ? late_ns : 0);
        ag_done.waits++;
    }
}

TEST(heads_that_are_slower_together_are_given_up)
{
    begin_two();
    laps_of_two(200, 0, 0);
    CHECK(two.stream.counters.trials == 2 && two.lost[0] + two.lost[1] == 0);
    CHECK(two.held[0] == two.held[1] && two.held[0] > 100);
    end_two();
    begin_two();
    laps_of_two(400, 0, 10000);
    CHECK(two.lost[0] == 1 && two.lost[1] == 1 && two.stream.counters.trials == 2);
    end_two();
}

TEST(a_head_is_kept_that_waits_for_what_another_has_saved)
{
    begin_two();
    two.eager_ns[0] = 80000;
    two.held_ns[1] = 12000;
    laps_of_two(400, 0, 0);
    CHECK(two.stream.counters.trials >= 2 && two.lost[0] + two.lost[1] == 0);
    end_two();
}

TEST(a_head_that_has_won_is_doubted_where_laps_are_slower)
{
    begin_two();
    two.head[1].head->replays = 100000;
    laps_of_two(800, 0, 10000);
    CHECK(two.lost[0] == 1 && two.lost[1] == 1);
    end_two();
}

/* Until the first head leads, and is eager. */
static void lead_eagerly(void)
{
    unsigned laps = 0, before = 0;
    do {
        before = two.held[0];
        laps_of_two(1, 0, 0);
    } while (two.held[0] != before && ++laps < 100);
    CHECK(laps < 100 && two.stream.trial.leader == &two.head[0]);
}

TEST(nobody_follows_a_head_that_has_gone)
{
    begin_two();
    lead_eagerly();
    unsigned before = two.held[1];
    laps_of_two(3, 1, 0);
    CHECK(two.held[1] == before); /* it is eager as that head was */
    laps_of_two(1000, 1, 0);
    CHECK(two.held[1] > before + 800);
    end_two();
}

static void *sequences_of_another(void *head)
{
    ag_done.waits = 1u << 20; /* more than laps are far apart */
    (void)two_ops((unsigned)(uintptr_t)head);
    return NULL;
}

static bool another_comes(uintptr_t head)
{
    pthread_t thread;
    return pthread_create(&thread, NULL, sequences_of_another, (void *)head) == 0 &&
           pthread_join(thread, NULL) == 0;
}

/* Its waits are others than those that the laps begin with. */
TEST(laps_are_those_of_one_thread)
{
    begin_two();
    lead_eagerly();
    struct ag_window before = two.head[0].head->trial.laps[1];
    CHECK(another_comes(0) && !two.head[0].head->trial.on);
    CHECK(memcmp(&before, &two.head[0].head->trial.laps[1], sizeof before) == 0);
    laps_of_two(400, 0, 0);
    CHECK(two.stream.counters.trials >= 2 && two.lost[0] + two.lost[1] == 0);
    end_two();
    begin_two();
    lead_eagerly();
    two.head[0].head->trial.mark = (1u << 20) - 1; /* by chance it looks like a lap */
    unsigned held = two.held[1];
    CHECK(another_comes(1) && two.held[1] == held + 1 && two.stream.trial.leader == NULL);
    end_two();
}

TEST(nor_where_the_thread_does_not_wait_any_more)
{
    begin_two();
    lead_eagerly();
    unsigned before = two.held[1];
    for (unsigned i = 0; i < 2000; i++)
        (void)two_ops(1);
    CHECK(two.held[1] == before);
    for (unsigned i = 0; i < 1000; i++)
        (void)two_ops(1);
    CHECK(two.held[1] > before + 300);
    end_two();
}
