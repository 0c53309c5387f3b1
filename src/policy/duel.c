/* SPDX-License-Identifier: MIT */
/* What pairs of blocks say: see duel.h. */
#include "policy/duel.h"

#include <string.h>

#include "policy/policy.h"

void ag_duel_begin(struct ag_duel *duel)
{
    memset(duel, 0, sizeof *duel);
}

enum { BEFORE = 2 }; /* pairs of AG_DUEL_NOISE that count as seen; as many must be, to give up */

double ag_duel_variance(const struct ag_duel *duel)
{
    double n = duel->pairs, noise = AG_DUEL_NOISE / 100.0;
    double own = duel->squares - duel->sum * duel->sum / n;
    return (BEFORE * noise * noise + own) / (n + 1) / n;
}

/* Whether this mean of the differences is above 0 by more than so many times its own noise.
   Squares are compared: there is no root without libm. */
static bool is_far(const struct ag_duel *duel, double mean, double times)
{
    return mean > 0 && mean * mean > times * times * ag_duel_variance(duel);
}

static enum ag_duel_verdict judge(const struct ag_duel *duel)
{
    double advantage = AG_DUEL_NOISE / 100.0;
    if (is_far(duel, -duel->sum / duel->pairs, AG_DUEL_WON))
        return AG_DUEL_HELD;
    if (duel->pairs >= BEFORE && is_far(duel, (duel->sum - advantage) / duel->pairs, AG_DUEL_LOST))
        return AG_DUEL_EAGER;
    return duel->pairs < AG_DUEL_PAIRS ? AG_DUEL_OPEN : AG_DUEL_EVEN;
}

enum ag_duel_verdict ag_duel_block(struct ag_duel *duel, uint64_t ns, uint64_t ops)
{
    duel->op_ns[ag_duel_is_eager(duel)] = (double)ns / (double)ops;
    duel->second = !duel->second;
    if (duel->second)
        return AG_DUEL_OPEN;
    double held = duel->op_ns[0], eager = duel->op_ns[1], both = held + eager;
    double difference = both > 0 ? 2 * (held - eager) / both : 0;
    duel->pairs++;
    duel->sum += difference;
    duel->squares += difference * difference;
    for (unsigned i = 0; i < 2; i++)
        duel->mean_ns[i] += (duel->op_ns[i] - duel->mean_ns[i]) / duel->pairs;
    return judge(duel);
}
