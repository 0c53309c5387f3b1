/* SPDX-License-Identifier: MIT */
/*
 * The recorder of one stream: cuts the program's ops into sequences and finds those that are hot.
 *
 * Where a sequence ends depends on the ops, so that the same loop is cut at the same places each
 * time round:
 *  - at a barrier;
 *  - after `max_length` ops, or fewer behind a wait for the stream;
 *  - before the anchor, once `unroll` ops have passed since it was last cut there. The anchor is
 *    the first op after a barrier; where it does not come back, since it is no op of the loop,
 *    another is taken, soon at first. So sequences fall on the same ops again soon after anything
 *    has come in between.
 *  - where the anchor has come round four times at the same distance, if the owner asks, so that a
 *    short loop need not be repeated hundreds of times before it is replayed; but not where
 *    barriers come so often that they end sequences anyway. Likewise where the head of any sequence
 *    has, if the anchor has not: it belonged to what came before the loop;
 *  - where a trace ends that begins no longer one, since it can be replayed at once. A loop that
 *    lasts, or that waited in its first iterations only, would stay in such short pieces: where the
 *    program goes on behind a trace, now and then sequences may, too;
 *  - where the program has paused again and again while the sequence was held, or has waited for
 *    what was held in another thread.
 * So a short loop is unrolled, a long one is cut into pieces that fall on the same ops each time.
 *
 * What has never been seen gets no nodes, once there are some: a bit remembers its path, and nodes
 * are made when it comes again. To write them is most of what recording costs.
 *
 * It rests, longer each time, where recording does not pay: when the tree is full and little of it
 * was of use, when a part of it is full and nothing has become a trace at all, when each sequence
 * ends before it could become a trace, and when nothing has been replayed for long. Meanwhile only
 * ops that begin traces are looked at, and these only now and then when nothing comes of them.
 *
 * Not thread-safe: the owner's lock guards it.
 */
#ifndef AG_RECORDER_H
#define AG_RECORDER_H

#include <stdatomic.h>

#include "trace/tree.h"

enum { AG_FRUITLESS = 1 << 16 }; /* ops without a replay after which it rests */
enum { AG_ROUNDS_NONE = UINT8_MAX };
enum { AG_PAUSES = 3 }; /* at one place, after which sequences end there */

struct ag_recorder {
    struct ag_tree tree;
    struct ag_node *cursor; /* where the open sequence is; &tree.root between sequences */
    struct ag_node *ended;  /* where the last one ended only since a trace does, or NULL */
    uint32_t unseen_ops;    /* since the tree was last pruned */
    uint64_t anchor;        /* token; 0: the next op becomes it */
    uint32_t chain;         /* ops from the anchor to the head of the open sequence */
    uint32_t reach;         /* ops within which it has to come round */
    bool came;              /* it has come round */
    uint64_t first;         /* token of the head of the open sequence */
    uint32_t period;        /* ops from there to its return */
    uint32_t rounds; /* how often it has at that distance, or AG_ROUNDS_NONE: not to be counted */
    bool rounded;    /* the last sequence ended for that */
    uint32_t ops;    /* of all sequences */
    uint32_t run, last_run; /* ops since the last barrier, and between the two before it */
    bool brief;             /* as many as that, and no more than one sequence may have */
    uint32_t unroll;        /* ops */
    uint32_t max_length;    /* ops */
    uint32_t limit;         /* ops that the open sequence, or the next one, may have */
    _Atomic uint32_t rest; /* ops for which it rests, since recording did not pay: no node is added,
                              and what begins no trace may pass unseen; the thread that issues them
                              reads and writes it without the lock, too */
    _Atomic uint64_t heads; /* ag_op_mark() of the ops that begin traces, and of others perhaps */
    uint32_t rest_next, lone_next;
    uint32_t rest_later; /* ops for which it goes on to rest once it has rested blindly */
    uint32_t novel; /* nodes and unseen ops that are enough while there is no trace */
    uint32_t lone;  /* sequences in a row that a barrier ended before they could become a trace, and
                       ops that cannot be held */
    uint32_t fruitless;    /* ops since the last replay */
    uint64_t useful;       /* ops replayed since the tree was last pruned */
    struct ag_node unseen; /* the cursor in a sequence that has gone where none has before */
};

/* A recorder that is all zero, or whose tree has been cleared. False: no memory. It must not be
   moved afterwards. */
bool ag_recorder_init(struct ag_recorder *rec, uint32_t limit, uint32_t unroll,
                      uint32_t max_length);

static inline bool ag_recorder_rests(const struct ag_recorder *rec)
{
    return __builtin_expect(atomic_load_explicit(&rec->rest, memory_order_relaxed) != 0, 0);
}

