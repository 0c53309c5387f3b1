/* SPDX-License-Identifier: MIT */
/* The biased lock. Threads are named by the address of a variable each. */
#include <pthread.h>
#include <time.h>

#include "engine/base/lock.h"
#include "unit/test.h"

enum { LOCKS = 100, RUN = 64, LONGER = 8 }; /* AG_LOCK_RUN is no constant */

static const char first = 1, second = 2, third = 3; /* names of threads */

/* As the library does when it begins. */
__attribute__((constructor)) static void prepare(void)
{
    ag_lock_prepare();
}

static void take_often(struct ag_lock *lock, const void *self, int times)
{
    while (times-- > 0) {
        ag_lock_take(lock, self);
        ag_lock_give(lock, self);
    }
}

static const void *biased(struct ag_lock *lock)
{
    return atomic_load(&lock->biased);
}

TEST(a_mutex_at_first)
{
    struct ag_lock lock = {.biased = NULL};
    take_often(&lock, &first, RUN - 1);
    CHECK(biased(&lock) == NULL);
    CHECK(ag_lock_try(&lock, &first) && !ag_lock_try(&lock, &second));
    ag_lock_give(&lock, &first);
    CHECK(biased(&lock) == &first);
}

TEST(who_takes_it_in_a_row_gets_it)
{
    struct ag_lock lock = {.biased = NULL};
    for (int i = 0; i < RUN; i++) {
        take_often(&lock, &first, RUN - 1);
        take_often(&lock, &second, 1);
    }
    CHECK(biased(&lock) == NULL);
    take_often(&lock, &first, RUN - 1);
    CHECK(biased(&lock) == NULL);
    take_often(&lock, &first, 1);
    CHECK(biased(&lock) == &first);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    return clock_gettime(CLOCK_MONOTONIC, &now) == 0 ? now.tv_sec * 1000000000ull + now.tv_nsec : 0;
}

/* The bias goes, and comes back once the lock has been taken so often. */
static bool comes_back(struct ag_lock *lock, int times)
{
    if (biased(lock) != NULL)
        return false;
    take_often(lock, &first, times - 1);
    if (biased(lock) != NULL)
        return false;
    take_often(lock, &first, 1);
    return biased(lock) == &first;
}

TEST(never_to_a_second_thread_and_later_each_time)
{
    struct ag_lock lock = {.biased = NULL};
    take_often(&lock, &first, RUN);
    CHECK(AG_LOCK_RUN.first == RUN && AG_LOCK_RUN.factor == LONGER);
    for (int times = RUN; times <= RUN * LONGER * LONGER; times *= LONGER) {
        ag_lock_revoke(&lock, &second);
        take_often(&lock, &first, 1); /* it notices */
        take_often(&lock, &second, RUN * 20);
        CHECK(comes_back(&lock, times));
    }
}

/* The thread might be about to enter: only time tells that it is not, or the system. */
TEST(who_does_not_notice_is_waited_for)
{
    struct ag_lock lock = {.biased = NULL};
    take_often(&lock, &first, RUN);
    uint64_t began = now_ns();
    take_often(&lock, &second, 1);
    CHECK(!AG_LOCK_BY_TIME || now_ns() - began >= AG_LOCK_VISIBLE_NS);
    CHECK(comes_back(&lock, RUN));
    began = now_ns();
    CHECK(ag_lock_try(&lock, &second));
    CHECK(!AG_LOCK_BY_TIME || now_ns() - began >= AG_LOCK_VISIBLE_NS);
    ag_lock_give(&lock, &second);
    CHECK(comes_back(&lock, RUN * LONGER));
}

/* One wait is for all that were revoked before. */
TEST(many_are_waited_for_at_once)
{
    struct ag_lock lock[LOCKS / 2] = {{.biased = NULL}};
    for (int i = 0; i < LOCKS / 2; i++)
        take_often(&lock[i], &first, RUN);
    for (int i = 0; i < LOCKS / 2; i++)
        ag_lock_revoke(&lock[i], &second);
    take_often(&lock[0], &second, 1);
    for (int i = 1; i < LOCKS / 2; i++) {
        CHECK(lock[i].unnoticed != 0);
        take_often(&lock[i], &second, 1);
        CHECK(comes_back(&lock[i], RUN));
    }
}

TEST(it_is_revoked_without_a_wait)
{
    struct ag_lock lock = {.biased = NULL};
    take_often(&lock, &first, RUN);
    ag_lock_revoke(&lock, &first);
    CHECK(biased(&lock) == &first);
    ag_lock_revoke(&lock, &second);
    CHECK(biased(&lock) == NULL && lock.unnoticed != 0);
    take_often(&lock, &first, 1);
    CHECK(lock.unnoticed == 0 && ag_lock_try(&lock, &second));
    ag_lock_give(&lock, &second);
}

TEST(who_ends_has_noticed)
{
    struct ag_lock lock = {.biased = NULL};
    take_often(&lock, &first, RUN);
    ag_lock_revoke(&lock, &second);
    ag_lock_disown(&lock, &first);
    CHECK(ag_lock_try(&lock, &second));
    ag_lock_give(&lock, &second);
}

