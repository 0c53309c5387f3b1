/* SPDX-License-Identifier: MIT */
/* Branches of a sequence: which sequences can be graphs, what their nodes come behind. */
#include "graph/fork.h"

#include "unit/test.h"

enum { MOST = 32 };

static struct ag_node root, path[MOST];
static struct ag_event_arguments arguments[MOST];
static struct ag_event_arguments given[MOST];
static struct ag_step step[MOST];
static const CUevent own[AG_BRANCHES] = {(CUevent)101, (CUevent)102, (CUevent)103};
static struct ag_ends ends;
static uint32_t length;

static void begin(void)
{
    memset(path, 0, sizeof path);
    memset(step, 0, sizeof step);
    ends = (struct ag_ends){.own = own};
    length = 0;
}

static void op(enum ag_op_kind kind, unsigned branch, uint32_t link, uintptr_t event)
{
    struct ag_node *node = &path[length];
    node->parent = length != 0 ? &path[length - 1] : &root;
    node->op.kind = (uint16_t)kind;
    ag_op_set_branch(&node->op, branch);
    if (kind == AG_OP_WAIT)
        node->op.shape[AG_EVENT_LINK] = link;
    arguments[length].event = (CUevent)event;
    node->args = (unsigned char *)&arguments[length];
    step[length].node = node;
    step[length].args = (unsigned char *)&given[length];
    node->depth = (uint16_t)++length;
}

static void kernel(unsigned branch)
{
    op(AG_OP_KERNEL, branch, 0, 0);
}

static void record(unsigned branch, uintptr_t event)
{
    op(AG_OP_RECORD, branch, 0, event);
}

static void wait(unsigned branch, uint32_t link)
{
    op(AG_OP_WAIT, branch, link, 0);
}

/* For all but node.c: whether the step that is asked about may begin early. */
static bool asks_early;
bool ag_node_is_early(const struct ag_node *node, const struct ag_node *last)
{
    return node->op.kind == AG_OP_KERNEL && last != NULL && asks_early;
}

static bool is_whole(void)
{
    return ag_fork_is_whole(&path[length - 1]);
}

/* A fork and a join: steps 0 to 5. */
static void fork_join(uintptr_t event)
{
    record(0, event);
    wait(1, 1);
    kernel(1);
    kernel(0);
    record(1, event + 1);
    wait(0, 1);
}

/* Finds the branches, and gives the steps nodes that are named by their places. */
static bool find(bool all)
{
    bool found = ag_fork_find(step, length, all, &ends);
    for (uint32_t i = 0; found && i < length; i++)
        if (!step[i].nodeless)
            step[i].graph_node = (CUgraphNode)(uintptr_t)(i + 1);
    return found;
}

/* The places of the nodes that a step comes behind, a bit each. */
static unsigned behind(uint32_t at)
{
    struct ag_after after;
    unsigned places = 0;
    ag_fork_after(step, at, &after);
    for (uint32_t i = 0; i < after.count; i++)
        places |= 1u << ((uintptr_t)after.node[i] - 1);
    return places;
}

/* Each stream's ops are a path, and a branch that the host's ops go on beside is one more. */
TEST(paths)
{
    begin();
    kernel(0);
    record(0, 1);
    kernel(0);
    wait(0, 2);
    kernel(0);
    CHECK(ag_fork_paths(&path[length - 1]) == 1);
    CHECK(find(true) && behind(length - 1) == 1 << 2);
    begin();
    fork_join(1);
    CHECK(ag_fork_paths(&path[length - 1]) == 2);
    kernel(0);
    uint32_t fork = length;
    record(0, 1);
    for (unsigned branch = 1; branch <= 3; branch++) { /* branch 1 goes on */
        wait(branch, length - fork);
        kernel(branch);
        record(branch, 1 + branch);
        wait(0, 1);
    }
    CHECK(ag_fork_paths(&path[length - 1]) == 4);
}

/* A kernel that may begin early waits for the one before it alone, another for all that may still
   run. */
TEST(what_comes_behind_early_kernels)
{
    begin();
    for (unsigned i = 0; i < 5; i++)
        kernel(0);
    step[2].early = step[3].early = true;
    CHECK(find(false));
    CHECK(behind(2) == 1 << 1 && behind(3) == (1 << 2 | 1 << 1));
    CHECK(behind(4) == (1 << 3 | 1 << 2 | 1 << 1));
    asks_early = true;
    CHECK(behind(3) == 1 << 2 && behind(4) == 1 << 3);
    asks_early = false;
}

/* -- Which sequences can be graphs -------------------------------------------------- */

TEST(one_stream_is_whole)
{
    begin();
    kernel(0);
    wait(0, 0);
    record(0, 1);
    CHECK(is_whole());
}

