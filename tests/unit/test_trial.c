/* SPDX-License-Identifier: MIT */
/* What a trial makes of blocks whose times have the noise of a machine. */
#include <stdint.h>

#include "policy/trial.h"
#include "policy/policy.h"
#include "unit/test.h"

enum { SEEDS = 200, EAGER_NS = 4000 };

static uint64_t state;

/* Of 0 to 1. */
static double chance(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 33) / (double)(1u << 31);
}

/* The time of a block of eight steps, with the noise of tests/policy/noise.c: one step in ten takes
   1.3 times as long, each 5 % more or less, and one block in forty meets a pause of 150 us. */
static uint64_t block_ns(double op_ns, uint64_t ops)
{
    double steps = 0;
    for (unsigned i = 0; i < 8; i++)
        steps += (1 + 0.1 * (chance() - 0.5)) * (chance() < 0.1 ? 1.3 : 1) / 8;
    return (uint64_t)(op_ns * steps * (double)ops) + (chance() < 0.025 ? 150000 : 0);
}

/* The verdict where a held op takes so many times as long as an eager one. */
static enum ag_trial_verdict verdict_of(double held, uint64_t seed, struct ag_trial *trial)
{
    enum ag_trial_verdict verdict;
    state = seed;
    ag_trial_begin(trial);
    do
        verdict = ag_trial_block(
            trial, block_ns(EAGER_NS * (ag_trial_is_eager(trial) ? 1 : held), AG_TRIAL_BLOCK),
            AG_TRIAL_BLOCK);
    while (verdict == AG_TRIAL_OPEN);
    return verdict;
}

/* How many of the seeds end so. */
static int count(double held, enum ag_trial_verdict verdict)
{
    struct ag_trial trial;
    int found = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        found += verdict_of(held, seed, &trial) == verdict;
    return found;
}

TEST(what_saves_much_is_never_given_up)
{
    CHECK(count(0.3, AG_TRIAL_HELD) == SEEDS);
    CHECK(count(0.7, AG_TRIAL_HELD) == SEEDS);
    CHECK(count(0.9, AG_TRIAL_EAGER) == 0);
}

TEST(what_saves_nothing_is_given_up_seldom)
{
    CHECK(count(1.0, AG_TRIAL_EAGER) <= SEEDS / 50);
}

TEST(what_loses_is_given_up)
{
    CHECK(count(1.3, AG_TRIAL_EAGER) == SEEDS);
    CHECK(count(1.1, AG_TRIAL_EAGER) == SEEDS);
}

TEST(a_loop_that_loses_a_twentieth_is_given_up)
{
    CHECK(count(1.05, AG_TRIAL_EAGER) >= SEEDS * 95 / 100);
}

TEST(what_is_clear_is_known_soon)
{
    struct ag_trial trial;
    uint32_t pairs[2] = {0, 0};
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        (void)verdict_of(0.3, seed, &trial);
        pairs[0] += trial.pairs;
        (void)verdict_of(1.5, seed, &trial);
        pairs[1] += trial.pairs;
    }
    CHECK(pairs[0] == SEEDS); /* one pair each */
    CHECK(pairs[1] <= 5 * SEEDS);
}

TEST(either_way_comes_first)
{
    struct ag_trial trial;
    ag_trial_begin(&trial);
    static const bool eager[] = {false, true, true, false, false, true};
    for (unsigned i = 0; i < sizeof eager / sizeof *eager; i++) {
        CHECK(ag_trial_is_eager(&trial) == eager[i]);
        CHECK(ag_trial_block(&trial, 1000, 10) == AG_TRIAL_OPEN);
    }
    CHECK(trial.mean_ns[0] == 100 && trial.mean_ns[1] == 100);
}

TEST(no_time_at_all_decides_nothing)
{
    struct ag_trial trial;
    enum ag_trial_verdict verdict;
    ag_trial_begin(&trial);
    while ((verdict = ag_trial_block(&trial, 0, 10)) == AG_TRIAL_OPEN)
        continue;
    CHECK(verdict == AG_TRIAL_EVEN && trial.pairs == AG_TRIAL_PAIRS);
}
