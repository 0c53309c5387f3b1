/* SPDX-License-Identifier: MIT */
/*
 * trace_rests.c NOVEL [FIRST AGAIN]: a loop, NOVEL launches of which hardly two are alike, and the
 * loop again, all in one stream. With FIRST and AGAIN so many steps of the loop before and behind
 * these launches, then one that fails while another stream has ops that are held, and the loop.
 * Prints what memory holds in the end.
 */
#include "sim_test.h"

enum { N = 64, OPS = 16, STEPS = 60 };

static CUdeviceptr buffer;
static CUstream stream;

static void step(CUstream in, uint32_t first, uint32_t ops)
{
    for (uint32_t i = 0; i < ops; i++)
        OK(launch_mix(buffer, first + i, i, in));
}

static void loop(CUstream in, uint32_t first, uint32_t steps)
{
    for (uint32_t i = 0; i < steps; i++) {
        step(in, first, OPS);
        OK(cuStreamSynchronize(in));
    }
}

/* A launch that fails, while ops of another stream are held. */
static void fail(void)
{
    CUstream other;
    uint32_t n = N;
    void *args[] = {&buffer, &n, &n};
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    loop(other, 30, 10);
    step(other, 30, OPS / 2);
    EXPECT(CUDA_ERROR_INVALID_VALUE,
           cuLaunchKernel(mix, 70000, 1, 1, 2048, 1, 1, 0, stream, args, NULL));
    OK(cuStreamSynchronize(other));
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
    CHECK(argc == 2 || argc == 4);
    uint32_t words[N], sum = 0;
    start();
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&buffer, sizeof words));
    OK(cuMemsetD32(buffer, 1, N));
    OK(cuCtxSynchronize());
    loop(stream, 1, argc == 4 ? (uint32_t)atoi(argv[2]) : STEPS);
    novel((uint32_t)atoi(argv[1]));
    if (argc == 4) {
        loop(stream, 1, (uint32_t)atoi(argv[3]));
        fail();
    }
    loop(stream, 1, STEPS);
    OK(cuMemcpyDtoH(words, buffer, sizeof words));
    for (int i = 0; i < N; i++)
        sum = sum * 31 + words[i];
    printf("%08x\n", sum);
    return 0;
}
