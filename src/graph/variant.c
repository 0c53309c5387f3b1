/* SPDX-License-Identifier: MIT */
/* Which arguments come back, and which trace has them. */
#include "graph/variant.h"

#include <stdlib.h>

#include "config/config.h"
#include "graph/node.h"
#include "policy/policy.h"

/* The arguments that an exec was given of late. */
struct ag_history {
    uint32_t given;  /* times that the exec was given other arguments */
    uint32_t times;  /* the last so many of them had been there before */
    bool wanted;     /* one more trace would save setting arguments */
    uint32_t hash[]; /* of each node's: AG_VARIANT_FAR + 1 rows, the newest of them at given %
                        (AG_VARIANT_FAR + 1) */
};

/* To compare arguments takes time: of LOOK_EVERY replays that set arguments, only the first are
   compared with earlier ones. They are as many as may be needed to see that arguments come back. */
enum {
    LOOK_FIRST = AG_VARIANT_FAR * AG_VARIANT_TIMES,
    LOOK_EVERY = 32 * AG_VARIANT_FAR * AG_VARIANT_TIMES
};

struct ag_trace *ag_variant_choose(struct ag_trace *trace)
{
    struct ag_trace *oldest = trace, *other = trace;
    if (trace->variant == trace)
        return trace;
    do {
        uint32_t i = 0;
        while (i < other->length &&
               (other->step[i].own != 0 || ag_step_is_current(&other->step[i])))
            i++;
        if (i == other->length)
            return other;
        if (other->used < oldest->used)
            oldest = other;
        other = other->variant;
    } while (other != trace);
    return oldest;
}

static uint32_t hash_of(const struct ag_step *step)
{
    const struct ag_node *node = step->node;
    if (step->graph_node == NULL || step->own != 0)
        return 0; /* whatever the event is */
    return (uint32_t)ag_hash(ag_hash(1, node->args, node->op.layout->size), node->op.shape,
                             sizeof node->op.shape);
}

/* Whether the newest arguments come back from an earlier time: by a quarter of the nodes more are
   as they were then than are as they were the last time. */
static bool come_back(const struct ag_history *history, uint32_t length, uint32_t unchanged)
{
    const uint32_t *newest = history->hash + history->given % (AG_VARIANT_FAR + 1) * length;
    for (uint32_t distance = 2; distance <= AG_VARIANT_FAR && distance <= history->given;
         distance++) {
        const uint32_t *before =
            history->hash + (history->given - distance) % (AG_VARIANT_FAR + 1) * length;
        uint32_t same = 0;
        for (uint32_t i = 0; i < length; i++)
            same += newest[i] == before[i];
        if (same >= unchanged + 2 && (same - unchanged) * AG_VARIANT_PART >= length)
            return true;
    }
    return false;
}

void ag_variant_observe(struct ag_trace *trace, uint32_t changed)
{
    if (changed < 2 || changed * AG_VARIANT_PART < trace->length || ag_opt.graph_variants < 2)
        return;
    if (trace->history == NULL)
        trace->history =
            calloc(1, sizeof *trace->history + (size_t)(AG_VARIANT_FAR + 1) * trace->length *
                                                   sizeof trace->history->hash[0]);
    struct ag_history *history = trace->history;
    if (history == NULL || ++history->given % LOOK_EVERY >= LOOK_FIRST)
        return;
    uint32_t *newest = history->hash + history->given % (AG_VARIANT_FAR + 1) * trace->length;
    for (uint32_t i = 0; i < trace->length; i++)
        newest[i] = hash_of(&trace->step[i]);
    bool back = come_back(history, trace->length, trace->length - changed);
    history->times = back ? history->times + 1 : 0;
    history->wanted = history->times >= AG_VARIANT_TIMES;
}

bool ag_variant_wanted(const struct ag_trace *trace)
{
    if (trace->history == NULL || !trace->history->wanted)
        return false;
    long variants = 1;
    for (const struct ag_trace *other = trace->variant; other != trace; other = other->variant)
        variants++;
    return variants < ag_opt.graph_variants;
}

void ag_variant_join(struct ag_trace *trace, struct ag_trace *fresh)
{
    fresh->variant = trace->variant;
    trace->variant = fresh;
    ag_variant_refused(trace);
}

void ag_variant_refused(struct ag_trace *trace)
{
    if (trace->history == NULL)
        return;
    trace->history->wanted = false;
    trace->history->times = 0;
}

struct ag_trace *ag_variant_leave(struct ag_trace *trace)
{
    struct ag_trace *before = trace->variant;
    while (before->variant != trace)
        before = before->variant;
    before->variant = trace->variant;
    trace->variant = trace;
    return before != trace ? before : NULL;
}
