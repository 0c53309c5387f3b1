/* SPDX-License-Identifier: MIT */
/* Loops, and what comes again: see repeat.h. */
#include "trace/repeat.h"

#include "trace/known.h"

AG_HOLDS(struct ag_recorder, rounds.begun, AG_LOOK_LAST);

/* -- Equal rounds -- */

/* So many of the last ops, `count` at most, are of rounds of that period; 0: not even one round. */
static uint32_t count_rounds(struct ag_recorder *rec, uint32_t period, uint32_t count)
{
    uint32_t end = rec->cursor->depth, i = end;
    while (i > end - count + period &&
           *ag_recorder_recent(rec, i) == *ag_recorder_recent(rec, i - period))
        i--;
    return i == end ? 0 : end - i + period;
}

/* The period that explains most of the last ops of the open sequence, of which there are so many
   rounds, and AG_LOOK_FIRST ops at least; 0: there is none. `*all`: it explains all from the head
   on. */
static uint32_t find_period(struct ag_recorder *rec, uint32_t rounds, bool *all)
{
    uint32_t end = rec->cursor->depth, count = end < AG_LOOK_LAST ? end : AG_LOOK_LAST;
    uint32_t found = 0, most = AG_LOOK_FIRST - 1;
    for (const struct ag_node *node = rec->cursor; node->depth > end - count; node = node->parent)
        if (node != &rec->unseen)
            *ag_recorder_recent(rec, node->depth) = node->op.structure;
    for (uint32_t period = 1; rounds * period <= count && most < count; period++) {
        uint32_t ops = count_rounds(rec, period, count);
        if (ops > most && ops >= rounds * period) {
            found = period;
            most = ops;
        }
    }
    *all = most == end;
    return found;
}

/* The nodes of the last `period` ops of the path to this node, in their order. */
static void take_round(struct ag_node *node, uint32_t period, struct ag_node *round[AG_LOOK_LAST])
{
    for (uint32_t i = period; i > 0; i--, node = node->parent)
        round[i - 1] = node;
}

/* Whether a trace is of rounds like the last `period` ops that begin with op `first` of these. */
static bool has_trace(struct ag_recorder *rec, uint32_t period, uint32_t first)
{
    uint32_t begin = rec->cursor->depth - period + 1;
    struct ag_node *node = &rec->tree.root;
    do {
        node = ag_tree_find_hash(&rec->tree, node, *ag_recorder_recent(rec, begin + first));
        first = (first + 1) % period;
    } while (node != NULL && ag_node_leads(node) && node->blacklisted == 0 &&
             (node->trace == NULL || node->depth < period));
    return node != NULL && node->trace != NULL && node->blacklisted == 0;
}

bool ag_recorder_loops(struct ag_recorder *rec, uint32_t rounds)
{
    bool all;
    uint32_t period = find_period(rec, rounds, &all), depth = rec->cursor->depth;
    if (period == 0 || period > rec->unroll)
        return false;
    for (uint32_t i = 0; i < period; i++)
        if (has_trace(rec, period, i)) {
            rec->anchor.token = 0;
            ag_recorder_shorten(rec, depth + i);
            return i == 0;
        }
    rec->rounds.period = period;
    rec->rounds.begun = (uint8_t)(all && rec->forks.joined == 0 ? depth % period : 0);
    return true;
}

/* The op at `next` once more, behind `node`, with its last arguments. NULL: there is no room. */
static struct ag_node *append_one(struct ag_tree *tree, struct ag_node *node, struct ag_node *next)
{
    struct ag_node *found = ag_tree_find(tree, node, &next->op);
    if (found == NULL)
        found = ag_tree_add(tree, node, &next->op);
    if (found == NULL || !ag_node_arguments(found))
        return NULL;
    (void)ag_node_reshape(found, &next->op);
    found->taken |= next->taken;
    if (next->params != NULL)
        ag_node_store(found, next->params);
    return found;
}

/* The nodes of the last round of the sequence that ends at this node. If a further one has begun,
   the next sequence has the rest of it. */
static void take_whole_round(struct ag_recorder *rec, struct ag_node *node, uint32_t period,
                             struct ag_node *round[])
{
    for (uint32_t i = 0; i < rec->rounds.begun; i++)
        node = node->parent;
    take_round(node, period, round);
    if (rec->rounds.begun != 0)
        ag_recorder_shorten(rec, period - rec->rounds.begun);
}

struct ag_node *ag_repeat_unroll(struct ag_recorder *rec, struct ag_node *node, uint32_t period,
                                 uint32_t min_length)
{
    struct ag_node *round[AG_LOOK_LAST], *last = &rec->tree.root;
    uint32_t length = node->depth < rec->unroll ? node->depth : rec->unroll;
    if (node->known != NULL && node->known->make > length)
        length = node->known->make < rec->max_length ? node->known->make : rec->max_length;
    rec->anchor.token = 0;
    rec->rounds.ended = node == &rec->unseen;
    if (rec->rounds.ended || !ag_node_is_good(node))
        return NULL;
    take_whole_round(rec, node, period, round);
    for (uint32_t i = 0; last != NULL && i < length / period * period; i++)
        last = append_one(&rec->tree, last, round[i % period]);
    if (last != NULL && last->known != NULL)
        ag_known_meet(last->known);
    return last != NULL && last->trace == NULL && last->weight >= min_length &&
                   ag_node_is_good(last)
               ? last
               : NULL;
}

/* -- One right behind the other -- */

/* Whether the sequence at `next` has come so often in a row right behind the one at `first` that
   both are one, if they are not too long for that. */
