/* SPDX-License-Identifier: MIT */
/* live_event.c: events whose records and waits are held, and what else may happen to them. Prints
 * what came out, which is the same with the library as without it. */
#define _GNU_SOURCE
#include "live.h"

/* A wait for an event is refused once it was recorded in a capture that has ended, until it is
   recorded again; also where the recorder of the captured stream rests, after so many records. */
static void captured_events(void)
{
    CUstream s = made(CU_STREAM_NON_BLOCKING), other = made(CU_STREAM_NON_BLOCKING);
    CUevent event;
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    for (unsigned round = 0; round < 3; round++) {
        for (uint32_t step = 0; step < (round == 0 ? STEPS : 10 * STEPS); step++) {
            OK(cuEventRecord(event, other));
            body(s, buffer[0], step);
            OK(cuStreamWaitEvent(s, event, 0));
            body(s, buffer[0], 7);
            OK(cuStreamSynchronize(s));
        }
        CUgraph graph;
        OK(cuStreamBeginCapture(other, CU_STREAM_CAPTURE_MODE_RELAXED));
        body(other, buffer[1], round);
        OK(cuEventRecord(event, other));
        OK(cuStreamEndCapture(other, &graph));
        OK(cuGraphDestroy(graph));
        for (uint32_t step = 0; step < 2; step++) {
            if (step == 1)
                OK(cuEventRecord(event, other));
            body(s, buffer[0], step);
            printf("wait %d\n", cuStreamWaitEvent(s, event, 0));
            body(s, buffer[0], 7);
            OK(cuStreamSynchronize(s));
        }
    }
    show("events", buffer[0]);
}

/* Events that live for a step: destroyed at its end, behind those of the next, or as soon as the
   call is made that waits for them. */
static void passing_events(void)
{
    CUstream s = made(CU_STREAM_NON_BLOCKING), other = made(CU_STREAM_NON_BLOCKING);
    for (unsigned way = 0; way < 3; way++) {
        CUevent last[2] = {NULL};
        for (uint32_t step = 0; step < 4 * STEPS; step++) {
            CUevent event[2];
            for (unsigned i = 0; i < 2; i++)
                OK(cuEventCreate(&event[i], CU_EVENT_DISABLE_TIMING));
            for (unsigned i = 0; way == 1 && step > 0 && i < 2; i++)
                OK(cuEventDestroy(last[i]));
            body(s, buffer[0], step);
            OK(cuEventRecord(event[0], s));
            OK(cuStreamWaitEvent(other, event[0], 0));
            if (way == 2)
                OK(cuEventDestroy(event[0]));
            body(other, buffer[0], 3);
            OK(cuEventRecord(event[1], other));
            OK(cuStreamWaitEvent(s, event[1], 0));
            if (way == 2)
                OK(cuEventDestroy(event[1]));
            body(s, buffer[0], 7);
            for (unsigned i = 0; way == 0 && i < 2; i++)
                OK(cuEventDestroy(event[i]));
            memcpy(last, event, sizeof last);
            if (step % 4 == 0)
                OK(cuCtxSynchronize());
        }
        for (unsigned i = 0; way == 1 && i < 2; i++)
            OK(cuEventDestroy(last[i]));
        OK(cuCtxSynchronize());
        show("passing", buffer[0]);
    }
}

/* -- Events that launches record -- */

/* A launch that records the event. */
static CUresult launch_event(CUfunction f, void **args, unsigned threads, CUevent e, CUstream s)
{
    CUlaunchAttribute attr = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT};
    attr.value.programmaticEvent.event = e;
    CUlaunchConfig config = one_block(threads, &attr, 1, s);
    return cuLaunchKernelEx(&config, f, args, NULL);
}

/* One stream's record is held when a launch in another one records the event: a wait that follows
   is for the launch. */
