/* SPDX-License-Identifier: MIT */
/* Untracked streams: when nothing is at work in them (tests/engine/test_untracked.py has the rest).
 */
#include "engine/stream/untracked.h"

#include "engine/context/query.h"
#include "engine/hot.h"
#include "engine/stream/issuer.h"
#include "policy/policy.h"
#include "unit/test.h"

/* -- What untracked.c calls ------------------------------------------------------- */

_Thread_local struct ag_thread ag_self;
_Atomic bool ag_any_untracked = true;
_Atomic long ag_most_graph_memory = 1;

static struct ag_context here, elsewhere;
static bool idle;                            /* what the driver says of any stream */
static unsigned asked, left_behind, growing; /* how often it was asked; and streams with work */
static CUstream left_stream;
static unsigned growth_waits, fetch_waits;

bool ag_query_is_idle(CUstream handle)
{
    (void)handle;
    asked++;
    return idle;
}

bool ag_query_is_done(CUstream handle)
{
    return ag_query_is_idle(handle);
}

bool ag_context_enter(const struct ag_context *context, bool *pushed)
{
    *pushed = false;
    return context == &here || context == &elsewhere;
}

void ag_context_leave(bool pushed)
{
    (void)pushed;
}

unsigned ag_context_leave_behind(struct ag_context *context, CUstream handle, bool blocking)
{
    (void)blocking;
    left_behind += context == &here;
    left_stream = handle;
    return left_behind;
}

bool ag_lives_take(struct ag_context *context)
{
    return context == &here;
}

void ag_fetch_wait(struct ag_fetch *fetch, const struct ag_stream *stream)
{
    fetch_waits += fetch == &here.fetch && stream == NULL;
}

void ag_issuer_wait_for_growth(void)
{
    growth_waits++;
}

uint32_t ag_issuer_growths(void)
{
    return 0;
}

void ag_issuer_grows(void)
{
    growing++;
}

void ag_issuer_has_grown(void)
{
    growing--;
}

/* -- A stream ------------------------------------------------------------------ */

static CUstream const handle = (CUstream)0x5000;

/* It has had so many ops, which this thread has issued. */
static struct ag_untracked *begin(unsigned ops)
{
    bool behind;
    struct ag_untracked *untracked = ag_untracked_begin(handle, &here, false);
    for (unsigned i = 0; untracked != NULL && i < ops; i++)
        (void)ag_untracked_op(untracked, handle, &behind);
    asked = left_behind = growth_waits = fetch_waits = 0;
    idle = false;
    return untracked;
}

TEST(what_was_not_waited_for_is_at_work_until_the_driver_says_otherwise)
{
    CHECK(begin(3) != NULL);
    CHECK(!ag_untracked_rest(&here) && asked == 1 && growing == 0);
    idle = true;
    CHECK(ag_untracked_rest(&here) && asked == 2);
    idle = false; /* nothing has been issued since */
    CHECK(ag_untracked_rest(&here) && asked == 2);
    ag_untracked_leave(handle);
    CHECK(ag_untracked_rest(&here) && ag_untracked_count() == 0);
}

TEST(what_was_waited_for_is_not_asked)
{
    CHECK(begin(3) != NULL);
    ag_untracked_waited_for(handle, 2);
    CHECK(!ag_untracked_rest(&here) && asked == 1);
    ag_untracked_waited_for(handle, 3);
    CHECK(ag_untracked_rest(&here) && asked == 1);
    CHECK(!ag_untracked_rest(NULL) && asked == 2); /* nor does that show what nobody counts */
    ag_untracked_leave(handle);
}

TEST(another_context_does_not_count)
{
    CHECK(begin(1) != NULL);
    CHECK(ag_untracked_rest(&elsewhere) && asked == 0);
    ag_untracked_forget(&elsewhere);
    CHECK(ag_untracked_count() == 1);
    ag_untracked_forget(&here);
    CHECK(ag_untracked_count() == 0 && ag_untracked_rest(&here));
}

static void *issues(void *untracked)
{
    bool behind;
    return ag_untracked_op(untracked, handle, &behind) ? untracked : NULL;
}

TEST(another_thread_has_work_until_it_ends)
{
    pthread_t thread;
    void *passed = NULL;
    struct ag_untracked *untracked = begin(1);
    idle = true;
    CHECK(untracked != NULL && !ag_untracked_others());
    CHECK(pthread_create(&thread, NULL, issues, untracked) == 0);
    CHECK(pthread_join(thread, &passed) == 0 && passed == untracked);
    CHECK(ag_untracked_others() && !ag_untracked_rest(&here) && asked == 0);
    ag_untracked_thread_leaves(); /* of this thread it has nothing any more */
    CHECK(ag_untracked_others());
    bool behind;
    growth_waits = fetch_waits = 0;
    CHECK(ag_untracked_op(untracked, handle, &behind)); /* this thread has it now */
    CHECK(growth_waits == 1 && fetch_waits == 1);
    CHECK(ag_untracked_op(untracked, handle, &behind) && growth_waits == 1 && fetch_waits == 1);
    CHECK(!ag_untracked_others() && ag_untracked_rest(&here) && asked == 1);
    ag_untracked_leave(handle);
}

TEST(a_stream_that_lasts_is_followed)
{
    bool behind;
    struct ag_untracked *untracked = begin(AG_FEW_OPS - 1);
    CHECK(untracked != NULL && ag_untracked_op(untracked, handle, &behind));
    CHECK(!ag_untracked_op(untracked, handle, &behind) && ag_untracked_ops() == AG_FEW_OPS);
    ag_untracked_leave(handle);
    CHECK(ag_untracked_ops() == 0 && ag_untracked_find(handle) == NULL);
}

TEST(work_of_a_stream_that_goes_is_left_behind)
{
    CHECK(begin(2) != NULL);
    CHECK(ag_untracked_destroy(handle) && asked == 1 && left_behind == 1 && left_stream == handle);
    CHECK(growth_waits == 1);             /* somebody may have read its name */
    CHECK(!ag_untracked_destroy(handle)); /* it is not untracked any more */
    CHECK(begin(2) != NULL);
    idle = true;
    CHECK(ag_untracked_destroy(handle) && asked == 1 && left_behind == 0);
    CHECK(begin(2) != NULL);
    ag_untracked_waited_for(handle, 2);
    CHECK(ag_untracked_destroy(handle) && asked == 0 && left_behind == 0);
}

TEST(what_is_held_comes_before_an_op)
{
    bool behind = true;
    struct ag_untracked *untracked = begin(0);
    CHECK(untracked != NULL && ag_untracked_op(untracked, handle, &behind) && !behind);
    atomic_store(ag_context_ahead(&here, AG_STREAM_NONBLOCKING), 1);
    CHECK(ag_untracked_op(untracked, handle, &behind) && behind);
    atomic_store(ag_context_ahead(&here, AG_STREAM_NONBLOCKING), 0);
    atomic_store(ag_context_ahead(&here, AG_STREAM_BLOCKING), 1);
    CHECK(ag_untracked_op(untracked, handle, &behind) && !behind);
    ag_untracked_leave(handle);
    untracked = ag_untracked_begin(handle, &here, true);
    CHECK(untracked != NULL && ag_untracked_op(untracked, handle, &behind) && behind);
    atomic_store(ag_context_ahead(&here, AG_STREAM_BLOCKING), 0);
    ag_untracked_leave(handle);
}
