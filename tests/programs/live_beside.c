/* SPDX-License-Identifier: MIT */
/* live_beside.c: what one thread does while another one holds or submits work.
 * Prints what came out, which is the same with the library as without it. */
#define _GNU_SOURCE
#include "live.h"

static volatile uint32_t started, stop;

/* A stream for each step, in a context of its own; mix is the main thread's. */
static void *with_streams(void *arg)
{
    CUcontext c;
    CUdeviceptr at;
    OK(create_context(&c));
    OK(cuMemAlloc(&at, 4 * N));
    (void)arg;
    while (!get_word(&stop)) {
        CUstream s = made(CU_STREAM_DEFAULT);
        for (unsigned i = 0; i < 4 * BODY; i++)
            OK(cuMemsetD32Async(at + 4 * (i % BODY), i % BODY, 1, s));
        OK(cuStreamSynchronize(s));
        OK(cuStreamDestroy(s));
        set_word(&started, 1);
    }
    show("beside", at);
    OK(cuCtxDestroy(c));
    return NULL;
}

/* The legacy stream's barriers look at streams that another thread makes and destroys. */
static void streams_beside(void)
{
    pthread_t thread;
    CUstream s = made(CU_STREAM_DEFAULT);
    CHECK(pthread_create(&thread, NULL, with_streams, NULL) == 0);
    while (!get_word(&started))
        sched_yield();
    for (unsigned round = 0; round < 10; round++)
        for (uint32_t step = 0; step < STEPS; step++) {
            body(s, buffer[0], step);
            OK(launch_mix(buffer[0], N, 0, s)); /* the next body's first, and held */
            OK(launch_mix(buffer[0], N, step, NULL));
        }
    set_word(&stop, 1);
    CHECK(pthread_join(thread, NULL) == 0);
    show("main", buffer[0]);
}

static volatile uint32_t submitted;

/* Work without end for a stream that waits for the host. */
static void *ahead(void *arg)
{
    OK(cuCtxSetCurrent(ctx));
    OK(cuLaunchHostFunc(arg, until_released, (void *)(uintptr_t)1));
    for (uint32_t step = 0; step < 100 * STEPS; step++) {
        body(arg, buffer[1], step);
        set_word(&submitted, step);
    }
    return NULL;
}

/* Until that thread waits for room. */
static void until_full(void)
{
    uint32_t seen;
    do {
        seen = get_word(&submitted);
        usleep(50000);
    } while (seen == 0 || seen != get_word(&submitted));
}

static volatile uint32_t may_end;

/* Its default stream has held ops, and the library made something for that. */
static void *ends_later(void *arg)
{
    OK(cuCtxSetCurrent(ctx));
    for (uint32_t step = 0; step < STEPS; step++) {
        body(CU_STREAM_PER_THREAD, buffer[3], step);
        OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    }
    set_word(&started, 1);
    while (!get_word(&may_end))
        usleep(1000);
    return arg;
}

/* Another thread is in a launch that waits until its stream takes more; what ends that is behind
   calls here, which have nothing to do with it. */
static void ahead_beside(void)
{
    pthread_t thread, later;
    CUstream s[2] = {made(CU_STREAM_NON_BLOCKING), made(CU_STREAM_NON_BLOCKING)};
    CUevent recorded;
    OK(cuEventCreate(&recorded, CU_EVENT_DISABLE_TIMING));
    loop(s[0], buffer[1]);
    OK(cuStreamSynchronize(s[0]));
    CHECK(pthread_create(&later, NULL, ends_later, NULL) == 0);
    while (!get_word(&started))
        sched_yield();
    CHECK(pthread_create(&thread, NULL, ahead, s[0]) == 0);
    until_full();
    set_word(&may_end, 1);
    CHECK(pthread_join(later, NULL) == 0);
    for (uint32_t step = 0; step < STEPS; step++) {
        body(s[1], buffer[0], step);
        OK(cuEventRecord(recorded, s[1]));
        OK(cuEventSynchronize(recorded));
        OK(cuEventQuery(recorded));
        body(CU_STREAM_PER_THREAD, buffer[2], step);
        OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    }
    set_word(&released, 1);
    CHECK(pthread_join(thread, NULL) == 0);
}

static CUevent event;
static volatile uint32_t answered;
static unsigned unready;

static void *with_questions(void *arg)
{
    OK(cuCtxSetCurrent(ctx));
    for (uint32_t step = 1; step <= STEPS; step++) {
        while (get_word(&submitted) < step)
            sched_yield();
        CUresult result = cuEventQuery(event);
        CHECK(result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY);
        unready += result == CUDA_ERROR_NOT_READY;
        set_word(&released, step);
        OK(cuEventSynchronize(event));
        set_word(&answered, step);
    }
    return arg;
}