TEST(what_has_joined_is_whole)
{
    begin();
    fork_join(1);
    CHECK(is_whole());
    kernel(1); /* goes on behind the join */
    CHECK(!is_whole());
    record(1, 2);
    CHECK(!is_whole());
    wait(0, 1);
    CHECK(is_whole());
}

TEST(a_branch_joins_by_way_of_another)
{
    begin();
    record(0, 1);
    wait(1, 1);
    record(1, 2);
    wait(2, 1);
    kernel(2);
    record(2, 3);
    wait(1, 1);
    record(1, 4);
    CHECK(!is_whole());
    wait(0, 1);
    CHECK(is_whole());
}

TEST(a_wait_for_an_earlier_record_joins_no_later_op)
{
    begin();
    record(0, 1);
    wait(1, 1);
    record(1, 2);
    kernel(1);
    wait(0, 2);
    CHECK(!is_whole());
}

TEST(a_branch_begins_with_a_record_of_the_sequence)
{
    begin();
    kernel(0);
    wait(1, 0); /* for one elsewhere */
    record(1, 1);
    wait(0, 1);
    CHECK(!is_whole());
    begin();
    kernel(0);
    wait(1, 1); /* no record */
    record(1, 1);
    wait(0, 1);
    CHECK(!is_whole());
    begin();
    kernel(0);
    wait(0, 2); /* before the head */
    CHECK(!is_whole());
}

/* -- Nodes -------------------------------------------------------------------------- */

TEST(waits_are_edges)
{
    begin();
    kernel(0);
    fork_join(1);
    kernel(0);
    CHECK(find(false) && ends.branches == 2 && ends.last[1] == 5);
    CHECK(step[2].nodeless && step[6].nodeless);
    CHECK(behind(0) == 0);
    CHECK(behind(3) == 1u << 1);             /* the branch behind the record of the fork */
    CHECK(behind(4) == 1u << 1);             /* the origin beside it */
    CHECK(behind(5) == 1u << 3);             /* the branch's record */
    CHECK(behind(7) == (1u << 4 | 1u << 5)); /* both */
}

static bool matches(void)
{
    return ag_fork_matches(step, &ends);
}

TEST(a_record_has_a_node_if_nobody_records_the_event_again)
{
    begin();
    fork_join(1);
    fork_join(1);
    CHECK(find(false));
    CHECK(step[0].nodeless && !step[6].nodeless && !step[10].nodeless);
    CHECK(behind(2) == 0);                   /* the first fork comes behind nothing */
    CHECK(behind(6) == (1u << 2 | 1u << 3)); /* the first join */
    CHECK(matches() && ends.asked);
    arguments[0].event = (CUevent)7;
    CHECK(!matches());
    begin();
    fork_join(1);
    fork_join(1);
    CHECK(find(true) && !step[0].nodeless && step[0].own == 1);
}

TEST(a_record_of_a_destroyed_event_needs_no_node)
{
    begin();
    fork_join(1);
    arguments[0].serial = AG_EVENT_GONE;
    CHECK(find(false) && step[0].nodeless && !step[4].nodeless && step[4].own == 0);
    CHECK(matches());
    arguments[0] = (struct ag_event_arguments){.event = (CUevent)7, .serial = AG_EVENT_GONE};
    CHECK(matches());
    arguments[0].serial = 3;
    CHECK(!matches());
}

TEST(a_branch_ends_with_a_record)
{
    begin();
    fork_join(1);
    kernel(1);
    CHECK(!find(false));
}

/* Its stream waits for that record, and for no later one of the event. */
TEST(the_last_record_of_a_branch_has_an_event_of_its_own)
{
    begin();
    fork_join(1);
    record(0, 2); /* the branch's event */
    CHECK(find(false) && !step[4].nodeless && step[4].own == 2);
    arguments[4].event = (CUevent)8;
    CHECK(matches() && step[4].own == 0);
    arguments[4].serial = AG_EVENT_GONE;
    CHECK(matches() && step[4].own == 2);
}

TEST(each_branch_ends_with_another_event)
{
    begin();
    record(0, 1);
    wait(1, 1);
    record(1, 1);
    wait(0, 1);
    wait(2, 4);
    record(2, 1);
    wait(0, 1);
    record(0, 1);
    CHECK(find(false) && step[2].own == 2 && step[5].own == 3 && step[7].own == 0);
    CHECK(step[0].nodeless && !step[2].nodeless && !step[5].nodeless && !step[7].nodeless);
}

/* Two nodes of one event could be reached in any order. */
TEST(no_two_nodes_record_one_event)
{
    begin();
    fork_join(1);
    record(1, 7);
    wait(0, 1);
    record(0, 7);
    CHECK(find(true) && step[6].own == 2 && step[8].own == 0);
}
