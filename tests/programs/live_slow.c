/* SPDX-License-Identifier: MIT */
/*
 * live_slow.c TRIPS US [OPS [PAUSE]]: so many kernels (2) with so many microseconds of sleep
 * between each two, and a wait, or a pause of so many microseconds. Where LIVE_SLOW_LATE_US is set,
 * says on stderr in how many trips a sleep took longer than that: a busy machine wakes it late.
 */
#include "sim_test.h"

#include <time.h>

static unsigned us_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (unsigned)(now.tv_sec * 1000000 + now.tv_nsec / 1000);
}

int main(int argc, char **argv)
{
    CHECK(argc >= 3);
    int trips = atoi(argv[1]);
    unsigned us = (unsigned)atoi(argv[2]);
    uint32_t ops = argc > 3 ? (uint32_t)atoi(argv[3]) : 2;
    unsigned pause = argc > 4 ? (unsigned)atoi(argv[4]) : 0;
    CUdeviceptr buffer;
    uint32_t words[64], sum = 0, late = 0;
    const char *most = getenv("LIVE_SLOW_LATE_US");
    start();
    OK(cuMemAlloc(&buffer, sizeof words));
    OK(cuMemsetD32(buffer, 1, 64));
    for (uint32_t trip = 0; trip < (uint32_t)trips; trip++) {
        int is_late = 0;
        for (uint32_t op = 0; op < ops; op++) {
            unsigned began = us_now();
            if (op != 0 && us != 0)
                usleep(us);
            OK(launch_mix(buffer, 64, trip + op, 0));
            is_late |= most != NULL && us_now() - began > (unsigned)atoi(most);
        }
        late += is_late;
        if (pause != 0)
            usleep(pause);
        else
            OK(cuCtxSynchronize());
    }
    OK(cuMemcpyDtoH(words, buffer, sizeof words));
    for (int i = 0; i < 64; i++)
        sum = sum * 31 + words[i];
    printf("%08x\n", sum);
    if (most != NULL)
        fprintf(stderr, "%u late\n", late);
    return 0;
}
