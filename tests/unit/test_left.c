/* SPDX-License-Identifier: MIT */
/* The list of what is left in a context. */
#include <pthread.h>

#include "engine/base/thread.h"
#include "engine/context/left.h"
#include "engine/hot.h"
#include "unit/test.h"

static unsigned add(struct ag_leavings *leavings, bool blocking, const void *thread)
{
    CUevent event;
    bool own;
    return ag_left_add(leavings, blocking, thread, &event, &own);
}

TEST(a_wait_for_the_context_settles_what_came_before)
{
    struct ag_leavings leavings = {.left = 0};
    add(&leavings, false, NULL);
    unsigned mark = ag_left_mark(&leavings);
    add(&leavings, true, NULL);
    ag_left_waited(&leavings, mark, true);
    CHECK(!ag_left_is_settled(&leavings) && ag_left_has_settled(&leavings, mark));
    ag_left_waited(&leavings, ag_left_mark(&leavings), true);
    CHECK(ag_left_is_settled(&leavings) && ag_left_mark(&leavings) == 0 && ag_unsettled == 0);
}

TEST(a_copy_in_the_legacy_stream_settles_blocking_streams)
{
    struct ag_leavings leavings = {.left = 0};
    add(&leavings, true, NULL);
    unsigned other = add(&leavings, false, NULL);
    ag_left_waited(&leavings, other, false);
    CHECK(ag_left_has_settled(&leavings, other - 1) && !ag_left_is_settled(&leavings));
    ag_left_waited(&leavings, other, true);
    CHECK(ag_left_is_settled(&leavings) && ag_unsettled == 0);
}

TEST(events_settle_in_order)
{
    struct ag_leavings leavings = {.left = 0};
    unsigned first = add(&leavings, false, NULL), second = add(&leavings, false, NULL), oldest;
    ag_left_marked(&leavings, second, (CUevent)0x20);
    CHECK(ag_left_oldest(&leavings, &oldest) == NULL && oldest == first);
    ag_left_marked(&leavings, first, (CUevent)0x10);
    CHECK(ag_left_oldest(&leavings, &oldest) == (CUevent)0x10);
    ag_left_happened(&leavings, first);
    CHECK(ag_left_oldest(&leavings, &oldest) == (CUevent)0x20 && oldest == second);
    ag_left_happened(&leavings, second);
    CHECK(ag_left_is_settled(&leavings) && ag_unsettled == 0);
}

TEST(places_are_shared_and_then_settled_together)
{
    struct ag_leavings leavings = {.left = 0};
    CUevent event;
    bool own = true;
    unsigned last = 0, oldest;
    for (unsigned i = 0; i < AG_LEAVINGS; i++)
        ag_left_marked(&leavings, ag_left_add(&leavings, true, NULL, &event, &own), (CUevent)0x10);
    CHECK(own);
    last = ag_left_add(&leavings, false, NULL, &event, &own);
    CHECK(!own && ag_unsettled == AG_LEAVINGS && ag_left_oldest(&leavings, &oldest) == NULL);
    ag_left_waited(&leavings, last, false);
    CHECK(!ag_left_is_settled(&leavings) && ag_unsettled == 1);
    ag_left_waited(&leavings, last, true);
    CHECK(ag_left_is_settled(&leavings) && ag_unsettled == 0);
}

TEST(what_a_thread_launches_unseen_is_settled_by_its_own_wait)
{
    static const char other;
    struct ag_leavings leavings = {.left = 0};
    unsigned mine = add(&leavings, false, &ag_self), others = add(&leavings, false, &other);
    ag_left_waited(&leavings, others, true);
    CHECK(ag_left_has_settled(&leavings, mine) && !ag_left_is_settled(&leavings));
    ag_left_forget(&leavings);
    CHECK(ag_left_is_settled(&leavings) && ag_unsettled == 0);
}

static void *launches(void *leavings)
{
    add(leavings, false, &ag_self);
    ag_left_thread_ends(leavings);
    return NULL;
}

TEST(when_it_has_ended_any_wait_does)
{
    struct ag_leavings leavings = {.left = 0};
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, launches, &leavings) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    ag_left_waited(&leavings, ag_left_mark(&leavings), true);
    CHECK(ag_left_is_settled(&leavings) && ag_unsettled == 0);
}
