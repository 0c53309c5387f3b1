/* SPDX-License-Identifier: MIT */
/* live_clock.c: threads that wait for each other in ways that end by time in the library. */
#define _GNU_SOURCE
#include "live.h"

enum { ROUNDS = 300 };

static volatile uint32_t go, *word;

static void *allocates(void *arg)
{
    OK(cuCtxSetCurrent(ctx));
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        CUdeviceptr memory;
        while (get_word(&go) < round)
            usleep(50);
        OK(cuMemAlloc(&memory, 256));
        OK(cuMemFree(memory));
    }
    return arg;
}

/* One launches and watches memory, the other allocates: a barrier for what the first one holds. */
static void watched(void)
{
    pthread_t thread;
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    word = host_words(BODY);
    CHECK(pthread_create(&thread, NULL, allocates, NULL) == 0);
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        for (uint32_t i = 0; i < 3; i++)
            body(s, buffer[0], round);
        for (uint32_t i = 0; i < BODY; i++)
            OK(launch_word(flag, word + i, round, s));
        set_word(&go, round);
        while (get_word(word + BODY - 1) != round)
            sched_yield();
    }
    CHECK(pthread_join(thread, NULL) == 0);
    show_all("watched");
}

static void *captures(void *arg)
{
    OK(cuCtxSetCurrent(ctx));
    for (uint32_t round = 0; round < ROUNDS; round++) {
        CUgraph graph;
        OK(cuStreamBeginCapture(arg, CU_STREAM_CAPTURE_MODE_RELAXED));
        OK(cuStreamEndCapture(arg, &graph));
        OK(cuGraphDestroy(graph));
    }
    return NULL;
}

/* Graphs are made while captures begin. */
static void captured(void)
{
    pthread_t thread;
    CUstream s[2] = {made(CU_STREAM_NON_BLOCKING), made(CU_STREAM_NON_BLOCKING)};
    CHECK(pthread_create(&thread, NULL, captures, s[1]) == 0);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (uint32_t i = 0; i < 8; i++)
            OK(launch_mix(buffer[0], 1 + (round / 8 + i) % N, round, s[0]));
        OK(cuStreamSynchronize(s[0]));
    }
    CHECK(pthread_join(thread, NULL) == 0);
    show_all("captured");
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {
        {"watched", watched}, {"captured", captured}, {NULL, NULL}};
    run(all, argc, argv);
    return 0;
}
