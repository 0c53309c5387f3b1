/* SPDX-License-Identifier: MIT */
/* peer_copies.c: a loop that copies between the memory of two devices, or (argument "one") of one.
 */
#include "sim_test.h"

enum { TRIPS = 200, WORDS = 64 };

int main(int argc, char **argv)
{
    int other = argc > 1 && strcmp(argv[1], "one") == 0 ? 0 : 1;
    CUdevice device[2];
    CUcontext context[2];
    CUdeviceptr memory[2];
    CUstream stream;
    uint32_t words[WORDS], sum = 0;
    OK(cuInit(0));
    for (int i = 0; i < 2; i++) {
        OK(cuDeviceGet(&device[i], i == 0 ? 0 : other));
        OK(cuDevicePrimaryCtxRetain(&context[i], device[i]));
        OK(cuCtxSetCurrent(context[i]));
        OK(cuMemAlloc(&memory[i], sizeof words));
    }
    OK(cuCtxSetCurrent(context[0]));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (uint32_t trip = 0; trip < TRIPS; trip++) {
        OK(cuMemsetD32Async(memory[0], trip * 7 + 1, WORDS, stream));
        OK(cuMemsetD32Async(memory[0], trip * 31 + 2, WORDS / 2, stream));
        OK(cuMemcpyAsync(memory[1], memory[0], sizeof words, stream));
        OK(cuMemsetD32Async(memory[0], 0, WORDS, stream));
        OK(cuMemcpyAsync(memory[0] + 4, memory[1], sizeof words - 4, stream));
        OK(cuMemcpyPeerAsync(memory[1], context[1], memory[0], context[0], 8, stream));
        OK(cuMemcpyDtoHAsync(words, memory[trip % 2], sizeof words, stream));
        OK(cuStreamSynchronize(stream));
        for (int i = 0; i < WORDS; i++)
            sum = sum * 31 + words[i];
    }
    printf("%08x\n", sum);
    return 0;
}
