/* SPDX-License-Identifier: MIT */
/* The recorder: where sequences end, which are hot, and when recording does not pay. */
#include "trace/recorder.h"

/* Ops within which an anchor must come back. One that does not may be an op from before the loop,
   and another is taken. */
enum {
    REACH_FIRST = 256, /* at first, and again after an anchor that used to come back; twice as many
                          after each anchor that never did */
    REACH_MOST = 8192, /* at most: no longer loop is found */
};

/* Ops for which the recorder rests where nothing repeats. */
enum {
    REST_FIRST = 1 << 15, /* the first time */
    REST_MOST = 1 << 20,  /* at most, so that a new phase of the program is found */
    REST_GROWS = 4,       /* times as many each further time: to record what never repeats costs
                             more than to record what does */
};

/* Ops for which the recorder rests where a barrier comes behind each op: that may just be a phase
   of the program, so these rests are shorter. */
enum {
    LONE_FIRST = 1 << 11, /* the first time */
    LONE_MOST = 1 << 16,  /* at most */
    LONE_GROWS = 2,       /* times as many each further time */
};

/* Rounds of a loop that its first trace has. With trace.hot = 3 any short loop is replayed in its
   16th round then: three times four rounds are seen, the next four are replayed. A trace of 64 ops
   would be as early only where a round has 16 ops. */
enum { ROUNDS = 4 };

/* Sequences end at a place where the program has paused AG_PAUSES times. */
enum {
    LATE_OPS = 1 << 14, /* ops of the stream: the unit in which the age of a pause is counted */
    LATE_APART = 1,     /* units since the last pause: after more, pauses are counted anew */
    LATE_LASTS = 16,    /* units since the last pause: after more, sequences do not end there */
};

/* Nodes that a tree may have before ops that have never been seen get no nodes. */
enum { NODES_FREE = 256 };

/* Nodes and unseen ops in a tree without a trace, from which on nothing seems to repeat: so many
   the first time, twice as many each further time. */
enum { NOVEL_FIRST = 1 << 12 };

/* Sequences and foreign ops in a row that cannot become a trace, after which the recorder rests
   although the tree has room. */
enum {
    MOST_LONE = 512, /* before the first such rest */
    AGAIN_LONE = 64, /* afterwards */
};

enum {
    VAIN = 1 << 9,   /* ops that are recorded during a rest without a replay. Then ops that begin
                        traces pass, too: the traces are of what the program did before */
    BLIND = 1 << 14, /* ops that pass then, before the recorder looks at them again */
};

/*
 * A sequence ends where a trace ends that begins no longer one. If the program keeps going on
 * behind that trace, some sequences may go on, too, and become longer traces.
 */
enum {
    ONWARD_FIRST = 8, /* times that the program must have gone on, at least */
    ONWARD_OPS = 256, /* ops that it must have issued in the trace by then: longer sequences go out
                         eagerly until they are hot */
    ONWARD_GROWS = 8, /* times as often, for each time before that no longer trace was made */
    ONWARD_TRIES = 4, /* so many of these times count at most */
    OPEN = 32,        /* sequences that may go on then */
};

bool ag_recorder_init(struct ag_recorder *rec, uint32_t limit, uint32_t unroll, uint32_t max_length)
{
    size_t tree = offsetof(struct ag_recorder, cursor); /* which comes first, and stays */
    memset((char *)rec + tree, 0, offsetof(struct ag_recorder, unseen) - tree);
    rec->limit = UINT32_MAX;
    ag_recorder_resize(rec, unroll, max_length);
    rec->reach = REACH_FIRST;
    rec->rest_next = REST_FIRST;
    rec->novel = NOVEL_FIRST;
    rec->lone_next = LONE_FIRST;
    rec->cursor = &rec->tree.root;
    return ag_tree_init(&rec->tree, limit);
}

/* Whether a first trace may be made here: there is none, none has given way to a longer one, and
   none has failed to be made. */
static bool is_fresh(const struct ag_node *node)
{
    return node->trace == NULL && node->below == 0 && node->opened == 0 && node->failures == 0;
}

