/* SPDX-License-Identifier: MIT */
/* The list of what is left in a context. */
#include <pthread.h>

#include "engine/base/thread.h"
#include "engine/context/orphans.h"
#include "engine/hot.h"
#include "unit/test.h"

static unsigned add(struct ag_orphans *orphans, bool blocking, const void *thread)
{
    CUevent event;
    bool own;
    return ag_orphans_add(orphans, blocking, thread, &event, &own);
}

TEST(a_wait_for_the_context_settles_what_came_before)
{
    struct ag_orphans orphans = {.left = 0};
    add(&orphans, false, NULL);
    unsigned mark = ag_orphans_mark(&orphans);
    add(&orphans, true, NULL);
    ag_orphans_waited(&orphans, mark, true);
    CHECK(!ag_orphans_is_settled(&orphans) && ag_orphans_has_settled(&orphans, mark));
    ag_orphans_waited(&orphans, ag_orphans_mark(&orphans), true);
    CHECK(ag_orphans_is_settled(&orphans) && ag_orphans_mark(&orphans) == 0 && ag_any_orphans == 0);
}

TEST(a_copy_in_the_legacy_stream_settles_blocking_streams)
{
    struct ag_orphans orphans = {.left = 0};
    add(&orphans, true, NULL);
    unsigned other = add(&orphans, false, NULL);
    ag_orphans_waited(&orphans, other, false);
    CHECK(ag_orphans_has_settled(&orphans, other - 1) && !ag_orphans_is_settled(&orphans));
    ag_orphans_waited(&orphans, other, true);
    CHECK(ag_orphans_is_settled(&orphans) && ag_any_orphans == 0);
}

TEST(events_settle_in_order)
{
    struct ag_orphans orphans = {.left = 0};
    unsigned first = add(&orphans, false, NULL), second = add(&orphans, false, NULL), oldest;
    ag_orphans_marked(&orphans, second, (CUevent)0x20);
    CHECK(ag_orphans_oldest(&orphans, &oldest) == NULL && oldest == first);
    ag_orphans_marked(&orphans, first, (CUevent)0x10);
    CHECK(ag_orphans_oldest(&orphans, &oldest) == (CUevent)0x10);
    ag_orphans_happened(&orphans, first);
    CHECK(ag_orphans_oldest(&orphans, &oldest) == (CUevent)0x20 && oldest == second);
    ag_orphans_happened(&orphans, second);
    CHECK(ag_orphans_is_settled(&orphans) && ag_any_orphans == 0);
}

TEST(places_are_shared_and_then_settled_together)
{
    struct ag_orphans orphans = {.left = 0};
    CUevent event;
    bool own = true;
    unsigned last = 0, oldest;
    for (unsigned i = 0; i < AG_ORPHANS; i++)
        ag_orphans_marked(&orphans, ag_orphans_add(&orphans, true, NULL, &event, &own),
                          (CUevent)0x10);
    CHECK(own);
    last = ag_orphans_add(&orphans, false, NULL, &event, &own);
    CHECK(!own && ag_any_orphans == AG_ORPHANS && ag_orphans_oldest(&orphans, &oldest) == NULL);
    ag_orphans_waited(&orphans, last, false);
    CHECK(!ag_orphans_is_settled(&orphans) && ag_any_orphans == 1);
    ag_orphans_waited(&orphans, last, true);
    CHECK(ag_orphans_is_settled(&orphans) && ag_any_orphans == 0);
}

TEST(what_a_thread_launches_unseen_is_settled_by_its_own_wait)
{
    static const char other;
    struct ag_orphans orphans = {.left = 0};
    unsigned mine = add(&orphans, false, &ag_self), others = add(&orphans, false, &other);
    ag_orphans_waited(&orphans, others, true);
    CHECK(ag_orphans_has_settled(&orphans, mine) && !ag_orphans_is_settled(&orphans));
    ag_orphans_forget(&orphans);
    CHECK(ag_orphans_is_settled(&orphans) && ag_any_orphans == 0);
}

static void *launches(void *orphans)
{
    add(orphans, false, &ag_self);
    ag_orphans_thread_ends(orphans);
    return NULL;
}

TEST(when_it_has_ended_any_wait_does)
{
    struct ag_orphans orphans = {.left = 0};
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, launches, &orphans) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    ag_orphans_waited(&orphans, ag_orphans_mark(&orphans), true);
    CHECK(ag_orphans_is_settled(&orphans) && ag_any_orphans == 0);
}
