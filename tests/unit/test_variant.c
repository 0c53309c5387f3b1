/* SPDX-License-Identifier: MIT */
/* Arguments that come back: when one more graph of the same ops is wanted, and which is taken. */
#include "graph/variant.h"

#include <stdlib.h>

#include "config/config.h"
#include "graph/words.h"
#include "policy/policy.h"
#include "unit/test.h"

struct ag_options ag_opt;

enum { LENGTH = 12 };

static const struct ag_layout layout = {.size = sizeof(uint32_t), .count = 1};
static struct ag_node node[LENGTH];
static uint32_t argument[LENGTH];

static struct ag_trace *made(void)
{
    struct ag_trace *trace = calloc(1, sizeof *trace + LENGTH * sizeof trace->step[0]);
    if (trace == NULL)
        abort();
    trace->variant = trace;
    trace->length = LENGTH;
    for (unsigned i = 0; i < LENGTH; i++) {
        node[i] = (struct ag_node){.op.layout = &layout, .args = (unsigned char *)&argument[i]};
        trace->step[i] = (struct ag_step){.node = &node[i],
                                          .graph_node = (CUgraphNode)0x10,
                                          .args = (unsigned char *)&argument[i]};
    }
    ag_opt.graph_variants = 8;
    return trace;
}

static void gone(struct ag_trace *trace)
{
    free(trace->history);
    free(trace);
}

/* The first `changed` of its nodes get this argument. */
static void set(struct ag_trace *trace, uint32_t changed, uint32_t to)
{
    for (uint32_t i = 0; i < changed; i++)
        argument[i] = to;
    ag_variant_observe(trace, changed);
}

/* So many sets of arguments in turn, `times` in all. Whether a variant is wanted in the end. */
static bool in_turn(struct ag_trace *trace, uint32_t changed, unsigned sets, unsigned times)
{
    for (unsigned i = 0; i < times; i++)
        set(trace, changed, 1 + i % sets);
    return ag_variant_wanted(trace);
}

TEST(arguments_that_come_back_often_enough_want_a_variant)
{
    struct ag_trace *trace = made();
    for (unsigned sets = 2; sets <= AG_VARIANT_FAR; sets++) {
        CHECK(!in_turn(trace, LENGTH, sets, sets + AG_VARIANT_TIMES - 1));
        gone(trace);
        trace = made();
        CHECK(in_turn(trace, LENGTH, sets, sets + AG_VARIANT_TIMES));
        ag_variant_refused(trace);
        CHECK(!ag_variant_wanted(trace));
        gone(trace);
        trace = made();
    }
    CHECK(!in_turn(trace, LENGTH, AG_VARIANT_FAR + 1, 3 * AG_VARIANT_FAR));
    gone(trace);
}

TEST(a_change_of_a_few_nodes_wants_none)
{
    struct ag_trace *trace = made();
    CHECK(!in_turn(trace, LENGTH / AG_VARIANT_PART - 1, 2, 32) && trace->history == NULL);
    CHECK(in_turn(trace, LENGTH / AG_VARIANT_PART, 2, 32));
    gone(trace);
}

TEST(there_are_no_more_variants_than_the_option_says)
{
    struct ag_trace *trace = made(), *other = made();
    ag_opt.graph_variants = 1;
    CHECK(!in_turn(trace, LENGTH, 2, 32) && trace->history == NULL);
    ag_opt.graph_variants = 2;
    ag_variant_join(trace, other);
    CHECK(!in_turn(trace, LENGTH, 2, 32));
    ag_opt.graph_variants = 3;
    CHECK(ag_variant_wanted(trace));
    gone(trace);
    gone(other);
}

TEST(what_does_not_come_back_is_looked_at_now_and_then)
{
    struct ag_trace *trace = made();
    unsigned looks = AG_VARIANT_FAR * AG_VARIANT_TIMES;
    for (unsigned i = 0; i < looks; i++)
        set(trace, LENGTH, 100 + i);
    CHECK(!in_turn(trace, LENGTH, 2, 31 * looks)); /* 32 * looks are a round */
    CHECK(in_turn(trace, LENGTH, 2, looks));
    gone(trace);
}

TEST(the_trace_with_the_arguments_is_taken_or_the_oldest)
{
    struct ag_trace *one = made(), *two = made(), *three = made();
    static uint32_t others[LENGTH];
    CHECK(ag_variant_choose(one) == one);
    ag_variant_join(one, two);
    ag_variant_join(two, three);
    one->used = 3, two->used = 1, three->used = 2;
    for (unsigned i = 0; i < LENGTH; i++) {
        node[i].version = 1; /* all ask what the exec has */
        one->step[i].args = three->step[i].args = (unsigned char *)&others[i];
        others[i] = ~argument[i];
    }
    CHECK(ag_variant_choose(one) == two); /* it has them */
    two->step[LENGTH - 1].version = 0;
    two->step[LENGTH - 1].args = (unsigned char *)&others[LENGTH - 1];
    two->used = 4;
    CHECK(ag_variant_choose(one) == three); /* the oldest */
    CHECK(ag_variant_leave(three) == two && three->variant == three);
    CHECK(ag_variant_leave(one) == two && ag_variant_leave(two) == NULL);
    gone(one);
    gone(two);
    gone(three);
}
