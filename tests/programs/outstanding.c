/* SPDX-License-Identifier: MIT */
/*
 * outstanding.c SCENARIO: work that the driver does not find in the stream that the program gave it
 * to. It fills the device, and waits for the host. A relay has it, or an origin holds it for its
 * branch. Meanwhile the library must not read back by a kernel, nor make more graphs than a context
 * gives freely. Without the library all goes on.
 */
#define _GNU_SOURCE
#include "live.h"

enum { LOOPS = 60, READS = 900, SHAPES = 45 };

static CUstream other, origin, branch;
static CUevent forks, joins;
static volatile uint32_t *word, *from;
static uint32_t sum;

/* A kernel that leaves no room for another one, until the word is `value`. */
static CUresult fill(uint32_t value, CUstream stream)
{
    int many, each;
    CUdeviceptr at = (CUdeviceptr)(uintptr_t)word;
    void *args[] = {&at, &value};
    OK(cuDeviceGetAttribute(&many, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, dev));
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&each, spin, 1024, 0));
    return cuLaunchKernel(spin, (unsigned)(many * each), 1, 1, 1024, 1, 1, 0, stream, args, NULL);
}

static void read_back(void)
{
    uint32_t number;
    OK(cuMemcpyHtoDAsync(buffer[3], (const void *)(uintptr_t)from, 4, other));
    OK(cuMemcpyDtoHAsync(&number, buffer[3], 4, other));
    sum = sum * 31 + number;
}

static void read_backs(int n)
{
    for (int i = 0; i < n; i++) {
        *from = (uint32_t)i;
        read_back();
        OK(cuCtxSynchronize());
    }
}

/* Ever new sequences, each of which becomes hot. */
static void grow(void)
{
    for (uint32_t k = 0; k < SHAPES; k++)
        for (int i = 0; i < 12; i++) {
            for (uint32_t j = 0; j < k + 2; j++)
                OK(cuMemsetD32Async(buffer[2] + 4 * ((j + k) % 8), j, 1 + (k + j) % 7, other));
            OK(cuStreamSynchronize(other));
        }
}

/* -- Work that a relay has ---------------------------------------------------------- */

static void begin_own(uint32_t value)
{
    OK(launch_mix(buffer[0], N, 1, CU_STREAM_PER_THREAD));
    OK(launch_mix(buffer[0], N, 2, CU_STREAM_PER_THREAD));
    OK(fill(value, CU_STREAM_PER_THREAD));
}

static void end_own(void)
{
    OK(launch_mix(buffer[0], N, 3, CU_STREAM_PER_THREAD));
    OK(launch_mix(buffer[0], N, 4, CU_STREAM_PER_THREAD));
}

/* The watchdog has submitted what was held. */
static void relay(void (*then)(void))
{
    OK(fill(1, CU_STREAM_PER_THREAD));
    OK(cuCtxSynchronize());
    read_backs(READS);
    for (int i = 0; i < LOOPS; i++) {
        begin_own(1);
        end_own();
        OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    }
    read_backs(40);
    begin_own(2);
    usleep(60000);
    then();
    set_word(word, 2);
    end_own();
}

static void relay_read(void)
{
    relay(read_back);
}

static void relay_grow(void)
{
    relay(grow);
}

/* -- Work that an origin holds ------------------------------------------------------------ */

static void begin_step(uint32_t value)
{
    OK(launch_mix(buffer[0], N, 1, origin));
    OK(launch_mix(buffer[0], N, 2, origin));
    OK(cuEventRecord(forks, origin));
    OK(cuStreamWaitEvent(branch, forks, 0));
    OK(fill(value, branch));
}

static void end_step(void)
{
    OK(launch_mix(buffer[1], N, 3, branch));
    OK(cuEventRecord(joins, branch));
    OK(cuStreamWaitEvent(origin, joins, 0));
    OK(launch_mix(buffer[0], N, 4, origin));
}

static void steps(void)
{
    OK(fill(1, branch));
    OK(cuCtxSynchronize());
    read_backs(READS);
    for (int i = 0; i < LOOPS; i++) {
        begin_step(1);
        end_step();
        OK(cuStreamSynchronize(origin));
    }
    read_backs(40);
    begin_step(2);
}

/* The library looks while the step is held, and again when it has gone out. */
static void visit(void (*then)(void))
{
    steps();
    read_back();
    kick(origin);
    OK(cuStreamSynchronize(origin));
    then();
    set_word(word, 2);
    end_step();
}

static void branch_read(void)
{
    visit(read_back);
}

static void branch_grow(void)
{
    visit(grow);
}

/* The branches have joined, and nothing else is at work: the read-back is a part of the graph. */
static void joined_read(void)
{
    uint32_t number;
    steps();
    set_word(word, 2);
    end_step();
    for (int i = 0; i < READS; i++) {
        begin_step(2);
        end_step();
        OK(cuMemcpyDtoHAsync(&number, buffer[0], 4, origin));
        sum = sum * 31 + number;
    }
}

/* -- Graphs of the program's own ----------------------------------------------------------- */

enum { OWN = 20 };

/* They are destroyed before they have run, and their memory goes when they have. */
static void own_grow(void)
{
    CUgraph graph;
    CUgraphExec exec;
    OK(cuStreamBeginCapture(origin, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(launch_mix(buffer[0], N, 1, origin));
    OK(cuStreamEndCapture(origin, &graph));
    OK(fill(2, origin));
    for (int i = 0; i < OWN; i++) {
        OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
        OK(cuGraphLaunch(exec, origin));
        OK(cuGraphExecDestroy(exec));
    }
    grow();
    set_word(word, 2);
    OK(cuGraphDestroy(graph));
}

/* -- All --------------------------------------------------------------------------------- */

static void prepare(void (*scenario)(void))
{
    other = made(CU_STREAM_NON_BLOCKING);
    origin = made(CU_STREAM_NON_BLOCKING);
    branch = made(CU_STREAM_NON_BLOCKING);
    word = host_words(1);
    from = host_words(1);
    set_word(word, 1);
    OK(cuEventCreate(&forks, CU_EVENT_DISABLE_TIMING));
    OK(cuEventCreate(&joins, CU_EVENT_DISABLE_TIMING));
    for (unsigned i = 0; i < 4; i++)
        OK(launch_mix(buffer[i], N, 1, i % 2 ? branch : origin));
    OK(cuCtxSynchronize());
    OK(cuMemsetD32Async(buffer[2], 1, 1, other));
    scenario();
    OK(cuCtxSynchronize());
    printf("read %08x\n", sum);
    show_all("all");
}

#define SCENARIO(name)                                                                             \
    static void name##_(void)                                                                      \
    {                                                                                              \
        prepare(name);                                                                             \
    }

SCENARIO(relay_read)
SCENARIO(relay_grow)
SCENARIO(branch_read)
SCENARIO(branch_grow)
SCENARIO(joined_read)
SCENARIO(own_grow)

int main(int argc, char **argv)
{
    run((const struct scenario[]){{"relay_read", relay_read_},
                                  {"relay_grow", relay_grow_},
                                  {"branch_read", branch_read_},
                                  {"branch_grow", branch_grow_},
                                  {"joined_read", joined_read_},
                                  {"own_grow", own_grow_},
                                  {NULL, NULL}},
        argc, argv);
    return 0;
}
