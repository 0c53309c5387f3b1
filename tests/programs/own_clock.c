/* SPDX-License-Identifier: MIT */
/*
 * own_clock.c ITERATIONS OPS SYNC OP_NS READ_NS: so many iterations of so many kernels, a wait in
 * each if SYNC is not 0, by a clock that is this program's: it has each kernel take so long, and
 * each look at the clock, and so what the library does between two looks. So how fast the machine
 * is makes no difference.
 */
#define _GNU_SOURCE
#include "sim_test.h"

#include <sys/syscall.h>
#include <time.h>

static _Thread_local uint64_t now; /* ns; 0: not this thread's clock */
static uint64_t read_ns;

/* In place of the C library's, for every library in the process. */
int clock_gettime(clockid_t clock, struct timespec *time)
{
    if (now == 0 || clock != CLOCK_MONOTONIC)
        return (int)syscall(SYS_clock_gettime, clock, time);
    now += read_ns;
    time->tv_sec = (time_t)(now / 1000000000);
    time->tv_nsec = (long)(now % 1000000000);
    return 0;
}

int main(int argc, char **argv)
{
    CUdeviceptr buffer;
    CUstream stream;
    uint32_t words[2], sum = 0;
    CHECK(argc == 6);
    uint32_t iterations = (uint32_t)atoi(argv[1]), ops = (uint32_t)atoi(argv[2]);
    int sync = atoi(argv[3]);
    uint64_t op_ns = (uint64_t)atoi(argv[4]);
    start();
    OK(cuMemAlloc(&buffer, sizeof words));
    OK(cuMemsetD32(buffer, 1, 2));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    read_ns = (uint64_t)atoi(argv[5]);
    now = 1000000000;
    for (uint32_t i = 0; i < iterations; i++) {
        for (uint32_t op = 0; op < ops; op++) {
            now += op_ns;
            OK(launch_mix(buffer, 2, op, stream));
        }
        if (sync)
            OK(cuStreamSynchronize(stream));
    }
    OK(cuStreamSynchronize(stream));
    now = 0;
    OK(cuMemcpyDtoH(words, buffer, sizeof words));
    for (int i = 0; i < 2; i++)
        sum = sum * 31 + words[i];
    printf("%08x\n", sum);
    return 0;
}
