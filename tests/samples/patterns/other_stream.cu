/* SPDX-License-Identifier: MIT */
/* Captured on one stream, launched on others: two of the program's own and the default stream, in
 * turn, each behind an event of the one before. */
#include "pattern.h"

int main(int argc, char **argv)
{
    struct options o = parse_options(argc, argv, "Launches on other streams than the captured one.",
                                     {1000, 16, 128, 100, 0, false});
    unsigned *data = device_array<unsigned>(o.size);
    cudaStream_t first = new_stream(), streams[3] = {new_stream(), new_stream(), 0};
    cudaEvent_t done = new_event();

    auto work = [&](cudaStream_t stream) {
        for (long k = 0; k < o.kernels; k++)
            launch_mix(stream, data, o.size, k);
    };
    work(first);
    cudaGraphExec_t exec = o.graph ? capture(first, [&] { work(first); }) : NULL;
    CHECK(cudaEventRecord(done, first));

    double us = time_loop(
        o,
        [&](long i) {
            cudaStream_t stream = streams[i % 3];
            CHECK(cudaStreamWaitEvent(stream, done, 0));
            if (exec)
                CHECK(cudaGraphLaunch(exec, stream));
            else
                work(stream);
            CHECK(cudaEventRecord(done, stream));
        },
        [&] { CHECK(cudaDeviceSynchronize()); });
    destroy(exec);
    CHECK(cudaEventDestroy(done));
    CHECK(cudaStreamDestroy(first));
    CHECK(cudaStreamDestroy(streams[0]));
    CHECK(cudaStreamDestroy(streams[1]));
    report(checksum(data, o.size), o, us);
    return 0;
}
