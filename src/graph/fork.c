/* SPDX-License-Identifier: MIT */
/* Branches of a sequence: order, edges, joins. */
#include "graph/fork.h"

#include "policy/policy.h"

AG_HOLDS(struct ag_ways, last[0], AG_MOST_LENGTH);

/* -- How far branches have come ---------------------------------------------------- */

void ag_fork_take(struct ag_fork *fork, const struct ag_op *op, uint32_t depth)
{
    unsigned branch = ag_op_branch(op);
    uint8_t *seen = fork->ways.seen[branch];
    uint32_t link = op->kind == AG_OP_WAIT ? op->shape[AG_EVENT_LINK] : 0;
    fork->ways.last[branch] = seen[branch] = (uint8_t)depth;
    if (link != 0 && link < depth) {
        const uint8_t *at = fork->at[depth - link];
        for (unsigned i = 0; i < AG_BRANCHES; i++)
            seen[i] = at[i] > seen[i] ? at[i] : seen[i];
    }
    if (op->kind == AG_OP_RECORD)
        memcpy(fork->at[depth], seen, AG_BRANCHES);
}

bool ag_ways_are_joined(const struct ag_ways *ways)
{
    unsigned branch = 1;
    while (branch < AG_BRANCHES && ways->last[branch] <= ways->seen[0][branch])
        branch++;
    return branch == AG_BRANCHES;
}

/* Whether the op may come next: a branch begins with a wait for a record of the sequence. */
static bool may_come(const struct ag_ways *ways, const struct ag_op *op, uint32_t depth)
{
    unsigned branch = ag_op_branch(op);
    uint32_t link = op->kind == AG_OP_WAIT ? op->shape[AG_EVENT_LINK] : 0;
    return link < depth && (branch == 0 || ways->last[branch] != 0 || link != 0);
}

static bool is_whole(const struct ag_node *path[AG_MOST_LENGTH + 1], uint32_t length)
{
    struct ag_fork fork = {0};
    for (uint32_t depth = 1; depth <= length; depth++) {
        const struct ag_op *op = &path[depth]->op;
        uint32_t link = op->kind == AG_OP_WAIT ? op->shape[AG_EVENT_LINK] : 0;
        if (!may_come(&fork.ways, op, depth) ||
            (link != 0 && path[depth - link]->op.kind != AG_OP_RECORD))
            return false;
        ag_fork_take(&fork, op, depth);
    }
    return ag_ways_are_joined(&fork.ways);
}

bool ag_fork_is_whole(const struct ag_node *leaf)
{
    const struct ag_node *path[AG_MOST_LENGTH + 1];
    uint32_t length = leaf->depth;
    unsigned branches = 0;
    for (const struct ag_node *node = leaf; node->parent != NULL; node = node->parent) {
        path[node->depth] = node;
        branches |= ag_op_branch(&node->op) |
                    (node->op.kind == AG_OP_WAIT ? node->op.shape[AG_EVENT_LINK] : 0);
    }
    return branches == 0 || is_whole(path, length);
}

unsigned ag_fork_branches(const struct ag_node *leaf)
{
    unsigned most = 0;
    for (const struct ag_node *node = leaf; node->parent != NULL; node = node->parent)
        most = ag_op_branch(&node->op) > most ? ag_op_branch(&node->op) : most;
    return most + 1;
}

unsigned ag_fork_paths(const struct ag_node *leaf)
{
    const struct ag_node *path[AG_MOST_LENGTH + 1];
    uint8_t last[AG_BRANCHES] = {0};
    bool goes_on[AG_MOST_LENGTH + 1] = {true}; /* at 0: behind nothing */
    unsigned paths = 0;
    for (const struct ag_node *node = leaf; node->parent != NULL; node = node->parent)
        path[node->depth] = node;
    for (uint32_t depth = 1; depth <= leaf->depth; depth++) {
        const struct ag_op *op = &path[depth]->op; /* NOLINT: each depth has a node */
        uint32_t link = op->kind == AG_OP_WAIT ? op->shape[AG_EVENT_LINK] : 0;
        uint32_t first = last[ag_op_branch(op)];
        uint32_t other = link != 0 && link < depth ? depth - link : 0;
        if (other != 0 && ag_op_branch(&path[other]->op) != ag_op_branch(op) &&
            (first == 0 || other < first))
            first = other;
        paths += goes_on[first];
        goes_on[first] = true;
        last[ag_op_branch(op)] = (uint8_t)depth;
    }
    return paths;
}

/* -- The steps of a trace ---------------------------------------------------------------- */

enum { NOWHERE = UINT32_MAX };

/* The step before, in its branch. */
static uint32_t step_before(const struct ag_step *step, uint32_t at)
{
    unsigned branch = ag_op_branch(&step[at].node->op);
    while (at-- > 0)
        if (ag_op_branch(&step[at].node->op) == branch)
            return at;
    return NOWHERE;
}

