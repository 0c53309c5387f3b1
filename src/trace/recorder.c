/* SPDX-License-Identifier: MIT */
/* Where sequences begin and end: see recorder.h. */
#include "trace/recorder.h"

AG_HOLDS(struct ag_node, overdue, AG_OVERDUE_MOST + AG_OVERDUE_WEIGHT);

bool ag_recorder_init(struct ag_recorder *rec, uint32_t limit, uint32_t unroll, uint32_t max_length)
{
    size_t tree = offsetof(struct ag_recorder, cursor); /* which comes first, and stays */
    memset((char *)rec + tree, 0, offsetof(struct ag_recorder, unseen) - tree);
    rec->limit = UINT32_MAX;
    rec->most = max_length;
    ag_recorder_resize(rec, unroll, max_length);
    rec->anchor.reach = ag_backoff_next(&rec->anchor.reaches, AG_REACH);
    rec->resting.novel = AG_NOVEL_FIRST;
    rec->cursor = &rec->tree.root;
    return ag_tree_init(&rec->tree, limit);
}

void ag_recorder_overdue(struct ag_recorder *rec, struct ag_node *node)
{
    node->overdue = (uint16_t)(node->overdue + AG_OVERDUE_WEIGHT);
    if (node->overdue >= AG_OVERDUE_ENDS)
        node->overdue = AG_OVERDUE_MOST;
    rec->lately = AG_OVERDUE_MOST;
}

/* A sequence has ended at this node. If that is because ops were late, it says nothing about the
   trace that ends there that the program goes on. */
__attribute__((noinline)) static void passed(struct ag_recorder *rec, struct ag_node *node)
{
    rec->lately -= rec->lately != 0;
    if (node->overdue >= AG_OVERDUE_ENDS)
        rec->ended = NULL;
    for (; node->parent != NULL; node = node->parent)
        if (node->overdue != 0) {
            node->overdue--;
            rec->lately = AG_OVERDUE_MOST;
        }
}

void ag_recorder_head(struct ag_recorder *rec, uint64_t token)
{
    bool again = token == rec->anchor.token && rec->anchor.chain >= (int32_t)rec->unroll;
    bool lost = !again && rec->anchor.token != 0 && rec->anchor.chain > (int32_t)rec->anchor.reach;
    if (!again && !lost && rec->anchor.token != 0)
        return;
    if (lost && rec->anchor.came)
        ag_backoff_reset(&rec->anchor.reaches);
    if (lost)
        rec->anchor.reach = ag_backoff_next(&rec->anchor.reaches, AG_REACH);
    rec->anchor.chain = rec->run == 0 ? -(int32_t)rec->steady : 0;
    rec->anchor.token = token;
    rec->anchor.came = again;
}

/* The cursor moves over an op that is new there; the path becomes known. */
static struct ag_node *step_unseen(struct ag_recorder *rec, const struct ag_op *op, uint64_t path)
{
    struct ag_node *node = &rec->unseen;
    if (rec->cursor != node)
        *node = (struct ag_node){
            .parent = rec->cursor, .depth = rec->cursor->depth, .weight = rec->cursor->weight};
    node->path = path;
    node->depth++;
    *ag_recorder_recent(rec, node->depth) = op->structure;
    node->weight = (uint16_t)(node->weight + ag_op_weight(op));
    rec->unseen_ops++;
    return rec->cursor = node;
}

struct ag_node *ag_recorder_step(struct ag_recorder *rec, const struct ag_op *op)
{
    bool unseen = ag_recorder_is_unseen(rec);
    struct ag_node *node = ag_recorder_find(rec, op);
    if (node == NULL && !ag_recorder_rests(rec) && !ag_recorder_is_full(rec)) {
        uint64_t path = ag_path(rec->cursor->path, op->structure);
        bool known = !unseen && ag_node_leads_to(rec->cursor, op) != NULL;
        bool novel = !rec->rounds.ended && !known && (unseen || rec->tree.used >= AG_NODES_FREE) &&
                     !ag_tree_met(&rec->tree, path);
        if (unseen || novel)
            return step_unseen(rec, op, path);
        node = ag_tree_add(&rec->tree, rec->cursor, op);
        if (node != NULL && rec->tree.met != NULL) /* it may have ended here that time */
            node->ends = ag_tree_met(&rec->tree, ag_path(path, 0));
    }
    if (node == NULL) {
        if (ag_recorder_rests(rec)) {
            rec->resting.fruitless += rec->cursor->depth;
            ag_recorder_drop(rec);
        } else {
            ag_recorder_make_room(rec);
        }
        return NULL;
    }
    rec->cursor->next = node;
    rec->cursor = node;
    return node;
}

