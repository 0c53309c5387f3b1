/* SPDX-License-Identifier: MIT */
/*
 * When the recorder records nothing. It rests, longer each time, where recording does not pay:
 *  - the tree is full, and little of it was of use;
 *  - a part of the tree is full, and nothing has become a trace at all;
 *  - nothing has been replayed for long.
 * During a rest only ops that begin traces are looked at, and none if nothing comes of these.
 */
#ifndef AG_REST_H
#define AG_REST_H

#include "trace/recording.h"

/* Whether the recorder rests. */
static inline bool ag_recorder_rests(const struct ag_recorder *rec)
{
    return __builtin_expect(atomic_load_explicit(&rec->resting.ops, memory_order_relaxed) != 0, 0);
}

/* Has the recorder rest for the next `ops`, unless it rests for longer already. Ops with the marks
   `heads` do not pass. */
void ag_recorder_rest(struct ag_recorder *rec, uint32_t ops, uint64_t heads);

/* Ends a rest of which no more than `ops` are left. */
void ag_recorder_resume(struct ag_recorder *rec, uint32_t ops);

/* Once per op, with its mark: true if it may pass unseen. Never within a sequence. */
static inline bool ag_recorder_passes(struct ag_recorder *rec, uint64_t mark)
{
    uint32_t rest = atomic_load_explicit(&rec->resting.ops, memory_order_relaxed);
    if (__builtin_expect(rest == 0, 1))
        return false;
    atomic_store_explicit(&rec->resting.ops, rest - 1, memory_order_relaxed);
    return rec->cursor->depth == 0 &&
           (atomic_load_explicit(&rec->resting.heads, memory_order_relaxed) & mark) == 0;
}

/* A trace has been made of a sequence with this head. */
static inline void ag_recorder_has_trace(struct ag_recorder *rec, const struct ag_node *head)
{
    atomic_fetch_or_explicit(&rec->resting.heads, ag_op_mark(&head->op), memory_order_relaxed);
}

/* Ops have been replayed: recording pays. */
static inline void ag_recorder_paid(struct ag_recorder *rec, uint32_t ops)
{
    rec->resting.useful += ops;
    rec->resting.fruitless = 0;
}

/* In a rest: ops with this mark pass from now on. */
static inline void ag_recorder_lets_pass(struct ag_recorder *rec, uint64_t mark)
{
    atomic_fetch_and_explicit(&rec->resting.heads, ~mark, memory_order_relaxed);
}

/* An op went by that cannot be held, between two sequences. */
void ag_recorder_unrecordable(struct ag_recorder *rec);

/* Forgets the open sequence: the next op is the first one of another, and its anchor. */
void ag_recorder_drop(struct ag_recorder *rec);

/* The same, and forgets all that leads to no trace. */
void ag_recorder_prune(struct ag_recorder *rec);

/* Nothing has been replayed for some time. If the recorder rests, all ops pass until the end: the
   traces are of what the program did before. Else it rests if it has been long. */
void ag_recorder_rest_if_vain(struct ag_recorder *rec);

/* An op, or a sequence that a barrier has ended, which cannot become a trace. In a rest that says
   nothing. */
static inline void ag_recorder_useless(struct ag_recorder *rec)
{
    rec->resting.fruitless += ag_recorder_rests(rec) ? 0 : AG_USELESS;
}

/* The tree is full, or large enough with nothing hot in it. */
static inline bool ag_recorder_is_full(const struct ag_recorder *rec)
{
    uint32_t used = rec->tree.used + rec->unseen_ops;
    return used >= rec->tree.limit || (rec->tree.root.below == 0 && used >= rec->resting.novel);
}

/* Forgets what is cold, and rests if recording it did not pay. */
void ag_recorder_make_room(struct ag_recorder *rec);

#endif
