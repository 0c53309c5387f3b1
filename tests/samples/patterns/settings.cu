/* SPDX-License-Identifier: MIT */
/*
 * Layers that share a kernel, and set how much shared memory it may have before each launch, as
 * libraries for neural networks do. By hand: the layers are captured.
 */
#include "pattern.h"

int main(int argc, char **argv)
{
    struct options o =
        parse_options(argc, argv, "Settings before each launch.", {2000, 12, 128, 100, 0, false});
    static const int limits[] = {90000, 60000, 70000};
    unsigned *data = device_array<unsigned>(o.size);
    cudaStream_t stream = new_stream();

    auto layers = [&](unsigned step) {
        for (long k = 0; k < o.kernels; k++) {
            int limit = limits[k % 3];
            CHECK(cudaFuncSetAttribute((const void *)mix,
                                       cudaFuncAttributeMaxDynamicSharedMemorySize, limit));
            CHECK(cudaFuncSetAttribute((const void *)mix,
                                       cudaFuncAttributePreferredSharedMemoryCarveout, 100));
            LAUNCH(mix, blocks(o.size), BLOCK, limit, stream, data, o.size, step + (unsigned)k);
        }
    };
    layers(0); /* the kernel is loaded: capture cannot do it */
    CHECK(cudaStreamSynchronize(stream));
    cudaGraphExec_t exec = o.graph ? capture(stream, [&] { layers(0); }) : NULL;

    double us = time_loop(
        o,
        [&](long i) {
            if (exec)
                CHECK(cudaGraphLaunch(exec, stream));
            else
                layers(0);
            if (i % 16 == 15)
                CHECK(cudaStreamSynchronize(stream));
        },
        [&] { CHECK(cudaStreamSynchronize(stream)); });
    destroy(exec);
    CHECK(cudaStreamDestroy(stream));
    report(checksum(data, o.size), o, us);
    return 0;
}
