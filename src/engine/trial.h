/* SPDX-License-Identifier: MIT */
/*
 * Trials: whether it pays to hold the sequences that begin at a head.
 *
 * A head is the first node of a sequence, below the tree's root. Two things speak against holding:
 *  - its holds end in side exits or flushes more often than in replays: it sleeps for some
 *    sequences, each time for more of them, until there is a replay;
 *  - it has been measured. Now and then a head's sequences take turns, some held, some eager, and
 *    the time from one head to the next is taken, for each op. They are cut at the same places
 *    either way, and a wait behind a sequence counts for it. Which way comes first changes from
 *    pair to pair, so that what happens each n-th time falls to either. Where holding is not
 *    faster in nearly all pairs the head is given up: its traces are destroyed, and its sequences
 *    are eager for some time, twice as long after each trial that was lost. Then they become hot
 *    again, and there is another trial. Where holding is faster, the next trial is after many
 *    times as many replays as before. Single ops among those of more than two threads are given up
 * as soon as that is seen: the others wait for the replays, which is not in the head's own times.
 *
 * A stream that has no trace left then records nothing for a while.
 *
 * So a program spends little time in the slower way, and no decision is for ever. While no trial is
 * under way it costs a few instructions for each sequence and no clock is read.
 *
 * All functions want the stream's lock.
 */
#ifndef AG_TRIAL_H
#define AG_TRIAL_H

#include "engine/pace.h"
#include "engine/stream.h"

struct ag_trial {
    bool on;
    uint8_t pair, won, lost; /* pairs of windows */
    uint8_t second;          /* 1: in the second window of the pair */
    uint8_t begun;           /* sequences of the window */
    uint16_t length;         /* the most ops of a sequence when it started */
    uint64_t others;         /* what other threads had issued then, where ops are single ones */
    struct ag_window {
        uint64_t ns, ops;
        uint64_t least;  /* ns that an op took in the fastest sequence */
    } window[2], all[2]; /* of this pair, and of those before: held, eager */
};

/* Belongs to an ag_node. */
struct ag_head {
    int32_t score;       /* holds that ended in a replay against those that did not */
    uint32_t sleep;      /* sequences to let pass before holding again */
    uint32_t sleep_next; /* the next penalty */

    uint32_t replays; /* until the next trial; 0: it is under way, or there are none */
    uint32_t replays_next;
    uint32_t rest; /* sequences, about, that it remains given up for */
    uint32_t rest_next;
    uint32_t longest; /* ops of a trace, but for one of a few rounds of a loop */
    struct ag_trial trial;
};

/* The head of the sequence that ends at `leaf`. */
static inline const struct ag_node *ag_trial_head(const struct ag_node *leaf)
{
    while (leaf->depth > 1)
        leaf = leaf->parent;
    return leaf;
}

/* A sequence begins at `head`, which has traces: whether to hold it. May destroy these. */
bool ag_trial_holds(struct ag_stream *stream, struct ag_node *head);

/* A sequence begins: the one before it, which is timed, has taken so long. */
void ag_trial_arrived(struct ag_stream *stream);

/* The time, ns, if the open sequence is an eager one of a trial, else 0. And: since then the
   library has recorded an op, which the program would not wait for where nothing is recorded. */
static inline uint64_t ag_trial_clock(const struct ag_stream *stream)
{
    bool timed = __builtin_expect(stream->timed.head != NULL, 0) && stream->timed.eager;
    return timed ? ag_pace_now() : 0;
}

static inline void ag_trial_spent(struct ag_stream *stream, uint64_t began)
{
    if (__builtin_expect(began != 0, 0))
        stream->timed.spent += ag_pace_now() - began;
}

/* A trace has been made of a sequence. That of a few rounds of a loop is measured late, since it
   gives way to a longer one soon; and one that is twice as long as those before it is measured
   soon, since what was found is no more; but late where replay has won for the stream's other
   heads. */
void ag_trial_made(const struct ag_stream *stream, const struct ag_trace *trace);

/* What was held from `head` has been submitted, by a replay or not. */
void ag_trial_submitted(struct ag_node *head, bool replayed);

/* Whether the open sequence, which has come to `node`, is eager because of a trial. */
static inline bool ag_trial_prevents(const struct ag_stream *stream, const struct ag_node *node)
{
    const struct ag_node *first = ag_trial_head(node);
    return (first->head != NULL && first->head->rest != 0) ||
           (stream->timed.head == first && stream->timed.eager);
}

/* A sequence that ends at `leaf` is hot, having ended there `ends` times more: whether it has to
   stay eager, since its head is given up. */
bool ag_trial_rests(const struct ag_node *leaf, uint32_t ends);

#endif