TEST(to_a_second_thread_when_the_first_has_ended)
{
    struct ag_lock lock = {.biased = NULL};
    take_often(&lock, &first, RUN);
    ag_lock_disown(&lock, &second);
    CHECK(biased(&lock) == &first);
    ag_lock_disown(&lock, &first);
    CHECK(biased(&lock) == NULL);
    take_often(&lock, &second, RUN);
    CHECK(biased(&lock) == &second);
}

TEST(who_is_inside_is_seen)
{
    struct ag_lock lock = {.biased = NULL};
    take_often(&lock, &first, RUN);
    ag_lock_take(&lock, &first);
    CHECK(!ag_lock_try(&lock, &second) && !ag_lock_try(&lock, &second));
    ag_lock_give(&lock, &first);
    CHECK(ag_lock_try(&lock, &second) && !ag_lock_try(&lock, &first));
    ag_lock_give(&lock, &second);
}

static bool is_only_of_the_first(const struct ag_lock *lock)
{
    return ag_lock_is_mine(lock, &first) && !ag_lock_is_mine(lock, &second);
}

TEST(a_thread_knows_what_it_has)
{
    struct ag_lock lock = {.biased = NULL};
    CHECK(!ag_lock_is_mine(&lock, &first));
    ag_lock_take(&lock, &first);
    CHECK(is_only_of_the_first(&lock));
    ag_lock_give(&lock, &first);
    CHECK(!ag_lock_is_mine(&lock, &first));
    take_often(&lock, &first, RUN);
    CHECK(!ag_lock_is_mine(&lock, &first));
    ag_lock_take(&lock, &first);
    CHECK(is_only_of_the_first(&lock));
    CHECK(!ag_lock_try(&lock, &second)); /* which revokes the bias */
    CHECK(is_only_of_the_first(&lock));
    ag_lock_give(&lock, &first);
    CHECK(!ag_lock_is_mine(&lock, &first));
}

static struct waiting {
    struct ag_lock lock;
    _Atomic bool came;
} waiting;

static void *come(void *unused)
{
    ag_lock_take(&waiting.lock, &second);
    atomic_store(&waiting.came, true);
    ag_lock_give(&waiting.lock, &second);
    return unused;
}

/* Who sleeps until the other is out is woken, and not before; also where a try has revoked it. */
static bool waits(bool tried)
{
    pthread_t thread;
    waiting.lock = (struct ag_lock){.biased = NULL};
    atomic_store(&waiting.came, false);
    take_often(&waiting.lock, &first, RUN);
    ag_lock_take(&waiting.lock, &first);
    if (tried && ag_lock_try(&waiting.lock, &third))
        return false;
    if (pthread_create(&thread, NULL, come, NULL) != 0)
        return false;
    (void)nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL);
    bool early = atomic_load(&waiting.came);
    ag_lock_give(&waiting.lock, &first);
    pthread_join(thread, NULL);
    return !early && atomic_load(&waiting.came);
}

TEST(a_waiting_thread_is_woken)
{
    CHECK(waits(false) && waits(true));
}

static struct crowd {
    struct ag_lock lock;
    _Atomic bool ready;
    int inside, most; /* guarded by the lock */
    long taken;
} crowd[LOCKS];

static void visit(struct crowd *place)
{
    volatile int *inside = &place->inside;
    int now = *inside + 1;
    *inside = now;
    if (now > place->most)
        place->most = now;
    place->taken++;
    *inside = now - 1;
}

static _Atomic long visits, lost;

static void *disturb(void *self)
{
    bool tries = self == &third;
    for (int i = 0; i < LOCKS; i++) {
        struct crowd *place = &crowd[i];
        while (!atomic_load(&place->ready)) {
            if (biased(&place->lock) == NULL)
                continue; /* waits for the next one */
            if (tries && !ag_lock_try(&place->lock, self)) {
                atomic_fetch_add(&lost, 1);
                continue;
            }
            if (!tries)
                ag_lock_take(&place->lock, self);
            visit(place);
            ag_lock_give(&place->lock, self);
            atomic_fetch_add(&visits, 1);
        }
    }
    return NULL;
}

/* The usual thread enters all the time, and all others as soon as it has the bias. */
TEST(one_at_a_time)
{
    pthread_t threads[2];
    CHECK(pthread_create(&threads[0], NULL, disturb, (void *)&second) == 0);
    CHECK(pthread_create(&threads[1], NULL, disturb, (void *)&third) == 0);
    long own = 0, taken = 0;
    int most = 0;
    for (int i = 0; i < LOCKS; i++) {
        struct crowd *place = &crowd[i];
        for (bool go_on = true; go_on; own++) {
            ag_lock_take(&place->lock, &first);
            visit(place);
            go_on = !place->lock.shared ||
                    atomic_load(&place->lock.longer.last) < RUN * LONGER * LONGER;
            ag_lock_give(&place->lock, &first);
        }
        atomic_store(&place->ready, true);
    }
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    for (int i = 0; i < LOCKS; i++) {
        taken += crowd[i].taken;
        most = crowd[i].most > most ? crowd[i].most : most;
    }
    printf("%ld times, %ld by others, who tried %ld times in vain\n", own, atomic_load(&visits),
           atomic_load(&lost));
    CHECK(most == 1 && taken == own + atomic_load(&visits));
}
