/* SPDX-License-Identifier: MIT */
/* two_loops.c STEPS STEPS: a loop of so many steps, each of eight kernels and a synchronize, and
   another, of kernels with another grid. */
#include "sim_test.h"

enum { N = 32, OPS = 8 };

static void loop(CUdeviceptr at, unsigned grid, int steps, CUstream stream)
{
    uint32_t n = N;
    for (int step = 0; step < steps; step++) {
        for (uint32_t i = 0; i < OPS; i++) {
            void *args[] = {&at, &n, &i};
            OK(cuLaunchKernel(mix, grid, 1, 1, N / grid, 1, 1, 0, stream, args, NULL));
        }
        OK(cuStreamSynchronize(stream));
    }
}

int main(int argc, char **argv)
{
    CUdeviceptr buffer;
    CUstream stream;
    uint32_t words[N], sum = 0;
    CHECK(argc == 3);
    start();
    OK(cuMemAlloc(&buffer, sizeof words));
    OK(cuMemsetD32(buffer, 1, N));
    OK(cuCtxSynchronize());
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    loop(buffer, 1, atoi(argv[1]), stream);
    loop(buffer, 2, atoi(argv[2]), stream);
    OK(cuMemcpyDtoH(words, buffer, sizeof words));
    for (int k = 0; k < N; k++)
        sum = sum * 31 + words[k];
    printf("checksum %08x\n", sum);
    return 0;
}
