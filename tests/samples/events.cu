/* SPDX-License-Identifier: MIT */
/* Two streams: the second forks off the first by an event and joins it by another. */
#include "sample.h"

KERNEL(mix, unsigned *data, unsigned size, unsigned k)
{
    unsigned i = INDEX();
    if (i < size)
        data[i] = data[i] * 1664525u + k;
}

KERNEL(absorb, unsigned *data, const unsigned *other, unsigned size)
{
    unsigned i = INDEX();
    if (i < size)
        data[i] = data[i] * 1664525u + other[i];
}

int main(int argc, char **argv)
{
    struct options o = parse_options(argc, argv, "Two streams with events between them.",
                                     {1000, 32, 128, 100, 0, false});
    unsigned *x = device_array<unsigned>(o.size), *y = device_array<unsigned>(o.size),
             *z = device_array<unsigned>(o.size);
    cudaStream_t first, second;
    CHECK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    cudaEvent_t fork, join;
    CHECK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));

    long quarter = o.kernels / 4, rest = o.kernels - 3 * quarter;
    auto eager = [&] {
        for (long k = 0; k < quarter; k++)
            LAUNCH(mix, blocks(o.size), BLOCK, 0, first, x, o.size, k);
        CHECK(cudaEventRecord(fork, first));
        CHECK(cudaStreamWaitEvent(second, fork, 0));
        for (long k = 0; k < quarter; k++) {
            LAUNCH(absorb, blocks(o.size), BLOCK, 0, second, y, x, o.size);
            LAUNCH(mix, blocks(o.size), BLOCK, 0, first, z, o.size, k);
        }
        CHECK(cudaEventRecord(join, second));
        CHECK(cudaStreamWaitEvent(first, join, 0));
        for (long k = 0; k < rest; k++)
            LAUNCH(absorb, blocks(o.size), BLOCK, 0, first, k % 2 ? z : x, k % 2 ? x : y, o.size);
    };
    eager();
    cudaGraphExec_t exec = o.graph ? capture(first, eager) : NULL;

    double us = time_loop(
        o,
        [&](long) {
            if (exec)
                CHECK(cudaGraphLaunch(exec, first));
            else
                eager();
        },
        [&] { CHECK(cudaStreamSynchronize(first)); });
    destroy(exec);
    CHECK(cudaEventDestroy(fork));
    CHECK(cudaEventDestroy(join));
    CHECK(cudaStreamDestroy(first));
    CHECK(cudaStreamDestroy(second));
    report(checksum(x, o.size, checksum(y, o.size, checksum(z, o.size))), o, us);
    return 0;
}
