/* SPDX-License-Identifier: MIT */
/*
 * What beginners write: memory is set and copied on the device by calls without a stream, among
 * kernels of the default stream. By hand: the step is captured, by calls that name a stream.
 */
#include "pattern.h"

int main(int argc, char **argv)
{
    struct options o = parse_options(argc, argv, "Memsets and copies without a stream.",
                                     {2000, 12, 128, 100, 0, false});
    unsigned *x = device_array<unsigned>(o.size), *y = device_array<unsigned>(o.size);
    size_t bytes = o.size * sizeof *x;

    auto plain = [&] {
        CHECK(cudaMemset(y, 7, bytes));
        for (long k = 0; k < o.kernels; k++)
            LAUNCH(mix, blocks(o.size), BLOCK, 0, 0, k % 2 ? y : x, o.size, (unsigned)k);
        CHECK(cudaMemcpy(x, y, bytes / 2, cudaMemcpyDeviceToDevice));
    };
    auto named = [&](cudaStream_t stream) {
        CHECK(cudaMemsetAsync(y, 7, bytes, stream));
        for (long k = 0; k < o.kernels; k++)
            LAUNCH(mix, blocks(o.size), BLOCK, 0, stream, k % 2 ? y : x, o.size, (unsigned)k);
        CHECK(cudaMemcpyAsync(x, y, bytes / 2, cudaMemcpyDeviceToDevice, stream));
    };
    plain(); /* the kernel is loaded: capture cannot do it */
    CHECK(cudaDeviceSynchronize());
    cudaStream_t stream = new_stream();
    cudaGraphExec_t exec = o.graph ? capture(stream, [&] { named(stream); }) : NULL;

    double us = time_loop(
        o,
        [&](long i) {
            if (exec)
                CHECK(cudaGraphLaunch(exec, 0));
            else
                plain();
            if (i % 16 == 15)
                CHECK(cudaDeviceSynchronize());
        },
        [&] { CHECK(cudaDeviceSynchronize()); });
    destroy(exec);
    CHECK(cudaStreamDestroy(stream));
    report(checksum(x, o.size), o, us);
    return 0;
}
