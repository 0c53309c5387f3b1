/* SPDX-License-Identifier: MIT */
/*
 * Trials: whether it pays to hold the sequences that begin at a head.
 *
 * A head is the first node of a sequence, below the tree's root. Two things speak against holding:
 *  - Its holds end in side exits or flushes more often than in replays. Then the head rests for
 *    some sequences, each time for more of them, until there is a replay.
 *  - A trial has shown that holding is not faster. Now and then the sequences of a head take turns,
 *    some held, some eager, and the time for each op is taken from one head to the next. Sequences
 *    are cut at the same places either way, and a wait behind a sequence counts for it. Which way
 *    comes first changes from pair to pair, so that what happens every n-th time falls to both.
 *
 * What a replay costs may come later: the GPU begins late, or the program's own graph is launched
 * later, and the program finds out when it waits. So laps are timed, too, where the thread launches
 * graphs of its own, or waits, at most twice as often as the head comes, and not much less often. A
 * lap goes from the first sequence behind such a launch, or wait, to the next. One head leads, and
 * all heads of the stream take turns with it: in a lap all are held, or none is. A head loses a
 * pair in which laps were slower, and wins one in which they were faster: its own sequences may
 * have waited for what another's saved. What holding saves in its sequences must be found in the
 * laps, or the look alone decides nothing. Where another thread takes over, laps end: a trial with
 * laps begins anew, and its head leads no more.
 *
 * If holding is not faster in nearly all pairs the head is given up: its traces are destroyed, and
 * its sequences are eager for some time, twice as long after each lost trial. Then they become hot
 * again, and there is another trial. If holding is faster the next trial comes much later. Single
 * ops are given up at the first look if several threads issue ops: other threads wait for the
 * replays, and the head's own times do not show that.
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

#include "engine/clock.h"
#include "engine/stream.h"

/* Where laps begin: at each sequence, or behind what the thread does. */
enum ag_lap { AG_LAP_SEQUENCE, AG_LAP_WAIT, AG_LAP_GRAPH };

struct ag_trial {
    bool on;                 /* it is under way */
    uint8_t pair, won, lost; /* pairs of windows that are over; of these, won and lost by holding */
    uint8_t second;          /* 1: in the second window of the pair */
    uint8_t begun;           /* of its sequences, those that have begun in the window */
    uint8_t repeats;         /* of the head in the lap */
    bool follows;            /* it takes turns with another head */
    uint16_t length;         /* the recorder's max_length when the trial started */
    uint64_t others;         /* for single ops: what other threads had issued by then */

    struct ag_window window[2], all[2]; /* held, eager: of its sequences in this pair, and before */
    struct ag_window laps[2];           /* held, eager: of whole laps in this pair, if it leads */

    enum ag_lap lap;
    const void *thread; /* that has begun the trial */
    uint32_t mark;      /* of this thread, when the lap began: its waits, or its graphs */
    uint64_t began;     /* the lap: when, ns; 0: none has begun */
    uint64_t ops;       /* the stream's ops by then */
    uint32_t disturbed; /* the stream's count by then */
    uint32_t pairs;     /* the leaders' pairs that it has taken part in, if it follows */
};

/* A head's sequences go out eagerly for a while, and do not count. */
struct ag_rest {
    uint32_t left; /* sequences that are left; 0: no rest. About, if the head is given up */
    uint32_t next; /* sequences of the next rest */
};

/* Belongs to an ag_node. */
struct ag_head {
    int32_t score;         /* goes up with a hold that ends in a replay, down with any other hold */
    struct ag_rest missed; /* because most holds have missed: they ended in no replay */

    uint32_t replays;      /* until the next trial; 0: it is under way, or there are no trials */
    uint32_t replays_next; /* `replays` after a trial that replay wins */
    struct ag_put_off {
        const void *thread; /* that put off the trial, and what it had done by then */
        uint32_t replays;   /* until then */
        uint32_t waits, graphs;
    } put_off;           /* the next trial */
    struct ag_rest lost; /* because a trial is lost: the head is given up */
    uint32_t longest;    /* ops of its longest trace; traces of a few rounds do not count */
    struct ag_trial trial;
};

