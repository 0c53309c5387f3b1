/* SPDX-License-Identifier: MIT */
/*
 * Constant memory that is written in the stream, between launches that read it: from pinned memory,
 * from the device, or not at all where the program knows that it has the value.
 */
#include "../patterns/pattern.h"

static __constant__ unsigned factor[4];

static __global__ void use(unsigned *data, unsigned size)
{
    unsigned i = INDEX();
    if (i < size)
        data[i] = data[i] * factor[0] + factor[i % 4];
}

int main(void)
{
    const unsigned size = 1000, layers = 6;
    unsigned *data = device_array<unsigned>(size), *kept = device_array<unsigned>(64);
    unsigned *host = pinned_array(4 * 64, 1);
    cudaStream_t stream = new_stream();
    for (unsigned step = 0; step < 200; step++)
        for (unsigned layer = 0; layer < layers; layer++) {
            if (layer < 2)
                CHECK(cudaMemcpyToSymbolAsync(factor, host + 4 * ((step + layer) % 64), 16, 0,
                                              cudaMemcpyHostToDevice, stream));
            else if (layer == 3 || step % 32 == 31)
                CHECK(cudaMemcpyToSymbolAsync(factor, kept + 4 * (step % 16), 16, 0,
                                              cudaMemcpyDeviceToDevice, stream));
            use<<<blocks(size), BLOCK, 0, stream>>>(data, size);
        }
    CHECK(cudaStreamSynchronize(stream));
    printf("%016llx\n", (unsigned long long)checksum(data, size));
    return 0;
}
