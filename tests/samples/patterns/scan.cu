/* SPDX-License-Identifier: MIT */
/*
 * Prefix sums over several blocks: one kernel where a tile is enough, three for
 * tiles and their sums, five for one level more. The size, and with it the
 * number of kernels, changes every few calls. By hand there is a graph for each
 * size that has come.
 */
#include <map>

#include "pattern.h"

#define TILE 8 /* elements that one thread sums up */

KERNEL(scan_tiles, unsigned *data, unsigned *sums, unsigned size)
{
    unsigned tile = INDEX(), sum = 0;
    if (tile * TILE >= size)
        return;
    for (unsigned i = tile * TILE; i < tile * TILE + TILE && i < size; i++)
        data[i] = sum += data[i];
    sums[tile] = sum;
}

/* Each element gets the sum of all tiles before its own. */
KERNEL(add_sums, unsigned *data, const unsigned *sums, unsigned size)
{
    unsigned i = INDEX();
    if (i >= TILE && i < size)
        data[i] += sums[i / TILE - 1];
}

KERNEL(fill, unsigned *data, unsigned size, unsigned k)
{
    unsigned i = INDEX();
    if (i < size)
        data[i] = (i + k) * 2654435761u;
}

#define LEVELS 3

/* Levels of the scan, and number of its kernels: 1, 3 or 5. */
static unsigned scan(cudaStream_t stream, unsigned *const level[LEVELS + 1], unsigned size)
{
    unsigned sizes[LEVELS] = {size}, levels = 1;
    while (sizes[levels - 1] > TILE) {
        sizes[levels] = (sizes[levels - 1] + TILE - 1) / TILE;
        levels++;
    }
    for (unsigned l = 0; l < levels; l++)
        LAUNCH(scan_tiles, blocks((sizes[l] + TILE - 1) / TILE), BLOCK, 0, stream, level[l],
               level[l + 1], sizes[l]);
    for (unsigned l = levels - 1; l-- > 0;)
        LAUNCH(add_sums, blocks(sizes[l]), BLOCK, 0, stream, level[l], level[l + 1], sizes[l]);
    return 2 * levels - 1;
}

static const unsigned classes[LEVELS] = {TILE, TILE *TILE, TILE *TILE *TILE};

int main(int argc, char **argv)
{
    struct options o =
        parse_options(argc, argv, "Prefix sums of changing size.", {1000, 4, 512, 100, 0, false});
    unsigned *level[LEVELS + 1] = {device_array<unsigned>(classes[2]),
                                   device_array<unsigned>(classes[1]),
                                   device_array<unsigned>(classes[0]), device_array<unsigned>(1)};
    unsigned *hash = device_array<unsigned>(classes[2]);
    cudaStream_t stream = new_stream();

    /* A class for some calls, a size of that class for each call. */
    auto size_of = [&](long i) { return classes[i / 12 % LEVELS] - (unsigned)(i / 4 % 3); };
    unsigned kernels = 0;
    auto work = [&](unsigned size) {
        for (long k = 0; k < o.kernels; k++) {
            LAUNCH(fill, blocks(size), BLOCK, 0, stream, level[0], size, (unsigned)k);
            kernels = scan(stream, level, size);
            launch_mix(stream, hash, size, k);
        }
    };
    auto correct = [&](unsigned size) {
        unsigned got[TILE * TILE * TILE], sum = 0;
        CHECK(cudaStreamSynchronize(stream));
        CHECK(cudaMemcpy(got, level[0], size * sizeof(*got), cudaMemcpyDeviceToHost));
        for (unsigned i = 0; i < size; i++) {
            sum += (i + (unsigned)o.kernels - 1) * 2654435761u;
            EXPECT(got[i] == sum);
        }
    };
    for (unsigned c = 0; c < LEVELS; c++) { /* each kernel has run, and each class is right */
        work(classes[c]);
        EXPECT(kernels == 2 * c + 1);
        correct(classes[c]);
    }

    std::map<unsigned, cudaGraphExec_t> execs;
    unsigned size = 0;
    double us = time_loop(
        o,
        [&](long i) {
            size = size_of(i);
            if (!o.graph) {
                work(size);
                return;
            }
            cudaGraphExec_t &exec = execs[size];
            if (!exec)
                exec = capture(stream, [&] { work(size); });
            CHECK(cudaGraphLaunch(exec, stream));
        },
        [&] {
            if (size)
                correct(size);
        });
    for (auto &entry : execs)
        destroy(entry.second);
    CHECK(cudaStreamDestroy(stream));
    report(checksum(hash, classes[2], checksum(level[0], classes[2])), o, us);
    return 0;
}