static void launched_events(void)
{
    CUstream s = made(CU_STREAM_NON_BLOCKING), hot = made(CU_STREAM_NON_BLOCKING),
             waiter = made(CU_STREAM_NON_BLOCKING);
    volatile uint32_t *word = host_words(1);
    unsigned early = 0;
    CUevent e;
    OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    for (uint32_t step = 0; step < 4 * STEPS; step++) {
        uint32_t before;
        OK(cuMemcpyDtoH(&before, buffer[1], 4));
        for (uint32_t i = 0; i < 3; i++)
            OK(launch_mix(buffer[0], N, i, hot));
        OK(cuEventRecord(e, hot));
        if (step >= STEPS && step % 8 == 7) {
            uint32_t n = N, after;
            void *args[] = {&buffer[1], &n, &step};
            set_word(word, 0);
            OK(launch_word(spin, word, 1, s)); /* what follows takes its time */
            OK(launch_event(mix, args, N, e, s));
            OK(cuStreamWaitEvent(waiter, e, 0));
            OK(cuMemcpyDtoDAsync(buffer[2], buffer[1], 4 * N, waiter));
            usleep(3000);
            set_word(word, 1);
            OK(cuStreamSynchronize(waiter));
            OK(cuStreamSynchronize(s));
            OK(cuMemcpyDtoH(&after, buffer[2], 4));
            early += after != mixed(before, step);
        }
        for (uint32_t i = 0; i < 3; i++)
            OK(launch_mix(buffer[0], N, i, hot));
        OK(cuStreamSynchronize(hot));
    }
    printf("%u too early\n", early);
}

/* A wait is held when a launch records the event that ends once the waiting stream has gone on: the
   wait is for the record before. */
static void awaited_events(void)
{
    CUstream s = made(CU_STREAM_NON_BLOCKING), first = made(CU_STREAM_NON_BLOCKING),
             waiter = made(CU_STREAM_NON_BLOCKING);
    volatile uint32_t *word = host_words(1);
    CUevent e;
    OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    for (uint32_t step = 0; step < 4 * STEPS; step++) {
        OK(cuEventRecord(e, first));
        set_word(word, 0);
        for (uint32_t i = 0; i < 3; i++)
            OK(launch_mix(buffer[0], N, i, waiter));
        OK(cuStreamWaitEvent(waiter, e, 0));
        OK(launch_word(flag, word, 1, waiter));
        if (step >= STEPS && step % 8 == 7) {
            uint32_t one = 1;
            CUdeviceptr at = (CUdeviceptr)(uintptr_t)word;
            void *args[] = {&at, &one};
            OK(launch_event(spin, args, 1, e, s));
        }
        for (uint32_t i = 0; i < 3; i++)
            OK(launch_mix(buffer[0], N, i, waiter));
        OK(cuStreamSynchronize(waiter));
        OK(cuStreamSynchronize(s));
        OK(cuStreamSynchronize(first));
    }
}

/* -- Events in a host function -- */

static volatile uint32_t stage;
static CUevent held_event;
static CUresult from_callback[3];

static void calls_driver(void *arg)
{
    uint32_t step = (uint32_t)(uintptr_t)arg;
    while (get_word(&stage) != 2 * step + 1)
        sched_yield();
    switch (step % 3) { /* the driver refuses those without a context */
    case 0:
        from_callback[0] = cuEventRecord(held_event, NULL);
        break;
    case 1:
        from_callback[1] = cuStreamWaitEvent(NULL, held_event, 0);
        break;
    default:
        from_callback[2] = cuEventDestroy(held_event);
    }
    set_word(&stage, 2 * step + 2);
}