/* A thread asks about an event that another one has recorded, and not yet submitted. */
static void asked_beside(void)
{
    pthread_t thread;
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CHECK(pthread_create(&thread, NULL, with_questions, NULL) == 0);
    for (uint32_t step = 1; step <= STEPS; step++) {
        OK(cuLaunchHostFunc(s, until_released, (void *)(uintptr_t)step));
        body(s, buffer[0], step);
        OK(cuEventRecord(event, s));
        set_word(&submitted, step);
        while (get_word(&answered) < step)
            sched_yield();
        OK(launch_mix(buffer[0], N, step, s)); /* the sequence's last */
    }
    CHECK(pthread_join(thread, NULL) == 0);
    printf("%u of %u not ready\n", unready, STEPS);
}

/* -- A primary context that is released and still retained -- */

static CUresult release_one(void)
{
    CUcontext again;
    OK(cuDevicePrimaryCtxRetain(&again, dev));
    CHECK(again == ctx);
    return cuDevicePrimaryCtxRelease(dev);
}

static void *launches(void *arg)
{
    OK(cuCtxSetCurrent(ctx));
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    for (uint32_t step = 1; !get_word(&stop); step++) {
        for (uint32_t i = 0; i < 8; i++)
            OK(launch_mix(buffer[1 + (uintptr_t)arg], 1 + i, i, s));
        if (step % 8 == 0)
            OK(cuStreamSynchronize(s));
    }
    OK(cuStreamSynchronize(s));
    return NULL;
}

static void released_beside(void)
{
    enum { THREADS = 3, TIMES = 200 };
    pthread_t thread[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&thread[i], NULL, launches, (void *)i) == 0);
    usleep(50000);
    for (unsigned i = 0; i < TIMES; i++) {
        OK(release_one());
        usleep(200);
    }
    set_word(&stop, 1);
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_join(thread[i], NULL) == 0);
    OK(cuCtxSynchronize());
    for (unsigned i = 0; i < THREADS; i++) /* the number of steps does not show */
        OK(cuMemsetD32(buffer[1 + i], 0, N));
}

static pthread_barrier_t turn;

static void CUDA_CB take_time(void *unused)
{
    (void)unused;
    usleep(500);
}

/* Its default stream holds something when the context is released. */
static void *uses_default_stream(void *arg)
{
    OK(cuCtxSetCurrent(ctx));
    for (uint32_t step = 0; step < STEPS * 4; step++) {
        OK(cuLaunchHostFunc(CU_STREAM_PER_THREAD, take_time, NULL));
        for (uint32_t i = 0; i < BODY; i++) {
            if (i == BODY / 2) {
                pthread_barrier_wait(&turn);
                pthread_barrier_wait(&turn);
            }
            OK(launch_mix(buffer[0], N, step + i, CU_STREAM_PER_THREAD));
        }
    }
    OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    return arg;
}

static void relayed_beside(void)
{
    pthread_t thread;
    CUcontext again;
    CHECK(pthread_barrier_init(&turn, NULL, 2) == 0);
    CHECK(pthread_create(&thread, NULL, uses_default_stream, NULL) == 0);
    for (uint32_t step = 0; step < STEPS * 4; step++) {
        pthread_barrier_wait(&turn);
        if (step % 40 == 30)
            OK(cuDevicePrimaryCtxRetain(&again, dev));
        else if (step % 40 == 35)
            OK(cuDevicePrimaryCtxRelease(dev));
        pthread_barrier_wait(&turn);
    }
    CHECK(pthread_join(thread, NULL) == 0);
}

static volatile uint32_t *word, steps_done, goes_on, has_left;

static void *releases(void *arg)
{
    OK(cuCtxSetCurrent(ctx));
    OK(release_one());
    return arg;
}

static void short_step(CUstream s, uint32_t step, bool whole)
{
    OK(launch_mix(buffer[0], N, 1, s));
    OK(launch_mix(buffer[0], N, 2, s));
    OK(launch_word(flag, word, step, s));
    for (unsigned i = 0; whole && i < 5; i++)
        OK(launch_mix(buffer[0], N, 3, s));
    if (whole)
        OK(cuStreamSynchronize(s));
}

/* In the end it looks for what its last kernel writes, without a call. */
static void *looks_at_word(void *arg)
{
    uint32_t step = 0;
    OK(cuCtxSetCurrent(ctx));
    CUstream s = made(CU_STREAM_NON_BLOCKING); /* a launch in the legacy stream would wait */
    while (step < 20 || !get_word(&goes_on)) {
        short_step(s, ++step, true);
        set_word(&steps_done, step);
    }
    for (unsigned i = 0; i < 20; i++)
        short_step(s, ++step, true);
    short_step(s, ++step, false);
    set_word(&has_left, 1);
    while (get_word(word) != step)
        sched_yield();
    return arg;
}

