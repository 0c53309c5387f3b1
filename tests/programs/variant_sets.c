/* SPDX-License-Identifier: MIT */
/*
 * variant_sets.c SETS [STEPS] [counter|chance|renew]: in each step the same eight kernels and a
 * synchronize; their buffers are those of set STEP % SETS. "counter": the last kernel gets the
 * step's number too. "chance": the set comes by chance. "renew": every hundred steps the sets'
 * memory is freed and allocated anew. Prints what all memory held in the end, or when it was freed.
 */
#include "sim_test.h"

enum { N = 32, BODY = 8, MOST = 16 };

static uint32_t sum;

static void renew(CUdeviceptr *buffer, int sets)
{
    for (int i = 0; i < sets; i++) {
        uint32_t words[N];
        if (buffer[i]) {
            OK(cuMemcpyDtoH(words, buffer[i], sizeof words));
            for (int k = 0; k < N; k++)
                sum = sum * 31 + words[k];
            OK(cuMemFree(buffer[i]));
        }
        OK(cuMemAlloc(&buffer[i], sizeof words));
        OK(cuMemsetD32(buffer[i], (unsigned)i + 1, N));
    }
    OK(cuCtxSynchronize()); /* the stream does not wait for memsets */
}

int main(int argc, char **argv)
{
    CUdeviceptr buffer[MOST] = {0};
    CUstream stream;
    int sets = argc > 1 ? atoi(argv[1]) : 2, steps = argc > 2 ? atoi(argv[2]) : 600;
    const char *how = argc > 3 ? argv[3] : "";
    uint32_t chance = 1;
    start();
    renew(buffer, sets);
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int step = 0; step < steps; step++) {
        chance = chance * 1664525u + 1013904223u;
        int set = strcmp(how, "chance") == 0 ? (int)(chance >> 20) % sets : step % sets;
        uint32_t last = strcmp(how, "counter") == 0 ? (uint32_t)step : 7;
        for (uint32_t i = 0; i < BODY; i++)
            OK(launch_mix(buffer[set], N, i + 1 < BODY ? i : last, stream));
        OK(cuStreamSynchronize(stream));
        if (strcmp(how, "renew") == 0 && step % 100 == 99)
            renew(buffer, sets);
    }
    renew(buffer, sets);
    printf("%08x\n", sum);
    return 0;
}
