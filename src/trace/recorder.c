/* SPDX-License-Identifier: MIT */
/* The recorder: where sequences end, which are hot, and when recording does not pay. */
#include "trace/recorder.h"

AG_HOLDS(struct ag_node, late, AG_LATE_MOST + AG_LATE_WEIGHT);

bool ag_recorder_init(struct ag_recorder *rec, uint32_t limit, uint32_t unroll, uint32_t max_length)
{
    size_t tree = offsetof(struct ag_recorder, cursor); /* which comes first, and stays */
    memset((char *)rec + tree, 0, offsetof(struct ag_recorder, unseen) - tree);
    rec->limit = UINT32_MAX;
    ag_recorder_resize(rec, unroll, max_length);
    rec->reach = AG_REACH_FIRST;
    rec->rest_next = AG_REST_FIRST;
    rec->novel = AG_NOVEL_FIRST;
    rec->short_rest_next = AG_TOO_SHORT_REST_FIRST;
    rec->irregular_from = AG_IRREGULAR_FIRST;
    rec->cursor = &rec->tree.root;
    return ag_tree_init(&rec->tree, limit);
}

/* Whether a first trace may be made here: there is none, none has given way to a longer one, and
   none has failed to be made. */
static bool is_fresh(const struct ag_node *node)
{
    return node->trace == NULL && node->below == 0 && node->failures == 0;
}

bool ag_recorder_rounds(struct ag_recorder *rec)
{
    if (rec->rounds++ == 0)
        rec->period = rec->cursor->depth;
    bool even = rec->cursor->depth == rec->rounds * rec->period;
    rec->rounded = even && rec->rounds == AG_ROUNDS && is_fresh(rec->cursor);
    if (!even || rec->rounds == AG_ROUNDS)
        rec->rounds = AG_ROUNDS_NONE;
    return rec->rounded;
}

void ag_recorder_late(struct ag_recorder *rec, struct ag_node *node)
{
    node->late = (uint16_t)(node->late + AG_LATE_WEIGHT);
    if (node->late >= AG_LATE_ENDS)
        node->late = AG_LATE_MOST;
    rec->lately = AG_LATE_MOST;
}

/* A sequence has ended at this node. If that is because ops were late, it says nothing about the
   trace that ends there that the program goes on. */
__attribute__((noinline)) static void passed(struct ag_recorder *rec, struct ag_node *node)
{
    rec->lately -= rec->lately != 0;
    if (node->late >= AG_LATE_ENDS)
        rec->ended = NULL;
    for (; node->parent != NULL; node = node->parent)
        if (node->late != 0) {
            node->late--;
            rec->lately = AG_LATE_MOST;
        }
}

static void rest_for(struct ag_recorder *rec, uint32_t ops)
{
    atomic_store_explicit(&rec->heads, ag_tree_heads(&rec->tree), memory_order_relaxed);
    atomic_store_explicit(&rec->rest, ops, memory_order_relaxed);
    rec->too_short = rec->fruitless = rec->rest_later = 0;
}

static void rest(struct ag_recorder *rec, uint32_t *next, uint32_t most, uint32_t grows)
{
    rest_for(rec, *next);
    *next = *next < most / grows ? *next * grows : most;
}

/* The recorder rests, and sequences that begin like traces have come to no replay: all ops pass. */
static void rest_from_all(struct ag_recorder *rec)
{
    uint32_t left = atomic_load_explicit(&rec->rest, memory_order_relaxed);
    if (left > AG_REST_ALL) {
        rec->rest_later = left - AG_REST_ALL;
        atomic_store_explicit(&rec->rest, AG_REST_ALL, memory_order_relaxed);
    }
    atomic_store_explicit(&rec->heads, 0, memory_order_relaxed);
}

/* The op `token` is the anchor from now on: what sequences begin with. `lost`: instead of another.
 */
static void set_anchor(struct ag_recorder *rec, uint64_t token, bool again, bool lost)
{
    if (lost && rec->came)
        rec->reach = AG_REACH_FIRST;
    else if (lost && rec->reach < AG_REACH_MOST)
        rec->reach *= 2;
    rec->anchor = token;
    rec->chain = 0;
    rec->came = again;
}