/* One thread's release waits for the lock of a stream that takes no more work; another thread makes
   new state in the context meanwhile. */
static void lost_beside(void)
{
    pthread_t filler, releaser, looker;
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    word = host_words(1);
    loop(s, buffer[1]);
    OK(cuStreamSynchronize(s));
    CHECK(pthread_create(&looker, NULL, looks_at_word, NULL) == 0);
    while (get_word(&steps_done) < 20)
        sched_yield();
    CHECK(pthread_create(&filler, NULL, ahead, s) == 0);
    until_full();
    CHECK(pthread_create(&releaser, NULL, releases, NULL) == 0);
    usleep(300000);
    set_word(&goes_on, 1);
    while (!get_word(&has_left))
        sched_yield();
    set_word(&released, 1);
    CHECK(pthread_join(releaser, NULL) == 0);
    CHECK(pthread_join(looker, NULL) == 0);
    CHECK(pthread_join(filler, NULL) == 0);
    OK(cuCtxSynchronize());
    OK(cuMemsetD32(buffer[0], 0, N)); /* nor here */
}

/* -- Many that wait for one event -- */

enum { WAITERS = 8, ROUNDS = 200 };
static volatile uint32_t round_now, have_waited, recorded_again, have_read;
static unsigned too_new;

static void *waits(void *arg)
{
    uintptr_t i = (uintptr_t)arg;
    CUdeviceptr from = (CUdeviceptr)(uintptr_t)word;
    OK(cuCtxSetCurrent(ctx));
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        for (unsigned k = 0; k < 2; k++) {
            CUdeviceptr to = (CUdeviceptr)(uintptr_t)&word[1 + i + WAITERS * k];
            uint32_t one = 1;
            void *args[] = {&to, &from, &one};
            while (get_word(k == 0 ? &round_now : &recorded_again) < round)
                sched_yield();
            if (k == 0)
                OK(cuStreamWaitEvent(s, event, 0));
            OK(cuLaunchKernel(word_copy, 1, 1, 1, 1, 1, 1, 0, s, args, NULL));
            if (k == 0)
                __atomic_fetch_add(&have_waited, 1, __ATOMIC_SEQ_CST);
        }
        kick(s);
        __atomic_fetch_add(&have_read, 1, __ATOMIC_SEQ_CST);
        OK(cuStreamSynchronize(s));
        if (get_word(&word[1 + i]) != round)
            __atomic_fetch_add(&too_new, 1, __ATOMIC_SEQ_CST);
    }
    return NULL;
}

/* Their waits are for the record before, however many are held when the event is recorded again. */
static void waiters_beside(void)
{
    pthread_t thread[WAITERS];
    CUstream slow = made(CU_STREAM_NON_BLOCKING), fast = made(CU_STREAM_NON_BLOCKING);
    word = host_words(1 + 2 * WAITERS);
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cuEventRecord(event, slow));
    for (uintptr_t i = 0; i < WAITERS; i++)
        CHECK(pthread_create(&thread[i], NULL, waits, (void *)i) == 0);
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        OK(cuLaunchHostFunc(slow, until_released, (void *)(uintptr_t)round));
        OK(launch_word(flag, word, round, slow));
        OK(cuEventRecord(event, slow));
        kick(slow);
        set_word(&round_now, round);
        while (get_word(&have_waited) < WAITERS * round)
            sched_yield();
        OK(cuEventRecord(event, fast));
        kick(fast);
        set_word(&recorded_again, round);
        while (get_word(&have_read) < WAITERS * round)
            sched_yield();
        usleep(200);
        set_word(&released, round);
        OK(cuStreamSynchronize(slow));
        OK(cuStreamSynchronize(fast));
        usleep(300); /* all have read before it is written again */
    }
    for (unsigned i = 0; i < WAITERS; i++)
        CHECK(pthread_join(thread[i], NULL) == 0);
    printf("%u too new\n", too_new);
}

/* -- A kernel that comes while execs are made -- */

static void *launches_once(void *arg)
{
    uint32_t mine = (uint32_t)(uintptr_t)arg;
    OK(cuCtxSetCurrent(ctx));
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    while (get_word(&started) < mine)
        ;
    usleep(mine % 16 * 30);
    OK(launch_word(spin, word, mine, s));
    OK(cuStreamSynchronize(s));
    OK(cuStreamDestroy(s));
    return NULL;
}

/* It waits for what this thread does behind its own wait. */
static void grown_beside(void)
{
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    word = host_words(1);
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, launches_once, (void *)(uintptr_t)round) == 0);
        usleep(500);
        for (unsigned i = 0; i < 5; i++) {
            for (unsigned k = 0; k < 8; k++) /* other sequences in each round */
                OK(launch_mix(buffer[0], 1 + (round + k * 7) % N, round + k, s));
            OK(cuStreamSynchronize(s));
            if (i == 1)
                set_word(&started, round);
        }
        set_word(word, round);
        CHECK(pthread_join(thread, NULL) == 0);
    }
}

