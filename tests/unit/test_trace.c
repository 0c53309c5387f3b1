/* SPDX-License-Identifier: MIT */
/* Tokens, the tree's sharing, and loops of every length (test_recorder.c has the rest). */
#include <stdlib.h>

#include "trace/recorder.h"
#include "unit/test.h"

#define HOT        3
#define MIN_LENGTH 2
#define UNROLL     16
#define MAX_LENGTH 32

static const struct ag_layout no_arguments = {0, 0, 0};
static void *kernels[1000]; /* their addresses are functions */

static struct ag_op kernel(unsigned number)
{
    struct ag_op op = {.func = &kernels[number], .layout = &no_arguments, .shape = {1, 1, 1, 32}};
    ag_op_hash(&op);
    return op;
}

/* -- Ops ------------------------------------------------------------------ */

TEST(a_token_depends_on_every_part_of_an_op)
{
    struct ag_op ops[AG_SHAPE_WORDS + 5];
    unsigned n = 0;
    for (unsigned i = 0; i < sizeof ops / sizeof ops[0]; i++)
        ops[i] = kernel(0);
    for (; n < AG_SHAPE_WORDS; n++)
        ops[n].shape[n] += 1;
    ops[n++].func = &kernels[1];
    ops[n++].kind = AG_OP_MEMSET;
    ops[n].extra = "ab", ops[n++].extra_size = 2;
    ops[n].extra = "ba", ops[n++].extra_size = 2;
    n++; /* as it was */
    for (unsigned i = 0; i < n; i++)
        ag_op_hash(&ops[i]);
    for (unsigned i = 0; i < n; i++)
        for (unsigned j = 0; j < n; j++) {
            CHECK((ops[i].token == ops[j].token) == (i == j));
            CHECK(ag_op_is_like(&ops[i], &ops[j]) == (i == j));
        }
}

/* A kernel whose grid and shared memory are free. */
static struct ag_op shaped(unsigned number, uint32_t grid, uint32_t shared)
{
    struct ag_op op = kernel(number);
    op.free = 1 << 0 | 1 << 6;
    op.shape[0] = grid;
    op.shape[6] = shared;
    ag_op_hash(&op);
    return op;
}

TEST(free_words_are_in_the_token_and_not_in_the_structure)
{
    struct ag_op op = shaped(0, 1, 0);
    for (unsigned i = 0; i < AG_SHAPE_WORDS; i++) {
        struct ag_op other = op;
        other.shape[i] += 1;
        ag_op_hash(&other);
        bool free = op.free >> i & 1;
        CHECK(other.token != op.token && !ag_op_alike(&other, &op));
        CHECK((other.structure == op.structure) == free && ag_op_is_like(&other, &op) == free);
    }
    struct ag_op less = op;
    less.free = 1 << 0;
    ag_op_hash(&less);
    CHECK(less.structure != op.structure && !ag_op_is_like(&less, &op) && !ag_op_alike(&less, &op));
    less.structure = op.structure; /* as by chance */
    CHECK(!ag_op_is_like(&less, &op) && !ag_op_is_like(&op, &less));
}

/* -- Tree ----------------------------------------------------------------- */

TEST(one_node_stands_for_all_free_words)
{
    struct ag_tree tree = {0};
    CHECK(ag_tree_init(&tree, 1000));
    struct ag_op a = shaped(0, 1, 0), b = kernel(1);
    struct ag_node *na = ag_tree_add(&tree, &tree.root, &a);
    struct ag_node *nb = ag_tree_add(&tree, na, &b);
    uint64_t path = nb->path;
    for (unsigned i = 0; i < 500; i++) { /* more nodes: the buckets grow meanwhile */
        struct ag_op same = shaped(0, 2 + i, i), other = shaped(2 + i, 2, 0);
        CHECK(ag_tree_find(&tree, &tree.root, &same) == na);
        ag_node_reshape(na, &same);
        CHECK(!ag_tree_find(&tree, &tree.root, &other));
        CHECK(ag_tree_add(&tree, &tree.root, &other));
    }
    struct ag_op fixed = kernel(0);
    fixed.shape[0] = na->op.shape[0];
    ag_op_hash(&fixed);
    CHECK(!ag_tree_find(&tree, &tree.root, &fixed)); /* without free words: another structure */
    CHECK(tree.used == 502 && ag_tree_find(&tree, na, &b) == nb && nb->path == path);
    ag_tree_free(&tree);
}

