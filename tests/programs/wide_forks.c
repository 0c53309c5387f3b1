/* SPDX-License-Identifier: MIT */
/*
 * wide_forks BRANCHES KINDS [polls | gone | hosts]: while a kernel waits for the host, with more
 * work of its stream behind it, other streams fork and join in steps of ever new shapes. The host
 * lets the kernel go only once they are done. Prints what came out, which is the same with the
 * library as without it.
 *
 * With `polls` the host asks for the end of each step; else it waits for each eighth. With `gone`
 * the kernel's stream is destroyed while the kernel waits, and there is one such kernel. With
 * `hosts` functions of the host wait, too, in streams that never get anything else.
 */
#include "live.h"

enum { MOST = 8, HOSTS = 3, ROUNDS = 6, REPEATS = 60, TOGETHER = 8, LOOKS = 20, SECONDS = 40 };

static CUstream held, stream[MOST], hosts[HOSTS];
static CUdeviceptr at[MOST];
static CUevent done[MOST], forked, behind;
static volatile uint32_t *word;
static unsigned branches;

static void work(unsigned i, unsigned count)
{
    for (uint32_t k = 0; k < count; k++)
        OK(launch_mix(at[i], N, k, stream[i]));
}

static void step(unsigned kind, unsigned round)
{
    work(0, kind + round + 1);
    OK(cuEventRecord(forked, stream[0]));
    for (unsigned i = 1; i < branches; i++) {
        OK(cuStreamWaitEvent(stream[i], forked, 0));
        work(i, 1 + (kind + i) % 3);
        OK(cuEventRecord(done[i], stream[i]));
        OK(cuStreamWaitEvent(stream[0], done[i], 0));
    }
}

static void until_done(unsigned repeat, bool polls)
{
    CUresult result = CUDA_ERROR_NOT_READY;
    while (polls && (result = cuStreamQuery(stream[0])) == CUDA_ERROR_NOT_READY)
        sched_yield();
    if (!polls && repeat % TOGETHER == TOGETHER - 1)
        OK(cuStreamSynchronize(stream[0]));
    CHECK(!polls || result == CUDA_SUCCESS);
}

static uint32_t look(uint32_t sum)
{
    static uint32_t host[N];
    OK(cuMemcpyDtoHAsync(host, at[0], 4, stream[0]));
    OK(cuStreamSynchronize(stream[0]));
    return sum * 31 + host[0];
}

static uint32_t loops(unsigned kinds, unsigned round, bool polls, uint32_t sum)
{
    for (unsigned kind = 0; kind < kinds; kind++)
        for (unsigned repeat = 0; repeat < REPEATS; repeat++) {
            step(kind, round);
            until_done(repeat, polls);
            if (repeat % LOOKS == 3)
                sum = look(sum);
        }
    return sum;
}

static void make_all(void)
{
    held = made(CU_STREAM_NON_BLOCKING);
    for (unsigned i = 0; i < branches; i++) {
        stream[i] = made(CU_STREAM_NON_BLOCKING);
        OK(cuMemAlloc(&at[i], 4 * N));
        OK(cuMemsetD32Async(at[i], i, N, stream[i]));
        OK(cuEventCreate(&done[i], CU_EVENT_DISABLE_TIMING));
    }
    OK(cuEventCreate(&forked, CU_EVENT_DISABLE_TIMING));
    OK(cuEventCreate(&behind, CU_EVENT_DISABLE_TIMING));
    OK(cuMemAlloc(&buffer[0], 4 * N));
    OK(cuMemsetD32Async(buffer[0], 7, N, held));
    word = host_words(1);
    OK(launch_word(spin, word, 0, held)); /* loading a kernel waits for those that run */
    OK(launch_mix(at[0], N, 1, stream[0]));
    OK(cuCtxSynchronize());
}

static void wait_for_round(void *round)
{
    while (*word < (uintptr_t)round)
        usleep(100);
}

int main(int argc, char **argv)
{
    bool polls = argc == 4 && strcmp(argv[3], "polls") == 0;
    bool gone = argc == 4 && strcmp(argv[3], "gone") == 0;
    bool waits = argc == 4 && strcmp(argv[3], "hosts") == 0;
    CHECK(argc == 3 || polls || gone || waits);
    branches = (unsigned)strtoul(argv[1], NULL, 10);
    unsigned kinds = (unsigned)strtoul(argv[2], NULL, 10);
    CHECK(branches > 1 && branches <= MOST);
    alarm(SECONDS);
    start();
    make_all();
    for (unsigned i = 0; waits && i < HOSTS; i++)
        hosts[i] = made(CU_STREAM_NON_BLOCKING);
    uint32_t sum = 0;
    for (uint32_t round = 1; round <= (gone ? 1 : ROUNDS); round++) {
        OK(launch_word(spin, word, round, held));
        OK(launch_mix(buffer[0], N, round, held));
        OK(cuEventRecord(behind, held));
        for (unsigned i = 0; waits && i < HOSTS; i++)
            OK(cuLaunchHostFunc(hosts[i], wait_for_round, (void *)(uintptr_t)round));
        if (gone)
            OK(cuStreamDestroy(held));
        sum = loops(kinds, round, polls, sum);
        EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(behind));
        set_word(word, round);
        OK(cuEventSynchronize(behind));
        for (unsigned i = 0; waits && i < HOSTS; i++)
            OK(cuStreamSynchronize(hosts[i]));
    }
    printf("%08x\n", sum);
    show("held", buffer[0]);
    return 0;
}