bool ag_recorder_rounds(struct ag_recorder *rec)
{
    if (rec->rounds++ == 0)
        rec->period = rec->cursor->depth;
    bool even = rec->cursor->depth == rec->rounds * rec->period;
    rec->rounded = even && rec->rounds == ROUNDS && is_fresh(rec->cursor);
    if (!even || rec->rounds == ROUNDS)
        rec->rounds = AG_ROUNDS_NONE;
    return rec->rounded;
}

/* How long ago the last pause at this node was, in units of LATE_OPS. */
static uint8_t late_for(const struct ag_recorder *rec, const struct ag_node *node)
{
    return (uint8_t)(rec->ops / LATE_OPS - node->late_at);
}

void ag_recorder_late(struct ag_recorder *rec, struct ag_node *node)
{
    if (late_for(rec, node) > LATE_APART)
        node->late = 0;
    node->late_at = (uint8_t)(rec->ops / LATE_OPS);
    node->late += node->late < AG_PAUSES;
}

/* A sequence has ended where the program used to pause. That the program goes on says nothing then
   about the trace that ends there. */
__attribute__((noinline)) static void paused(struct ag_recorder *rec, struct ag_node *node)
{
    rec->ended = NULL;
    node->late = late_for(rec, node) <= LATE_LASTS ? AG_PAUSES : 0;
}

bool ag_recorder_goes_on(struct ag_recorder *rec)
{
    if (rec->cursor->open == 0 || rec->cursor->below != 0)
        return false;
    rec->cursor->open--;
    return true;
}

/* The program has gone on behind a trace: whether sequences may do so from now on. They may at once
   where the program waits so often that one sequence reaches from barrier to barrier. */
static bool onward(const struct ag_recorder *rec, struct ag_node *node)
{
    uint32_t enough = ONWARD_OPS / node->depth;
    if (rec->brief)
        enough = 1;
    else if (enough < ONWARD_FIRST)
        enough = ONWARD_FIRST;
    for (unsigned i = 0; i < node->opened; i++)
        enough *= ONWARD_GROWS;
    if (++node->onward < (enough < UINT16_MAX ? enough : UINT16_MAX))
        return false;
    node->onward = 0;
    node->open = OPEN;
    node->opened += node->opened < ONWARD_TRIES;
    return true;
}

static void rest_for(struct ag_recorder *rec, uint32_t ops)
{
    atomic_store_explicit(&rec->heads, ag_tree_heads(&rec->tree), memory_order_relaxed);
    atomic_store_explicit(&rec->rest, ops, memory_order_relaxed);
    rec->lone = rec->fruitless = rec->rest_later = 0;
}

static void rest(struct ag_recorder *rec, uint32_t *next, uint32_t most, uint32_t grows)
{
    rest_for(rec, *next);
    *next = *next < most / grows ? *next * grows : most;
}

/* The recorder rests, and sequences that begin like traces have come to no replay: all ops pass. */
static void rest_blindly(struct ag_recorder *rec)
{
    uint32_t left = atomic_load_explicit(&rec->rest, memory_order_relaxed);
    if (left > BLIND) {
        rec->rest_later = left - BLIND;
        atomic_store_explicit(&rec->rest, BLIND, memory_order_relaxed);
    }
    atomic_store_explicit(&rec->heads, 0, memory_order_relaxed);
}

void ag_recorder_head(struct ag_recorder *rec, uint64_t token)
{
    if (__builtin_expect(rec->rest_later != 0, 0) && !ag_recorder_rests(rec))
        rest_for(rec, rec->rest_later);
    bool anchor = token == rec->anchor;
    bool again = rec->rounded || (anchor && rec->chain >= rec->unroll);
    if (rec->ended != NULL && !again)
        again = onward(rec, rec->ended) && anchor;
    rec->ended = NULL;
    rec->first = token;
    rec->rounds = 0;
    rec->rounded = false;
    bool lost = !again && rec->anchor != 0 && rec->chain > rec->reach;
    if (again || lost || rec->anchor == 0) {
        if (lost && rec->came)
            rec->reach = REACH_FIRST;
        else if (lost && rec->reach < REACH_MOST)
            rec->reach *= 2;
        rec->anchor = token;
        rec->chain = 0;
        rec->came = again;
    }
}

