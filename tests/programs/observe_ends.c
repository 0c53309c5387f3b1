/* SPDX-License-Identifier: MIT */
/*
 * observe_ends.c HOW MS: a loop of kernels for so many milliseconds, and its end: "group" by the
 * system call, "leaves" by _exit(), "killed" by a signal, "returns". Prints the kernels of all but
 * the last second, and those of all. "idle": the loop, then nothing until standard input ends.
 * "stuck": the loop, while another thread waits in a launch that finds no room.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agsim.h"
#include "sim_test.h"

enum { N = 32, BODY = 6, ROUNDS = 5 };

static volatile uint32_t never;

static double now(void)
{
    struct timespec time;
    CHECK(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &time) == 0);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void until_released(void *arg)
{
    (void)arg;
    while (never == 0)
        usleep(1000);
}

static void *fill(void *buffer)
{
    CUstream stream;
    OK(cuCtxSetCurrent(ctx));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuLaunchHostFunc(stream, until_released, NULL));
    for (uint32_t i = 0;; i++)
        OK(launch_mix((CUdeviceptr)(uintptr_t)buffer, N, i % BODY, stream));
    return NULL;
}

int main(int argc, char **argv)
{
    CUdeviceptr buffer, other;
    CUstream stream;
    pthread_t thread;
    unsigned long ops = 0, before = 0;
    CHECK(argc == 3);
    start();
    OK(cuMemAlloc(&buffer, 4 * N));
    OK(cuMemAlloc(&other, 4 * N));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    if (strcmp(argv[1], "stuck") == 0)
        CHECK(pthread_create(&thread, NULL, fill, (void *)(uintptr_t)other) == 0);
    double end = now() + atof(argv[2]) / 1000;
    while (now() < end) {
        for (uint32_t i = 0; i < BODY * ROUNDS; i++)
            OK(launch_mix(buffer, N, i % BODY, stream));
        OK(cuStreamSynchronize(stream));
        ops += BODY * ROUNDS;
        before = now() < end - 1 ? ops : before;
        int fd = open("/dev/null", O_RDONLY); /* the lowest that is free */
        CHECK(fd == 3 && close(fd) == 0);
        usleep(1000);
    }
    printf("%lu %lu\n", before, ops);
    fflush(stdout);
    if (strcmp(argv[1], "idle") == 0)
        CHECK(read(0, &ops, 1) == 0);
    else if (strcmp(argv[1], "killed") == 0)
        raise(SIGKILL);
    else if (strcmp(argv[1], "leaves") == 0 || strcmp(argv[1], "stuck") == 0)
        _exit(0);
    else if (strcmp(argv[1], "group") == 0)
        syscall(SYS_exit_group, 0);
    return 0;
}
