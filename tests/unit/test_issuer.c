/* SPDX-License-Identifier: MIT */
/* Threads that issue: how many there are, and who waits while one makes more execs. */
#include "engine/stream/issuer.h"

#include <pthread.h>

#include "engine/hot.h"
#include "observe/patience.h"
#include "unit/test.h"

/* -- What issuer.c calls ---------------------------------------------------- */

_Thread_local struct ag_thread ag_self;

static struct ag_context context;
static unsigned slept, fetches, watched, unseen;
static const struct ag_stream *fetched;

bool ag_thread_watch(void)
{
    watched++;
    return true;
}

/* What grows ends behind the third sleep. */
bool ag_patience_lasts(uint64_t *so_far, uint64_t most)
{
    (void)so_far;
    (void)most;
    if (++slept == 3)
        ag_issuer_has_grown();
    return slept < 1000;
}

void ag_fetch_wait(struct ag_fetch *fetch, const struct ag_stream *stream)
{
    fetches += fetch == &context.fetch;
    fetched = stream;
}

CUcontext ag_context_current(void)
{
    return NULL;
}

struct ag_context *ag_context_peek(CUcontext ctx)
{
    (void)ctx;
    return &context;
}

void ag_context_unseen(void)
{
    unseen++;
}

/* -- Threads ------------------------------------------------------------------ */

static bool behind_setter; /* what the thread's first op was told */

static void *issues(void *again)
{
    behind_setter = ag_issuer_begins();
    *(bool *)again = ag_issuer_begins();
    bool many = ag_issuer_are_many();
    ag_issuer_thread_ends();
    return many ? again : NULL;
}

/* A thread issues two ops and ends. Whether there were several threads meanwhile. */
static bool another(bool *again)
{
    pthread_t thread;
    void *many = NULL;
    if (pthread_create(&thread, NULL, issues, again) != 0 || pthread_join(thread, &many) != 0)
        return false;
    return many != NULL;
}

TEST(a_thread_counts_from_its_first_op_to_its_end)
{
    bool again;
    CHECK(!ag_issuer_begins() && ag_issuer_threads == 1 && watched == 1);
    CHECK(another(&again) && ag_issuer_threads == 1 && !ag_issuer_are_many());
    CHECK(another(&again) && ag_issuer_threads == 1);
    ag_issuer_thread_ends();
    CHECK(ag_issuer_threads == 0);
    ag_issuer_thread_ends(); /* it has issued nothing since */
    CHECK(ag_issuer_threads == 0);
}

TEST(the_first_op_alone_is_told_of_a_setter)
{
    bool again;
    (void)another(&again);
    CHECK(!behind_setter && !again);
    ag_setters_pass = true;
    (void)another(&again);
    CHECK(behind_setter && !again);
    ag_setters_pass = false;
}

/* -- Growth --------------------------------------------------------------------- */

static struct ag_stream stream = {.id.context = &context, .place.index = 5};

static void begin(void)
{
    slept = fetches = unseen = 0;
    fetched = NULL;
    stream.issuer.thread = NULL;
}

TEST(who_takes_over_issues_from_then_on)
{
    begin();
    ag_self.touched = 0;
    ag_issuer_takes_over(&stream);
    CHECK(ag_issuer_threads == 1 && ag_self.touched == 1u << 5);
    ag_issuer_takes_over(&stream);
    CHECK(ag_issuer_threads == 1);
    ag_issuer_thread_ends();
}

TEST(who_takes_over_waits_while_another_thread_grows)
{
    begin();
    ag_issuer_takes_over(&stream);
    CHECK(slept == 0 && ag_issuer_is_self(&stream) && fetches == 1 && fetched == &stream);
    begin();
    uint32_t before = ag_issuer_growths();
    ag_issuer_grows();
    ag_issuer_takes_over(&stream);
    CHECK(slept == 3 && ag_issuer_is_self(&stream) && fetches == 1);
    CHECK(ag_issuer_growths() == before + 2);
}

TEST(who_launches_unseen_waits_as_well)
{
    begin();
    ag_issuer_grows();
    ag_issuer_launches_unseen();
    CHECK(slept == 3 && fetches == 1 && fetched == NULL);
    CHECK(unseen == 1 && ag_stateless_kernels);
}

TEST(nobody_waits_where_nothing_is_held)
{
    begin();
    ag_issuer_grows();
    ag_hold_bans = 1;
    ag_issuer_wait_for_growth();
    ag_hold_bans = 0;
    CHECK(slept == 0);
    ag_issuer_has_grown();
}

TEST(a_stream_is_another_threads_until_that_ends)
{
    static const char other, third;
    stream.issuer.thread = &other;
    CHECK(ag_issuer_is_another(&stream) && !ag_issuer_is_self(&stream));
    ag_issuer_ends(&stream, &third);
    CHECK(ag_issuer_is_another(&stream));
    ag_issuer_ends(&stream, &other);
    CHECK(!ag_issuer_is_another(&stream));
    stream.issuer.thread = &other;
    ag_issuer_ends(&stream, NULL);
    CHECK(!ag_issuer_is_another(&stream));
}
