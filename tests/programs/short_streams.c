/* SPDX-License-Identifier: MIT */
/* short_streams.c LIVES: so many streams, one after the other, for an upload, a kernel and a wait.
 */
#include "sim_test.h"

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    int lives = atoi(argv[1]);
    CUdeviceptr buffer;
    CUstream stream;
    uint32_t *words, sum = 0;
    start();
    OK(cuMemAlloc(&buffer, 256));
    OK(cuMemAllocHost((void **)&words, 256));
    for (int life = 0; life < lives; life++) {
        for (int i = 0; i < 64; i++)
            words[i] = (uint32_t)(life + i);
        OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        OK(cuMemcpyHtoDAsync(buffer, words, 256, stream));
        OK(launch_mix(buffer, 64, 3, stream));
        OK(cuStreamSynchronize(stream));
        OK(cuStreamDestroy(stream));
    }
    OK(cuMemcpyDtoH(words, buffer, 256));
    for (int i = 0; i < 64; i++)
        sum = sum * 31 + words[i];
    printf("%08x\n", sum);
    return 0;
}
