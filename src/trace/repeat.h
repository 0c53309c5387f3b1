/* SPDX-License-Identifier: MIT */
/*
 * Which sequences are hot.
 *
 * A sequence is hot when it has ended at one node often enough. In irregular streams and before
 * barriers, sequences count that go on in new ways behind the node. A sequence that comes right
 * behind a trace, often in a row, is one with it. So traces get longer, and no op goes out eagerly
 * for that.
 *
 * A sequence is hot at once when its last ops are a few equal rounds. The recorder looks when it is
 * about to end before the anchor, and when as many of its ops have gone out eagerly as a power of
 * two says. Of two loops, one within the other, the one counts that explains more of the ops. If a
 * trace of the loop begins with another of its ops, the next sequence begins there. Else its trace
 * begins where the sequence did, if all of that is rounds; or with any op of the loop.
 *
 * A sequence that is known (known.h) is hot the first time that it ends, and its loop after one
 * round.
 */
#ifndef AG_REPEAT_H
#define AG_REPEAT_H

#include "trace/recording.h"

/* Whether the path to this node, which goes out eagerly, is on the way of known sequences, or at
   the end of one that has not come before. */
static inline bool ag_recorder_knows(const struct ag_node *node)
{
    return __builtin_expect(node->known != NULL, 0) && !node->came && node->trace == NULL;
}

/* Whether a known sequence, or a round of one, ends at this node. A trace is made of it once its
   last op has been launched: before the next op, or at a barrier. */
static inline bool ag_recorder_awaits(const struct ag_node *node)
{
    return ag_recorder_knows(node) && node->known->make != 0;
}

/* Whether the open sequence, which goes out eagerly, is a known one and ends before this op. To be
   called once for an op: a round is made a trace of as many as are known. */
bool ag_recorder_completes(struct ag_recorder *rec, const struct ag_op *op);

/* Whether the last ops of the open sequence are of so many equal rounds, and it ends here: a trace
   of rounds may be made, or begins here. Where one begins later the sequence ends there. */
bool ag_recorder_loops(struct ag_recorder *rec, uint32_t rounds);

/* A sequence has ended at a node without a trace. Returns the node that is hot now, or NULL. */
struct ag_node *ag_repeat_find(struct ag_recorder *rec, struct ag_node *node, bool barrier,
                               uint32_t hot, uint32_t min_length);

/* The last ops of the sequence at `node` are a round of a loop. Returns the last node of as many
   rounds as there may be, which is hot; NULL: there is none. */
struct ag_node *ag_repeat_unroll(struct ag_recorder *rec, struct ag_node *node, uint32_t period,
                                 uint32_t min_length);

/* The sequence at `next`, which has been replayed, came right behind the one at `first`. Returns
   the last node of both in one sequence if that is hot, or of as many rounds as there may be where
   both are one round; else NULL. */
struct ag_node *ag_repeat_join(struct ag_recorder *rec, struct ag_node *first, struct ag_node *next,
                               uint32_t hot);

#endif
