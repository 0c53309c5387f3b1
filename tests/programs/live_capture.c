/* SPDX-License-Identifier: MIT */
/* live_capture.c SCENARIO: captures of the program, beside what the library asks and makes; and one
   that ends in a host function. */
#include "live.h"

enum { ROUNDS = 40 };

static CUstream stream, target, other;
static volatile uint32_t ready, over;
static unsigned refused;
static bool allocates;

static void loops(uint32_t round)
{
    if (allocates) {
        body(stream, buffer[0], round);
        return;
    }
    for (uint32_t step = 0; step < 40;
         step++) /* another loop each time, so another graph is made */
        for (uint32_t i = 0; i < 3 + round; i++)
            OK(launch_mix(buffer[0], N, i == 2 ? step : i, stream));
}

static void *maker(void *arg)
{
    OK(cuCtxSetCurrent(ctx));
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        CUdeviceptr at;
        loops(round);
        set_word(&ready, round);
        if (allocates) {
            OK(cuMemAlloc(&at, 64));
            OK(cuMemFree(at));
        } else {
            OK(cuStreamSynchronize(other));
        }
        while (get_word(&over) < round)
            sched_yield();
    }
    return arg;
}

/* A thread gives up a stream, which another one captures at once, and then comes where graphs are
   made, or idle streams looked for. */
static void captures_beside(void)
{
    pthread_t thread;
    target = stream = made(CU_STREAM_NON_BLOCKING);
    other = made(CU_STREAM_NON_BLOCKING);
    CHECK(pthread_create(&thread, NULL, maker, NULL) == 0);
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        CUgraph graph = NULL;
        while (get_word(&ready) < round)
            ;
        OK(cuStreamBeginCapture(target, CU_STREAM_CAPTURE_MODE_RELAXED));
        for (uint32_t i = 0; i < 3; i++) {
            refused += launch_mix(buffer[1], N, i, target) != CUDA_SUCCESS;
            usleep(1000);
        }
        refused += cuStreamEndCapture(target, &graph) != CUDA_SUCCESS;
        if (graph)
            OK(cuGraphDestroy(graph));
        set_word(&over, round);
    }
    CHECK(pthread_join(thread, NULL) == 0);
    printf("%u refused\n", refused);
    show_all("beside");
}

static void beside_allocations(void)
{
    allocates = true;
    captures_beside();
}

static void beside_waits(void)
{
    captures_beside();
}

static CUresult ended;

static void CUDA_CB end_capture(void *arg)
{
    CUgraph graph;
    (void)arg;
    ended = cuStreamEndCapture(stream, &graph);
}

static CUevent e, f;

static void fork_and_join(uint32_t step)
{
    body(stream, buffer[0], step);
    OK(cuEventRecord(e, stream));
    OK(cuStreamWaitEvent(target, e, 0));
    body(target, buffer[1], step);
    OK(cuEventRecord(f, target));
    OK(cuStreamWaitEvent(stream, f, 0));
}

/* It is over for the driver, and for the library. */
static void end_in_a_host_function(void)
{
    stream = made(CU_STREAM_NON_BLOCKING), target = made(CU_STREAM_NON_BLOCKING);
    other = made(CU_STREAM_NON_BLOCKING);
    OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    OK(cuEventCreate(&f, CU_EVENT_DISABLE_TIMING));
    for (uint32_t step = 0; step < 200; step++)
        fork_and_join(step);
    OK(cuCtxSynchronize());
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    body(stream, buffer[0], 1);
    OK(cuLaunchHostFunc(other, end_capture, NULL));
    OK(cuStreamSynchronize(other));
    CUstreamCaptureStatus status;
    OK(cuStreamIsCapturing(stream, &status));
    printf("%d, %d\n", ended, (int)status);
    for (uint32_t step = 0; step < 100; step++)
        fork_and_join(step);
    show_all("after");
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {{"beside_allocations", beside_allocations},
                                          {"beside_waits", beside_waits},
                                          {"end_in_a_host_function", end_in_a_host_function},
                                          {NULL, NULL}};
    run(all, argc, argv);
    return 0;
}
