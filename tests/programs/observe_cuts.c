/* SPDX-License-Identifier: MIT */
/* observe_cuts.c [steps]: a loop of six kernels, which is replayed; then one of a kernel and a copy
 * to the host, where each copy cuts a sequence of one op: too short with trace.min_length = 2. */
#include "sim_test.h"

enum { N = 32, BODY = 6 };

static uint32_t sum;

/* Not static: the report names it. */
__attribute__((noinline)) void read_back(CUdeviceptr from, CUstream stream);

void read_back(CUdeviceptr from, CUstream stream)
{
    uint32_t words[N];
    OK(cuMemcpyDtoHAsync(words, from, sizeof words, stream));
    OK(cuStreamSynchronize(stream));
    sum = sum * 31 + words[3];
}

int main(int argc, char **argv)
{
    CUdeviceptr buffer;
    CUstream stream, other;
    int steps = argc > 1 ? atoi(argv[1]) : 70;
    start();
    OK(cuMemAlloc(&buffer, 4 * N));
    OK(cuMemsetD32(buffer, 1, N));
    OK(cuCtxSynchronize());
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int step = 0; step < steps; step++)
        for (uint32_t i = 0; i < BODY; i++)
            OK(launch_mix(buffer, N, i, stream));
    OK(cuStreamSynchronize(stream));
    for (int step = 0; step < steps; step++) {
        OK(launch_mix(buffer, N, 7, stream));
        read_back(buffer, stream);
    }
    OK(cuStreamCreate(&other, CU_STREAM_DEFAULT));
    OK(launch_mix(buffer, N, 3, other));
    OK(cuStreamDestroy(other));
    printf("%08x\n", sum);
    return 0;
}