/* Calls about an event in a host function, while another thread holds its record. */
static void forbidden_events(void)
{
    CUstream s = made(CU_STREAM_NON_BLOCKING), other = made(CU_STREAM_NON_BLOCKING);
    OK(cuEventCreate(&held_event, CU_EVENT_DISABLE_TIMING));
    for (uint32_t step = 0; step < 2 * STEPS; step++) {
        if (step >= STEPS)
            OK(cuLaunchHostFunc(other, calls_driver, (void *)(uintptr_t)step));
        OK(cuStreamWaitEvent(s, held_event, 0));
        body(s, buffer[0], step);
        OK(cuEventRecord(held_event, s));
        if (step >= STEPS) {
            set_word(&stage, 2 * step + 1);
            while (get_word(&stage) != 2 * step + 2)
                sched_yield();
        }
        if (step >= STEPS && step % 3 == 2 && from_callback[2] == CUDA_SUCCESS)
            OK(cuEventCreate(&held_event, CU_EVENT_DISABLE_TIMING));
        body(s, buffer[0], 1);
        OK(cuStreamSynchronize(s));
    }
    printf("%d %d %d\n", from_callback[0], from_callback[1], from_callback[2]);
}

/* -- Events of two processes -- */

/* Records and waits; with an event that another process may know, and with one that none does. */
static void record_and_wait(bool shared)
{
    CUstream s = made(CU_STREAM_NON_BLOCKING), waiter = made(CU_STREAM_NON_BLOCKING);
    CUevent e;
    CUipcEventHandle handle;
    OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
    if (shared)
        (void)cuIpcGetEventHandle(&handle, e); /* which the simulated driver cannot */
    for (uint32_t step = 0; step < 4 * STEPS; step++) {
        body(s, buffer[0], 1);
        OK(cuEventRecord(e, s));
        body(s, buffer[0], 2);
        body(waiter, buffer[1], 1);
        OK(cuStreamWaitEvent(waiter, e, 0));
        body(waiter, buffer[1], 2);
        OK(cuStreamSynchronize(waiter));
        OK(cuStreamSynchronize(s));
    }
}

static void shared_events(void)
{
    record_and_wait(true);
}

static void own_events(void)
{
    record_and_wait(false);
}

/* -- Times -- */

/* A pause of the host, us, between two records of events with timing. */
enum { GAP = 400 };

enum way { PLAIN, WITH_FLAGS, DEFAULT_STREAM, TWO_STREAMS, ALONE, WAYS };

static CUresult record(CUevent e, CUstream s, enum way way)
{
    return way == WITH_FLAGS ? cuEventRecordWithFlags(e, s, CU_EVENT_RECORD_DEFAULT)
                             : cuEventRecord(e, s);
}

/* The time between the two events, ms. Launches go before both, and between them unless they are
   ALONE. */
static float gap_of(CUstream s, CUstream other, const CUevent e[3], enum way way)
{
    float ms;
    for (uint32_t k = 0; k < 4; k++)
        OK(launch_mix(buffer[0], N, k, s));
    OK(record(e[0], s, way));
    if (way != ALONE)
        OK(launch_mix(buffer[0], N, 9, s));
    usleep(GAP);
    if (way == TWO_STREAMS) {
        OK(cuEventRecord(e[2], s));
        OK(cuStreamWaitEvent(other, e[2], 0));
    }
    if (way != ALONE)
        OK(launch_mix(buffer[0], N, 10, other));
    OK(record(e[1], other, way));
    for (uint32_t k = 0; k < 2; k++)
        OK(cuMemsetD32Async(buffer[1], k, N, other));
    OK(cuStreamSynchronize(other));
    OK(cuEventElapsedTime(&ms, e[0], e[1]));
    return ms;
}

/* The time between two events is never shorter than the pause of the host between their records. (A
   busy machine may be late with the first one, but not often.) */
static void timed_events(void)
{
    CUstream s = made(CU_STREAM_NON_BLOCKING), second = made(CU_STREAM_NON_BLOCKING);
    for (enum way way = PLAIN; way < WAYS; way++) {
        CUevent e[3];
        unsigned shorter = 0;
        CUstream first = way == DEFAULT_STREAM ? CU_STREAM_PER_THREAD : s;
        for (unsigned i = 0; i < 3; i++)
            OK(cuEventCreate(&e[i], i == 2 ? CU_EVENT_DISABLE_TIMING : CU_EVENT_DEFAULT));
        for (uint32_t step = 0; step < 2 * STEPS; step++)
            shorter += gap_of(first, way == TWO_STREAMS ? second : first, e, way) < GAP * .5e-3F;
        for (unsigned i = 0; i < 3; i++)
            OK(cuEventDestroy(e[i]));
        printf("way %u: %s\n", way, shorter < STEPS ? "as long as the pause" : "shorter");
    }
}

