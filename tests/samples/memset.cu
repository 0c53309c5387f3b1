/* SPDX-License-Identifier: MIT */
/* A memset before each kernel, which would see the old values without it. */
#include "sample.h"

KERNEL(absorb, unsigned *data, unsigned *scratch, unsigned size)
{
    unsigned i = INDEX();
    if (i < size) {
        data[i] = data[i] * 1664525u + scratch[i];
        scratch[i] = data[i];
    }
}

int main(int argc, char **argv)
{
    struct options o = parse_options(argc, argv, "A loop of kernels with a memset before each.",
                                     {1000, 32, 128, 100, 0, false});
    unsigned *data = device_array<unsigned>(o.size), *scratch = device_array<unsigned>(o.size);
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));

    auto eager = [&] {
        for (long k = 0; k < o.kernels; k++) {
            CHECK(cudaMemsetAsync(scratch, k & 0xff, o.size * sizeof(*scratch), stream));
            LAUNCH(absorb, blocks(o.size), BLOCK, 0, stream, data, scratch, o.size);
        }
    };
    eager();
    cudaGraphExec_t exec = o.graph ? capture(stream, eager) : NULL;

    double us = time_loop(
        o,
        [&](long) {
            if (exec)
                CHECK(cudaGraphLaunch(exec, stream));
            else
                eager();
        },
        [&] { CHECK(cudaStreamSynchronize(stream)); });
    destroy(exec);
    CHECK(cudaStreamDestroy(stream));
    report(checksum(data, o.size), o, us);
    return 0;
}
