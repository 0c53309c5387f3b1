/* SPDX-License-Identifier: MIT */
/*
 * The recorder of one stream: cuts the program's ops into sequences and finds those that are hot.
 *
 * Where a sequence ends depends on the ops, so that the same loop is cut at the same places each
 * time round:
 *  - at a barrier;
 *  - after `max_length` ops, or fewer behind a wait for the stream;
 *  - before the anchor, once `unroll` ops have passed since the last cut there. The anchor is the
 *    first op after a barrier. If it does not come back it is no op of the loop, and another op
 *    becomes the anchor: soon at first, later after more ops. Where barriers come after equal
 *    numbers of ops, the anchor ends nothing before the next barrier is due. The loop is that from
 *    barrier to barrier then: in a loop within it arguments would change each time;
 *  - where a trace ends that begins no longer one, or where one may begin. One may begin behind
 *    equal rounds of a loop. In an irregular stream it may where the sequence would go on as none
 *    has before;
 *  - where what is held is late too often: the program pauses there, or another thread waits.
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
 * Once the tree has some nodes, ops that have never been seen get none. A bit remembers their path,
 * and nodes are made when the path comes again: to write nodes is most of what recording costs.
 *
 * A stream is irregular where sequences hardly ever come again. It is looked at again and again,
 * since all that a program does before its loop is new, too.
 *
 * A sequence that is known (known.h) is hot the first time that it ends, and its loop after one
 * round. Where an op begins one the open sequence ends.
 *
 * The recorder rests, longer each time, where recording does not pay:
 *  - the tree is full, and little of it was of use;
 *  - a part of the tree is full, and nothing has become a trace at all;
 *  - nothing has been replayed for long.
 * During a rest only ops that begin traces are looked at, and none if nothing comes of these.
 *
 * Not thread-safe: the owner's lock guards it.
 */
#ifndef AG_RECORDER_H
#define AG_RECORDER_H

#include <stdatomic.h>

#include "policy/backoff.h"
#include "policy/policy.h"
#include "trace/tree.h"

enum {
    AG_LOOK_LAST = 64, /* ops of an open sequence that are looked at, at most */

    AG_LATE_ENDS = 3 * AG_LATE_WEIGHT, /* points of lateness from which on sequences end there */

    /* What may be recorded in vain is measured by a first rest: ops without a replay before a rest;
       nodes and unseen ops of a tree without a trace, doubled each further time; ops recorded in a
       rest, after which those that begin traces pass, too; as many ops as an op or a sequence
       counts that cannot become a trace; and nodes that a tree may have before unseen ops get none.
     */
    AG_FRUITLESS = 2 * AG_REST_FIRST,
    AG_NOVEL_FIRST = AG_FRUITLESS / 16,
    AG_REST_VAIN = AG_FRUITLESS / 128,
    AG_USELESS = AG_FRUITLESS / 256,
    AG_NODES_FREE = AG_USELESS
};

