/* SPDX-License-Identifier: MIT */
/* Known sequences: they are hot the first time that they come, and cut where they begin. */
#include "trace/recorder.h"

#include <string.h>

#include "unit/test.h"

enum { HOT = 3, LEAST = 1, MOST = 64 };

static const struct ag_layout layout = {16, 2, 77, {{0, 8}, {8, 4}}};
static const struct ag_layout nameless = {16, 2, 0, {{0, 8}, {8, 4}}};

/* An op named by a number. */
static struct ag_op op_of(unsigned name)
{
    struct ag_op op = {.layout = &layout, .shape = {name}};
    ag_op_hash(&op);
    return op;
}

/* Rounds of ops `first`, `first` + 1, ... are known. */
static const struct ag_known *know(unsigned first, unsigned period, unsigned rounds, bool lost)
{
    uint64_t keys[MOST];
    for (unsigned i = 0; i < period * rounds; i++) {
        struct ag_op op = op_of(first + i % period);
        keys[i] = ag_known_key(&op);
    }
    return ag_known_add(keys, period * rounds, lost);
}

/* Nothing is known, and nothing has come. NULL: no memory, with which the test crashes. */
static struct ag_recorder *recorder(void)
{
    static struct ag_recorder rec;
    if (rec.cursor != NULL)
        ag_tree_clear(&rec.tree);
    bool good = ag_recorder_init(&rec, 1024, MOST, 2 * MOST) && ag_known_begin(1024);
    return good ? &rec : NULL;
}

/* Feeds one op as the engine does when nothing is held. Returns the node that became hot before it.
 */
static struct ag_node *feed(struct ag_recorder *rec, unsigned name)
{
    struct ag_op op = op_of(name);
    struct ag_node *hot = NULL;
    bool ends =
        rec->cursor->depth != 0 && (ag_recorder_cuts(rec, &op) || ag_recorder_completes(rec, &op) ||
                                    ag_recorder_restarts(rec, &op));
    if (ends)
        hot = ag_recorder_end(rec, false, HOT, LEAST);
    if (rec->cursor->depth == 0)
        ag_recorder_head(rec, op.token);
    ag_recorder_step(rec, &op)->taken = true;
    return hot;
}

/* Feeds so many ops in a row. Returns what became hot. */
static struct ag_node *feed_all(struct ag_recorder *rec, unsigned first, unsigned count)
{
    struct ag_node *hot = NULL;
    for (unsigned i = 0; i < count; i++) {
        struct ag_node *now = feed(rec, first + i);
        hot = now != NULL ? now : hot;
    }
    return hot;
}

TEST(a_key_has_no_address)
{
    static const struct ag_layout copy = {16, 2, 77, {{0, 8}, {8, 4}}};
    struct ag_op op = op_of(1), other = op_of(1);
    other.func = &other;
    other.layout = &copy;
    CHECK(ag_known_key(&op) == ag_known_key(&other));
    other.shape[0] = 2;
    CHECK(ag_known_key(&op) != ag_known_key(&other));
    op.free = other.free = 1; /* an argument */
    CHECK(ag_known_key(&op) == ag_known_key(&other));
    op.layout = &nameless;
    CHECK(ag_known_key(&op) == 0);
}

TEST(a_known_sequence_begins_and_ends_where_it_did)
{
    struct ag_recorder *rec = recorder();
    const struct ag_known *known = know(1, 8, 1, false);
    CHECK(feed_all(rec, 90, 3) == NULL);
    CHECK(feed_all(rec, 1, 8) == NULL); /* its last op has not been launched yet */
    struct ag_node *hot = feed(rec, 99);
    CHECK(hot != NULL && hot->depth == 8 && hot->known == known);
    CHECK(atomic_load(&known->met) && !known->lost);
    for (unsigned i = 1; i < HOT; i++) /* no graph could be made: it is as others from now on */
        CHECK(feed_all(rec, 1, 8) == NULL);
    CHECK(feed(rec, 1) == hot);
}

TEST(a_barrier_ends_it)
{
    struct ag_recorder *rec = recorder();
    CHECK(know(1, 2, 1, true) != NULL);
    CHECK(feed_all(rec, 1, 2) == NULL);
    struct ag_node *hot = ag_recorder_end(rec, true, HOT, LEAST);
    CHECK(hot != NULL && hot->depth == 2 && hot->known->lost);
}

