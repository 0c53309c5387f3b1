/* SPDX-License-Identifier: MIT */
/* A guest's lock and rests (tests/order/test_branches.py has the rest). */
#include "engine/stream/guests.h"

#include "config/config.h"
#include "driver/driver.h"
#include "engine/context/query.h"
#include "engine/replay/op.h"
#include "engine/stream/failure.h"
#include "engine/stream/pinned.h"
#include "engine/stream/sequence.h"
#include "unit/test.h"

/* -- What guests.c calls ---------------------------------------------------- */

struct ag_options ag_opt = {.trace_forks = true};
struct ag_driver ag_real;
_Thread_local struct ag_thread ag_self;
_Atomic uint64_t ag_issuer_strange_calls;

static const struct ag_stream *curious;

void ag_sequence_be_curious(struct ag_stream *stream, bool is)
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

/* The op is one of a rest after a lost duel. */
bool ag_turns_pass(struct ag_stream *stream, uint64_t mark)
{
    (void)stream;
    (void)mark;
    return true;
}

/* -- Two streams ------------------------------------------------------------- */

static struct ag_context context;
static struct ag_node root;
static struct ag_stream host, guest;

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
    begin(&host);
    begin(&guest);
    atomic_store(&guest.visit.host, of);
    curious = NULL;
}

/* -- Tests ------------------------------------------------------------------- */

/* The guest waits for an event that its host has recorded last. */
static void wait_for_host(void)
{
    struct ag_event_known known = {.by = &host, .given = ag_issuer_given(&host)};
    ag_stream_lock(&guest);
    ag_guests_follow(&guest, &known);
    ag_stream_unlock(&guest);
}

TEST(a_stream_that_is_waited_for_comes_before)
{
    meet(NULL);
    CHECK(ag_lock_enter(&host.lock, &ag_self)); /* it has the bias */
    ag_stream_unlock(&host);
    wait_for_host();
    CHECK(curious == &host && atomic_load(&host.visit.behind) == &guest);
}

TEST(a_guest_does_not_take_the_lock_of_its_host_twice)
{
    meet(&host);
    wait_for_host();
    CHECK(curious == NULL && atomic_load(&host.visit.behind) == NULL);
}

TEST(an_op_passes_in_a_rest)
{
    meet(NULL);
    CHECK(!ag_op_passes(&guest, 1));
    guest.turn.rests = true;
    CHECK(ag_op_passes(&guest, 1) && guest.counters.ops == 1);
    guest.turn.rests = false;
    atomic_store(&guest.recorder.resting.ops, 10);
    CHECK(ag_op_passes(&guest, 1) && guest.counters.ops == 2);
}

TEST(an_op_of_a_guest_does_not_pass_in_a_rest)
{
    meet(&host);
    guest.turn.rests = true;
    CHECK(!ag_op_passes(&guest, 1));
    guest.turn.rests = false;
    atomic_store(&guest.recorder.resting.ops, 10);
    CHECK(!ag_op_passes(&guest, 1) && guest.counters.ops == 0);
}