void ag_recorder_head(struct ag_recorder *rec, uint64_t token)
{
    if (__builtin_expect(rec->rest_later != 0, 0) && !ag_recorder_rests(rec))
        rest_for(rec, rec->rest_later);
    bool again = rec->rounded || (token == rec->anchor && rec->chain >= rec->unroll);
    rec->first = token;
    rec->rounds = 0;
    rec->rounded = false;
    bool lost = !again && rec->anchor != 0 && rec->chain > rec->reach;
    if (again || lost || rec->anchor == 0)
        set_anchor(rec, token, again, lost);
}

void ag_recorder_rest(struct ag_recorder *rec, uint32_t ops, uint64_t heads)
{
    if (atomic_load_explicit(&rec->rest, memory_order_relaxed) >= ops)
        return;
    atomic_store_explicit(&rec->heads, heads, memory_order_relaxed);
    atomic_store_explicit(&rec->rest, ops, memory_order_relaxed);
}

void ag_recorder_resume(struct ag_recorder *rec, uint32_t ops)
{
    if (atomic_load_explicit(&rec->rest, memory_order_relaxed) <= ops)
        atomic_store_explicit(&rec->rest, 0, memory_order_relaxed);
}

/* The tree is full, or large enough with nothing hot in it. */
static bool is_full(const struct ag_recorder *rec)
{
    uint32_t used = rec->tree.used + rec->unseen_ops;
    return used >= rec->tree.limit || (rec->tree.root.below == 0 && used >= rec->novel);
}

void ag_recorder_drop(struct ag_recorder *rec)
{
    rec->cursor = &rec->tree.root;
    rec->ended = NULL;
    rec->anchor = 0;
    rec->chain = 0;
}

void ag_recorder_prune(struct ag_recorder *rec)
{
    ag_recorder_drop(rec);
    ag_tree_prune(&rec->tree);
    rec->unseen_ops = 0;
}

/* Forgets what is cold, and rests if recording it did not pay. */
static void make_room(struct ag_recorder *rec)
{
    ag_recorder_prune(rec);
    bool paid = rec->useful >= rec->tree.limit / 2;
    if (paid)
        rec->rest_next = AG_REST_FIRST;
    if (!paid || rec->tree.used > rec->tree.limit / 2)
        rest(rec, &rec->rest_next, AG_REST_MOST, AG_REST_GROWS);
    rec->novel *= rec->novel < rec->tree.limit ? 2 : 1;
    rec->useful = 0;
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
    node->weight = (uint16_t)(node->weight + ag_op_weight(op));
    rec->unseen_ops++;
    return rec->cursor = node;
}

struct ag_node *ag_recorder_step(struct ag_recorder *rec, const struct ag_op *op)
{
    bool unseen = ag_recorder_is_unseen(rec);
    struct ag_node *node = ag_recorder_find(rec, op);
    if (node == NULL && !ag_recorder_rests(rec) && !is_full(rec)) {
        uint64_t path = ag_path(rec->cursor->path, op->structure);
        bool novel = (unseen || rec->tree.used >= AG_NODES_FREE) && !ag_tree_met(&rec->tree, path);
        if (unseen || novel)
            return step_unseen(rec, op, path);
        node = ag_tree_add(&rec->tree, rec->cursor, op);
        if (node != NULL && rec->tree.met != NULL) /* it may have ended here that time */
            node->ends = ag_tree_met(&rec->tree, ag_path(path, 0));
    }
    if (node == NULL) {
        if (ag_recorder_rests(rec)) {
            rec->fruitless += rec->cursor->depth;
            ag_recorder_drop(rec);
        } else {
            make_room(rec);
        }
        return NULL;
    }
    rec->cursor->next = node;
    rec->cursor = node;
    return node;
}

/* One more sequence or op that cannot become a trace. During a rest that says nothing. */
static void count_too_short(struct ag_recorder *rec)
{
    if (ag_recorder_rests(rec))
        return;
    if (++rec->too_short >= (rec->short_rest_next == AG_TOO_SHORT_REST_FIRST
                                 ? AG_TOO_SHORT_RUN
                                 : AG_TOO_SHORT_RUN_AGAIN))
        rest(rec, &rec->short_rest_next, AG_TOO_SHORT_REST_MOST, AG_TOO_SHORT_REST_GROWS);
}

