/* SPDX-License-Identifier: MIT */
/*
 * trace_rests.c NOVEL: a loop, NOVEL launches of which hardly two are alike, and the loop again,
 * all in one stream. Prints what memory holds in the end.
 */
#include "sim_test.h"

enum { N = 64, OPS = 16, STEPS = 60 };

static CUdeviceptr buffer;
static CUstream stream;

static void loop(void)
{
    for (uint32_t step = 0; step < STEPS; step++) {
        for (uint32_t i = 0; i < OPS; i++)
            OK(launch_mix(buffer, 1 + i, step, stream));
        OK(cuStreamSynchronize(stream));
    }
}

static void novel(uint32_t count)
{
    uint32_t random = 1;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t n = N;
        void *args[] = {&buffer, &n, &i};
        random = random * 1664525u + 1013904223u;
        OK(cuLaunchKernel(mix, 1 + (random >> 16), 1, 1, 1, 1, 1, 0, stream, args, NULL));
        if (i % 100 == 0)
            OK(cuStreamSynchronize(stream));
    }
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    uint32_t words[N], sum = 0;
    start();
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&buffer, sizeof words));
    OK(cuMemsetD32(buffer, 1, N));
    OK(cuCtxSynchronize());
    loop();
    novel((uint32_t)atoi(argv[1]));
    loop();
    OK(cuMemcpyDtoH(words, buffer, sizeof words));
    for (int i = 0; i < N; i++)
        sum = sum * 31 + words[i];
    printf("%08x\n", sum);
    return 0;
}
