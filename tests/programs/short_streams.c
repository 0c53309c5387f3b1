/* SPDX-License-Identifier: MIT */
/*
 * short_streams.c LIVES OPS STREAMS STEPS: streams that live for OPS kernels each, one after the
 * other; then a loop of STEPS steps, each a kernel in every one of STREAMS streams. Prints what
 * memory holds in the end.
 */
#include "sim_test.h"

enum { N = 64, MOST = 64 };

int main(int argc, char **argv)
{
    CHECK(argc == 5);
    int lives = atoi(argv[1]), ops = atoi(argv[2]), streams = atoi(argv[3]), steps = atoi(argv[4]);
    CUdeviceptr buffer[MOST];
    CUstream stream[MOST];
    uint32_t words[N], sum = 0;
    CHECK(streams <= MOST);
    start();
    for (int s = 0; s < MOST; s++) {
        OK(cuMemAlloc(&buffer[s], sizeof words));
        OK(cuMemsetD32(buffer[s], 1, N));
    }
    OK(cuCtxSynchronize());
    for (uint32_t life = 0; life < (uint32_t)lives; life++) {
        OK(cuStreamCreate(&stream[0], life % 2 ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
        for (uint32_t i = 0; i < (uint32_t)ops; i++)
            OK(launch_mix(buffer[0], N, life + i, stream[0]));
        OK(cuStreamSynchronize(stream[0]));
        OK(cuStreamDestroy(stream[0]));
    }
    for (int s = 0; s < streams; s++)
        OK(cuStreamCreate(&stream[s], CU_STREAM_NON_BLOCKING));
    for (uint32_t step = 0; step < (uint32_t)steps; step++)
        for (int s = 0; s < streams; s++)
            OK(launch_mix(buffer[s], N, step, stream[s]));
    OK(cuCtxSynchronize());
    for (int s = 0; s < MOST; s++) {
        OK(cuMemcpyDtoH(words, buffer[s], sizeof words));
        for (int i = 0; i < N; i++)
            sum = sum * 31 + words[i];
    }
    printf("%08x\n", sum);
    return 0;
}
