/* SPDX-License-Identifier: MIT */
/* Two arrays that change places in every iteration. */
#include <utility>

#include "sample.h"

KERNEL(step, unsigned *to, const unsigned *from, unsigned size, unsigned k)
{
    unsigned i = INDEX();
    if (i < size)
        to[i] = from[(i + 1) % size] * 1664525u + to[i] + k;
}

int main(int argc, char **argv)
{
    struct options o = parse_options(argc, argv, "A loop of kernels whose pointers change places.",
                                     {1000, 64, 128, 100, 0, false});
    unsigned *a = device_array<unsigned>(o.size), *b = device_array<unsigned>(o.size);
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));

    auto eager = [&](unsigned *to, const unsigned *from) {
        for (long k = 0; k < o.kernels; k++)
            LAUNCH(step, blocks(o.size), BLOCK, 0, stream, to, from, o.size, k);
    };
    eager(a, b);
    /* By hand: a graph for each way round. */
    cudaGraphExec_t exec[2] = {};
    if (o.graph) {
        exec[0] = capture(stream, [&] { eager(a, b); });
        exec[1] = capture(stream, [&] { eager(b, a); });
    }

    unsigned *to = a, *from = b;
    double us = time_loop(
        o,
        [&](long i) {
            if (o.graph)
                CHECK(cudaGraphLaunch(exec[i % 2], stream));
            else
                eager(to, from);
            std::swap(to, from);
        },
        [&] { CHECK(cudaStreamSynchronize(stream)); });
    destroy(exec[0]);
    destroy(exec[1]);
    CHECK(cudaStreamDestroy(stream));
    report(checksum(a, o.size, checksum(b, o.size)), o, us);
    return 0;
}
