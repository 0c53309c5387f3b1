/* SPDX-License-Identifier: MIT */
/*
 * The recorder of one stream: cuts the program's ops into sequences and finds those that are hot.
 *
 * A loop is to be cut at the same places each time round. So the ops decide where a sequence ends:
 *
 *  where                         why                               function
 *  at a barrier                  the program cuts there itself     ag_recorder_end
 *  at `limit` ops                max_length; less after a wait     ag_recorder_full
 *  before the anchor             a round of `unroll` ops is over   ag_recorder_cuts
 *  at the leaf of a trace        no longer trace goes on there     ag_recorder_ends
 *  behind equal rounds           a trace of rounds ends or begins  ag_recorder_loops
 *  before the head of a trace    irregular stream, new way         ag_recorder_restarts
 *  before a known sequence       the profile has it                ag_recorder_meets
 *  behind a known sequence       it is whole                       ag_recorder_completes
 *  at a node that is often late  a pause, or a thread that waits   ag_recorder_full
 *
 * Before its branches have joined, a sequence is not cut for its length (ag_recorder_forks()).
 *
 * The anchor is the first op after a barrier. An anchor that does not come back is no op of the
 * loop: another op becomes the anchor, soon at first, later after more ops. Barriers may come after
 * equal numbers of ops. Then the anchor cuts nothing before the next barrier is due, since the loop
 * goes from barrier to barrier. Loops within it would have other arguments each time.
 *
 * Once the tree has some nodes, ops that have never been seen get none. A bit remembers their path,
 * and nodes are made when the path comes again: to write nodes is most of what recording costs.
 *
 * A stream is irregular where sequences hardly ever come again. It is looked at again and again,
 * since all that a program does before its loop is new, too.
 *
 * repeat.h says which sequences are hot, rest.h when nothing is recorded.
 *
 * Not thread-safe: the owner's lock guards it.
 */
#ifndef AG_RECORDER_H
#define AG_RECORDER_H

#include "trace/repeat.h"
#include "trace/rest.h"

/* A recorder that is all zero, or whose tree has been cleared. False: no memory. It must not be
   moved afterwards. */
bool ag_recorder_init(struct ag_recorder *rec, uint32_t limit, uint32_t unroll,
                      uint32_t max_length);

/* Whether any open sequence ends at this node. */
static inline bool ag_recorder_full(const struct ag_recorder *rec, const struct ag_node *node)
{
    return node->depth >= rec->limit || node->overdue >= AG_OVERDUE_ENDS;
}

/* Whether the open sequence, all of which is held, ends at this node. */
static inline bool ag_recorder_ends(const struct ag_recorder *rec, const struct ag_node *node)
{
    bool last = node->trace != NULL && node->below == 0;
    return last || ag_recorder_full(rec, node);
}

/* The held ops up to this node were late: they had to be submitted before the sequence was
   complete, since the program paused there, or another thread waited for them. */
void ag_recorder_overdue(struct ag_recorder *rec, struct ag_node *node);

/* Whether the open sequence ends before this op. */
static inline bool ag_recorder_cuts(const struct ag_recorder *rec, const struct ag_op *op)
{
    return op->token == rec->anchor.token && !rec->forks.open &&
           rec->anchor.chain + (int32_t)rec->cursor->depth >= (int32_t)rec->unroll;
}

/* The open sequence has branches: whether all have joined with the next op, which comes at that
   depth. Until then it is not cut for its length. It ends where they join if there is no room for
   them to fork and join again. */
void ag_recorder_forks(struct ag_recorder *rec, bool joined, uint32_t depth);

/* The open sequence has branches from now on, that fork at an op with this token (0: not known). If
   it does not begin with the anchor that op is the anchor. */
static inline void ag_recorder_begins_fork(struct ag_recorder *rec, uint64_t token)
{
    if (rec->anchor.chain == 0 || token == 0)
        return;
    rec->anchor.token = token;
    rec->anchor.chain = 0;
}

/* No sequence has more ops from now on, with branches or without. */
static inline void ag_recorder_bound(struct ag_recorder *rec, uint32_t most)
{
    rec->most = most < rec->most ? most : rec->most;
}

