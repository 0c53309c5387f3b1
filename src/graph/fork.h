/* SPDX-License-Identifier: MIT */
/*
 * Streams that fork and join, in one sequence: its branches, and what is ordered behind what.
 *
 * Each op has the number of its branch; the stream that forked is branch 0. An op comes behind the
 * op before it in its branch. A wait for a record of the sequence (AG_EVENT_LINK) comes behind that
 * record, too. Such a wait is an edge of the graph, and has no node. Nobody can ask for a record
 * where a later op of the sequence records the event again, or the event has been destroyed. Such a
 * record has no node, or its node records an event of the library's.
 *
 * A branch has joined if branch 0 has waited for all its ops. A sequence is whole if all branches
 * have. Only that is a graph: the stream that forked goes on behind its graph.
 */
#ifndef AG_GRAPH_FORK_H
#define AG_GRAPH_FORK_H

#include "graph/step.h"

/* How far the branches have come. Places are depths of ops. */
struct ag_ways {
    uint8_t last[AG_BRANCHES];              /* the last op; 0: none. Not kept for branch 0 */
    uint8_t seen[AG_BRANCHES][AG_BRANCHES]; /* [a][b]: the last op of b that a comes behind */
};

struct ag_fork {
    struct ag_ways ways;
    uint8_t at[AG_MOST_LENGTH + 1][AG_BRANCHES]; /* what each record comes behind */
};

/* The sequence has one more op, at this depth. Kernels of branch 0 may be left out. */
void ag_fork_take(struct ag_fork *fork, const struct ag_op *op, uint32_t depth);

/* Whether all branches have joined. */
bool ag_ways_are_joined(const struct ag_ways *ways);

/* Whether the path to this node can be a graph: it begins with an op of branch 0, each branch
   begins with a wait for a record of the path, and all have joined. */
bool ag_fork_is_whole(const struct ag_node *leaf);

/* Branches of the path to this node, with branch 0. */
unsigned ag_fork_branches(const struct ag_node *leaf);

/* Paths that the driver makes of the graph of that sequence, about and not too few: chains of
   nodes, each with a queue of its own while it runs. A node goes on the path of the first op that
   it comes behind, unless another one does already. */
unsigned ag_fork_paths(const struct ag_node *leaf);

/* -- The steps of a trace, which is whole --------------------------------------------- */

/* Its branches: how many they are, with branch 0, and the last step of each. Of those that have
   joined that is a record, and the branch's stream waits for its event. */
struct ag_ends {
    uint8_t branches;
    uint8_t record; /* the place, plus 1, of the last record; 0: there is none */
    bool asked;     /* somebody can ask for a record: its node has the program's event */
    uint8_t last[AG_BRANCHES];
    const CUevent *own; /* events of the library's: one for the last record of each branch, and at 0
                           one for other records */
};

/* Finds the branches, and the steps that need no node; with `all` each record has one. False: it
   cannot be a graph. */
bool ag_fork_find(struct ag_step *step, uint32_t length, bool all, struct ag_ends *ends);

/* What the graph node of the step at that place comes behind. The steps before it have theirs. */
void ag_fork_after(const struct ag_step *step, uint32_t at, struct ag_after *after);

/* Before a launch: finds the records for which nobody can ask now. False: somebody can ask for one
   without a node. */
bool ag_fork_matches(struct ag_step *step, struct ag_ends *ends);

#endif
