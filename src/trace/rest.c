/* SPDX-License-Identifier: MIT */
/* Rests, and what is forgotten: see rest.h. */
#include "trace/rest.h"

/* The recorder rests, the longer the oftener. */
static void rest(struct ag_recorder *rec)
{
    atomic_store_explicit(&rec->resting.heads, ag_tree_heads(&rec->tree), memory_order_relaxed);
    atomic_store_explicit(&rec->resting.ops, ag_backoff_next(&rec->resting.rests, AG_REST),
                          memory_order_relaxed);
    rec->resting.fruitless = 0;
}

void ag_recorder_rest_if_vain(struct ag_recorder *rec)
{
    if (rec->resting.fruitless >= AG_FRUITLESS)
        rest(rec);
    else if (ag_recorder_rests(rec))
        atomic_store_explicit(&rec->resting.heads, 0, memory_order_relaxed);
}

void ag_recorder_rest(struct ag_recorder *rec, uint32_t ops, uint64_t heads)
{
    if (atomic_load_explicit(&rec->resting.ops, memory_order_relaxed) >= ops)
        return;
    atomic_store_explicit(&rec->resting.heads, heads, memory_order_relaxed);
    atomic_store_explicit(&rec->resting.ops, ops, memory_order_relaxed);
}

void ag_recorder_resume(struct ag_recorder *rec, uint32_t ops)
{
    if (atomic_load_explicit(&rec->resting.ops, memory_order_relaxed) <= ops)
        atomic_store_explicit(&rec->resting.ops, 0, memory_order_relaxed);
}

void ag_recorder_drop(struct ag_recorder *rec)
{
    rec->cursor = &rec->tree.root;
    rec->ended = NULL;
    rec->anchor.token = 0;
    rec->anchor.chain = 0;
    if (rec->forks.open)
        rec->limit = rec->forks.closed;
    rec->forks.open = false;
    rec->forks.joined = 0;
    rec->rounds.left = 0;
}

void ag_recorder_prune(struct ag_recorder *rec)
{
    ag_recorder_drop(rec);
    ag_tree_prune(&rec->tree);
    rec->unseen_ops = 0;
}

void ag_recorder_make_room(struct ag_recorder *rec)
{
    ag_recorder_prune(rec);
    bool paid = rec->resting.useful >= rec->tree.limit / 2;
    if (paid)
        ag_backoff_reset(&rec->resting.rests);
    if (!paid || rec->tree.used > rec->tree.limit / 2)
        rest(rec);
    rec->resting.novel *= rec->resting.novel < rec->tree.limit ? 2 : 1;
    rec->resting.useful = 0;
}

void ag_recorder_unrecordable(struct ag_recorder *rec)
{
    ag_recorder_useless(rec);
    if (rec->resting.fruitless >= AG_REST_VAIN)
        ag_recorder_rest_if_vain(rec);
}