/* The open sequence is about to end at a place where others do not: that does not make it hot. */
static inline void ag_recorder_ends_once(struct ag_recorder *rec)
{
    rec->cursor->ends -= rec->cursor->ends > 0;
}

/* Between two sequences: the next one ends before an op with that token, which is the anchor. */
void ag_recorder_cut_at(struct ag_recorder *rec, uint64_t token);

/* The open sequence has left a trace: what was held has gone out, and what comes now goes out
   eagerly. */
static inline void ag_recorder_leaves(struct ag_recorder *rec)
{
    rec->rounds.left = (uint8_t)rec->cursor->depth;
}

/* Whether the open sequence, which goes out eagerly, is looked at when it has come to this node.
   One with branches is where these have joined. */
static inline bool ag_recorder_looks(const struct ag_recorder *rec, const struct ag_node *node)
{
    uint32_t ops = node->depth - rec->rounds.left;
    if (ops < AG_LOOK_FIRST)
        return false;
    return rec->forks.joined != 0 ? rec->forks.joined == node->depth + 1u : (ops & (ops - 1)) == 0;
}

/* The program goes on behind the trace where the last sequence ended. That does not count, since no
   trace of both could be made now. */
static inline void ag_recorder_stays(struct ag_recorder *rec)
{
    rec->ended = NULL;
}

/* Ops from the head of the open sequence to the next barrier, if that comes as the ones before; 0:
   it is not known. */
static inline uint32_t ag_recorder_awaits_barrier(const struct ag_recorder *rec)
{
    return rec->run < rec->steady ? rec->steady - rec->run : 0;
}

/* To be called with the first op of a sequence, before the cursor moves: keeps the anchor. */
void ag_recorder_head(struct ag_recorder *rec, uint64_t token);

/* The node of an op behind the cursor, or NULL. */
static inline struct ag_node *ag_recorder_find(struct ag_recorder *rec, const struct ag_op *op)
{
    return ag_recorder_is_unseen(rec) ? NULL : ag_tree_find(&rec->tree, rec->cursor, op);
}

/* Whether the open sequence, which is no known one, ends before this op, which begins a long one.
   (Short ones begin behind a barrier or a trace.) If none has come whole for some times in a row
   they are those of another program. */
bool ag_recorder_meets(struct ag_recorder *rec, const struct ag_op *op);

/* Whether the open sequence ends before this op, since it would go where none has gone before, and
   the op begins a trace in an irregular stream, or a known sequence. */
static inline bool ag_recorder_restarts(struct ag_recorder *rec, const struct ag_op *op)
{
    bool irregular = rec->irregular != 0 && rec->run >= rec->unroll;
    if ((!irregular && !ag_known_any) || rec->cursor->depth == 0 ||
        ag_recorder_find(rec, op) != NULL)
        return false;
    const struct ag_node *head = ag_tree_find(&rec->tree, &rec->tree.root, op);
    return (irregular && head != NULL && ag_node_leads(head) && head->blacklisted == 0) ||
           (ag_known_any && ag_recorder_meets(rec, op));
}

/* Moves the cursor over an op: to its node, to a new node, or to `unseen`. NULL: there is no room
   for a node, or the recorder rests; the sequence is dropped. */
struct ag_node *ag_recorder_step(struct ag_recorder *rec, const struct ag_op *op);

/*
 * Ends the open sequence; `barrier` says whether the anchor ends with it. Returns the last node of
 * what has become hot, may become a trace, and weighs `min_length` at least; else NULL. That is the
 * node where the sequence ended for the `hot`th time, one on the way to it, or one behind the
 * sequence before, with the ops of both. All nodes up to it have the arguments of their last ops.
 */
struct ag_node *ag_recorder_end(struct ag_recorder *rec, bool barrier, uint32_t hot,
                                uint32_t min_length);

/* The program has waited for the stream: its next sequence has at most `length` ops, the one behind
   it twice as many, and so on. To be called between two sequences. */
void ag_recorder_waited(struct ag_recorder *rec, uint32_t length);

/* Sequences have at most `length` ops from now on (2 at least), and loops are unrolled to at most
   `unroll`. */
void ag_recorder_resize(struct ag_recorder *rec, uint32_t unroll, uint32_t length);

#endif