TEST(a_node_takes_the_free_words_of_a_call)
{
    struct ag_tree tree = {0};
    CHECK(ag_tree_init(&tree, 100));
    struct ag_op one = shaped(0, 1, 0), two = shaped(0, 2, 64);
    struct ag_node *node = ag_tree_add(&tree, &tree.root, &one);
    node->taken = true;
    node->blacklisted = AG_BLACKLISTED_SHAPE;
    uint32_t version = node->version;
    ag_node_reshape(node, &one);
    CHECK(node->version == version && node->taken && node->blacklisted == AG_BLACKLISTED_SHAPE);
    ag_node_reshape(node, &two);
    CHECK(ag_op_alike(&node->op, &two) && node->op.token == two.token);
    CHECK(node->version == version + 1 && !node->taken && node->blacklisted == 0);
    node->blacklisted = AG_BLACKLISTED | AG_BLACKLISTED_SHAPE;
    ag_node_reshape(node, &one);
    CHECK(node->version == version + 2 &&
          node->blacklisted == AG_BLACKLISTED); /* bad whatever its shape */
    ag_tree_free(&tree);
}

TEST(sequences_share_their_prefix)
{
    struct ag_op a = kernel(0), b = kernel(1), c = kernel(2);
    struct ag_tree tree = {0};
    CHECK(ag_tree_init(&tree, 100));
    struct ag_node *na = ag_tree_add(&tree, &tree.root, &a);
    struct ag_node *nb = ag_tree_add(&tree, na, &b), *nc = ag_tree_add(&tree, na, &c);
    CHECK(na && nb && nc && nb != nc);
    CHECK(ag_tree_find(&tree, na, &b) == nb && ag_tree_find(&tree, na, &c) == nc);
    CHECK(ag_tree_find(&tree, &tree.root, &b) == NULL && ag_tree_find(&tree, nb, &c) == NULL);
    CHECK(na->depth == 1 && nb->depth == 2 && nb->parent == na && na->parent == &tree.root);
    ag_tree_free(&tree);
}

TEST(a_node_keeps_its_own_copy_of_what_it_was_given)
{
    char attributes[] = "attributes";
    struct ag_op op = kernel(0);
    op.extra = attributes;
    op.extra_size = sizeof attributes;
    ag_op_hash(&op);
    struct ag_tree tree = {0};
    CHECK(ag_tree_init(&tree, 100));
    CHECK(ag_tree_add(&tree, &tree.root, &op));
    CHECK(ag_tree_find(&tree, &tree.root, &op));
    attributes[0] = 'A';
    CHECK(!ag_tree_find(&tree, &tree.root, &op));
    ag_tree_free(&tree);
}

/* -- Recorder ------------------------------------------------------------- */

/* A stream of ops as the engine feeds it: cuts where the recorder says so, and makes a trace of
   what is hot. Remembers where the sequences ended. */
struct feed {
    struct ag_recorder rec;
    unsigned ops, cuts, traces;
    unsigned cut_at[1000]; /* number of the op that came after */
    unsigned length[1000]; /* of the sequence that ended there */
};

static void end(struct feed *f, bool barrier)
{
    if (f->cuts < 1000) {
        f->cut_at[f->cuts] = f->ops;
        f->length[f->cuts++] = f->rec.cursor->depth;
    }
    struct ag_node *hot = ag_recorder_end(&f->rec, barrier, HOT, MIN_LENGTH);
    if (hot) {
        f->traces++;
        ag_node_set_trace(hot, (struct ag_trace *)kernels);
    }
}