TEST(nothing_is_hot_before_its_last_op_was_launched)
{
    struct ag_recorder *rec = recorder();
    CHECK(know(1, 2, 1, false) != NULL);
    CHECK(feed_all(rec, 1, 2) == NULL);
    rec->cursor->taken = false;
    CHECK(ag_recorder_end(rec, true, HOT, LEAST) == NULL);
    CHECK(feed_all(rec, 1, 2) == NULL);
    CHECK(ag_recorder_end(rec, true, HOT, LEAST) != NULL);
}

TEST(a_loop_is_known_after_one_round)
{
    struct ag_recorder *rec = recorder();
    CHECK(know(1, 3, 20, false) != NULL);
    CHECK(feed_all(rec, 1, 3) == NULL);
    struct ag_node *hot = feed(rec, 1);
    CHECK(hot != NULL && hot->depth == 60 && hot->known->ends);
    CHECK(hot->op.shape[0] == 3);
}

TEST(a_round_that_does_not_come_again_is_none)
{
    struct ag_recorder *rec = recorder();
    CHECK(know(1, 3, 20, false) != NULL);
    CHECK(feed_all(rec, 1, 3) == NULL);
    CHECK(feed(rec, 9) == NULL);
    CHECK(rec->cursor->depth == 4);
}

TEST(the_longer_one_goes_on_if_it_is_more_important)
{
    struct ag_recorder *rec = recorder();
    CHECK(know(1, 12, 1, false) != NULL);
    CHECK(know(1, 8, 1, false) != NULL);
    CHECK(feed_all(rec, 1, 12) == NULL);
    struct ag_node *hot = feed(rec, 99);
    CHECK(hot != NULL && hot->depth == 12);
    rec = recorder();
    CHECK(know(1, 12, 1, false) != NULL);
    CHECK(know(1, 8, 1, false) != NULL);
    CHECK(feed_all(rec, 1, 9) == NULL);
    hot = feed_all(rec, 99, 1); /* it leaves the longer one behind the shorter */
    CHECK(hot == NULL);
    hot = ag_recorder_end(rec, true, HOT, LEAST);
    CHECK(hot != NULL && hot->depth == 8);
    rec = recorder();
    CHECK(know(1, 8, 1, false) != NULL);
    CHECK(know(1, 12, 1, false) != NULL);
    hot = feed_all(rec, 1, 12);
    CHECK(hot != NULL && hot->depth == 8);
}

TEST(without_credit_it_is_as_others)
{
    struct ag_recorder *rec = recorder();
    CHECK(know(1, 2, 1, false) != NULL);
    rec->overspent = true;
    for (unsigned i = 1; i < HOT; i++) {
        CHECK(feed_all(rec, 1, 2) == NULL);
        CHECK(ag_recorder_end(rec, true, HOT, LEAST) == NULL);
    }
    CHECK(feed_all(rec, 1, 2) == NULL);
    CHECK(ag_recorder_end(rec, true, HOT, LEAST) != NULL);
}

TEST(what_is_another_programs_cuts_nothing_for_long)
{
    struct ag_recorder *rec = recorder();
    CHECK(know(1, 8, 1, false) != NULL);
    for (unsigned i = 0; i < AG_KNOWN_LEAST; i++) {
        CHECK(feed(rec, 100 + i) == NULL);
        CHECK(feed(rec, 1) == NULL);
        CHECK(rec->cursor->depth == 1);
    }
    CHECK(feed(rec, 200) == NULL);
    CHECK(feed(rec, 1) == NULL);
    CHECK(rec->cursor->depth == 3);
    CHECK(ag_recorder_end(rec, true, HOT, LEAST) == NULL); /* one that comes whole clears that */
    CHECK(feed_all(rec, 1, 8) == NULL);
    CHECK(ag_recorder_end(rec, true, HOT, LEAST) != NULL);
    CHECK(feed(rec, 300) == NULL);
    CHECK(feed(rec, 1) == NULL);
    CHECK(rec->cursor->depth == 1);
}

TEST(short_ones_cut_nothing)
{
    struct ag_recorder *rec = recorder();
    CHECK(know(1, 2, 1, false) != NULL);
    CHECK(feed(rec, 100) == NULL);
    CHECK(feed(rec, 1) == NULL);
    CHECK(rec->cursor->depth == 2);
}

TEST(there_is_room_for_so_many)
{
    struct ag_recorder *rec = recorder();
    CHECK(ag_known_begin(10) && rec != NULL); /* 64 places, half of which are used */
    CHECK(know(1, 30, 1, false) != NULL);
    CHECK(know(100, 30, 1, false) == NULL);
}
