/* SPDX-License-Identifier: MIT */
/* The recorder and its tree: where sequences are cut, which become hot, what is forgotten. */
#include "trace/recorder.h"

#include <stdlib.h>
#include <string.h>

#include "unit/test.h"

enum { HOT = 3, LEAST = 2 };

static const struct ag_layout two_words = {16, 2, 0, {{0, 8}, {8, 4}}};

/* An op named by a number. */
static struct ag_op op_of(unsigned name)
{
    struct ag_op op = {.layout = &two_words, .shape = {name}};
    ag_op_hash(&op);
    return op;
}

static bool passes(struct ag_recorder *rec, unsigned name)
{
    struct ag_op op = op_of(name);
    return ag_recorder_passes(rec, ag_op_mark(&op));
}

/* Feeds one op as the engine does when nothing is held. Returns the node that became hot by the end
   of a sequence, if one did. */
static struct ag_node *feed_op(struct ag_recorder *rec, unsigned name, bool looks)
{
    struct ag_op op = op_of(name);
    struct ag_node *hot = NULL;
    if (rec->cursor->depth != 0 && (ag_recorder_cuts(rec, &op) || ag_recorder_restarts(rec, &op)))
        hot = ag_recorder_end(rec, false, HOT, LEAST);
    if (rec->cursor->depth == 0)
        ag_recorder_head(rec, op.token);
    struct ag_node *node = ag_recorder_step(rec, &op);
    if (node != NULL && (ag_recorder_full(rec, node) || (looks && ag_recorder_looks(rec, node) &&
                                                         ag_recorder_loops(rec, HOT + 1)))) {
        struct ag_node *second = ag_recorder_end(rec, false, HOT, LEAST);
        hot = hot != NULL ? hot : second;
    }
    return hot;
}

static struct ag_node *feed(struct ag_recorder *rec, unsigned name)
{
    return feed_op(rec, name, false);
}

TEST(short_loop_is_unrolled)
{
    struct ag_recorder rec = {0};
    CHECK(ag_recorder_init(&rec, 1024, 16, 128));
    struct ag_node *hot = NULL;
    for (unsigned i = 0; i < 200 && hot == NULL; i++)
        hot = feed(&rec, i % 3);
    CHECK(hot != NULL);
    CHECK(hot->depth == 18); /* the first multiple of 3 from 16 on */
    CHECK(hot->op.shape[0] == 2);
    ag_tree_free(&rec.tree);
}

/* Feeds a loop until a sequence is hot, `most` ops at most. Returns the ops; `*depth` is the length
   of the sequence. */
static unsigned looked_at(struct ag_recorder *rec, unsigned period, unsigned most, unsigned *depth)
{
    for (unsigned i = 0; i < most; i++) {
        struct ag_node *hot = feed_op(rec, 1 + i % period, true);
        if (hot != NULL) {
            *depth = hot->depth;
            return i + 1;
        }
    }
    return most;
}

/* The depth at which the rounds of a loop are seen, if a sequence has so many other ops before. */
static unsigned seen_at(unsigned period, unsigned before)
{
    unsigned least = (HOT + 1) * period, depth = AG_LOOK_FIRST;
    while (depth < before + (least < AG_LOOK_FIRST ? AG_LOOK_FIRST : least))
        depth *= 2;
    return depth;
}

/* A sequence of equal rounds is hot at once: as many rounds as it has ops for. What comes before
   the loop does not matter. */
TEST(short_loop_is_hot_soon)
{
    for (unsigned before = 0; before < 8; before += 7)
        for (unsigned period = 1; period <= 14; period++) {
            struct ag_recorder rec = {0};
            unsigned depth = 0;
            CHECK(ag_recorder_init(&rec, 1024, 64, 128));
            for (unsigned i = 0; i < before; i++)
                feed_op(&rec, 100 + i, true);
            CHECK(looked_at(&rec, period, 200, &depth) == seen_at(period, before) - before);
            CHECK(depth == seen_at(period, before) / period * period);
            ag_tree_free(&rec.tree);
        }
}

/* A sequence that is all rounds gets a trace that begins where it did. The next one has the rest of
   the round that has begun. */
TEST(rounds_begin_where_the_sequence_did)
{
    struct ag_recorder rec = {0};
    struct ag_node *hot = NULL;
    CHECK(ag_recorder_init(&rec, 1024, 64, 128));
    for (unsigned i = 0; i < 16; i++)
        hot = feed_op(&rec, 1 + i % 3, true);
    CHECK(hot != NULL && hot->depth == 15 && ag_node_head(hot)->op.shape[0] == 1);
    CHECK(rec.limit == 2);
    ag_tree_free(&rec.tree);
}