/* The number, plus 1, of the library's event for the record. */
static uint8_t own_event(const struct ag_step *step, uint32_t at, const struct ag_ends *ends)
{
    unsigned branch = ag_op_branch(&step[at].node->op);
    return (uint8_t)(1 + (ends->last[branch] == at ? branch : 0));
}

/* Finds the records for which nobody can ask. */
static void find_own(struct ag_step *step, struct ag_ends *ends)
{
    CUevent later[AG_MOST_LENGTH];
    uint32_t count = 0;
    ends->asked = false;
    for (uint32_t next = ends->record; next != 0; next = step[next - 1].record) {
        uint32_t i = next - 1;
        struct ag_event_arguments arguments = ag_node_event_arguments(step[i].node);
        uint32_t j = 0;
        while (j < count && later[j] != arguments.event)
            j++;
        bool asked = j == count && arguments.serial != AG_EVENT_GONE;
        step[i].own = asked ? 0 : own_event(step, i, ends);
        ends->asked |= asked;
        if (j == count)
            later[count++] = arguments.event;
    }
}

bool ag_fork_find(struct ag_step *step, uint32_t length, bool all, struct ag_ends *ends)
{
    for (uint32_t i = 0; i < length; i++) {
        unsigned branch = ag_op_branch(&step[i].node->op);
        ends->last[branch] = (uint8_t)i;
        ends->branches = (uint8_t)(branch < ends->branches ? ends->branches : branch + 1);
        step[i].nodeless = ag_node_is_linked(step[i].node);
        if (step[i].node->op.kind == AG_OP_RECORD) {
            step[i].record = ends->record;
            ends->record = (uint8_t)(i + 1);
        }
    }
    if (ends->branches <= 1)
        return true;
    for (unsigned branch = 1; branch < ends->branches; branch++)
        if (step[ends->last[branch]].node->op.kind != AG_OP_RECORD)
            return false; /* its stream could not wait for it */
    find_own(step, ends);
    for (uint32_t i = 0; !all && i < length; i++) {
        unsigned branch = ag_op_branch(&step[i].node->op);
        step[i].nodeless |= step[i].own != 0 && (branch == 0 || ends->last[branch] != i);
    }
    return true;
}

/* A search for the nodes that an op comes behind. */
struct search {
    const struct ag_step *step;
    struct ag_after *after;
    bool early; /* so is the op: in its stream, too, it comes behind the step before alone */
    bool found[AG_MOST_LENGTH];
    uint8_t todo[AG_MOST_LENGTH]; /* steps to be looked at */
    uint32_t count;
};

static void find_step(struct search *search, uint32_t at)
{
    if (at == NOWHERE || search->found[at])
        return;
    search->found[at] = true;
    search->todo[search->count++] = (uint8_t)at;
}

static void find_node(struct search *search, uint32_t at)
{
    search->after->node[search->after->count++] = search->step[at].graph_node;
}

/* The record that a wait is linked to, if it is another branch's; else the wait itself, which comes
   behind its own branch's anyway. An edge more may be a path more. */
static uint32_t awaited(const struct ag_step *step, uint32_t at)
{
    const struct ag_op *op = &step[at].node->op;
    uint32_t record = op->kind == AG_OP_WAIT ? at - op->shape[AG_EVENT_LINK] : at;
    return ag_op_branch(&step[record].node->op) != ag_op_branch(op) ? record : at;
}

/* One of the steps that are to be looked at. One without a node stands for what it comes behind. A
   kernel that is early may end before those ahead of it. */
static void look(struct search *search)
{
    uint32_t at = search->todo[--search->count];
    const struct ag_step *step = &search->step[at];
    uint32_t before = step_before(search->step, at);
    if (step->graph_node == NULL) {
        find_step(search, before);
        find_step(search, awaited(search->step, at));
        return;
    }
    find_node(search, at);
    if (step->early && !search->early)
        find_step(search, before);
}

void ag_fork_after(const struct ag_step *step, uint32_t at, struct ag_after *after)
{
    struct search search = {.step = step, .after = after};
    uint32_t before = step_before(step, at);
    bool last = before != NOWHERE && step[before].graph_node != NULL;
    after->count = 0;
    after->last = last ? step[before].node : NULL;
    search.early = ag_node_is_early(step[at].node, after->last);
    find_step(&search, before);
    while (search.count != 0)
        look(&search);
}

bool ag_fork_matches(struct ag_step *step, struct ag_ends *ends)
{
    uint32_t next = ends->record;
    find_own(step, ends);
    while (next != 0 && (step[next - 1].graph_node != NULL || step[next - 1].own != 0))
        next = step[next - 1].record;
    return next == 0;
}
