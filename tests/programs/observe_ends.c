/* SPDX-License-Identifier: MIT */
/*
 * observe_ends.c HOW UNTIL: a loop of kernels, and its end: "group" by the system call, "leaves" by
 * _exit(), "killed" by a signal, "returns". "stuck" leaves while another thread waits in a launch
 * that finds no room. UNTIL is how long the loop lasts: "told" until standard input has something
 * or ends, "short" for some rounds, else until the report of this name tells of them. Prints how
 * many kernels the report must know, and how many there were. "idle": the loop, then nothing until
 * standard input ends.
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agsim.h"
#include "sim_test.h"

enum { N = 32, BODY = 6, REPEATS = 5, ROUNDS = 30 };

static volatile uint32_t never;
static _Atomic unsigned long others; /* kernels of the other thread */

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
    for (uint32_t i = 0;; i++) {
        atomic_store(&others, i + 1);
        OK(launch_mix((CUdeviceptr)(uintptr_t)buffer, N, i % BODY, stream));
    }
    return NULL;
}

static bool alone = true; /* no other thread of the process may have a descriptor */

static unsigned long round_of_kernels(CUdeviceptr buffer, CUstream stream)
{
    for (uint32_t i = 0; i < BODY * REPEATS; i++)
        OK(launch_mix(buffer, N, i % BODY, stream));
    OK(cuStreamSynchronize(stream));
    int fd = open("/dev/null", O_RDONLY); /* the lowest that is free */
    CHECK((fd == 3 || !alone) && close(fd) == 0);
    usleep(1000);
    return BODY * REPEATS;
}

/* The kernels of both threads that the report tells of. */
static unsigned long told(const char *name)
{
    static char text[1 << 16];
    static const char before[] = "\"ops\": {\"total\": ";
    FILE *file = fopen(name, "r");
    if (file == NULL)
        return 0;
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    CHECK(fclose(file) == 0);
    const char *place = strstr(text, before);
    CHECK(place != NULL);
    return strtoul(place + strlen(before), NULL, 10);
}

/* Whether the report tells of so many kernels of this thread; it may know all of the other one. */
static bool is_told(const char *name, unsigned long ops)
{
    unsigned long both = told(name);
    return both >= ops + atomic_load(&others);
}

static bool is_input_there(void)
{
    return poll(&(struct pollfd){.fd = 0, .events = POLLIN}, 1, 0) != 0;
}

int main(int argc, char **argv)
{
    CUdeviceptr buffer, other;
    CUstream stream;
    pthread_t thread;
    unsigned long ops = 0, before = 0;
    CHECK(argc == 3);
    const char *how = argv[1], *until = argv[2];
    start();
    OK(cuMemAlloc(&buffer, 4 * N));
    OK(cuMemAlloc(&other, 4 * N));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < ROUNDS; i++)
        ops += round_of_kernels(buffer, stream);
    /* No graph is made while a launch waits for room. */
    if (strcmp(how, "stuck") == 0)
        CHECK(pthread_create(&thread, NULL, fill, (void *)(uintptr_t)other) == 0);
    if (strcmp(until, "told") == 0) {
        alone = false; /* a file that cannot be written is looked for once more, to say so */
        while (!is_input_there())
            ops += round_of_kernels(buffer, stream);
    } else if (strcmp(until, "short") != 0) {
        /* Twice: the first report came together with all other files. */
        for (int i = 0; i < 2; i++)
            for (before = ops; !is_told(until, before);)
                ops += round_of_kernels(buffer, stream);
    }
    printf("%lu %lu\n", before, ops);
    fflush(stdout);
    if (strcmp(how, "idle") == 0)
        CHECK(read(0, &ops, 1) == 0);
    else if (strcmp(how, "killed") == 0)
        raise(SIGKILL);
    else if (strcmp(how, "leaves") == 0 || strcmp(how, "stuck") == 0)
        _exit(0);
    else if (strcmp(how, "group") == 0)
        syscall(SYS_exit_group, 0);
    return 0;
}