/* A barrier has come after so many ops that an anchor may have ended sequences. */
__attribute__((noinline)) static void compare_runs(struct ag_recorder *rec)
{
    bool same = rec->run == rec->last && rec->run <= AG_REACH.first;
    rec->steady = same ? rec->run : 0;
    rec->last = rec->run;
}

/* A barrier ends the sequence at `node`. */
static void barred(struct ag_recorder *rec, const struct ag_node *node, uint32_t min_length)
{
    if (rec->run > rec->unroll)
        compare_runs(rec);
    rec->anchor.token = rec->run = 0;
    if (node->depth != 0 && node->weight < min_length)
        ag_recorder_useless(rec);
}

bool ag_recorder_meets(struct ag_recorder *rec, const struct ag_op *op)
{
    if (rec->misled >= AG_KNOWN_LEAST || ag_node_leads_to(rec->cursor, op) != NULL)
        return false;
    const struct ag_known *head = ag_known_next(NULL, op);
    if (head == NULL || head->most < AG_LOOK_FIRST)
        return false;
    rec->misled++;
    rec->anchor.token = 0; /* the op is the next one */
    return true;
}

/* The next sequence has twice as many ops as the one that has ended, or as many as any other. */
static void climb(struct ag_recorder *rec, bool barrier)
{
    rec->ramp = barrier || 2 * rec->ramp >= rec->max_length ? 0 : 2 * rec->ramp;
    if (rec->ramp != 0)
        rec->limit = rec->ramp;
}

struct ag_node *ag_recorder_end(struct ag_recorder *rec, bool barrier, uint32_t hot,
                                uint32_t min_length)
{
    struct ag_node *node = rec->cursor;
    bool early = !barrier && node->depth < rec->limit;
    uint32_t period = rec->rounds.period;
    rec->rounds.period = 0;
    rec->rounds.ended = false;
    struct ag_node *before = rec->ended;
    rec->ended = early && node->trace != NULL ? node : NULL;
    if (__builtin_expect(rec->lately != 0 || node->overdue != 0, 0))
        passed(rec, node);
    rec->cursor = &rec->tree.root;
    rec->limit = rec->max_length;
    if (__builtin_expect(rec->ramp != 0, 0))
        climb(rec, barrier);
    rec->forks.open = false;
    rec->forks.joined = 0;
    rec->rounds.left = 0;
    rec->ops += node->depth;
    rec->anchor.chain += (int32_t)node->depth;
    rec->resting.fruitless += node->depth;
    rec->run += node->depth;
    rec->irregular -= node->depth < rec->irregular ? node->depth : rec->irregular;
    if (barrier)
        barred(rec, node, min_length);
    if (rec->resting.fruitless >= AG_REST_VAIN)
        ag_recorder_rest_if_vain(rec);
    if (node->depth == 0)
        return NULL;
    if (period != 0)
        return ag_repeat_unroll(rec, node, period, min_length);
    if (node->trace == NULL)
        return ag_repeat_find(rec, node, barrier, hot, min_length);
    return before != NULL && rec->resting.fruitless == node->depth
               ? ag_repeat_join(rec, before, node, hot)
               : NULL;
}

void ag_recorder_forks(struct ag_recorder *rec, bool joined, uint32_t depth)
{
    if (!joined && !rec->forks.open) {
        rec->forks.closed = rec->limit;
        rec->limit = rec->most;
    }
    if (joined && rec->forks.open) {
        uint32_t round = depth - (rec->forks.joined != 0 ? rec->forks.joined - 1 : 0);
        rec->limit = depth + round > rec->most ? depth : rec->forks.closed;
    }
    if (joined && rec->forks.open)
        rec->forks.joined = depth + 1;
    else if (!joined && rec->forks.joined == 0)
        rec->forks.joined = 1;
    rec->forks.open = !joined;
}

void ag_recorder_cut_at(struct ag_recorder *rec, uint64_t token)
{
    rec->anchor.token = token;
    rec->anchor.chain = (int32_t)rec->unroll;
    rec->anchor.came = false;
}

void ag_recorder_waited(struct ag_recorder *rec, uint32_t length)
{
    rec->ramp = 0;
    if (length < rec->limit)
        rec->ramp = rec->limit = length;
}

void ag_recorder_resize(struct ag_recorder *rec, uint32_t unroll, uint32_t length)
{
    rec->max_length = length < 2 ? 2 : length;
    rec->unroll = unroll < rec->max_length ? unroll : rec->max_length;
    if (rec->limit > rec->max_length)
        rec->limit = rec->max_length;
}
