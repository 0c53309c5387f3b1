/* SPDX-License-Identifier: MIT */
/* The ops of a context, by which a trial's blocks go, while states of streams change contexts. */
#include "engine/decide/trials.h"

#include "config/config.h"
#include "engine/hot.h"
#include "engine/tell/account.h"
#include "observe/log.h"
#include "policy/policy.h"
#include "unit/test.h"

/* -- What trials.c calls --------------------------------------------------- */

static struct ag_context here, elsewhere;
static struct ag_stream leads, moves; /* two streams of the context */
static uint64_t told;                 /* ops of the last block; 0: none has ended */

struct ag_options ag_opt = {.trace_duel = true};
_Thread_local struct ag_thread ag_self;

struct ag_stream *ag_stream_all(void)
{
    return &leads;
}

void ag_trial_begin(struct ag_trial *trial)
{
    *trial = (struct ag_trial){.pairs = 0};
}

enum ag_trial_verdict ag_trial_block(struct ag_trial *trial, uint64_t ns, uint64_t ops)
{
    (void)trial;
    (void)ns;
    told = ops;
    return AG_TRIAL_OPEN;
}

void ag_account_trial(const struct ag_context *context, const struct ag_trial *trial, bool lost)
{
    (void)context;
    (void)trial;
    (void)lost;
}

void ag_log(enum ag_log_level level, const char *format, ...)
{
    (void)level;
    (void)format;
}

void ag_recorder_rest(struct ag_recorder *rec, uint32_t ops, uint64_t heads)
{
    (void)rec;
    (void)ops;
    (void)heads;
}

void ag_recorder_resume(struct ag_recorder *rec, uint32_t least)
{
    (void)rec;
    (void)least;
}

/* -- A program --------------------------------------------------------------- */

static struct ag_node root;

static void issue(struct ag_stream *stream, uint64_t ops)
{
    atomic_fetch_add(&stream->issuer.recorded, ops);
}

/* As the registry does it. */
static void move(struct ag_stream *stream, struct ag_context *context)
{
    ag_trials_move(stream);
    stream->id.context = context;
}

/* The thread waits, and its next sequence begins. */
static void wait_and_begin(void)
{
    ag_done.waits++;
    (void)ag_trials_hold_slow(&leads);
}

/* A trial's first block begins, behind some ops of both streams. */
static void begin(void)
{
    here = elsewhere = (struct ag_context){.trials = {.left = 0}};
    leads = (struct ag_stream){.place.next = &moves, .recorder.cursor = &root};
    moves = (struct ag_stream){.recorder.cursor = &root};
    move(&leads, &here);
    move(&moves, &here);
    issue(&leads, 1000);
    issue(&moves, 1000);
    wait_and_begin(); /* this thread leads */
    wait_and_begin(); /* the block begins */
    told = 0;
}

/* -- Tests ------------------------------------------------------------------- */

TEST(a_block_goes_on_until_it_has_its_ops)
{
    begin();
    issue(&leads, AG_TRIAL_BLOCK - 1);
    wait_and_begin();
    CHECK(told == 0);
    issue(&moves, 1);
    wait_and_begin();
    CHECK(told == AG_TRIAL_BLOCK);
}

TEST(what_a_state_has_issued_stays_where_it_was)
{
    begin();
    issue(&moves, 10);
    move(&moves, &elsewhere);
    wait_and_begin();
    CHECK(told == 0);
    issue(&moves, 1000);
    issue(&leads, AG_TRIAL_BLOCK - 10);
    wait_and_begin();
    CHECK(told == AG_TRIAL_BLOCK);
}

TEST(what_a_state_has_issued_elsewhere_does_not_count)
{
    begin();
    move(&moves, &elsewhere);
    issue(&moves, 1000);
    move(&moves, &here);
    issue(&moves, 7);
    wait_and_begin();
    CHECK(told == 0);
    issue(&leads, AG_TRIAL_BLOCK);
    wait_and_begin();
    CHECK(told == AG_TRIAL_BLOCK + 7);
}

/* By another thread, which has not got further. */
TEST(a_state_that_goes_just_now_ends_no_block)
{
    begin();
    moves.id.context = &elsewhere;
    issue(&leads, 1);
    wait_and_begin();
    CHECK(told == 0);
}

TEST(a_leader_is_not_taken_for_lost_when_a_state_goes)
{
    static const int another;
    begin();
    atomic_store(&here.trials.leader, &another);
    moves.id.context = &elsewhere;
    wait_and_begin();
    CHECK(atomic_load(&here.trials.leader) == &another);
    issue(&leads, 1000 + (uint64_t)AG_TRIAL_AGAIN.first + 1);
    wait_and_begin();
    CHECK(atomic_load(&here.trials.leader) == &ag_self);
}