struct ag_recorder {
    struct ag_tree tree;
    struct ag_node *cursor; /* where the open sequence is; &tree.root between sequences */
    struct ag_node *ended;  /* the node where the last sequence ended, which has a trace, and no
                               barrier ended it; else NULL */
    uint32_t unseen_ops;    /* ops without nodes since the tree was last pruned */
    uint64_t anchor;        /* the anchor's token; 0: the next op becomes the anchor */
    int32_t chain;          /* ops from the anchor to the head of the open sequence, less those
                               behind it in which no sequence ends for it */
    uint32_t reach;         /* ops within which the anchor has to come round */
    bool came;              /* the anchor has come round */
    uint32_t period; /* ops of a round, if the open sequence ends because it is of equal rounds */
    uint8_t begun;   /* ops of a further one, if the rounds begin with the head of the sequence */
    bool rounds;     /* the last sequence ended because of that, before its ops had nodes */
    uint64_t recent[AG_LOOK_LAST]; /* structures of the open sequence's ops, if it is unseen */
    uint32_t lately;        /* sequences whose nodes are looked at, since one of them was late */
    uint32_t ops;           /* of all sequences, since the recorder was made */
    uint32_t run;           /* ops since the last barrier */
    uint32_t last;          /* ops between two barriers, the last time that they were more than a
                               sequence may have */
    uint32_t steady;        /* the same, if they were as many the time before, and not too many for
                               an anchor's first reach; else 0 */
    uint32_t unroll;        /* ops */
    uint32_t max_length;    /* ops */
    uint32_t limit;         /* ops that the open sequence, or the next one, may have */
    uint32_t ramp;          /* the same, if it is short since the program has waited; else 0 */
    _Atomic uint32_t rest;  /* ops that are left of a rest; 0: it records. In a rest no node is
                               added, and ops that begin no trace may pass unseen. The thread that
                               issues the ops reads and writes this without the lock, too */
    _Atomic uint64_t heads; /* the ag_op_mark()s of ops that do not pass in a rest: they may begin
                               traces */
    struct ag_backoff rests, reaches; /* of `rest`, of `reach` */
    uint32_t novel;     /* nodes and unseen ops that make the tree full while there is no trace */
    uint32_t fruitless; /* ops since the last replay */
    uint64_t useful;    /* ops replayed since the tree was last pruned */
    uint32_t strange;   /* ops of sequences that had not come before, less those of others */
    bool owes;          /* graphs have cost so much that known sequences count as others */
    uint32_t misled;    /* known sequences in a row of which no more than a part came */
    uint32_t irregular; /* ops for which the stream counts as irregular; 0: it does not */
    uint32_t most;      /* ops that any sequence may have */
    uint32_t
        forks;    /* the open sequence has branches: the depth at which they joined last, plus 1 */
    bool open;    /* some of them have not joined: it does not end for its length */
    uint8_t left; /* ops of the open sequence that were held before it left a trace */
    uint32_t closed;       /* `limit` once they have */
    struct ag_node unseen; /* the cursor in a sequence that has gone where none has before */
};

/* A recorder that is all zero, or whose tree has been cleared. False: no memory. It must not be
   moved afterwards. */
bool ag_recorder_init(struct ag_recorder *rec, uint32_t limit, uint32_t unroll,
                      uint32_t max_length);

/* Whether the recorder rests. */
static inline bool ag_recorder_rests(const struct ag_recorder *rec)
{
    return __builtin_expect(atomic_load_explicit(&rec->rest, memory_order_relaxed) != 0, 0);
}

/* Has the recorder rest for the next `ops`, unless it rests for longer already. Ops with the marks
   `heads` do not pass. */
void ag_recorder_rest(struct ag_recorder *rec, uint32_t ops, uint64_t heads);

/* Ends a rest of which no more than `ops` are left. */
void ag_recorder_resume(struct ag_recorder *rec, uint32_t ops);

/* Once per op, with its mark: true if it may pass unseen. Never within a sequence. */
static inline bool ag_recorder_passes(struct ag_recorder *rec, uint64_t mark)
{
    uint32_t rest = atomic_load_explicit(&rec->rest, memory_order_relaxed);
    if (__builtin_expect(rest == 0, 1))
        return false;
    atomic_store_explicit(&rec->rest, rest - 1, memory_order_relaxed);
    return rec->cursor->depth == 0 &&
           (atomic_load_explicit(&rec->heads, memory_order_relaxed) & mark) == 0;
}

/* A trace has been made of a sequence with this head. */
static inline void ag_recorder_has_trace(struct ag_recorder *rec, const struct ag_node *head)
{
    atomic_fetch_or_explicit(&rec->heads, ag_op_mark(&head->op), memory_order_relaxed);
}