void ag_recorder_give_up(struct ag_recorder *rec, uint32_t least)
{
    if (rec->rest_next < least)
        rec->rest_next = least;
    rest(rec, &rec->rest_next, REST_MOST, REST_GROWS);
    atomic_store_explicit(&rec->heads, 0, memory_order_relaxed);
}

void ag_recorder_doze(struct ag_recorder *rec, uint32_t ops, uint64_t heads)
{
    if (atomic_load_explicit(&rec->rest, memory_order_relaxed) >= ops)
        return;
    atomic_store_explicit(&rec->heads, heads, memory_order_relaxed);
    atomic_store_explicit(&rec->rest, ops, memory_order_relaxed);
}

void ag_recorder_wake(struct ag_recorder *rec, uint32_t ops)
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
        rec->rest_next = REST_FIRST;
    if (!paid || rec->tree.used > rec->tree.limit / 2)
        rest(rec, &rec->rest_next, REST_MOST, REST_GROWS);
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
    node->weight += ag_op_weight(op);
    rec->unseen_ops++;
    return rec->cursor = node;
}

struct ag_node *ag_recorder_step(struct ag_recorder *rec, const struct ag_op *op)
{
    bool unseen = ag_recorder_is_unseen(rec);
    struct ag_node *node = ag_recorder_find(rec, op);
    if (node == NULL && !ag_recorder_rests(rec) && !is_full(rec)) {
        uint64_t path = ag_path(rec->cursor->path, op->token);
        bool novel = (unseen || rec->tree.used >= NODES_FREE) && !ag_tree_met(&rec->tree, path);
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

static bool may_become_trace(const struct ag_node *node)
{
    for (; node->parent != NULL; node = node->parent)
        if (node->bad)
            return false;
    return true;
}

/* One more in a row that cannot become a trace. While the recorder rests that says nothing. */
static void lone(struct ag_recorder *rec)
{
    if (ag_recorder_rests(rec))
        return;
    if (++rec->lone >= (rec->lone_next == LONE_FIRST ? MOST_LONE : AGAIN_LONE))
        rest(rec, &rec->lone_next, LONE_MOST, LONE_GROWS);
}

void ag_recorder_foreign(struct ag_recorder *rec)
{
    lone(rec);
}

struct ag_node *ag_recorder_end(struct ag_recorder *rec, bool barrier, uint32_t hot,
                                uint32_t min_length)
{
    struct ag_node *node = rec->cursor;
    bool early = !barrier && node->depth < rec->limit;
    rec->ended = early && node->trace != NULL && node->below == 0 ? node : NULL;
    if (__builtin_expect(node->late == AG_PAUSES, 0))
        paused(rec, node);
    rec->cursor = &rec->tree.root;
    rec->limit = rec->max_length;
    rec->ops += node->depth;
    rec->chain += node->depth;
    rec->fruitless += node->depth;
    rec->run += node->depth;
    if (barrier) {
        rec->anchor = 0;
        if (rec->run != 0) {
            rec->brief = rec->run == rec->last_run && rec->run <= rec->max_length;
            rec->last_run = rec->run;
            rec->run = 0;
        }
        node->open -= node->open != 0;
        if (node->depth != 0 && node->weight < min_length)
            lone(rec);
        else if (node->depth != 0)
            rec->lone = 0;
    }
    if (rec->fruitless >= AG_FRUITLESS)
        rest(rec, &rec->rest_next, REST_MOST, REST_GROWS);
    else if (ag_recorder_rests(rec) && rec->fruitless >= VAIN)
        rest_blindly(rec);
    if (node == &rec->unseen) {
        (void)ag_tree_met(&rec->tree, ag_path(node->path, 0));
        return NULL;
    }
    if (node->weight < min_length || node->trace != NULL || ++node->ends < hot)
        return NULL;
    node->ends = 0;
    return may_become_trace(node) ? node : NULL;
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