/* It rests for the next `ops`, if it does not already rest for as many, and ops with the marks
   `heads` do not pass; and no longer, if no more than that are left. */
void ag_recorder_doze(struct ag_recorder *rec, uint32_t ops, uint64_t heads);
void ag_recorder_wake(struct ag_recorder *rec, uint32_t ops);

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
    rec->fruitless = rec->lone = 0;
}

/* Replays have turned out not to: it rests from the next end of a sequence on. */
static inline void ag_recorder_unpaid(struct ag_recorder *rec)
{
    rec->fruitless = AG_FRUITLESS;
}

/* Nor does recording: it rests at once, for `least` ops or more, and all of them pass. To be called
   between two sequences. */
void ag_recorder_give_up(struct ag_recorder *rec, uint32_t least);

/* Whether the open sequence has gone where none has before: its ops have no nodes. */
static inline bool ag_recorder_is_unseen(const struct ag_recorder *rec)
{
    return rec->cursor == &rec->unseen;
}

/* Whether any open sequence ends at this node. */
static inline bool ag_recorder_full(const struct ag_recorder *rec, const struct ag_node *node)
{
    return node->depth >= rec->limit || node->late == AG_PAUSES;
}

/* Whether the open sequence, all of which is held, ends at this node. */
static inline bool ag_recorder_ends(const struct ag_recorder *rec, const struct ag_node *node)
{
    return (node->trace != NULL && node->below == 0 && node->open == 0) ||
           ag_recorder_full(rec, node);
}

/* What is held up to this node of the open sequence could not wait for the rest: the program pauses
   there, or another thread waits. */
void ag_recorder_late(struct ag_recorder *rec, struct ag_node *node);

/* The trace at the cursor has been replayed, and what comes next belongs to no longer one: whether
   the sequence goes on all the same. */
bool ag_recorder_goes_on(struct ag_recorder *rec);

/* Whether the open sequence ends before this op. */
static inline bool ag_recorder_cuts(const struct ag_recorder *rec, const struct ag_op *op)
{
    return op->token == rec->anchor && rec->chain + rec->cursor->depth >= rec->unroll;
}

/* Whether this op is the head of the open sequence, and how often that comes round may matter: it
   is the anchor, or the anchor has not come round for longer than a sequence. */
static inline bool ag_recorder_counts(const struct ag_recorder *rec, const struct ag_op *op)
{
    return op->token == rec->first && rec->rounds != AG_ROUNDS_NONE && !rec->brief &&
           (rec->chain == 0 || (!rec->came && rec->chain >= rec->max_length));
}

/* Counts it: whether the open sequence ends before this op, because its head has come round for the
   fourth time at the same distance, and there is no trace of such rounds yet. It is the anchor
   then. */
bool ag_recorder_rounds(struct ag_recorder *rec);

/* The program goes on behind the trace that the last sequence ended at, and that says nothing: a
   longer one could not be made now. */
static inline void ag_recorder_stays(struct ag_recorder *rec)
{
    rec->ended = NULL;
}

/* To be called with the first op of a sequence, before the cursor moves: keeps the anchor. */
void ag_recorder_head(struct ag_recorder *rec, uint64_t token);

/* The node of an op behind the cursor, or NULL. */
static inline struct ag_node *ag_recorder_find(struct ag_recorder *rec, const struct ag_op *op)
{
    return ag_recorder_is_unseen(rec) ? NULL : ag_tree_find(&rec->tree, rec->cursor, op);
}

/* Moves the cursor over an op, adding a node where there is none, or to `unseen`. NULL: there is no
   room for it, and the sequence is dropped. */
struct ag_node *ag_recorder_step(struct ag_recorder *rec, const struct ag_op *op);

/*
 * Ends the open sequence; `barrier` says whether the anchor ends with it. Returns the node that it
 * ended at when that has been seen `hot` times, weighs `min_length` at least and may become a
 * trace, else NULL.
 */
struct ag_node *ag_recorder_end(struct ag_recorder *rec, bool barrier, uint32_t hot,
                                uint32_t min_length);

/* Forgets the open sequence: the next op is the first one of another, and its anchor. */
void ag_recorder_drop(struct ag_recorder *rec);

/* The same, and forgets all that leads to no trace. */
void ag_recorder_prune(struct ag_recorder *rec);

/* The program has waited for the stream: its next sequence has at most `length` ops. To be called
   between two sequences. */
void ag_recorder_waited(struct ag_recorder *rec, uint32_t length);

/* An op went by that cannot be held, between two sequences. */
void ag_recorder_foreign(struct ag_recorder *rec);

/* Sequences have at most `length` ops from now on (2 at least), and loops are unrolled to at most
   `unroll`. */
void ag_recorder_resize(struct ag_recorder *rec, uint32_t unroll, uint32_t length);

#endif
