/* SPDX-License-Identifier: MIT */
/* memory_kinds.c: a copy in a loop, whose memory is of a pool for some rounds, and plain for
 * others. A graph's node cannot change from one to the other. */
#include "sim_test.h"

enum { ROUNDS = 4, TRIPS = 200, WORDS = 256, BYTES = WORDS * 4 };

int main(void)
{
    CUstream stream;
    CUdeviceptr work, target[2];
    uint32_t result[WORDS], sum = 0;
    start();
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&work, BYTES));
    OK(cuMemAlloc(&target[0], BYTES));
    OK(cuMemAllocAsync(&target[1], BYTES, stream));
    for (int round = 0; round < ROUNDS; round++)
        for (uint32_t trip = 0; trip < TRIPS; trip++) {
            OK(cuMemsetD32Async(work, trip, WORDS, stream));
            OK(cuMemsetD32Async(work, trip + 1, WORDS / 2, stream));
            OK(cuMemcpyDtoDAsync(target[round % 2], work, BYTES, stream));
            OK(cuMemsetD32Async(work + BYTES / 2, trip + 2, 8, stream));
            OK(cuMemcpyDtoHAsync(result, target[round % 2], BYTES, stream));
            OK(cuStreamSynchronize(stream));
            for (int i = 0; i < WORDS; i++)
                sum = sum * 31 + result[i];
        }
    printf("%08x\n", sum);
    return 0;
}
