/* SPDX-License-Identifier: MIT */
/* Buffers that are allocated once: each step's input is copied into the one that the graph reads,
 * and what it wrote is copied out of the other. */
#include "pattern.h"

#define BATCHES 8 /* different inputs, in pinned memory */

KERNEL(absorb, unsigned *data, const unsigned *other, unsigned size)
{
    unsigned i = INDEX();
    if (i < size)
        data[i] = data[i] * 1664525u + other[i];
}

int main(int argc, char **argv)
{
    struct options o = parse_options(argc, argv, "Input copied into fixed buffers before a launch.",
                                     {1000, 16, 128, 100, 0, false});
    unsigned *input = device_array<unsigned>(o.size), *state = device_array<unsigned>(o.size),
             *results = device_array<unsigned>(o.size * BATCHES);
    size_t bytes = o.size * sizeof(*input);
    unsigned *batches[BATCHES];
    for (unsigned b = 0; b < BATCHES; b++)
        batches[b] = pinned_array(o.size, 1000 * b);
    cudaStream_t stream = new_stream();

    auto work = [&] {
        for (long k = 0; k < o.kernels; k++)
            if (k % 4)
                launch_mix(stream, input, o.size, k);
            else
                LAUNCH(absorb, blocks(o.size), BLOCK, 0, stream, state, input, o.size);
    };
    work();
    cudaGraphExec_t exec = o.graph ? capture(stream, work) : NULL;

    double us = time_loop(
        o,
        [&](long i) {
            CHECK(cudaMemcpyAsync(input, batches[i % BATCHES], bytes, cudaMemcpyHostToDevice,
                                  stream));
            if (exec)
                CHECK(cudaGraphLaunch(exec, stream));
            else
                work();
            CHECK(cudaMemcpyAsync(results + i % BATCHES * o.size, state, bytes,
                                  cudaMemcpyDeviceToDevice, stream));
        },
        [&] { CHECK(cudaStreamSynchronize(stream)); });
    destroy(exec);
    CHECK(cudaStreamDestroy(stream));
    for (unsigned *batch : batches)
        CHECK(cudaFreeHost(batch));
    report(checksum(state, o.size, checksum(results, o.size * BATCHES)), o, us);
    return 0;
}