/* The head of the sequence that ends at `leaf`. */
static inline const struct ag_node *ag_trial_head(const struct ag_node *leaf)
{
    while (leaf->depth > 1)
        leaf = leaf->parent;
    return leaf;
}

/* For a new state: no trial has been won. */
void ag_trial_start(struct ag_stream *stream);

/* What is to be done with a sequence that begins at `head`, which has traces. KEEP and GIVE_UP: a
   trial is over. KEEP: holding has won, and the sequence is held. GIVE_UP: the sequence goes out
   eagerly, and the caller destroys the traces that begin there. */
enum ag_trial_verdict { AG_TRIAL_HOLD, AG_TRIAL_EAGER, AG_TRIAL_KEEP, AG_TRIAL_GIVE_UP };
enum ag_trial_verdict ag_trial_of(struct ag_stream *stream, struct ag_node *head);

/* The head may become hot again at once: the whole stream rests instead. */
void ag_trial_forgives(struct ag_node *head);

/* The sequence that is being timed does not count: it is not held as planned. */
static inline void ag_trial_drop(struct ag_stream *stream)
{
    stream->trial.timed.head = NULL;
}

/* Nor does the lap: something takes time that is not the program's. */
static inline void ag_trial_disturb(struct ag_stream *stream)
{
    ag_trial_drop(stream);
    stream->trial.disturbed++;
}

/* Nodes of the stream may go away. */
static inline void ag_trial_forget(struct ag_stream *stream)
{
    ag_trial_drop(stream);
    stream->trial.leader = NULL;
}

/* The sequence has ended after so many ops. */
static inline void ag_trial_ended(struct ag_stream *stream, uint32_t ops)
{
    stream->trial.timed.ops += ops;
}

/* A sequence begins: the timed sequence before it is over, and its time is taken. */
void ag_trial_arrived(struct ag_stream *stream);

/* The time, ns, if the open sequence is an eager one of a trial; else 0. */
static inline uint64_t ag_trial_clock(const struct ag_stream *stream)
{
    bool timed = __builtin_expect(stream->trial.timed.head != NULL, 0) && stream->trial.timed.eager;
    return timed ? ag_clock_now() : 0;
}

/* Since `began` (ag_trial_clock()) the library has recorded an op. That time does not count, since
   a head that is given up is not recorded. What it takes to hold an op counts: the op may have
   begun a held sequence behind an eager one, and may have been replayed at once. */
static inline void ag_trial_spent(struct ag_stream *stream, uint64_t began)
{
    struct ag_timed *timed = &stream->trial.timed;
    if (__builtin_expect(began != 0, 0) && timed->eager)
        timed->spent += ag_clock_since(began > timed->began ? began : timed->began);
}

/* A trace has been made of a sequence: says when its head is tried. Late if the trace is of a few
   rounds of a loop, since a longer one replaces it soon. Soon if it is twice as long as those
   before, since what was found does not hold any more; but late if replay has won for the stream's
   other heads. */
void ag_trial_made(const struct ag_stream *stream, const struct ag_trace *trace);

/* What was held from `head` has been submitted, by a replay or not. */
void ag_trial_submitted(struct ag_node *head, bool replayed);

/* Whether the open sequence, which has come to `node`, is eager because of a trial. */
static inline bool ag_trial_prevents(const struct ag_stream *stream, const struct ag_node *node)
{
    const struct ag_node *first = ag_trial_head(node);
    return (first->head != NULL && first->head->lost.left != 0) ||
           (stream->trial.timed.head == first && stream->trial.timed.eager);
}

/* A sequence that ends at `leaf` is hot, after `ends` further times. True: it stays eager all the
   same, since its head is given up. */
bool ag_trial_rests(const struct ag_node *leaf, uint32_t ends);

#endif
