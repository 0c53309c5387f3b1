/* SPDX-License-Identifier: MIT */
/* Beside a kernel that waits for the host only as many graphs are made as the context has memory
 * for. Each scenario first does something about that memory. */
#include "live.h"

enum { OPS = 8, OWN = 24 /* graph.free_execs */ };

static CUstream hot, waiter;
static volatile uint32_t *word;

/* A loop of its own for each number below 1 << OPS. Where the host waits, the context grows for a
   loop that finds no room. */
static void shape(unsigned way)
{
    for (unsigned step = 0; step < 12; step++) {
        for (unsigned i = 0; i < OPS; i++)
            if (way >> i & 1)
                OK(launch_mix(buffer[2], N, i, hot));
            else
                OK(cuMemsetD32Async(buffer[3], i, N, hot));
        OK(cuStreamSynchronize(hot));
    }
}

/* A loop gets hot while a kernel waits for the host. */
static void shape_beside(unsigned way)
{
    OK(launch_word(spin, word, way, waiter));
    shape(way);
    set_word(word, way);
    OK(cuStreamSynchronize(waiter));
}

static void begin(void)
{
    hot = made(CU_STREAM_NON_BLOCKING);
    waiter = made(CU_STREAM_NON_BLOCKING);
    word = host_words(1);
    OK(launch_word(spin, word, 0, waiter));
    OK(launch_mix(buffer[2], N, 1, hot));
    OK(cuMemsetD32Async(buffer[3], 1, 1, hot));
    OK(cuCtxSynchronize());
}

/* A loop of two buffers, which is to get a graph for each. Its event is new in each step and gone
   before the wait, where the second graph finds no event to name. */
static void swap(unsigned step, unsigned ops)
{
    CUevent event;
    CUdeviceptr at = buffer[step % 2];
    for (unsigned i = 0; i < ops; i++)
        OK(launch_mix(at, N, i, hot));
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cuEventRecord(event, hot));
    OK(launch_mix(at, N, ops, hot));
    OK(cuEventDestroy(event));
    OK(cuStreamSynchronize(hot));
}

static void without_event(void)
{
    unsigned way = 0;
    begin();
    while (way < OWN + 6)
        shape(way++);
    for (unsigned ops = 3; ops < 26; ops++)
        for (unsigned step = 0; step < 14; step++) {
            swap(step, ops);
            if (step >= 7)
                shape_beside(way++);
        }
    show_all("without_event");
}

int main(int argc, char **argv)
{
    static const struct scenario scenarios[] = {{"without_event", without_event}, {NULL, NULL}};
    run(scenarios, argc, argv);
    return 0;
}