/* -- Two threads in step -- */

static CUstream stream_of[2];
static CUevent done[2], taken[2];
static pthread_barrier_t step_over;

/* Its half of a step: work, then what the other one's work has come to, which goes on behind that.
 */
static void *steps_of(void *arg)
{
    unsigned me = (unsigned)(uintptr_t)arg, other = 1 - me;
    CUstream s = stream_of[me];
    OK(cuCtxSetCurrent(ctx));
    for (uint32_t step = 0; step < 4 * STEPS; step++) {
        OK(cuStreamWaitEvent(s, taken[other], 0));
        OK(cuMemcpyDtoDAsync(buffer[me] + 2 * N, buffer[2 + me], 2 * N, s));
        body(s, buffer[me], step);
        OK(cuEventRecord(done[me], s));
        pthread_barrier_wait(&step_over);
        OK(cuStreamWaitEvent(s, done[other], 0));
        OK(cuMemcpyDtoDAsync(buffer[2 + me], buffer[other], 4 * N, s));
        OK(cuEventRecord(taken[me], s));
        OK(cuMemsetD32Async(buffer[2 + me], step, 1, s)); /* not waited for */
        pthread_barrier_wait(&step_over);
    }
    return arg;
}

/* Each waits for what the other one has recorded, which may be held, and its stream's lock free. */
static void stepped_events(void)
{
    pthread_t thread[2];
    CHECK(pthread_barrier_init(&step_over, NULL, 2) == 0);
    for (unsigned i = 0; i < 2; i++) {
        stream_of[i] = made(CU_STREAM_NON_BLOCKING);
        OK(cuEventCreate(&done[i], CU_EVENT_DISABLE_TIMING));
        OK(cuEventCreate(&taken[i], CU_EVENT_DISABLE_TIMING));
    }
    for (uintptr_t i = 0; i < 2; i++)
        CHECK(pthread_create(&thread[i], NULL, steps_of, (void *)i) == 0);
    for (unsigned i = 0; i < 2; i++)
        CHECK(pthread_join(thread[i], NULL) == 0);
    OK(cuCtxSynchronize());
}

/* Waits on the host for each step of the other one: for its event, its stream, or the context. */
static void *completes(void *word)
{
    OK(cuCtxSetCurrent(ctx));
    for (uint32_t step = 0; step < 24 * STEPS; step++) {
        pthread_barrier_wait(&step_over);
        switch (step / (4 * STEPS)) {
        case 0:
            OK(cuEventSynchronize(done[0]));
            break;
        case 1:
            OK(cuStreamSynchronize(stream_of[1]));
            break;
        default:
            OK(cuCtxSynchronize());
        }
        CHECK(get_word(word) == step + 1);
        pthread_barrier_wait(&step_over);
    }
    return NULL;
}

/* One thread issues, another one waits for that. */
static void completed_events(void)
{
    pthread_t thread;
    volatile uint32_t *word = host_words(1);
    CHECK(pthread_barrier_init(&step_over, NULL, 2) == 0);
    OK(cuEventCreate(&done[0], CU_EVENT_DISABLE_TIMING));
    for (unsigned i = 0; i < 2; i++)
        stream_of[i] = made(CU_STREAM_NON_BLOCKING);
    CHECK(pthread_create(&thread, NULL, completes, (void *)word) == 0);
    for (uint32_t step = 0; step < 24 * STEPS; step++) {
        CUstream s = stream_of[step >= 4 * STEPS];
        body(s, buffer[1], step);
        OK(launch_word(flag, word, step + 1, s));
        if (s == stream_of[0])
            OK(cuEventRecord(done[0], s));
        pthread_barrier_wait(&step_over);
        pthread_barrier_wait(&step_over);
    }
    CHECK(pthread_join(thread, NULL) == 0);
}