/* A trace has been left: what counts are the ops since then. */
TEST(loop_behind_a_trace_is_hot_soon)
{
    struct ag_recorder rec = {0};
    unsigned depth = 0;
    CHECK(ag_recorder_init(&rec, 1024, 64, 128));
    for (unsigned i = 0; i < 45; i++)
        feed(&rec, 100 + i);
    ag_recorder_leaves(&rec);
    CHECK(looked_at(&rec, 5, 200, &depth) == 32 && depth % 5 == 0);
    ag_tree_free(&rec.tree);
}

/* Of two loops, one within the other, the outer one explains more. */
TEST(outer_loop_counts)
{
    struct ag_recorder rec = {0};
    CHECK(ag_recorder_init(&rec, 1024, 64, 128));
    for (unsigned i = 0; i < 63; i++)
        feed(&rec, i % 9 == 0);
    CHECK(ag_recorder_loops(&rec, HOT + 1) && rec.rounds.period == 9);
    ag_tree_free(&rec.tree);
}

/* Ops that are new have no nodes. The next rounds get some, and are hot. */
TEST(loop_behind_many_ops_is_hot_soon)
{
    struct ag_recorder rec = {0};
    unsigned depth = 0;
    CHECK(ag_recorder_init(&rec, 16384, 64, 128));
    for (unsigned i = 0; i < 3000; i++)
        feed_op(&rec, 1000 + i, true);
    CHECK(looked_at(&rec, 5, 400, &depth) < 200 && depth >= 15 && depth % 5 == 0);
    ag_tree_free(&rec.tree);
}

static const struct ag_trace *any_trace(void)
{
    return (const struct ag_trace *)&two_words;
}

/* Feeds one op as the engine does that holds: a trace ends a sequence if it begins no longer one,
   and counts as replayed. What is hot becomes a trace. Returns the length of the trace that was
   made, or 0. */
static unsigned feed_held(struct ag_recorder *rec, unsigned name)
{
    struct ag_op op = op_of(name);
    struct ag_node *node = rec->cursor, *hot = NULL;
    if (node->trace != NULL && ag_recorder_find(rec, &op) == NULL) {
        ag_recorder_paid(rec, node->depth);
        hot = ag_recorder_end(rec, false, HOT, LEAST);
    }
    if (hot == NULL)
        hot = feed_op(rec, name, false);
    node = rec->cursor;
    if (hot == NULL && node->trace != NULL && node->below == 0) {
        ag_recorder_paid(rec, node->depth);
        hot = ag_recorder_end(rec, false, HOT, LEAST);
    }
    if (hot != NULL)
        ag_node_set_trace(hot, (struct ag_trace *)any_trace());
    return hot != NULL ? hot->depth : 0;
}

static bool has_trace(const struct ag_node *node, const void *data)
{
    (void)data;
    if (node->trace != NULL)
        ag_node_set_trace((struct ag_node *)node, NULL);
    return false;
}

static void free_with_traces(struct ag_recorder *rec)
{
    (void)ag_tree_has(&rec->tree, has_trace, NULL);
    ag_tree_free(&rec->tree);
}

/* A loop of which there is a trace that begins with another of its ops gets no second trace. The
   next sequence begins with that op. */
TEST(loop_has_one_trace)
{
    struct ag_recorder rec = {0};
    struct ag_node *hot = NULL;
    CHECK(ag_recorder_init(&rec, 1024, 64, 128));
    for (unsigned i = 0; i < 2; i++)
        feed_op(&rec, 100 + i, true);
    for (unsigned i = 0; hot == NULL; i++)
        hot = feed_op(&rec, 1 + i % 3, true);
    struct ag_op first = op_of(3), op = first; /* behind 16 ops */
    CHECK(ag_tree_find(&rec.tree, &rec.tree.root, &first) != NULL);
    ag_node_set_trace(hot, (struct ag_trace *)any_trace());
    ag_recorder_end(&rec, true, HOT, LEAST);
    unsigned i = 0;
    do {
        op = op_of(1 + i % 3);
        CHECK(feed_op(&rec, 1 + i++ % 3, true) == NULL && i < 20);
    } while (rec.cursor->depth != 1 || i == 1);
    CHECK(op.token == first.token);
    free_with_traces(&rec);
}

/* One op of eight is one of four by chance: unrolled iterations never recur. What recurs are the
   ops from one such op to the next. */
TEST(loop_whose_iterations_differ_has_traces_soon)
{
    struct ag_recorder rec = {0};
    CHECK(ag_recorder_init(&rec, 4096, 64, 128));
    unsigned random = 1, ops = 0, traces = 0, heads = 0;
    for (; heads != 15 && ops < 8000; ops++) {
        random = ops % 8 == 3 ? random * 1664525u + 1013904223u : random;
        traces += feed_held(&rec, ops % 8 == 3 ? 100 + random / 65536 % 4 : ops % 8) != 0;
        for (unsigned i = 0; i < 4; i++) {
            struct ag_op op = op_of(100 + i);
            const struct ag_node *head = ag_tree_find(&rec.tree, &rec.tree.root, &op);
            heads |= (unsigned)(head != NULL && ag_node_leads(head)) << i;
        }
    }
    CHECK(heads == 15 && ops < 2 * AG_IRREGULAR);
    CHECK(traces < 16);
    free_with_traces(&rec);
}

