/* SPDX-License-Identifier: MIT */
/* A branch's lock and rests (tests/order/test_branches.py has the rest). */
#include "engine/stream/branches.h"

#include "config/config.h"
#include "driver/driver.h"
#include "engine/context/query.h"
#include "engine/replay/op.h"
#include "engine/stream/failure.h"
#include "engine/stream/pinned.h"
#include "engine/stream/sequence.h"
#include "unit/test.h"

/* -- What branches.c calls ---------------------------------------------------- */

struct ag_options ag_opt = {.trace_forks = true};
struct ag_driver ag_real;
_Thread_local struct ag_thread ag_self;
_Atomic uint64_t ag_issuer_unknown_calls;

static const struct ag_stream *curious;

void ag_sequence_subscribe(struct ag_stream *stream, bool is)
{
    curious = is ? stream : NULL;
}

void ag_failure_note_slow(struct ag_stream *stream, CUresult result, const char *doing)
{
    (void)stream;
    (void)result;
    (void)doing;
}

bool ag_context_has_branches(struct ag_context *context, unsigned branches)
{
    (void)context;
    (void)branches;
    return true;
}

uint32_t ag_event_depth(CUevent event, const struct ag_stream *stream)
{
    (void)event;
    (void)stream;
    return 0;
}

void ag_recorder_forks(struct ag_recorder *rec, bool joined, uint32_t depth)
{
    (void)rec;
    (void)joined;
    (void)depth;
}

void ag_fork_take(struct ag_fork *fork, const struct ag_op *op, uint32_t depth)
{
    (void)fork;
    (void)op;
    (void)depth;
}

bool ag_ways_are_joined(const struct ag_ways *ways)
{
    (void)ways;
    return true;
}

/* The op is one of a rest after a lost trial. */
bool ag_trials_pass(struct ag_stream *stream, uint64_t mark)
{
    (void)stream;
    (void)mark;
    return true;
}

/* -- Two streams ------------------------------------------------------------- */

static struct ag_context context;
static struct ag_node root;
static struct ag_stream origin, branch;

static void begin(struct ag_stream *stream)
{
    *stream =
        (struct ag_stream){.id = {.context = &context, .kind = AG_STREAM_NONBLOCKING, .live = true},
                           .issuer.thread = &ag_self,
                           .recorder.cursor = &root};
    /* The thread gets the bias: it could take the lock twice, and would not notice. */
    for (uint64_t i = 0; i <= (uint64_t)AG_LOCK_RUN.first; i++) {
        ag_stream_lock(stream);
        ag_stream_unlock(stream);
    }
}

static void meet(struct ag_stream *of)
{
    begin(&origin);
    begin(&branch);
    atomic_store(&branch.branching.origin, of);
    curious = NULL;
}

/* -- Tests ------------------------------------------------------------------- */

/* The branch waits for an event that its origin has recorded last. */
static void wait_for_host(void)
{
    struct ag_event_known known = {.by = &origin, .given = ag_issuer_given(&origin)};
    ag_stream_lock(&branch);
    ag_branches_follow(&branch, &known);
    ag_stream_unlock(&branch);
}

TEST(a_stream_that_is_waited_for_comes_before)
{
    meet(NULL);
    CHECK(ag_lock_enter(&origin.lock, &ag_self)); /* it has the bias */
    ag_stream_unlock(&origin);
    wait_for_host();
    CHECK(curious == &origin && atomic_load(&origin.branching.behind) == &branch);
}

TEST(a_guest_does_not_take_the_lock_of_its_host_twice)
{
    meet(&origin);
    wait_for_host();
    CHECK(curious == NULL && atomic_load(&origin.branching.behind) == NULL);
}

TEST(an_op_passes_in_a_rest)
{
    meet(NULL);
    CHECK(!ag_op_passes(&branch, 1));
    branch.trials.rests = true;
    CHECK(ag_op_passes(&branch, 1) && branch.counters.ops == 1);
    branch.trials.rests = false;
    atomic_store(&branch.recorder.resting.ops, 10);
    CHECK(ag_op_passes(&branch, 1) && branch.counters.ops == 2);
}

TEST(an_op_of_a_guest_does_not_pass_in_a_rest)
{
    meet(&origin);
    branch.trials.rests = true;
    CHECK(!ag_op_passes(&branch, 1));
    branch.trials.rests = false;
    atomic_store(&branch.recorder.resting.ops, 10);
    CHECK(!ag_op_passes(&branch, 1) && branch.counters.ops == 0);
}