/* -- A thread that ends -- */

static CUstream shared;

static void *uses_it_first(void *arg)
{
    OK(cuCtxSetCurrent(ctx));
    for (unsigned i = 0; i < 10; i++) {
        loop(shared, buffer[1]);
        OK(cuStreamSynchronize(shared));
        usleep(10000);
    }
    set_word(&started, 1);
    while (!get_word(&stop))
        sched_yield();
    return arg;
}

/* Another thread's launch waits until a stream takes more that this one used before. */
static void exit_beside(void)
{
    pthread_t user, filler;
    shared = made(CU_STREAM_NON_BLOCKING);
    CHECK(pthread_create(&user, NULL, uses_it_first, NULL) == 0);
    while (!get_word(&started))
        sched_yield();
    CHECK(pthread_create(&filler, NULL, ahead, shared) == 0);
    until_full();
    set_word(&stop, 1);
    CHECK(pthread_join(user, NULL) == 0);
    set_word(&released, 1);
    CHECK(pthread_join(filler, NULL) == 0);
}

/* -- A setter -- */

enum { ROOM = 1021, LEFT = 6 }; /* entries of a stream; of these, launches of the thread */

static void set_carveout(int value)
{
    OK(cuFuncSetAttribute(mix, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, value));
}

static void nothing(void *arg)
{
    (void)arg;
}

/* Two launches with other settings, each in some more. */
static void settings_loop(CUstream s)
{
    for (uint32_t step = 0; step < STEPS; step++) {
        set_carveout(0);
        OK(launch_mix(buffer[2], N, step, s));
        set_carveout(100);
        for (uint32_t i = 0; i < BODY; i++)
            OK(launch_mix(buffer[2], N, i, s));
        OK(cuStreamSynchronize(s));
    }
}

/* Each launch goes out when its function has another setting, until the stream takes no more. */
static void launches_late(CUstream s)
{
    OK(cuLaunchHostFunc(s, until_released, (void *)(uintptr_t)1));
    for (unsigned i = 0; i < ROOM - LEFT; i++)
        OK(cuLaunchHostFunc(s, nothing, NULL));
    for (uint32_t step = 1; step <= LEFT * 2 && !get_word(&released); step++) {
        set_carveout(0);
        OK(launch_mix(buffer[1], N, step, s));
        if (get_word(&released)) /* the other thread has set something since */
            break;
        set_carveout(100);
        kick(s);
        set_word(&submitted, step);
    }
}

/* It issues nothing: else nothing would be held behind a setter. */
static void *sets_late(void *arg)
{
    int value;
    OK(cuCtxSetCurrent(ctx));
    until_full();
    set_carveout(50);
    OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, mix));
    printf("%d at once\n", value);
    set_word(&released, 1);
    return arg;
}

/* Such a launch waits for room until a thread has set something, too. What that sets stays. */
static void setter_beside(void)
{
    pthread_t thread;
    int value;
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    settings_loop(s);
    CHECK(pthread_create(&thread, NULL, sets_late, NULL) == 0);
    launches_late(s);
    CHECK(pthread_join(thread, NULL) == 0);
    OK(cuStreamSynchronize(s));
    OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, mix));
    printf("%d in the end\n", value);
}

/* The function of what is held has another setting when a thread begins to issue, and waits for
   room. No call here waits for that. */
static void set_beside(void)
{
    pthread_t thread;
    CUstream s[] = {made(CU_STREAM_NON_BLOCKING), made(CU_STREAM_NON_BLOCKING)};
    settings_loop(s[0]);
    set_carveout(0);
    OK(launch_mix(buffer[2], N, 1, s[0]));
    set_carveout(100);
    CHECK(pthread_create(&thread, NULL, ahead, s[1]) == 0);
    until_full();
    kick(s[0]);
    OK(launch_mix(buffer[2], N, 1, s[0]));
    kick(s[0]);
    set_word(&released, 1);
    CHECK(pthread_join(thread, NULL) == 0);
    OK(cuStreamSynchronize(s[0]));
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {
        {"released_beside", released_beside}, {"lost_beside", lost_beside},
        {"relayed_beside", relayed_beside},   {"waiters_beside", waiters_beside},
        {"grown_beside", grown_beside},       {"exit_beside", exit_beside},
        {"streams_beside", streams_beside},   {"ahead_beside", ahead_beside},
        {"asked_beside", asked_beside},       {"setter_beside", setter_beside},
        {"set_beside", set_beside},           {NULL, NULL}};
    run(all, argc, argv);
    show_all(argv[1]);
    return 0;
}
