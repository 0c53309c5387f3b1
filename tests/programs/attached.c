/* SPDX-License-Identifier: MIT */
/* attached.c SCENARIO: a loop over managed memory, which is attached to the stream before each
 * step, before the first one alone, or by another thread at any time. */
#include "live.h"

static CUdeviceptr memory;
static CUstream s;

static void attach(void)
{
    OK(cuStreamAttachMemAsync(s, memory, 0, CU_MEM_ATTACH_SINGLE));
}

static void begin(void)
{
    OK(cuMemAllocManaged(&memory, 4 * N, CU_MEM_ATTACH_GLOBAL));
    OK(cuMemsetD8(memory, 0, 4 * N));
    s = made(CU_STREAM_NON_BLOCKING);
}

static void end(void)
{
    OK(cuStreamAttachMemAsync(s, memory, 0, CU_MEM_ATTACH_GLOBAL));
    OK(cuStreamSynchronize(s));
    show("memory", memory);
}

static void steps_attached_every(uint32_t every)
{
    begin();
    for (uint32_t step = 0; step < 6 * STEPS; step++) {
        if (step % every == 0)
            attach();
        body(s, memory, step);
        if (step % 16 == 15)
            OK(cuStreamSynchronize(s));
    }
    end();
}

static void always(void)
{
    steps_attached_every(1);
}

static void once(void)
{
    steps_attached_every(6 * STEPS);
}

static _Atomic bool over;

static void *attaches(void *unused)
{
    OK(cuCtxSetCurrent(ctx));
    for (unsigned us = 0; !over; us = (us + 37) % 500) {
        attach();
        usleep(us);
    }
    return unused;
}

static void elsewhere(void)
{
    pthread_t thread;
    begin();
    CHECK(pthread_create(&thread, NULL, attaches, NULL) == 0);
    for (uint32_t round = 0; round < 16; round++) {
        loop(s, memory);
        OK(cuStreamSynchronize(s));
    }
    over = true;
    CHECK(pthread_join(thread, NULL) == 0);
    end();
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {
        {"always", always}, {"once", once}, {"elsewhere", elsewhere}, {NULL, NULL}};
    run(all, argc, argv);
    show_all(argv[1]);
    return 0;
}
