/* SPDX-License-Identifier: MIT */
/* attached.c SCENARIO: a loop over managed memory, which is attached to the stream before each
 * step, or before the first one alone. */
#include "live.h"

static void steps_attached_every(uint32_t every)
{
    CUdeviceptr memory;
    OK(cuMemAllocManaged(&memory, 4 * N, CU_MEM_ATTACH_GLOBAL));
    OK(cuMemsetD8(memory, 0, 4 * N));
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    for (uint32_t step = 0; step < 6 * STEPS; step++) {
        if (step % every == 0)
            OK(cuStreamAttachMemAsync(s, memory, 0, CU_MEM_ATTACH_SINGLE));
        body(s, memory, step);
        if (step % 16 == 15)
            OK(cuStreamSynchronize(s));
    }
    OK(cuStreamAttachMemAsync(s, memory, 0, CU_MEM_ATTACH_GLOBAL));
    OK(cuStreamSynchronize(s));
    show("memory", memory);
}

static void always(void)
{
    steps_attached_every(1);
}

static void once(void)
{
    steps_attached_every(6 * STEPS);
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {{"always", always}, {"once", once}, {NULL, NULL}};
    run(all, argc, argv);
    show_all(argv[1]);
    return 0;
}
