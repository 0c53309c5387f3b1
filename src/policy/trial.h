/* SPDX-License-Identifier: MIT */
/*
 * A trial: is a program faster with its sequences held, or with all of them eager?
 *
 * Blocks of the program's work take turns, held and eager, in pairs. Which way comes first changes
 * from pair to pair, so that what happens every second time falls to both. A pair tells one number:
 * the difference of the times of an op, by their average. So one pause counts little, whichever way
 * it falls.
 *
 * Pairs differ, and by how much they differ says what their mean is worth. The trial is over once
 * the mean is further from 0 than the noise of so many pairs explains. Until much has been seen the
 * noise is taken to be AG_TRIAL_NOISE. Holding begins ahead by that, since it mostly pays: a few
 * bad pairs do not end it, and what saves much is given up for no noise that machines have. If
 * nothing is decided after AG_TRIAL_PAIRS the difference is less than anybody would notice, and
 * holding goes on.
 *
 * Nothing here knows streams, threads or clocks, and nothing is thread-safe.
 */
#ifndef AG_TRIAL_H
#define AG_TRIAL_H

#include <stdbool.h>
#include <stdint.h>

struct ag_trial {
    uint32_t pairs;      /* that are over */
    bool second;         /* the block under way is the pair's second */
    double op_ns[2];     /* held, eager: time of an op in the pair under way */
    double sum, squares; /* of the pairs' differences: above 0 holding is slower */
    double mean_ns[2];   /* held, eager: time of an op, the mean over all pairs */
};

/* OPEN: it goes on. EVEN: it is over, and neither way has won. */
enum ag_trial_verdict { AG_TRIAL_OPEN, AG_TRIAL_HELD, AG_TRIAL_EAGER, AG_TRIAL_EVEN };

/* A trial begins, with a held block. */
void ag_trial_begin(struct ag_trial *trial);

/* Whether nothing is held in the block under way. */
static inline bool ag_trial_is_eager(const struct ag_trial *trial)
{
    return (trial->pairs + trial->second) % 2 != 0;
}

/* The square of the standard error of what the pairs say: of the difference of the two ways,
   relative to their average. There is a pair. */
double ag_trial_variance(const struct ag_trial *trial);

/* The block under way is over: it took so many ns, in which so many ops were issued, 1 at least. */
enum ag_trial_verdict ag_trial_block(struct ag_trial *trial, uint64_t ns, uint64_t ops);

#endif