/* Sequences of 16 ops go on in other ways behind the same ops. Returns what is hot after the last
   of them; NULL also if anything was before. */
static struct ag_node *branch(struct ag_recorder *rec, unsigned ways, unsigned common)
{
    struct ag_node *hot = NULL;
    unsigned op = 0;
    for (; op < 16 * ways && hot == NULL; op++)
        hot = feed(rec, op % 16 < common ? op % 16 : 100 * (1 + op / 16) + op % 16);
    return op == 16 * ways ? hot : NULL;
}

TEST(what_many_sequences_begin_with_is_hot)
{
    struct ag_recorder rec = {0};
    CHECK(ag_recorder_init(&rec, 4096, 16, 16));
    rec.irregular = 1000;
    struct ag_node *hot = branch(&rec, HOT, AG_FORK_LEAST);
    CHECK(hot != NULL && hot->depth == AG_FORK_LEAST);
    ag_tree_free(&rec.tree);
    rec = (struct ag_recorder){0};
    CHECK(ag_recorder_init(&rec, 4096, 16, 16));
    rec.irregular = 1000;
    CHECK(branch(&rec, HOT, AG_FORK_LEAST - 1) == NULL); /* too short */
    ag_tree_free(&rec.tree);
}

/* But not in a regular stream, nor before many ops have been new. */
TEST(stream_is_irregular_once_many_ops_have_been_new)
{
    struct ag_recorder rec = {0};
    CHECK(ag_recorder_init(&rec, 4096, 16, 16));
    CHECK(branch(&rec, AG_IRREGULAR / 16 - 1, AG_FORK_LEAST) == NULL && rec.irregular == 0);
    branch(&rec, 1, AG_FORK_LEAST); /* it has come before */
    CHECK(rec.irregular == 0);
    for (unsigned i = 0; i < 64 && rec.irregular == 0; i++)
        feed(&rec, 10000 + i);
    CHECK(rec.irregular == AG_REST.first);
    for (unsigned i = 0; i < AG_REST.first; i++)
        feed(&rec, i % 16);
    CHECK(rec.irregular == 0);
    free_with_traces(&rec);
}

/* Likewise where barriers end them. */
TEST(what_many_sequences_between_barriers_begin_with_is_hot)
{
    struct ag_recorder rec = {0};
    CHECK(ag_recorder_init(&rec, 4096, 64, 128));
    struct ag_node *hot = NULL;
    for (unsigned way = 1; way <= HOT; way++) {
        CHECK(hot == NULL);
        for (unsigned i = 0; i < 16; i++)
            CHECK(feed(&rec, i < AG_FORK_LEAST ? i : 100 * way + i) == NULL);
        hot = ag_recorder_end(&rec, true, HOT, LEAST);
    }
    CHECK(hot != NULL && hot->depth == AG_FORK_LEAST);
    ag_tree_free(&rec.tree);
}

/* What is new ends where it comes to something known. */
TEST(sequence_that_was_never_seen_ends_before_a_trace)
{
    struct ag_recorder rec = {0};
    CHECK(ag_recorder_init(&rec, 4096, 16, 16));
    struct ag_op head = op_of(0);
    for (unsigned i = 0; i < HOT * 16; i++)
        (void)feed_held(&rec, i % 16);
    CHECK(ag_node_leads(ag_tree_find(&rec.tree, &rec.tree.root, &head)));
    for (unsigned i = 0; i < 5; i++)
        feed(&rec, 1000 + i);
    CHECK(!ag_recorder_restarts(&rec, &head)); /* the stream is regular */
    rec.irregular = 1000;
    CHECK(rec.cursor->depth == 5 && rec.run >= rec.unroll && ag_recorder_restarts(&rec, &head));
    struct ag_op other = op_of(1);
    CHECK(!ag_recorder_restarts(&rec, &other));
    ag_recorder_end(&rec, true, HOT, LEAST); /* a barrier has just come, and may come again */
    feed(&rec, 2000);
    CHECK(!ag_recorder_restarts(&rec, &head));
    free_with_traces(&rec);
}

/* An anchor that has come round stays, whatever else does. */
TEST(anchor_that_comes_round_stays)
{
    struct ag_recorder rec = {0};
    CHECK(ag_recorder_init(&rec, 4096, 64, 128));
    for (unsigned i = 0; i < 20 * 200; i++) {
        feed_op(&rec, i > 400 && i % 200 >= 100 ? 1000 + i % 200 : 1 + i % 200, true);
        CHECK(rec.anchor.token == op_of(1).token);
    }
    ag_tree_free(&rec.tree);
}

