/* SPDX-License-Identifier: MIT */
/* The host waits for the stream in each iteration. */
#include "sample.h"

KERNEL(mix, unsigned *data, unsigned size, unsigned k)
{
    unsigned i = INDEX();
    if (i < size)
        data[i] = data[i] * 1664525u + k;
}

int main(int argc, char **argv)
{
    struct options o =
        parse_options(argc, argv, "A loop of kernels with a stream synchronize per iteration.",
                      {1000, 64, 128, 100, 0, false});
    unsigned *data = device_array<unsigned>(o.size);
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));

    auto eager = [&] {
        for (long k = 0; k < o.kernels; k++)
            LAUNCH(mix, blocks(o.size), BLOCK, 0, stream, data, o.size, k);
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
            CHECK(cudaStreamSynchronize(stream));
        },
        [] {});
    destroy(exec);
    CHECK(cudaStreamDestroy(stream));
    report(checksum(data, o.size), o, us);
    return 0;
}