/* Ops have been replayed: recording pays. */
static inline void ag_recorder_paid(struct ag_recorder *rec, uint32_t ops)
{
    rec->useful += ops;
    rec->fruitless = 0;
}

/* In a rest: ops with this mark pass from now on. */
static inline void ag_recorder_lets_pass(struct ag_recorder *rec, uint64_t mark)
{
    atomic_fetch_and_explicit(&rec->heads, ~mark, memory_order_relaxed);
}

/* Whether the open sequence has gone where none has before: its ops have no nodes. */
static inline bool ag_recorder_is_unseen(const struct ag_recorder *rec)
{
    return rec->cursor == &rec->unseen;
}

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

/* Whether any open sequence ends at this node. */
static inline bool ag_recorder_full(const struct ag_recorder *rec, const struct ag_node *node)
{
    return node->depth >= rec->limit || node->late >= AG_LATE_ENDS;
}

/* Whether the open sequence, all of which is held, ends at this node. */
static inline bool ag_recorder_ends(const struct ag_recorder *rec, const struct ag_node *node)
{
    bool last = node->trace != NULL && node->below == 0;
    return last || ag_recorder_full(rec, node);
}

/* The held ops up to this node were late: they had to be submitted before the sequence was
   complete, since the program paused there, or another thread waited for them. */
void ag_recorder_late(struct ag_recorder *rec, struct ag_node *node);

/* Whether the open sequence ends before this op. */
static inline bool ag_recorder_cuts(const struct ag_recorder *rec, const struct ag_op *op)
{
    return op->token == rec->anchor && !rec->open &&
           rec->chain + (int32_t)rec->cursor->depth >= (int32_t)rec->unroll;
}

/* The open sequence has branches: whether all have joined with the next op, which comes at that
   depth. Until then it is not cut for its length. It ends where they join if there is no room for
   them to fork and join again. */
void ag_recorder_forks(struct ag_recorder *rec, bool joined, uint32_t depth);

/* The open sequence has branches from now on, that fork at an op with this token (0: not known). If
   it does not begin with the anchor that op is the anchor. */
static inline void ag_recorder_begins_fork(struct ag_recorder *rec, uint64_t token)
{
    if (rec->chain == 0 || token == 0)
        return;
    rec->anchor = token;
    rec->chain = 0;
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
    rec->left = (uint8_t)rec->cursor->depth;
}

/* Whether the open sequence, which goes out eagerly, is looked at when it has come to this node.
   One with branches is where these have joined. */
static inline bool ag_recorder_looks(const struct ag_recorder *rec, const struct ag_node *node)
{
    uint32_t ops = node->depth - rec->left;
    if (ops < AG_LOOK_FIRST)
        return false;
    return rec->forks != 0 ? rec->forks == node->depth + 1u : (ops & (ops - 1)) == 0;
}

/* Whether the last ops of the open sequence are of so many equal rounds, and it ends here: a trace
   of rounds may be made, or begins here. Where one begins later the sequence ends there. */
bool ag_recorder_loops(struct ag_recorder *rec, uint32_t rounds);

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
    return (irregular && head != NULL && ag_node_leads(head) && head->bad == 0) ||
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

/* Forgets the open sequence: the next op is the first one of another, and its anchor. */
void ag_recorder_drop(struct ag_recorder *rec);

/* The same, and forgets all that leads to no trace. */
void ag_recorder_prune(struct ag_recorder *rec);

/* The program has waited for the stream: its next sequence has at most `length` ops, the one behind
   it twice as many, and so on. To be called between two sequences. */
void ag_recorder_waited(struct ag_recorder *rec, uint32_t length);

/* An op went by that cannot be held, between two sequences. */
void ag_recorder_foreign(struct ag_recorder *rec);

/* Sequences have at most `length` ops from now on (2 at least), and loops are unrolled to at most
   `unroll`. */
void ag_recorder_resize(struct ag_recorder *rec, uint32_t unroll, uint32_t length);

#endif
