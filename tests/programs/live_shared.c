/* SPDX-License-Identifier: MIT */
/*
 * live_shared.c TRIPS US: two threads take turns in one stream, three kernels each with so many
 * microseconds of sleep before each, and one of them waits for every 24; it has issued far more ops
 * before, in another stream.
 */
#include "sim_test.h"

#include <pthread.h>

enum { TURNS = 8, OPS = 3, BEFORE = 20000 };

static CUdeviceptr buffer;
static CUstream stream;
static int trips;
static unsigned us;
static pthread_barrier_t turn;

static void *work(void *number)
{
    int mine = *(int *)number;
    OK(cuCtxSetCurrent(ctx));
    for (int step = 0; step < trips * TURNS; step++) {
        for (uint32_t op = 0; op < OPS && step % 2 == mine; op++) {
            usleep(us);
            OK(launch_mix(buffer, 64, op, stream));
        }
        if (mine == 0 && step % TURNS == 0)
            OK(cuStreamSynchronize(stream));
        pthread_barrier_wait(&turn);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    trips = atoi(argv[1]);
    us = (unsigned)atoi(argv[2]);
    int first = 0, second = 1;
    pthread_t other;
    start();
    OK(cuMemAlloc(&buffer, 256));
    OK(cuMemsetD32(buffer, 1, 64));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int op = 0; op < BEFORE; op++)
        OK(launch_mix(buffer, 64, 1, NULL));
    OK(cuCtxSynchronize());
    pthread_barrier_init(&turn, NULL, 2);
    CHECK(pthread_create(&other, NULL, work, &second) == 0);
    work(&first);
    CHECK(pthread_join(other, NULL) == 0);
    OK(cuCtxSynchronize());
    return 0;
}
