/* SPDX-License-Identifier: MIT */
/*
 * Streams that are made in each step and destroyed at its end: three of them, the second behind an
 * event of the first, the third of another priority. They go in turn in the order in which they
 * came or in the other, and now and then before their work is done.
 */
#include "pattern.h"

enum { STREAMS = 3 };

int main(int argc, char **argv)
{
    struct options o =
        parse_options(argc, argv, "Streams for each step.", {1000, 16, 128, 100, 0, false});
    unsigned *data[STREAMS];
    int least, greatest;
    for (int j = 0; j < STREAMS; j++)
        data[j] = device_array<unsigned>(o.size);
    CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    cudaEvent_t fork = new_event();

    auto work = [&](int j, cudaStream_t stream) {
        for (long k = 0; k < o.kernels; k++)
            launch_mix(stream, data[j], o.size, (unsigned)(k + j));
    };
    launch_mix(0, data[0], o.size, 0); /* the kernel is loaded: capture cannot do it */
    cudaGraphExec_t exec[STREAMS] = {};
    for (int j = 0; o.graph && j < STREAMS; j++) {
        cudaStream_t stream = new_stream();
        exec[j] = capture(stream, [&] { work(j, stream); });
        CHECK(cudaStreamDestroy(stream));
    }
    CHECK(cudaDeviceSynchronize());

    double us = time_loop(
        o,
        [&](long i) {
            cudaStream_t stream[STREAMS];
            for (int j = 0; j < STREAMS; j++)
                CHECK(cudaStreamCreateWithPriority(&stream[j], cudaStreamNonBlocking,
                                                   j == 2 ? greatest : least));
            for (int j = 0; j < STREAMS; j++) {
                if (j == 1)
                    CHECK(cudaStreamWaitEvent(stream[1], fork, 0));
                if (exec[j])
                    CHECK(cudaGraphLaunch(exec[j], stream[j]));
                else
                    work(j, stream[j]);
                if (j == 0)
                    CHECK(cudaEventRecord(fork, stream[0]));
            }
            bool early = i % 16 == 15;
            for (int j = 0; j < STREAMS && !early; j++)
                CHECK(cudaStreamSynchronize(stream[j]));
            for (int j = 0; j < STREAMS; j++)
                CHECK(cudaStreamDestroy(stream[i / 32 % 2 ? j : STREAMS - 1 - j]));
            if (early)
                CHECK(cudaDeviceSynchronize());
        },
        [&] { CHECK(cudaDeviceSynchronize()); });
    uint64_t sum = CHECKSUM_START;
    for (int j = 0; j < STREAMS; j++) {
        destroy(exec[j]);
        sum = checksum(data[j], o.size, sum);
    }
    CHECK(cudaEventDestroy(fork));
    report(sum, o, us);
    return 0;
}