/* Heads of sequences that begin in so many ops of a loop, as bits, which goes on where it was. */
enum { LONG_LOOP = 1000 };

static unsigned heads_of(struct ag_recorder *rec, unsigned period, unsigned *at, unsigned ops,
                         bool heads[LONG_LOOP])
{
    unsigned count = 0;
    memset(heads, 0, LONG_LOOP * sizeof *heads);
    for (unsigned i = 0; i < ops; i++) {
        unsigned place = (*at)++ % period;
        bool before = rec->cursor->depth == 0;
        feed(rec, 1 + place);
        if (before || rec->cursor->depth == 1) {
            count += !heads[place];
            heads[place] = true;
        }
    }
    return count;
}

/* Whatever came before it, and whatever came in between, a loop that is longer than a sequence is
   soon cut at the same ops each time round. */
TEST(long_loop_is_cut_at_the_same_ops)
{
    static const unsigned periods[] = {17, 179, 255, 600, LONG_LOOP};
    bool heads[LONG_LOOP], later[LONG_LOOP];
    for (unsigned p = 0; p < sizeof periods / sizeof *periods; p++) {
        struct ag_recorder rec = {0};
        unsigned at = 0, period = periods[p];
        CHECK(ag_recorder_init(&rec, 1 << 16, 16, 16));
        for (unsigned i = 0; i < 37; i++)
            feed(&rec, 5000 + i);
        heads_of(&rec, period, &at, AG_REACH.first + 5 * period, heads);
        CHECK(heads_of(&rec, period, &at, 3 * period, heads) <= period / 16 + 1);
        for (unsigned i = 0; i < 7; i++)
            feed(&rec, 6000 + i);
        heads_of(&rec, period, &at, period, later);
        heads_of(&rec, period, &at, 3 * period, later);
        CHECK(memcmp(heads, later, sizeof heads) == 0);
        ag_tree_free(&rec.tree);
    }
}

/* One round of a loop of 40 ops, which pauses behind the tenth, or it turns out `later` ops behind
   that that somebody waits for it; whether a sequence ended there. */
static bool ends_there(struct ag_recorder *rec, bool pauses, unsigned later)
{
    bool ends = false;
    struct ag_node *node = NULL;
    for (unsigned place = 1; place <= 40; place++) {
        feed(rec, place);
        if (place == 10) {
            ends = rec->cursor->depth == 0;
            node = ends ? NULL : rec->cursor;
        }
        if (place == 10 + later && pauses && node != NULL)
            ag_recorder_overdue(rec, node);
    }
    return ends;
}

TEST(sequences_end_where_the_program_pauses)
{
    for (unsigned later = 0; later < 4; later += 3) {
        struct ag_recorder rec = {0};
        CHECK(ag_recorder_init(&rec, 1 << 16, 16, 16));
        for (unsigned i = 0; i < 3; i++)
            ends_there(&rec, false, later);
        for (unsigned i = 0; i <= AG_OVERDUE_ENDS / AG_OVERDUE_WEIGHT; i++)
            CHECK(!ends_there(&rec, true, later));
        for (unsigned i = 0; i < 1000; i++)
            CHECK(ends_there(&rec, true, later));
        unsigned rounds = 0; /* it is forgotten, since it may be no more */
        while (ends_there(&rec, false, later) && rounds < 100000)
            rounds++;
        CHECK(rounds > 1000 && rounds < 10000);
        for (unsigned i = 0; i < 20; i++) { /* and now and then there is a pause anywhere */
            for (unsigned k = 0; k < 1000; k++)
                CHECK(!ends_there(&rec, false, later));
            CHECK(!ends_there(&rec, true, later));
        }
        for (rounds = 0; !ends_there(&rec, true, later); rounds++)
            CHECK(rounds < 10);
        for (rounds = 0; ends_there(&rec, true, later); rounds++)
            CHECK(rounds < 10000);
        CHECK(ends_there(&rec, true, later)); /* it was late once more: that is enough */
        ag_tree_free(&rec.tree);
    }
}

/* A sequence of four ops, with a trace. */
static struct ag_node *traced(struct ag_recorder *rec, unsigned first)
{
    for (unsigned i = 0; i < 4; i++)
        feed(rec, first + i);
    struct ag_node *leaf = rec->cursor;
    (void)ag_recorder_end(rec, true, HOT, LEAST);
    ag_node_set_trace(leaf, (struct ag_trace *)any_trace());
    return leaf;
}

