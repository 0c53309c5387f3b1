/* SPDX-License-Identifier: MIT */
/* What pairs of blocks say: see trial.h. */
#include "policy/trial.h"

#include <string.h>

#include "policy/policy.h"

void ag_trial_begin(struct ag_trial *trial)
{
    memset(trial, 0, sizeof *trial);
}

enum { BEFORE = 2 }; /* pairs of AG_TRIAL_NOISE that count as seen; as many must be, to give up */

double ag_trial_variance(const struct ag_trial *trial)
{
    double n = trial->pairs, noise = AG_TRIAL_NOISE / 100.0;
    double own = trial->squares - trial->sum * trial->sum / n;
    return (BEFORE * noise * noise + own) / (n + 1) / n;
}

/* Whether this mean of the differences is above 0 by more than so many times its own noise.
   Squares are compared: there is no root without libm. */
static bool is_far(const struct ag_trial *trial, double mean, double times)
{
    return mean > 0 && mean * mean > times * times * ag_trial_variance(trial);
}

static enum ag_trial_verdict judge(const struct ag_trial *trial)
{
    double advantage = AG_TRIAL_NOISE / 100.0;
    if (is_far(trial, -trial->sum / trial->pairs, AG_TRIAL_WON))
        return AG_TRIAL_HELD;
    if (trial->pairs >= BEFORE &&
        is_far(trial, (trial->sum - advantage) / trial->pairs, AG_TRIAL_LOST))
        return AG_TRIAL_EAGER;
    return trial->pairs < AG_TRIAL_PAIRS ? AG_TRIAL_OPEN : AG_TRIAL_EVEN;
}

enum ag_trial_verdict ag_trial_block(struct ag_trial *trial, uint64_t ns, uint64_t ops)
{
    trial->op_ns[ag_trial_is_eager(trial)] = (double)ns / (double)ops;
    trial->second = !trial->second;
    if (trial->second)
        return AG_TRIAL_OPEN;
    double held = trial->op_ns[0], eager = trial->op_ns[1], both = held + eager;
    double difference = both > 0 ? 2 * (held - eager) / both : 0;
    trial->pairs++;
    trial->sum += difference;
    trial->squares += difference * difference;
    for (unsigned i = 0; i < 2; i++)
        trial->mean_ns[i] += (trial->op_ns[i] - trial->mean_ns[i]) / trial->pairs;
    return judge(trial);
}
