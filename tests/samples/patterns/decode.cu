/* SPDX-License-Identifier: MIT */
/*
 * A decode loop: each step works at the next position, and the further it is,
 * the more parts the work on what came before is split into. By hand the step is
 * captured anew each time and the exec updated from that; where the number of
 * parts has changed the update is refused, and the exec is made anew.
 */
#include "pattern.h"

KERNEL(combine, unsigned *data, const unsigned *parts, unsigned size, unsigned count)
{
    unsigned i = INDEX();
    if (i < size)
        for (unsigned p = 0; p < count; p++)
            data[i] = data[i] * 1664525u + parts[p * size + i];
}

#define MOST_PARTS  3
#define STEPS_APART 16 /* positions between two numbers of parts */

int main(int argc, char **argv)
{
    struct options o = parse_options(argc, argv, "A decode loop that captures each step anew.",
                                     {1000, 8, 128, 100, 0, false});
    unsigned *data = device_array<unsigned>(o.size),
             *parts = device_array<unsigned>(o.size * MOST_PARTS);
    cudaStream_t stream = new_stream();

    auto step = [&](unsigned position) {
        unsigned count = 1 + position / STEPS_APART % MOST_PARTS;
        for (long layer = 0; layer < o.kernels; layer++) {
            launch_mix(stream, data, o.size, position);
            for (unsigned p = 0; p < count; p++)
                launch_mix(stream, parts + p * o.size, o.size, position + layer);
            LAUNCH(combine, blocks(o.size), BLOCK, 0, stream, data, parts, o.size, count);
        }
    };
    step(0);

    cudaGraphExec_t exec = NULL;
    unsigned refused = 0;
    auto graph_step = [&](unsigned position) {
        cudaGraph_t graph;
        CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        step(position);
        CHECK(cudaStreamEndCapture(stream, &graph));
        if (exec) {
            cudaGraphExecUpdateResultInfo info;
            cudaError_t error = cudaGraphExecUpdate(exec, graph, &info);
            if (error) {
                EXPECT_ERROR(error, cudaErrorGraphExecUpdateFailure);
                EXPECT(info.result == cudaGraphExecUpdateErrorTopologyChanged);
                CHECK(cudaGraphExecDestroy(exec));
                exec = NULL;
                refused++;
            } else {
                EXPECT(info.result == cudaGraphExecUpdateSuccess);
            }
        }
        if (!exec)
            CHECK(cudaGraphInstantiate(&exec, graph, 0));
        CHECK(cudaGraphDestroy(graph));
        CHECK(cudaGraphLaunch(exec, stream));
    };

    double us = time_loop(
        o,
        [&](long i) {
            if (o.graph)
                graph_step(i);
            else
                step(i);
        },
        [&] { CHECK(cudaStreamSynchronize(stream)); });
    if (o.graph) {
        EXPECT(refused == (o.warmup + o.iterations - 1) / STEPS_APART);
        printf("refused %u\n", refused);
    }
    destroy(exec);
    CHECK(cudaStreamDestroy(stream));
    report(checksum(data, o.size, checksum(parts, o.size * MOST_PARTS)), o, us);
    return 0;
}