static void *waits(void *arg)
{
    OK(cuCtxSetCurrent(ctx));
    for (uint32_t step = 0; step < 4 * STEPS; step++) {
        pthread_barrier_wait(&step_over);
        OK(cuStreamSynchronize(stream_of[0]));
        pthread_barrier_wait(&step_over);
    }
    return arg;
}

/* Another thread waits for the stream once in each step, anywhere in it; then the loop goes on
 * alone. */
static void scattered_events(void)
{
    pthread_t thread;
    CUstream s = stream_of[0] = made(CU_STREAM_NON_BLOCKING);
    CHECK(pthread_barrier_init(&step_over, NULL, 2) == 0);
    CHECK(pthread_create(&thread, NULL, waits, NULL) == 0);
    for (uint32_t step = 0; step < 16 * STEPS; step++) {
        for (uint32_t i = 0; i < 2 * BODY; i++) {
            OK(launch_mix(buffer[1], N, i == 2 ? step : i, s));
            if (step < 4 * STEPS && i == (step * 2654435761u >> 8) % (2 * BODY)) {
                pthread_barrier_wait(&step_over);
                pthread_barrier_wait(&step_over);
            }
        }
        OK(cuStreamSynchronize(s));
    }
    CHECK(pthread_join(thread, NULL) == 0);
}

static _Atomic uint32_t launched;

/* Each launch takes some time (AGSIM_LAUNCH_US). */
static void *launches(void *arg)
{
    OK(cuCtxSetCurrent(ctx));
    for (uint32_t i = 0; i < 60; i++) {
        OK(launch_mix(buffer[0], N, i, stream_of[0]));
        launched++;
    }
    return arg;
}

/* Events that a graph of the stream records are destroyed where that graph cannot be changed: while
   another thread launches there, or a stream captures. The graphs go with their context. */
static void lost_events(void)
{
    for (unsigned way = 0; way < 2; way++) {
        CUgraph graph;
        CUevent event[2];
        pthread_t thread;
        CUstream s = stream_of[0] = made(CU_STREAM_NON_BLOCKING);
        CUstream other = made(CU_STREAM_NON_BLOCKING);
        for (unsigned i = 0; i < 2; i++)
            OK(cuEventCreate(&event[i], CU_EVENT_DISABLE_TIMING));
        for (uint32_t step = 0; step < STEPS / 2; step++) {
            body(s, buffer[0], step);
            for (unsigned i = 0; i < 2; i++)
                OK(cuEventRecord(event[i], s));
            body(s, buffer[0], 7);
            OK(cuStreamSynchronize(s));
        }
        if (way == 0)
            CHECK(pthread_create(&thread, NULL, launches, NULL) == 0);
        else
            OK(cuStreamBeginCapture(other, CU_STREAM_CAPTURE_MODE_RELAXED));
        while (way == 0 && launched < 10)
            sched_yield();
        OK(cuEventDestroy(event[0]));
        if (way == 0)
            CHECK(pthread_join(thread, NULL) == 0);
        else
            OK(cuStreamEndCapture(other, &graph));
        OK(cuEventDestroy(event[1]));
        OK(cuCtxSynchronize());
    }
    show_all("lost_events");
    OK(cuDevicePrimaryCtxReset(dev));
    exit(0);
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {{"captured_events", captured_events},
                                          {"passing_events", passing_events},
                                          {"forbidden_events", forbidden_events},
                                          {"launched_events", launched_events},
                                          {"awaited_events", awaited_events},
                                          {"shared_events", shared_events},
                                          {"own_events", own_events},
                                          {"timed_events", timed_events},
                                          {"stepped_events", stepped_events},
                                          {"completed_events", completed_events},
                                          {"scattered_events", scattered_events},
                                          {"lost_events", lost_events},
                                          {NULL, NULL}};
    run(all, argc, argv);
    show_all(argv[1]);
    return 0;
}
