/* SPDX-License-Identifier: MIT */
/* live_callback.c: a stream's host function submits work to another stream, whose earlier ops may
 * be held; a host function may not launch or change contexts, so the library cannot submit them
 * there. Prints the memory at the end. */
#include "sim_test.h"

#include <sched.h>

enum { N = 16, STEPS = 50 };

static CUdeviceptr buffer;
static CUstream worker;
static volatile uint32_t heard;

static void write_in_callback(void *step)
{
    OK(cuMemsetD32Async(buffer + 4, (unsigned)(uintptr_t)step, 2, worker));
    set_word(&heard, (uint32_t)(uintptr_t)step);
}

int main(void)
{
    CUstream other;
    start();
    OK(cuMemAlloc(&buffer, 4 * N));
    OK(cuMemsetD32(buffer, 1, N));
    OK(cuCtxSynchronize()); /* the other streams do not wait for a memset */
    OK(cuStreamCreate(&worker, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    for (uint32_t i = 0; i < 400; i++)
        OK(launch_mix(buffer, N, 3, worker));
    OK(cuStreamSynchronize(worker));
    for (uintptr_t step = 1; step <= STEPS; step++) {
        OK(launch_mix(buffer, N, 3, worker));
        OK(launch_mix(buffer, N, 3, worker));
        OK(cuLaunchHostFunc(other, write_in_callback, (void *)step));
        while (get_word(&heard) != step)
            sched_yield(); /* no call of the driver */
        OK(launch_mix(buffer, N, 3, worker));
    }
    uint32_t words[N];
    OK(cuStreamSynchronize(worker));
    OK(cuMemcpyDtoH(words, buffer, sizeof words));
    for (unsigned i = 0; i < N; i++)
        printf("%08x ", words[i]);
    puts("");
    return 0;
}
