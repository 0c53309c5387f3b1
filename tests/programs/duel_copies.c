/* SPDX-License-Identifier: MIT */
/* duel_copies.c [steps]: 16 copies within the device and a synchronize in each step, and memory
   that is freed, after which nothing is known of any. */
#include "sim_test.h"

enum { N = 32, BODY = 16 };

int main(int argc, char **argv)
{
    CUdeviceptr buffer[BODY + 1], other;
    CUstream stream;
    uint32_t words[N], sum = 0;
    int steps = argc > 1 ? atoi(argv[1]) : 1000;
    start();
    for (int i = 0; i <= BODY; i++) {
        OK(cuMemAlloc(&buffer[i], sizeof words));
        OK(cuMemsetD32(buffer[i], (unsigned)i, N));
    }
    OK(cuCtxSynchronize());
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int step = 0; step < steps; step++) {
        OK(cuMemsetD32Async(buffer[0], (unsigned)step, N / 2, stream));
        for (int i = 0; i < BODY; i++)
            OK(cuMemcpyDtoDAsync(buffer[i + 1], buffer[i], sizeof words, stream));
        OK(cuStreamSynchronize(stream));
        OK(cuMemAlloc(&other, sizeof words));
        OK(cuMemFree(other));
    }
    OK(cuMemcpyDtoH(words, buffer[BODY], sizeof words));
    for (int k = 0; k < N; k++)
        sum = sum * 31 + words[k];
    printf("checksum %08x\n", sum);
    return 0;
}
