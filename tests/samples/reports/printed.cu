/* SPDX-License-Identifier: MIT */
/*
 * What kernels print appears with the wait for their stream, all of it and in order, and so does
 * that of the last ones at the end.
 */
#include "../patterns/pattern.h"

static __global__ void say(unsigned *data, unsigned step, unsigned k)
{
    data[0] = data[0] * 31 + k;
    if (k == 2)
        printf("step %u: %08x\n", step, data[0]);
}

int main(void)
{
    unsigned *data = device_array<unsigned>(4);
    cudaStream_t stream = new_stream();
    for (unsigned step = 0; step < 150; step++) {
        for (unsigned k = 0; k < 6; k++)
            say<<<1, 1, 0, stream>>>(data, step, k);
        if (step % 10 == 9) {
            CHECK(cudaStreamSynchronize(stream));
            printf("the host, behind step %u\n", step);
            fflush(stdout);
        }
    }
    CHECK(cudaDeviceSynchronize());
    printf("%08x\n", (unsigned)checksum(data, 1));
    return 0;
}
