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

/* Another thread is in a launch that waits until its stream takes more; what ends that is behind
   calls here, which have nothing to do with it. */
static void ahead_and(bool allocate)
{
    pthread_t thread;
    CUdeviceptr more;
    CUstream s[2] = {made(CU_STREAM_NON_BLOCKING), made(CU_STREAM_NON_BLOCKING)};
    CUevent recorded;
    uint32_t seen;
    OK(cuEventCreate(&recorded, CU_EVENT_DISABLE_TIMING));
    loop(s[0], buffer[1]);
    OK(cuStreamSynchronize(s[0]));
    CHECK(pthread_create(&thread, NULL, ahead, s[0]) == 0);
    do {
        seen = get_word(&submitted);
        usleep(50000);
    } while (seen == 0 || seen != get_word(&submitted));
    for (uint32_t step = 0; step < STEPS; step++) {
        body(s[1], buffer[0], step);
        OK(cuEventRecord(recorded, s[1]));
        OK(cuEventSynchronize(recorded));
        OK(cuEventQuery(recorded));
        if (allocate)
            OK(cuMemAlloc(&more, N));
    }
    set_word(&released, 1);
    CHECK(pthread_join(thread, NULL) == 0);
}

static void ahead_beside(void)
{
    ahead_and(false);
}

static void barrier_beside(void)
{
    alarm(8);
    ahead_and(true);
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

int main(int argc, char **argv)
{
    static const struct scenario all[] = {{"streams_beside", streams_beside},
                                          {"ahead_beside", ahead_beside},
                                          {"barrier_beside", barrier_beside},
                                          {"asked_beside", asked_beside},
                                          {NULL, NULL}};
    run(all, argc, argv);
    show_all(argv[1]);
    return 0;
}