/* The sequence at `leaf` comes, and is replayed. Returns what is hot. */
static struct ag_node *replayed(struct ag_recorder *rec, struct ag_node *leaf, bool barrier)
{
    rec->cursor = leaf;
    ag_recorder_paid(rec, leaf->depth);
    return ag_recorder_end(rec, barrier, HOT, LEAST);
}

/* They are not too long for one, nothing comes between, and no other trace comes behind the first.
 */
TEST(traces_that_follow_each_other_become_one)
{
    struct ag_recorder rec = {0};
    CHECK(ag_recorder_init(&rec, 4096, 8, 128));
    struct ag_node *first = traced(&rec, 10), *next = traced(&rec, 20), *other = traced(&rec, 30);
    for (unsigned i = 0; i < 1000; i++) {
        CHECK(replayed(&rec, first, true) == NULL); /* a barrier */
        CHECK(replayed(&rec, next, true) == NULL);
        CHECK(replayed(&rec, first, false) == NULL);
        CHECK(replayed(&rec, i % AG_JOIN_FIRST != 0 ? next : other, true) == NULL);
    }
    for (unsigned i = 1; i <= AG_JOIN_FIRST; i++) {
        CHECK(replayed(&rec, first, false) == NULL);
        struct ag_node *both = replayed(&rec, other, true);
        CHECK((both != NULL) == (i == AG_JOIN_FIRST));
        CHECK(both == NULL || (both->depth == 8 && ag_op_is_like(&both->op, &other->op)));
    }
    rec.unroll = 7;
    for (unsigned i = 0; i < 1000; i++) {
        CHECK(replayed(&rec, first, false) == NULL);
        CHECK(replayed(&rec, next, true) == NULL);
    }
    free_with_traces(&rec);
}

/* The trace of some rounds comes behind itself: it becomes one of as many as there may be. */
TEST(rounds_become_as_many_as_there_may_be)
{
    struct ag_recorder rec = {0};
    CHECK(ag_recorder_init(&rec, 4096, 63, 128));
    struct ag_node *round = traced(&rec, 10), *hot = NULL;
    for (unsigned i = 0; hot == NULL; i++) {
        CHECK(i <= AG_JOIN_FIRST);
        hot = replayed(&rec, round, false);
    }
    CHECK(hot->depth == 60);
    free_with_traces(&rec);
}

/* Sequences behind a wait are shorter, and double; not behind any other barrier. */
TEST(short_piece_behind_a_wait)
{
    struct ag_recorder rec = {0};
    CHECK(ag_recorder_init(&rec, 1024, 16, 16));
    ag_recorder_waited(&rec, 4);
    for (unsigned i = 0; i < 40; i++) {
        feed(&rec, i);
        CHECK((rec.cursor->depth == 0) == (i == 3 || i == 11 || i == 27));
    }
    ag_recorder_end(&rec, true, HOT, LEAST);
    for (unsigned i = 0; i < 16; i++) {
        CHECK(i == 0 || rec.cursor->depth == i);
        feed(&rec, i);
    }
    CHECK(rec.cursor->depth == 0);
    ag_recorder_waited(&rec, UINT32_MAX); /* it need not be shorter */
    CHECK(rec.limit == 16);
    ag_tree_free(&rec.tree);
}

/* Ops of a loop between two barriers. Returns how many of them are in the last sequence. */
static unsigned last_of(struct ag_recorder *rec, unsigned ops)
{
    for (unsigned i = 0; i < ops; i++)
        feed(rec, 1 + i % 5);
    unsigned depth = rec->cursor->depth;
    ag_recorder_end(rec, true, HOT, LEAST);
    return depth;
}

/* A loop is cut where it comes round, but not where barriers come after equal numbers of ops: then
   all sequences but the last are as long as they may be. */
TEST(a_loop_between_regular_barriers_is_cut_for_its_length)
{
    struct ag_recorder rec = {0};
    CHECK(ag_recorder_init(&rec, 1024, 16, 32));
    CHECK(last_of(&rec, 60) == 20 && last_of(&rec, 60) == 20);
    CHECK(last_of(&rec, 60) == 28 && last_of(&rec, 60) == 28);
    CHECK(last_of(&rec, 65) == 1); /* 64 ops in two sequences */
    CHECK(last_of(&rec, 60) == 20 && last_of(&rec, 60) == 20 && last_of(&rec, 60) == 28);
    CHECK(last_of(&rec, 6 * AG_REACH.first) <
          32); /* behind the barrier that was due it comes round */
    ag_tree_free(&rec.tree);
}

/* A loop longer than a trace is cut at the same places in each iteration: after a while no new
   nodes are made. */
