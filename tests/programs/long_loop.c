/* SPDX-License-Identifier: MIT */
/*
 * long_loop.c ROUNDS OPS [LOOPS [PAUSE [WORK]]]: so many rounds of so many kernels (at most 500),
 * no two of which are alike, behind 37 others, and nobody waits; so many such loops of other
 * kernels one after the other (1); a pause of so many microseconds behind the 101st kernel of each
 * round (0), and of work behind each kernel (0), or, if that is negative, of sleep.
 */
#include <time.h>

#include "sim_test.h"

enum { BEFORE = 37, SIZE = 1000, PAUSE_AT = 101 };

static void work(long us)
{
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - begin.tv_sec) * 1000000 + (now.tv_nsec - begin.tv_nsec) / 1000 < us);
}

int main(int argc, char **argv)
{
    CHECK(argc >= 3);
    uint32_t rounds = (uint32_t)atoi(argv[1]), ops = (uint32_t)atoi(argv[2]);
    uint32_t loops = argc > 3 ? (uint32_t)atoi(argv[3]) : 1;
    useconds_t pause = argc > 4 ? (useconds_t)atoi(argv[4]) : 0;
    long us = argc > 5 ? atol(argv[5]) : 0;
    CUdeviceptr buffer;
    static uint32_t words[SIZE];
    uint32_t sum = 0;
    CHECK(ops <= SIZE / 2);
    start();
    OK(cuMemAlloc(&buffer, sizeof words));
    OK(cuMemsetD32(buffer, 1, SIZE));
    for (uint32_t i = 0; i < BEFORE; i++)
        OK(launch_mix(buffer, SIZE - i, i, 0));
    for (uint32_t loop = 0; loop < loops; loop++)
        for (uint32_t round = 0; round < rounds; round++)
            for (uint32_t op = 0; op < ops; op++) {
                OK(launch_mix(buffer, 1 + loop % 2 * (SIZE / 2) + op, round + op, 0));
                if (us > 0)
                    work(us);
                else if (us < 0)
                    usleep((useconds_t)-us);
                if (op + 1 == PAUSE_AT && pause != 0)
                    usleep(pause);
            }
    OK(cuMemcpyDtoH(words, buffer, sizeof words));
    for (int i = 0; i < SIZE; i++)
        sum = sum * 31 + words[i];
    printf("%08x\n", sum);
    return 0;
}
