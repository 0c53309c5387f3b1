/* SPDX-License-Identifier: MIT */
/* The recorder: where sequences end, which are hot, and when recording does not pay. */
#include "trace/recorder.h"

AG_HOLDS(struct ag_node, late, AG_LATE_MOST + AG_LATE_WEIGHT);
AG_HOLDS(struct ag_recorder, begun, AG_LOOK_LAST);

bool ag_recorder_init(struct ag_recorder *rec, uint32_t limit, uint32_t unroll, uint32_t max_length)
{
    size_t tree = offsetof(struct ag_recorder, cursor); /* which comes first, and stays */
    memset((char *)rec + tree, 0, offsetof(struct ag_recorder, unseen) - tree);
    rec->limit = UINT32_MAX;
    rec->most = max_length;
    ag_recorder_resize(rec, unroll, max_length);
    rec->reach = ag_backoff_next(&rec->reaches, AG_REACH);
    rec->novel = AG_NOVEL_FIRST;
    rec->cursor = &rec->tree.root;
    return ag_tree_init(&rec->tree, limit);
}

/* The structure of op `number` of the open sequence, from 1 on, if it is one of the last. */
static uint64_t *recent(struct ag_recorder *rec, uint32_t number)
{
    return &rec->recent[number % AG_LOOK_LAST];
}

/* So many of the last ops, `count` at most, are of rounds of that period; 0: not even one round. */
static uint32_t count_rounds(struct ag_recorder *rec, uint32_t period, uint32_t count)
{
    uint32_t end = rec->cursor->depth, i = end;
    while (i > end - count + period && *recent(rec, i) == *recent(rec, i - period))
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
            *recent(rec, node->depth) = node->op.structure;
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
        node = ag_tree_find_hash(&rec->tree, node, *recent(rec, begin + first));
        first = (first + 1) % period;
    } while (node != NULL && ag_node_leads(node) && node->bad == 0 &&
             (node->trace == NULL || node->depth < period));
    return node != NULL && node->trace != NULL && node->bad == 0;
}

/* The open sequence, or the next one, has so many ops at most. */
static void bound(struct ag_recorder *rec, uint32_t ops)
{
    rec->limit = ops < rec->limit ? ops : rec->limit;
}