static bool settles(unsigned period, unsigned prologue)
{
    struct ag_recorder rec = {0};
    if (!ag_recorder_init(&rec, 32768, 64, 128))
        return false;
    for (unsigned i = 0; i < prologue; i++)
        feed(&rec, 100000 + i);
    for (unsigned i = 0; i < 12 * period + 10000; i++)
        feed(&rec, i % period);
    uint32_t used = rec.tree.used;
    for (unsigned i = 12 * period + 10000; i < 24 * period + 10000; i++)
        feed(&rec, i % period);
    bool same = rec.tree.used == used;
    ag_tree_free(&rec.tree);
    return same;
}

TEST(long_loops_settle)
{
    CHECK(settles(1000, 0));
    CHECK(settles(130, 0));
    CHECK(settles(129, 7));
    CHECK(settles(70, 3));
    CHECK(settles(3000, 50));
}

TEST(barrier_ends_a_sequence)
{
    struct ag_recorder rec = {0};
    CHECK(ag_recorder_init(&rec, 1024, 64, 128));
    struct ag_node *hot = NULL;
    unsigned rounds = 0;
    while (hot == NULL && rounds < 10) {
        for (unsigned i = 0; i < 5; i++)
            CHECK(feed(&rec, i) == NULL);
        hot = ag_recorder_end(&rec, true, HOT, LEAST);
        rounds++;
    }
    CHECK(hot != NULL && hot->depth == 5);
    CHECK(rounds == HOT);
    ag_tree_free(&rec.tree);
}

TEST(sequences_may_be_too_short)
{
    struct ag_recorder rec = {0};
    CHECK(ag_recorder_init(&rec, 1024, 64, 128));
    for (unsigned i = 0; i < 20; i++) {
        feed(&rec, 1);
        CHECK(ag_recorder_end(&rec, true, HOT, LEAST) == NULL);
    }
    for (unsigned i = 1; i <= HOT; i++) {
        feed(&rec, 2);
        CHECK((ag_recorder_end(&rec, true, HOT, 1) != NULL) == (i == HOT));
    }
    ag_tree_free(&rec.tree);
}

/* What is new gets no nodes, but is known when it comes again: it is hot as soon as else. */
TEST(new_sequences_have_no_nodes)
{
    struct ag_recorder rec = {0};
    CHECK(ag_recorder_init(&rec, 16384, 64, 128));
    for (unsigned i = 0; i < 3000; i++)
        feed(&rec, i);
    uint32_t used = rec.tree.used;
    CHECK(used < 300);
    for (unsigned round = 1; round <= HOT; round++) {
        ag_recorder_end(&rec, true, HOT, LEAST);
        struct ag_node *hot = NULL;
        for (unsigned i = 0; i < 128; i++) {
            CHECK(hot == NULL);
            hot = feed(&rec, 5000 + i);
            CHECK((rec.tree.used == used) == (round == 1));
            CHECK(rec.cursor->depth == (i + 1) % 128);
        }
        CHECK((hot != NULL) == (round == HOT));
    }
    CHECK(rec.tree.used < used + 128 + 32);
    ag_tree_free(&rec.tree);
}

/* The same where only the end of a sequence is new. */
TEST(known_sequence_may_go_where_none_has)
{
    struct ag_recorder rec = {0};
    CHECK(ag_recorder_init(&rec, 16384, 64, 128));
    for (unsigned i = 0; i < 3000; i++)
        feed(&rec, i % 400);
    ag_recorder_end(&rec, true, HOT, LEAST);
    for (unsigned round = 1; round <= HOT; round++) {
        for (unsigned i = 0; i < 20; i++)
            feed(&rec, i < 10 ? i : 7000 + i);
        CHECK(ag_recorder_is_unseen(&rec) == (round == 1) && rec.cursor->weight == 20);
        CHECK((ag_recorder_end(&rec, true, HOT, LEAST) != NULL) == (round == HOT));
    }
    ag_tree_free(&rec.tree);
}

TEST(failed_op_is_in_no_trace)
{
    struct ag_recorder rec = {0};
    CHECK(ag_recorder_init(&rec, 1024, 64, 128));
    for (unsigned round = 0; round < 10; round++) {
        for (unsigned i = 0; i < 5; i++) {
            feed(&rec, i);
            if (i == 2)
                rec.cursor->blacklisted = true;
        }
        CHECK(ag_recorder_end(&rec, true, HOT, LEAST) == NULL);
    }
    ag_tree_free(&rec.tree);
}

TEST(memory_is_bounded_and_recording_rests)
{
    struct ag_recorder rec = {0};
    CHECK(ag_recorder_init(&rec, 512, 64, 128));
    unsigned resting = 0;
    for (unsigned i = 0; i < 100000; i++) {
        if (passes(&rec, i)) {
            resting++;
            continue;
        }
        feed(&rec, i);
        CHECK(rec.tree.used <= 512);
    }
    CHECK(resting > 90000);
    ag_tree_free(&rec.tree);
}

