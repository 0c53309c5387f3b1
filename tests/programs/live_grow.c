/* SPDX-License-Identifier: MIT */
/* Beside a kernel that waits for the host only as many graphs are made as the context has memory
 * for. Each scenario first does something about that memory. */
#include "live.h"

enum { OPS = 7, OWN = 24 /* graph.free_execs */, MORE = 18 };

static CUstream hot, waiter;
static unsigned half = 2; /* the loops' memory */
static volatile uint32_t *word;

/* One of the ops of a loop: each number below 1 << OPS has its own. */
static void op(unsigned way, unsigned i, CUstream stream)
{
    if (way >> i & 1)
        OK(launch_mix(buffer[half], N, i, stream));
    else
        OK(cuMemsetD32Async(buffer[half + 1], i, N, stream));
}

/* Where the host waits, the context grows for a loop that finds no room. */
static void shape(unsigned way)
{
    for (unsigned step = 0; step < 12; step++) {
        for (unsigned i = 0; i < OPS; i++)
            op(way, i, hot);
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

/* Loops whose graphs are launched behind the kernel, in a stream that has room for these ops. */
static void behind(CUstream stream, unsigned first)
{
    for (unsigned way = first; way < first + MORE; way++)
        for (unsigned step = 0; step < 4; step++) {
            for (unsigned i = 0; i < OPS; i++)
                op(way, i, stream);
            kick(stream);
        }
}

/* The graphs go when their function is set. Their launches do not. */
static void set_behind(void)
{
    begin();
    OK(launch_word(spin, word, 1, hot));
    behind(hot, 1);
    OK(cuFuncSetAttribute(mix, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 50));
    behind(hot, OWN);
    set_word(word, 1);
    OK(cuStreamSynchronize(hot));
    for (unsigned way = 2 * OWN; way < 3 * OWN; way++)
        shape(way);
    show_all("set_behind");
}

/* The graphs go with their stream, and another one has others. */
static void destroyed_behind(void)
{
    begin();
    OK(launch_word(spin, word, 1, hot));
    behind(hot, 1);
    OK(cuStreamDestroy(hot));
    hot = made(CU_STREAM_NON_BLOCKING);
    half = 0; /* the other stream's work still runs */
    behind(hot, OWN);
    set_word(word, 1);
    OK(cuCtxSynchronize());
    for (unsigned way = 2 * OWN; way < 3 * OWN; way++)
        shape(way);
    show_all("destroyed_behind");
}

static void nothing(void *data)
{
    (void)data;
}

/* A loop gets hot with its last op, which takes the stream's last place behind the kernel. No call
   here waits for room. */
static void full(void)
{
    enum { PLACES = 1024, STEPS_BEHIND = 4 };
    CUevent event;
    begin();
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cuEventRecord(event, hot));
    OK(cuCtxSynchronize());
    for (unsigned way = 1; way < 20; way++) {
        OK(launch_word(spin, word, way, hot));
        for (unsigned i = 1; i < PLACES - STEPS_BEHIND * (OPS + 1); i++)
            OK(cuLaunchHostFunc(hot, nothing, NULL));
        for (unsigned step = 0; step < STEPS_BEHIND; step++) {
            for (unsigned i = 0; i < OPS; i++)
                op(way, i, hot);
            OK(cuEventRecord(event, hot));
            OK(cuStreamSynchronize(waiter)); /* it has nothing to do */
        }
        set_word(word, way);
        OK(cuStreamSynchronize(hot));
    }
    show_all("full");
}

int main(int argc, char **argv)
{
    static const struct scenario scenarios[] = {{"without_event", without_event},
                                                {"set_behind", set_behind},
                                                {"destroyed_behind", destroyed_behind},
                                                {"full", full},
                                                {NULL, NULL}};
    run(scenarios, argc, argv);
    return 0;
}