static bool belong(struct ag_recorder *rec, struct ag_node *first, const struct ag_node *next,
                   uint32_t hot)
{
    if (first->depth + next->depth > rec->unroll)
        return false;
    if (first->then != next->path) {
        first->then = next->path;
        first->ends = 0;
    }
    if (++first->ends < hot || first->ends < AG_JOIN_FIRST)
        return false;
    first->ends = 0;
    return true;
}

/* The path to `next` once more, behind `node`, with the arguments of its last ops. Returns its last
   node; NULL: there is no room. */
static struct ag_node *append(struct ag_tree *tree, struct ag_node *node, struct ag_node *next)
{
    if (next->parent == NULL)
        return node;
    struct ag_node *parent = append(tree, node, next->parent);
    if (parent == NULL)
        return NULL;
    return append_one(tree, parent, next);
}

struct ag_node *ag_repeat_join(struct ag_recorder *rec, struct ag_node *first, struct ag_node *next,
                               uint32_t hot)
{
    if (!belong(rec, first, next, hot))
        return NULL;
    struct ag_node *last = append(&rec->tree, first, next);
    while (first == next && last != NULL && last->depth + next->depth <= rec->unroll)
        last = append(&rec->tree, last, next);
    return last != NULL && last->trace == NULL && ag_node_is_good(last) ? last : NULL;
}

/* -- What has come before -- */

/* A known sequence has come, and gets a trace. */
static void come(struct ag_recorder *rec, struct ag_node *node)
{
    node->came = true;
    rec->misled = 0;
    ag_known_meet(node->known);
}

bool ag_recorder_completes(struct ag_recorder *rec, const struct ag_op *op)
{
    struct ag_node *node = rec->cursor;
    const struct ag_known *known = node->known;
    if (!ag_recorder_awaits(node))
        return false;
    if (known->make > node->depth && node->taken && !rec->overspent &&
        ag_op_is_like(&ag_node_head(node)->op, op)) {
        rec->rounds.period = node->depth;
        rec->rounds.begun = 0;
        come(rec, node);
        return true;
    }
    return known->ends &&
           (!known->goes_on || node->depth >= rec->limit || ag_known_next(known, op) == NULL);
}

/* Sequences go on in one more way behind each node of this path. Returns the last node behind which
   they have gone on in `hot` ways, if no trace is there or behind it; else NULL. */
static struct ag_node *forked(struct ag_node *node, uint32_t hot, uint32_t min_length)
{
    struct ag_node *found = NULL;
    for (; node->parent != NULL && !ag_node_leads(node); node = node->parent)
        if (++node->ways >= hot && node->weight >= min_length && node->depth >= AG_FORK_LEAST &&
            found == NULL) {
            node->ways = 0;
            found = node;
        }
    return found;
}

/* One more sequence has ended at a node; whether it is hot. */
static bool is_hot(struct ag_node *node, uint32_t hot, uint32_t min_length)
{
    if (node->trace != NULL || node->weight < min_length || ++node->ends < hot)
        return false;
    node->ends = 0;
    return true;
}

/* A sequence of so many ops has gone out eagerly, and no barrier has ended it. `novel`: it has not
   come before. */
static void judge(struct ag_recorder *rec, uint32_t ops, bool novel)
{
    rec->unknown += novel ? ops : 0;
    rec->unknown -= novel ? 0 : ops < rec->unknown ? ops : rec->unknown;
    if (rec->unknown < AG_IRREGULAR)
        return;
    rec->unknown = 0;
    rec->irregular = AG_REST.first;
}

/* Whether no sequence has ended here before. */
static bool is_novel(struct ag_recorder *rec, const struct ag_node *node)
{
    bool unseen = node == &rec->unseen;
    return unseen ? !ag_tree_met(&rec->tree, ag_path(node->path, 0)) : node->ends == 0;
}

/* The last node of this path at which a known sequence ends that has not come before; NULL: none.
 */
static struct ag_node *find_known(struct ag_recorder *rec, struct ag_node *node,
                                  uint32_t min_length)
{
    for (; node->parent != NULL; node = node->parent)
        if (ag_recorder_awaits(node) && node->known->ends && node->taken &&
            node->weight >= min_length) {
            come(rec, node);
            return node;
        }
    return NULL;
}

/* The node that is hot because sequences have ended there; NULL: none. */
static struct ag_node *find_hot(struct ag_recorder *rec, struct ag_node *node, bool barrier,
                                uint32_t hot, uint32_t min_length)
{
    bool unseen = node == &rec->unseen, novel = is_novel(rec, node);
    bool part = !barrier && rec->irregular != 0;
    struct ag_node *forks = NULL, *found = NULL;
    if (!barrier && !part)
        judge(rec, node->depth, novel);
    if (novel && (barrier || part))
        forks = forked(unseen ? node->parent : node, hot, min_length);
    if (!unseen && node->depth >= (part ? AG_FORK_LEAST : 1) && is_hot(node, hot, min_length))
        found = node;
    if (found == NULL)
        found = forks;
    return found != NULL && ag_node_is_good(found) ? found : NULL;
}

struct ag_node *ag_repeat_find(struct ag_recorder *rec, struct ag_node *node, bool barrier,
                               uint32_t hot, uint32_t min_length)
{
    struct ag_node *found = find_hot(rec, node, barrier, hot, min_length);
    if (found != NULL || __builtin_expect(!ag_known_any, 1) || rec->overspent)
        return found;
    found = find_known(rec, node == &rec->unseen ? node->parent : node, min_length);
    return found != NULL && ag_node_is_good(found) ? found : NULL;
}
