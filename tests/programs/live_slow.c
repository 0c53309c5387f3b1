/* SPDX-License-Identifier: MIT */
/* live_slow.c TRIPS US: two kernels with so many microseconds of sleep between them, and a wait. */
#include "sim_test.h"

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    int trips = atoi(argv[1]);
    unsigned us = (unsigned)atoi(argv[2]);
    CUdeviceptr buffer;
    uint32_t words[64], sum = 0;
    start();
    OK(cuMemAlloc(&buffer, sizeof words));
    OK(cuMemsetD32(buffer, 1, 64));
    for (uint32_t trip = 0; trip < (uint32_t)trips; trip++) {
        OK(launch_mix(buffer, 64, trip, 0));
        usleep(us);
        OK(launch_mix(buffer, 64, trip + 1, 0));
        OK(cuCtxSynchronize());
    }
    OK(cuMemcpyDtoH(words, buffer, sizeof words));
    for (int i = 0; i < 64; i++)
        sum = sum * 31 + words[i];
    printf("%08x\n", sum);
    return 0;
}