bool ag_recorder_loops(struct ag_recorder *rec, uint32_t rounds)
{
    bool all;
    uint32_t period = find_period(rec, rounds, &all), depth = rec->cursor->depth;
    if (period == 0 || period > rec->unroll)
        return false;
    for (uint32_t i = 0; i < period; i++)
        if (has_trace(rec, period, i)) {
            rec->anchor = 0;
            bound(rec, depth + i);
            return i == 0;
        }
    rec->period = period;
    rec->begun = (uint8_t)(all && rec->forks == 0 ? depth % period : 0);
    return true;
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

/* The recorder rests, the longer the oftener. */
static void rest(struct ag_recorder *rec)
{
    atomic_store_explicit(&rec->heads, ag_tree_heads(&rec->tree), memory_order_relaxed);
    atomic_store_explicit(&rec->rest, ag_backoff_next(&rec->rests, AG_REST), memory_order_relaxed);
    rec->fruitless = 0;
}

/* Nothing has been replayed for some time. If the recorder rests, all ops pass until the end: the
   traces are of what the program did before. Else it rests if it has been long. */
__attribute__((noinline)) static void rest_if_vain(struct ag_recorder *rec)
{
    if (rec->fruitless >= AG_FRUITLESS)
        rest(rec);
    else if (ag_recorder_rests(rec))
        atomic_store_explicit(&rec->heads, 0, memory_order_relaxed);
}

void ag_recorder_head(struct ag_recorder *rec, uint64_t token)
{
    bool again = token == rec->anchor && rec->chain >= (int32_t)rec->unroll;
    bool lost = !again && rec->anchor != 0 && rec->chain > (int32_t)rec->reach;
    if (!again && !lost && rec->anchor != 0)
        return;
    if (lost && rec->came)
        ag_backoff_reset(&rec->reaches);
    if (lost)
        rec->reach = ag_backoff_next(&rec->reaches, AG_REACH);
    rec->chain = rec->run == 0 ? -(int32_t)rec->steady : 0;
    rec->anchor = token;
    rec->came = again;
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
    if (rec->open)
        rec->limit = rec->closed;
    rec->open = false;
    rec->forks = 0;
    rec->left = 0;
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
        ag_backoff_reset(&rec->rests);
    if (!paid || rec->tree.used > rec->tree.limit / 2)
        rest(rec);
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
    *recent(rec, node->depth) = op->structure;
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
        bool known = !unseen && ag_node_leads_to(rec->cursor, op) != NULL;
        bool novel = !rec->rounds && !known && (unseen || rec->tree.used >= AG_NODES_FREE) &&
                     !ag_tree_met(&rec->tree, path);
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

/* An op, or a sequence that a barrier has ended, which cannot become a trace. In a rest that says
   nothing. */
static void count_useless(struct ag_recorder *rec)
{
    rec->fruitless += ag_recorder_rests(rec) ? 0 : AG_USELESS;
}

void ag_recorder_foreign(struct ag_recorder *rec)
{
    count_useless(rec);
    if (rec->fruitless >= AG_REST_VAIN)
        rest_if_vain(rec);
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
    rec->anchor = rec->run = 0;
    if (node->depth != 0 && node->weight < min_length)
        count_useless(rec);
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

/* The sequence at `next`, which has been replayed, came right behind the one at `first`. Returns
   the last node of both in one sequence if that is hot, or of as many rounds as there may be where
   both are one round; else NULL. */
__attribute__((noinline)) static struct ag_node *
join(struct ag_recorder *rec, struct ag_node *first, struct ag_node *next, uint32_t hot)
{
    if (!belong(rec, first, next, hot))
        return NULL;
    struct ag_node *last = append(&rec->tree, first, next);
    while (first == next && last != NULL && last->depth + next->depth <= rec->unroll)
        last = append(&rec->tree, last, next);
    return last != NULL && last->trace == NULL && ag_node_is_good(last) ? last : NULL;
}

/* The nodes of the last round of the sequence that ends at this node. If a further one has begun,
   the next sequence has the rest of it. */
static void take_whole_round(struct ag_recorder *rec, struct ag_node *node, uint32_t period,
                             struct ag_node *round[])
{
    for (uint32_t i = 0; i < rec->begun; i++)
        node = node->parent;
    take_round(node, period, round);
    if (rec->begun != 0)
        bound(rec, period - rec->begun);
}

/* The last ops of the sequence at `node` are a round of a loop. Returns the last node of as many
   rounds as there may be, which is hot; NULL: there is none. */
__attribute__((noinline)) static struct ag_node *
unroll(struct ag_recorder *rec, struct ag_node *node, uint32_t period, uint32_t min_length)
{
    struct ag_node *round[AG_LOOK_LAST], *last = &rec->tree.root;
    uint32_t length = node->depth < rec->unroll ? node->depth : rec->unroll;
    if (node->known != NULL && node->known->make > length)
        length = node->known->make < rec->max_length ? node->known->make : rec->max_length;
    rec->anchor = 0;
    rec->rounds = node == &rec->unseen;
    if (rec->rounds || !ag_node_is_good(node))
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
    if (known->make > node->depth && node->taken && !rec->owes &&
        ag_op_is_like(&ag_node_head(node)->op, op)) {
        rec->period = node->depth;
        rec->begun = 0;
        come(rec, node);
        return true;
    }
    return known->ends &&
           (!known->goes_on || node->depth >= rec->limit || ag_known_next(known, op) == NULL);
}

bool ag_recorder_meets(struct ag_recorder *rec, const struct ag_op *op)
{
    if (rec->misled >= AG_KNOWN_LEAST || ag_node_leads_to(rec->cursor, op) != NULL)
        return false;
    const struct ag_known *head = ag_known_next(NULL, op);
    if (head == NULL || head->most < AG_LOOK_FIRST)
        return false;
    rec->misled++;
    rec->anchor = 0; /* the op is the next one */
    return true;
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
    rec->strange += novel ? ops : 0;
    rec->strange -= novel ? 0 : ops < rec->strange ? ops : rec->strange;
    if (rec->strange < AG_IRREGULAR)
        return;
    rec->strange = 0;
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

/* A sequence has ended at a node without a trace. Returns the node that is hot now, or NULL. */
__attribute__((noinline)) static struct ag_node *learn(struct ag_recorder *rec,
                                                       struct ag_node *node, bool barrier,
                                                       uint32_t hot, uint32_t min_length)
{
    struct ag_node *found = find_hot(rec, node, barrier, hot, min_length);
    if (found != NULL || __builtin_expect(!ag_known_any, 1) || rec->owes)
        return found;
    found = find_known(rec, node == &rec->unseen ? node->parent : node, min_length);
    return found != NULL && ag_node_is_good(found) ? found : NULL;
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
    uint32_t period = rec->period;
    rec->period = 0;
    rec->rounds = false;
    struct ag_node *before = rec->ended;
    rec->ended = early && node->trace != NULL ? node : NULL;
    if (__builtin_expect(rec->lately != 0 || node->late != 0, 0))
        passed(rec, node);
    rec->cursor = &rec->tree.root;
    rec->limit = rec->max_length;
    if (__builtin_expect(rec->ramp != 0, 0))
        climb(rec, barrier);
    rec->open = false;
    rec->forks = 0;
    rec->left = 0;
    rec->ops += node->depth;
    rec->chain += (int32_t)node->depth;
    rec->fruitless += node->depth;
    rec->run += node->depth;
    rec->irregular -= node->depth < rec->irregular ? node->depth : rec->irregular;
    if (barrier)
        barred(rec, node, min_length);
    if (rec->fruitless >= AG_REST_VAIN)
        rest_if_vain(rec);
    if (node->depth == 0)
        return NULL;
    if (period != 0)
        return unroll(rec, node, period, min_length);
    if (node->trace == NULL)
        return learn(rec, node, barrier, hot, min_length);
    return before != NULL && rec->fruitless == node->depth ? join(rec, before, node, hot) : NULL;
}

void ag_recorder_forks(struct ag_recorder *rec, bool joined, uint32_t depth)
{
    if (!joined && !rec->open) {
        rec->closed = rec->limit;
        rec->limit = rec->most;
    }
    if (joined && rec->open) {
        uint32_t round = depth - (rec->forks != 0 ? rec->forks - 1 : 0);
        rec->limit = depth + round > rec->most ? depth : rec->closed;
    }
    if (joined && rec->open)
        rec->forks = depth + 1;
    else if (!joined && rec->forks == 0)
        rec->forks = 1;
    rec->open = !joined;
}

void ag_recorder_cut_at(struct ag_recorder *rec, uint64_t token)
{
    rec->anchor = token;
    rec->chain = (int32_t)rec->unroll;
    rec->came = false;
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