void ag_recorder_foreign(struct ag_recorder *rec)
{
    count_too_short(rec);
}

/* A barrier ends the sequence at `node`, and the run of sequences before it. */
static void barred(struct ag_recorder *rec, struct ag_node *node, uint32_t min_length)
{
    rec->anchor = 0;
    if (rec->run != 0) {
        rec->brief = rec->run == rec->last_run && rec->run <= rec->max_length;
        rec->last_run = rec->run;
        rec->run = 0;
    }
    if (node->depth != 0 && node->weight < min_length)
        count_too_short(rec);
    else if (node->depth != 0)
        rec->too_short = 0;
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

/* Whether the sequence at `next` has come so often right behind the one at `first` that both may be
   one, if they are not too long for that. They may soon where the program waits so often that one
   sequence reaches from barrier to barrier. A pair that shares its place with others is forgotten
   if it comes less often than they do. */
static bool belong(struct ag_recorder *rec, const struct ag_node *first, const struct ag_node *next,
                   uint32_t hot)
{
    uint64_t path = ag_path(first->path, next->path);
    struct ag_pair *pair = &rec->pairs[path % AG_PAIR_PLACES];
    if (first->depth + next->depth > rec->unroll)
        return false;
    if (pair->path != path) {
        if (pair->times == 0)
            *pair = (struct ag_pair){.path = path};
        else
            pair->times--;
        return false;
    }
    uint32_t least = rec->brief ? hot : AG_JOIN_FIRST, ops = rec->brief ? 0 : AG_JOIN_OPS;
    if (++pair->times < hot || pair->times < least || pair->times * first->depth < ops)
        return false;
    pair->times = 0;
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
    struct ag_node *found = ag_tree_find(tree, parent, &next->op);
    if (found == NULL)
        found = ag_tree_add(tree, parent, &next->op);
    if (found == NULL || !ag_node_arguments(found))
        return NULL;
    (void)ag_node_reshape(found, &next->op);
    if (next->params != NULL)
        ag_node_store(found, next->params);
    return found;
}

/* The sequence at `next`, which has been replayed, came right behind the one at `first`. Returns
   the last node of both in one sequence if that is hot, or of as many rounds as there may be if
   nothing but rounds has come for long; else NULL. */
__attribute__((noinline)) static struct ag_node *
join(struct ag_recorder *rec, struct ag_node *first, struct ag_node *next, uint32_t hot)
{
    rec->alike = first == next ? rec->alike + next->depth : 0;
    bool rounds = rec->alike >= AG_JOIN_OPS && rec->run >= rec->unroll;
    if (!belong(rec, first, next, hot) || (!rounds && rec->tree.root.below >= AG_JOIN_MOST))
        return NULL;
    struct ag_node *last = append(&rec->tree, first, next);
    while (rounds && last != NULL && last->depth + next->depth <= rec->unroll)
        last = append(&rec->tree, last, next);
    return last != NULL && last->trace == NULL && ag_node_is_good(last) ? last : NULL;
}

/* One more sequence has ended at a node; whether it is hot. */
static bool is_hot(struct ag_node *node, uint32_t hot, uint32_t min_length)
{
    if (node->trace != NULL || node->weight < min_length || ++node->ends < hot)
        return false;
    node->ends = 0;
    return true;
}

/* On the way to a node, the last one whose depth is a power of two. Sequences may end anywhere on
   the way to a trace. Few graphs are enough for all of them, one behind the other. */
static struct ag_node *half_way(struct ag_node *node)
{
    uint32_t depth = 2;
    while (2 * depth < node->depth)
        depth *= 2;
    while (node->depth > depth)
        node = node->parent;
    return node;
}

/* A sequence of so many ops has gone out eagerly, and no barrier has ended it. `novel`: it has not
   come before. */
static void judge(struct ag_recorder *rec, uint32_t ops, bool novel)
{
    rec->strange += novel ? ops : 0;
    rec->strange -= novel ? 0 : ops < rec->strange ? ops : rec->strange;
    if (rec->strange < rec->irregular_from)
        return;
    rec->strange = 0;
    rec->irregular = AG_IRREGULAR_LASTS * rec->irregular_from;
    rec->irregular_from *= rec->irregular_from < AG_IRREGULAR_MOST ? 2 : 1;
}

/* Whether no sequence has ended here before. */
static bool is_novel(struct ag_recorder *rec, const struct ag_node *node)
{
    bool unseen = node == &rec->unseen;
    return unseen ? !ag_tree_met(&rec->tree, ag_path(node->path, 0)) : node->ends == 0;
}

/* One more sequence has ended at a node that is not new. Returns the node that is hot now, there or
   half way, or NULL. `least`: ops of a sequence that can be hot. */
static struct ag_node *came_again(struct ag_node *node, uint32_t least, uint32_t hot,
                                  uint32_t min_length)
{
    struct ag_node *half = half_way(node);
    if (node->depth >= least && is_hot(node, hot, min_length))
        return node;
    return node->below != 0 && half != node && is_hot(half, hot, min_length) ? half : NULL;
}

/* A sequence has ended at a node without a trace. Returns the node that is hot now, or NULL. */
__attribute__((noinline)) static struct ag_node *learn(struct ag_recorder *rec,
                                                       struct ag_node *node, bool barrier,
                                                       uint32_t hot, uint32_t min_length)
{
    bool unseen = node == &rec->unseen, novel = is_novel(rec, node);
    bool part = !barrier && rec->irregular != 0;
    struct ag_node *forks = NULL, *found = NULL;
    if (!barrier && !part)
        judge(rec, node->depth, novel);
    if (novel && (barrier || part))
        forks = forked(unseen ? node->parent : node, barrier ? AG_FORKS_BARRED : hot, min_length);
    if (!unseen)
        found = came_again(node, part ? AG_FORK_LEAST : 1, hot, min_length);
    if (found == NULL)
        found = forks;
    if (found == NULL || !ag_node_is_good(found))
        return NULL;
    found->part = part;
    return found;
}

/* The recorder rests where recording has not paid for long. */
static inline void rest_if_fruitless(struct ag_recorder *rec)
{
    if (rec->fruitless >= AG_FRUITLESS)
        rest(rec, &rec->rest_next, AG_REST_MOST, AG_REST_GROWS);
    else if (ag_recorder_rests(rec) && rec->fruitless >= AG_REST_VAIN)
        rest_from_all(rec);
}

struct ag_node *ag_recorder_end(struct ag_recorder *rec, bool barrier, uint32_t hot,
                                uint32_t min_length)
{
    struct ag_node *node = rec->cursor;
    bool early = !barrier && node->depth < rec->limit;
    struct ag_node *before = rec->ended;
    rec->ended = early && node->trace != NULL ? node : NULL;
    if (__builtin_expect(rec->lately != 0 || node->late != 0, 0))
        passed(rec, node);
    rec->cursor = &rec->tree.root;
    rec->limit = rec->max_length;
    rec->ops += node->depth;
    rec->chain += node->depth;
    rec->fruitless += node->depth;
    rec->run += node->depth;
    rec->irregular -= node->depth < rec->irregular ? node->depth : rec->irregular;
    if (barrier)
        barred(rec, node, min_length);
    rest_if_fruitless(rec);
    if (node->depth == 0)
        return NULL;
    if (node->trace == NULL)
        return learn(rec, node, barrier, hot, min_length);
    return before != NULL && rec->fruitless == node->depth ? join(rec, before, node, hot) : NULL;
}

void ag_recorder_waited(struct ag_recorder *rec, uint32_t length)
{
    if (length < rec->limit)
        rec->limit = length;
}

void ag_recorder_resize(struct ag_recorder *rec, uint32_t unroll, uint32_t length)
{
    rec->max_length = length < 2 ? 2 : length;
    rec->unroll = unroll < rec->max_length ? unroll : rec->max_length;
    if (rec->limit > rec->max_length)
        rec->limit = rec->max_length;
}
