/* SPDX-License-Identifier: MIT */
/* foreign_copies.c UPLOADS STEPS: twice so many uploads of pageable memory, of more than can be
   held, and behind them in the same stream so many steps of 16 copies within the device and a
   synchronize. */
#include "sim_test.h"

enum { N = 32, BODY = 16, LARGE = (1 << 10) / 4 + 1 };

int main(int argc, char **argv)
{
    CUdeviceptr buffer[BODY + 1];
    CUstream stream;
    static uint32_t words[LARGE];
    uint32_t sum = 0;
    CHECK(argc == 3);
    start();
    for (int i = 0; i <= BODY; i++) {
        OK(cuMemAlloc(&buffer[i], i < 2 ? sizeof words : N * 4));
        OK(cuMemsetD32(buffer[i], (unsigned)i, N));
    }
    OK(cuCtxSynchronize());
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int phase = 0; phase < 2; phase++) {
        for (int upload = 0; upload < atoi(argv[1]); upload++) {
            for (int k = 0; k < N; k++)
                words[k] = (uint32_t)(phase * 1000 + upload + k);
            OK(cuMemcpyHtoDAsync(buffer[upload % 2], words, sizeof words, stream));
        }
        for (int step = 0; step < atoi(argv[2]); step++) {
            for (int i = 0; i < BODY; i++)
                OK(cuMemcpyDtoDAsync(buffer[i + 1], buffer[i], N * 4, stream));
            OK(cuStreamSynchronize(stream));
        }
    }
    OK(cuMemcpyDtoH(words, buffer[BODY], N * 4));
    for (int k = 0; k < N; k++)
        sum = sum * 31 + words[k];
    printf("checksum %08x\n", sum);
    return 0;
}
