/* SPDX-License-Identifier: MIT */
/*
 * faulting.c SCENARIO: copies from and to memory that cannot be read or written. A handler of
 * SIGSEGV jumps out of the call, or gets what is missing by calls of its own, in the same stream.
 */
#define _GNU_SOURCE
#include "sim_test.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

enum { STEPS = 600, N = 64, BYTES = 256, PAGE = 1 << 16 };

static CUdeviceptr data, more;
static CUstream stream;
static unsigned char *page; /* which cannot be used now and then */
static uint32_t hash;
static sigjmp_buf before;
static bool jumps;
static unsigned faults;

static void forbid(void)
{
    CHECK(mprotect(page, PAGE, PROT_NONE) == 0);
}

static void allow(void)
{
    CHECK(mprotect(page, PAGE, PROT_READ | PROT_WRITE) == 0);
}

static void on_fault(int signal)
{
    (void)signal;
    faults++;
    allow();
    if (jumps)
        siglongjmp(before, 1);
    OK(launch_mix(data, N, 7, stream)); /* as memory does that is shared with the device */
    OK(cuStreamSynchronize(stream));
    memset(page, (int)faults, BYTES);
}

static void take(const unsigned char *bytes)
{
    for (unsigned i = 0; i < BYTES; i++)
        hash = hash * 31 + bytes[i];
}

/* Early, too, before any lock is biased. */
static bool faults_at(uint32_t step)
{
    return step % 50 == 49 || step == 8;
}

static void up(uint32_t step)
{
    memset(page, (int)step, BYTES);
    if (faults_at(step))
        forbid();
    OK(cuMemcpyHtoDAsync(data, page, BYTES, stream));
}

static void down(uint32_t step)
{
    if (faults_at(step))
        forbid();
    OK(cuMemcpyDtoHAsync(page, data, BYTES, stream));
    take(page);
}

static void *waits(void *unused)
{
    OK(cuCtxSetCurrent(ctx));
    OK(cuCtxSynchronize());
    return unused;
}

/* A handler has jumped: nothing keeps another thread, nor this one in another stream. */
static void go_on(CUstream other)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, waits, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    OK(launch_mix(more, N, 3, other));
    OK(cuStreamSynchronize(other));
}

static void loop(void (*copy)(uint32_t step))
{
    unsigned char bytes[BYTES];
    CUstream other;
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    for (volatile uint32_t step = 0; step < STEPS; step++) {
        for (uint32_t k = 0; k < 3; k++)
            OK(launch_mix(data, N, k == 1 ? step : k, stream));
        if (sigsetjmp(before, 1) == 0)
            copy(step);
        else
            go_on(other);
        OK(launch_mix(data, N, 5, stream));
        if (copy == up)
            OK(cuStreamSynchronize(stream));
    }
    OK(cuStreamSynchronize(stream));
    OK(cuMemcpyDtoH(bytes, data, BYTES));
    take(bytes);
}

static const struct {
    const char *name;
    void (*copy)(uint32_t step);
    bool jumps;
} table[] = {{"up_jumps", up, true},
             {"up_brings", up, false},
             {"down_jumps", down, true},
             {"down_brings", down, false}};

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_NODEFER};
    alarm(20);
    start();
    OK(cuMemAlloc(&data, N * 4));
    OK(cuMemAlloc(&more, N * 4));
    OK(cuMemsetD32(data, 1, N));
    OK(cuCtxSynchronize());
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED && sigaction(SIGSEGV, &action, NULL) == 0);
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++)
        if (argc == 2 && strcmp(argv[1], table[i].name) == 0) {
            jumps = table[i].jumps;
            loop(table[i].copy);
            printf("%s: %u faults, %08x\n", argv[1], faults, hash);
            return 0;
        }
    return 2;
}
