/* SPDX-License-Identifier: MIT */
/* What a duel makes of blocks whose times have the noise of a machine. */
#include <stdint.h>

#include "policy/duel.h"
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
static enum ag_duel_verdict verdict_of(double held, uint64_t seed, struct ag_duel *duel)
{
    enum ag_duel_verdict verdict;
    state = seed;
    ag_duel_begin(duel);
    do
        verdict = ag_duel_block(
            duel, block_ns(EAGER_NS * (ag_duel_is_eager(duel) ? 1 : held), AG_DUEL_BLOCK),
            AG_DUEL_BLOCK);
    while (verdict == AG_DUEL_OPEN);
    return verdict;
}

/* How many of the seeds end so. */
static int count(double held, enum ag_duel_verdict verdict)
{
    struct ag_duel duel;
    int found = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        found += verdict_of(held, seed, &duel) == verdict;
    return found;
}

TEST(what_saves_much_is_never_given_up)
{
    CHECK(count(0.3, AG_DUEL_HELD) == SEEDS);
    CHECK(count(0.7, AG_DUEL_HELD) == SEEDS);
    CHECK(count(0.9, AG_DUEL_EAGER) == 0);
}

TEST(what_saves_nothing_is_given_up_seldom)
{
    CHECK(count(1.0, AG_DUEL_EAGER) <= SEEDS / 50);
}

TEST(what_loses_is_given_up)
{
    CHECK(count(1.3, AG_DUEL_EAGER) == SEEDS);
    CHECK(count(1.1, AG_DUEL_EAGER) == SEEDS);
}

TEST(a_loop_that_loses_a_twentieth_is_given_up)
{
    CHECK(count(1.05, AG_DUEL_EAGER) >= SEEDS * 95 / 100);
}

TEST(what_is_clear_is_known_soon)
{
    struct ag_duel duel;
    uint32_t pairs[2] = {0, 0};
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        (void)verdict_of(0.3, seed, &duel);
        pairs[0] += duel.pairs;
        (void)verdict_of(1.5, seed, &duel);
        pairs[1] += duel.pairs;
    }
    CHECK(pairs[0] == SEEDS); /* one pair each */
    CHECK(pairs[1] <= 5 * SEEDS);
}

TEST(either_way_comes_first)
{
    struct ag_duel duel;
    ag_duel_begin(&duel);
    static const bool eager[] = {false, true, true, false, false, true};
    for (unsigned i = 0; i < sizeof eager / sizeof *eager; i++) {
        CHECK(ag_duel_is_eager(&duel) == eager[i]);
        CHECK(ag_duel_block(&duel, 1000, 10) == AG_DUEL_OPEN);
    }
    CHECK(duel.mean_ns[0] == 100 && duel.mean_ns[1] == 100);
}

TEST(no_time_at_all_decides_nothing)
{
    struct ag_duel duel;
    enum ag_duel_verdict verdict;
    ag_duel_begin(&duel);
    while ((verdict = ag_duel_block(&duel, 0, 10)) == AG_DUEL_OPEN)
        continue;
    CHECK(verdict == AG_DUEL_EVEN && duel.pairs == AG_DUEL_PAIRS);
}