static struct ag_node *feed(struct feed *f, unsigned number)
{
    struct ag_op op = kernel(number);
    if (f->rec.cursor->depth && ag_recorder_cuts(&f->rec, &op))
        end(f, false);
    if (f->rec.cursor->depth == 0)
        ag_recorder_head(&f->rec, op.token);
    struct ag_node *node = ag_recorder_step(&f->rec, &op);
    f->ops++;
    if (node && node->depth >= f->rec.max_length)
        end(f, false);
    return node;
}

/* Feeds an endless loop of `period` ops that begins after `before` others; every cut must fall on
   the same op of the loop's body, once it has settled. */
static bool settles(unsigned period, unsigned before, struct feed *f)
{
    *f = (struct feed){.ops = 0};
    if (!ag_recorder_init(&f->rec, 100000, UNROLL, MAX_LENGTH))
        return false;
    for (unsigned i = 0; i < before; i++)
        feed(f, 500 + i);
    if (before)
        end(f, true);
    unsigned first = f->cuts;
    for (unsigned i = 0; i < 40 * (period + UNROLL); i++)
        feed(f, i % period);

    /* A loop's own cuts: the place in the body, and how many there are in a round. */
    unsigned places[MAX_LENGTH * 2] = {0}, different = 0;
    for (unsigned i = first + 2; i < f->cuts; i++) {
        unsigned place = (f->cut_at[i] - before) % period, known = 0;
        for (unsigned j = 0; j < different; j++)
            known |= places[j] == place + 1;
        if (!known && different < MAX_LENGTH * 2)
            places[different++] = place + 1;
        if (f->length[i] > MAX_LENGTH)
            return false;
    }
    return f->cuts > first + 2 && different <= (period + MAX_LENGTH - 1) / MAX_LENGTH &&
           f->traces >= 1 && f->traces <= different + 1;
}

TEST(a_loop_is_cut_at_the_same_places_whatever_its_length)
{
    struct feed f = {0};
    for (unsigned period = 1; period < 4 * MAX_LENGTH; period++) {
        bool good = settles(period, 0, &f);
        ag_tree_free(&f.rec.tree);
        if (!good)
            printf("period %u: %u cuts, %u traces\n", period, f.cuts, f.traces);
        CHECK(good);
        good = settles(period, 3, &f);
        ag_tree_free(&f.rec.tree);
        CHECK(good);
    }
}

static void feed_unless_it_passes(struct feed *f, unsigned number)
{
    struct ag_op op = kernel(number);
    if (!ag_recorder_passes(&f->rec, ag_op_mark(&op)))
        feed(f, number);
}

TEST(a_loop_is_found_after_much_that_never_repeats)
{
    struct feed f = {.ops = 0};
    CHECK(ag_recorder_init(&f.rec, 256, UNROLL, MAX_LENGTH));
    srand(1);
    for (unsigned i = 0; i < 20000; i++)
        feed_unless_it_passes(&f, (unsigned)rand() % 1000);
    unsigned before = f.traces;
    for (unsigned i = 0; i < 200000; i++)
        feed_unless_it_passes(&f, i % 4);
    CHECK(f.traces > before);
    ag_tree_free(&f.rec.tree);
}

TEST(shortened_sequences_are_shorter)
{
    struct feed f = {.ops = 0};
    CHECK(ag_recorder_init(&f.rec, 10000, UNROLL, MAX_LENGTH));
    ag_recorder_resize(&f.rec, UNROLL, 5);
    for (unsigned i = 0; i < 100; i++)
        feed(&f, i);
    for (unsigned i = 0; i < f.cuts; i++)
        CHECK(f.length[i] == 5);
    CHECK(f.cuts == 20);
    ag_recorder_resize(&f.rec, 2, 0);
    CHECK(f.rec.max_length == 2);
    ag_tree_free(&f.rec.tree);
}