/* Ops that are recorded in a program that never repeats are few; and a long loop is found then. */
TEST(novel_ops_are_given_up_early)
{
    struct ag_recorder rec = {0};
    CHECK(ag_recorder_init(&rec, 16384, 64, 128));
    unsigned recorded = 0;
    for (unsigned i = 0; i < 170000; i++)
        if (!passes(&rec, i)) {
            feed(&rec, i);
            recorded++;
        }
    CHECK(recorded < 13000);
    unsigned hot = 0;
    for (unsigned i = 0; i < 2000000; i++)
        if (!passes(&rec, i % 5000))
            hot += feed(&rec, i % 5000) != NULL;
    CHECK(hot >= 5000 / 128);
    ag_tree_free(&rec.tree);
}

/* Two threads share a stream: one of them lets an op pass, and writes what is left of the rest when
   the other one has come to its end, and records or even holds. */
TEST(nothing_passes_within_a_sequence)
{
    struct ag_recorder rec = {0};
    CHECK(ag_recorder_init(&rec, 512, 64, 128));
    atomic_store(&rec.resting.ops, 2);
    CHECK(passes(&rec, 1) && passes(&rec, 1) && !passes(&rec, 1));
    feed(&rec, 1);
    atomic_store(&rec.resting.ops, 7);
    CHECK(!passes(&rec, 1));
    ag_recorder_end(&rec, true, HOT, LEAST);
    CHECK(passes(&rec, 1));
    ag_tree_free(&rec.tree);
}

TEST(what_begins_a_trace_is_seen_while_all_else_passes)
{
    struct ag_recorder rec = {0};
    CHECK(ag_recorder_init(&rec, 512, 64, 128));
    feed(&rec, 1);
    feed(&rec, 2);
    struct ag_node *leaf = rec.cursor;
    ag_recorder_end(&rec, true, HOT, LEAST);
    feed(&rec, 3);
    ag_recorder_end(&rec, true, HOT, LEAST);
    ag_node_set_trace(leaf, (struct ag_trace *)&rec);
    CHECK(passes(&rec, 1) == false && rec.resting.heads == 0); /* it does not rest */
    ag_recorder_has_trace(&rec, leaf->parent);
    CHECK(rec.resting.heads == ag_tree_heads(&rec.tree) && rec.resting.heads != 0);
    atomic_store(&rec.resting.ops, 100);
    CHECK(!passes(&rec, 1) && passes(&rec, 2) && passes(&rec, 3));
    feed(&rec, 1);
    CHECK(!passes(&rec, 2) && !passes(&rec, 3));
    feed(&rec, 2);
    CHECK(rec.cursor == leaf);
    ag_recorder_end(&rec, false, HOT, LEAST);
    CHECK(passes(&rec, 2));
    uint32_t used = rec.tree.used;
    feed(&rec, 1);
    feed(&rec, 4);
    CHECK(rec.tree.used == used && rec.cursor == &rec.tree.root);
    ag_node_set_trace(leaf, NULL);
    CHECK(ag_tree_heads(&rec.tree) == 0);
    ag_tree_free(&rec.tree);
}

/* A new recorder rests for so many ops, and has a trace of the ops 1 and 2. */
static struct ag_node *rest_with_trace(struct ag_recorder *rec, uint32_t ops)
{
    feed(rec, 1);
    feed(rec, 2);
    struct ag_node *leaf = rec->cursor;
    ag_recorder_end(rec, true, HOT, LEAST);
    ag_node_set_trace(leaf, (struct ag_trace *)rec);
    ag_recorder_has_trace(rec, leaf->parent);
    ag_recorder_paid(rec, 2);
    atomic_store(&rec->resting.ops, ops);
    return leaf;
}

/* The program has gone on to something else, in which what began a trace begins none. */
TEST(what_began_a_trace_passes_too_when_nothing_comes_of_it)
{
    struct ag_recorder rec = {0};
    CHECK(ag_recorder_init(&rec, 512, 64, 128));
    struct ag_node *leaf = rest_with_trace(&rec, 50000);
    unsigned recorded = 0;
    while (ag_recorder_rests(&rec) && recorded < 50000)
        if (!passes(&rec, 1)) {
            feed(&rec, 1);
            ag_recorder_end(&rec, true, HOT, LEAST);
            recorded++;
        }
    CHECK(recorded >= AG_REST_VAIN && recorded < 2 * AG_REST_VAIN);
    ag_node_set_trace(leaf, NULL);
    ag_tree_free(&rec.tree);
}

