/* SPDX-License-Identifier: MIT */
/*
 * Results copied to the host on a second stream, behind an event, while the
 * first works on the next ones. The host reads those of the step before.
 */
#include "pattern.h"

KERNEL(emit, unsigned *to, const unsigned *from, unsigned size)
{
    unsigned i = INDEX();
    if (i < size)
        to[i] = from[i];
}

#define SLOTS 2

int main(int argc, char **argv)
{
    struct options o = parse_options(argc, argv, "Copies to the host behind the computation.",
                                     {1000, 16, 128, 100, 0, false});
    unsigned *data = device_array<unsigned>(o.size), *out[SLOTS] = {}, *host[SLOTS] = {};
    size_t bytes = o.size * sizeof(*data);
    cudaStream_t compute = new_stream(), copies = new_stream();
    cudaEvent_t computed[SLOTS], copied[SLOTS];
    cudaGraphExec_t execs[SLOTS] = {};
    auto work = [&](unsigned slot) {
        for (long k = 0; k < o.kernels; k++)
            launch_mix(compute, data, o.size, k);
        LAUNCH(emit, blocks(o.size), BLOCK, 0, compute, out[slot], data, o.size);
    };
    for (unsigned slot = 0; slot < SLOTS; slot++) {
        out[slot] = device_array<unsigned>(o.size);
        host[slot] = pinned_array(o.size, 0);
        computed[slot] = new_event();
        copied[slot] = new_event();
        work(slot);
        if (o.graph)
            execs[slot] = capture(compute, [&] { work(slot); });
    }

    uint64_t hash = CHECKSUM_START;
    double us = time_loop(
        o,
        [&](long i) {
            unsigned slot = i % SLOTS, before = (i + 1) % SLOTS;
            CHECK(cudaStreamWaitEvent(compute, copied[slot], 0)); /* the copy of two steps ago */
            if (o.graph)
                CHECK(cudaGraphLaunch(execs[slot], compute));
            else
                work(slot);
            CHECK(cudaEventRecord(computed[slot], compute));
            CHECK(cudaStreamWaitEvent(copies, computed[slot], 0));
            CHECK(cudaMemcpyAsync(host[slot], out[slot], bytes, cudaMemcpyDeviceToHost, copies));
            CHECK(cudaEventRecord(copied[slot], copies));
            if (i == 0)
                return;
            CHECK(cudaEventSynchronize(copied[before]));
            hash = checksum_bytes(host[before], bytes, hash);
        },
        [&] {
            CHECK(cudaStreamSynchronize(compute));
            CHECK(cudaStreamSynchronize(copies));
        });
    for (unsigned slot = 0; slot < SLOTS; slot++) {
        destroy(execs[slot]);
        CHECK(cudaEventDestroy(computed[slot]));
        CHECK(cudaEventDestroy(copied[slot]));
        hash = checksum_bytes(host[slot], bytes, hash);
        CHECK(cudaFreeHost(host[slot]));
    }
    CHECK(cudaStreamDestroy(compute));
    CHECK(cudaStreamDestroy(copies));
    report(checksum(data, o.size, hash), o, us);
    return 0;
}
