/* SPDX-License-Identifier: MIT */
/*
 * What the recorder of one stream remembers (recorder.h), and its small questions.
 */
#ifndef AG_RECORDING_H
#define AG_RECORDING_H

#include <stdatomic.h>

#include "policy/backoff.h"
#include "policy/policy.h"
#include "trace/tree.h"

enum {
    AG_LOOK_LAST = 64, /* ops of an open sequence that are looked at, at most */

    AG_OVERDUE_ENDS =
        3 * AG_OVERDUE_WEIGHT, /* points of lateness from which on sequences end there */

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

/* The op before which loops are cut. */
struct ag_anchor {
    uint64_t token; /* its token; 0: the next op becomes the anchor */
    int32_t chain;  /* ops from the anchor to the head of the open sequence, less those behind it in
                       which no sequence ends for it */
    uint32_t reach; /* ops within which it has to come round */
    bool came;      /* it has come round */
    struct ag_backoff reaches; /* of `reach` */
};

/* Equal rounds at the end of the open sequence. */
struct ag_rounds {
    uint32_t period; /* ops of a round, if the open sequence ends because it is of equal rounds */
    uint8_t begun;   /* ops of a further one, if the rounds begin with the head of the sequence */
    bool ended;      /* the last sequence ended because of that, before its ops had nodes */
    uint8_t left;    /* ops of the open sequence that were held before it left a trace */
    uint64_t recent[AG_LOOK_LAST]; /* structures of the open sequence's ops, if it is unseen */
};

/* When nothing is recorded (rest.h). */
struct ag_resting {
    _Atomic uint32_t ops;    /* that are left of a rest; 0: it records. In a rest no node is added,
                                and ops that begin no trace may pass unseen. The thread that issues
                                the ops reads and writes this without the lock, too */
    _Atomic uint64_t heads;  /* the ag_op_mark()s of ops that do not pass in a rest: they may begin
                                traces */
    struct ag_backoff rests; /* of `ops` */
    uint32_t novel;     /* nodes and unseen ops that make the tree full while there is no trace */
    uint32_t fruitless; /* ops since the last replay */
    uint64_t useful;    /* ops replayed since the tree was last pruned */
};

/* Branches of the open sequence. */
struct ag_forks {
    uint32_t joined; /* it has branches: the depth at which they joined last, plus 1; else 0 */
    bool open;       /* some of them have not joined: it does not end for its length */
    uint32_t closed; /* `limit` once they have */
};

struct ag_recorder {
    struct ag_tree tree;
    struct ag_node *cursor; /* where the open sequence is; &tree.root between sequences */
    struct ag_node *ended;  /* the node where the last sequence ended, which has a trace, and no
                               barrier ended it; else NULL */
    struct ag_anchor anchor;
    struct ag_rounds rounds;
    struct ag_forks forks;
    struct ag_resting resting;
    uint32_t unseen_ops;   /* ops without nodes since the tree was last pruned */
    uint32_t lately;       /* sequences whose nodes are looked at, since one of them was late */
    uint32_t ops;          /* of all sequences, since the recorder was made */
    uint32_t run;          /* ops since the last barrier */
    uint32_t last;         /* ops between two barriers, the last time that they were more than a
                              sequence may have */
    uint32_t steady;       /* the same, if they were as many the time before, and not too many for
                              an anchor's first reach; else 0 */
    uint32_t unroll;       /* ops */
    uint32_t max_length;   /* ops */
    uint32_t limit;        /* ops that the open sequence, or the next one, may have */
    uint32_t ramp;         /* the same, if it is short since the program has waited; else 0 */
    uint32_t most;         /* ops that any sequence may have */
    uint32_t unknown;      /* ops of sequences that had not come before, less those of others */
    uint32_t irregular;    /* ops for which the stream counts as irregular; 0: it does not */
    bool overspent;        /* graphs have cost so much that known sequences count as others */
    uint32_t misled;       /* known sequences in a row of which no more than a part came */
    struct ag_node unseen; /* the cursor in a sequence that has gone where none has before */
};

/* Whether the open sequence has gone where none has before: its ops have no nodes. */
static inline bool ag_recorder_is_unseen(const struct ag_recorder *rec)
{
    return rec->cursor == &rec->unseen;
}

/* The structure of op `number` of the open sequence, from 1 on, if it is one of the last. */
static inline uint64_t *ag_recorder_recent(struct ag_recorder *rec, uint32_t number)
{
    return &rec->rounds.recent[number % AG_LOOK_LAST];
}

/* The open sequence, or the next one, has so many ops at most. */
static inline void ag_recorder_shorten(struct ag_recorder *rec, uint32_t ops)
{
    rec->limit = ops < rec->limit ? ops : rec->limit;
}

#endif