TEST(but_not_while_it_is_replayed)
{
    enum { OPS = 50000 };
    struct ag_recorder rec = {0};
    CHECK(ag_recorder_init(&rec, 512, 64, 128));
    struct ag_node *leaf = rest_with_trace(&rec, OPS);
    for (unsigned i = 0; i < 10000; i++) {
        CHECK(!passes(&rec, 1) && passes(&rec, 3) == (rec.resting.ops != 0));
        feed(&rec, 1);
        if (i % 500 == 0) {
            feed(&rec, 2);
            ag_recorder_paid(&rec, 2);
            ag_recorder_end(&rec, false, HOT, LEAST);
        }
        ag_recorder_end(&rec, true, HOT, LEAST);
    }
    CHECK(ag_recorder_rests(&rec));
    ag_node_set_trace(leaf, NULL);
    ag_tree_free(&rec.tree);
}

TEST(pruning_keeps_what_leads_to_a_trace)
{
    struct ag_tree tree = {0};
    CHECK(ag_tree_init(&tree, 64));
    struct ag_op a = op_of(1), b = op_of(2), c = op_of(3);
    struct ag_node *first = ag_tree_add(&tree, &tree.root, &a);
    struct ag_node *second = ag_tree_add(&tree, first, &b);
    struct ag_node *other = ag_tree_add(&tree, first, &c);
    CHECK(first != NULL && second != NULL && other != NULL);
    first->next = other;
    ag_node_set_trace(second, (struct ag_trace *)&a);
    CHECK(first->below == 1 && tree.root.below == 1);
    ag_tree_prune(&tree);
    CHECK(tree.used == 2);
    CHECK(first->next == NULL);
    CHECK(ag_tree_find(&tree, first, &b) == second);
    CHECK(ag_tree_find(&tree, first, &c) == NULL);
    ag_node_set_trace(second, NULL);
    CHECK(tree.root.below == 0);
    ag_tree_prune(&tree);
    CHECK(tree.used == 0);
    ag_tree_free(&tree);
}

TEST(version_goes_up_only_with_a_difference)
{
    struct ag_tree tree = {0};
    CHECK(ag_tree_init(&tree, 64));
    struct ag_op op = op_of(1);
    struct ag_node *node = ag_tree_add(&tree, &tree.root, &op);
    CHECK(node != NULL && ag_node_arguments(node));
    uint64_t pointer = 42;
    uint32_t scalar = 0;
    void *from[] = {&pointer, &scalar};
    ag_node_store(node, from);
    CHECK(node->version == 1);
    ag_node_store(node, from);
    CHECK(node->version == 1);
    scalar = 7;
    ag_node_store(node, from);
    CHECK(node->version == 2);
    CHECK(memcmp(node->params[0], &pointer, 8) == 0 && memcmp(node->params[1], &scalar, 4) == 0);
    ag_tree_free(&tree);
}

/* The same hash must not be enough: the structure itself is compared. */
TEST(equal_tokens_are_not_equal_ops)
{
    struct ag_tree tree = {0};
    CHECK(ag_tree_init(&tree, 64));
    struct ag_op a = op_of(1), b = op_of(2);
    b.token = a.token;
    CHECK(ag_tree_add(&tree, &tree.root, &a) != NULL);
    CHECK(ag_tree_find(&tree, &tree.root, &b) == NULL);
    ag_tree_free(&tree);
}

/* -- Streams that fork and join ---------------------------------------------------- */

TEST(branches_are_not_cut_before_they_join)
{
    struct ag_recorder rec = {0};
    CHECK(ag_recorder_init(&rec, 4096, 4, 16));
    ag_recorder_resize(&rec, 4, 4);
    ag_recorder_waited(&rec, 4);
    const struct ag_op first = op_of(1);
    ag_recorder_head(&rec, first.token);
    for (unsigned name = 1; name <= 6; name++) { /* the second op forks, the sixth joins */
        const struct ag_op op = op_of(name);
        if (name == 2 || name == 6)
            ag_recorder_forks(&rec, name == 6, name);
        const struct ag_node *node = ag_recorder_step(&rec, &op);
        CHECK(node != NULL && ag_recorder_full(&rec, node) == (name == 6));
        CHECK(name == 6 || !ag_recorder_cuts(&rec, &first));
    }
    CHECK(ag_recorder_cuts(&rec, &first));
    (void)ag_recorder_end(&rec, false, HOT, LEAST);
    CHECK(!rec.forks.open && rec.limit == 4);
    ag_tree_free(&rec.tree);
}

TEST(branches_join_where_there_is_no_room_for_more)
{
    struct ag_recorder rec = {0};
    CHECK(ag_recorder_init(&rec, 4096, 16, 16));
    for (unsigned name = 1; name <= 10; name++) { /* all ops but the tenth are of branches */
        const struct ag_op op = op_of(name);
        ag_recorder_forks(&rec, name == 10, name);
        const struct ag_node *node = ag_recorder_step(&rec, &op);
        CHECK(node != NULL && ag_recorder_full(&rec, node) == (name == 10));
    }
    ag_tree_free(&rec.tree);
}
