/* SPDX-License-Identifier: MIT */
/*
 * A capture that fails from the start: the routine waits for the stream before
 * its first launch, so all of its launches get error 901. The program builds
 * the same graph node by node instead.
 */
#include "pattern.h"

int main(int argc, char **argv)
{
    struct options o = parse_options(argc, argv, "Explicit construction where capture is refused.",
                                     {1000, 24, 128, 100, 0, false});
    unsigned *data = device_array<unsigned>(o.size);
    cudaStream_t stream = new_stream();

    /* What somebody else wrote; nobody checks the wait. */
    auto routine = [&] {
        (void)cudaStreamSynchronize(stream);
        (void)cudaGetLastError();
        for (long k = 0; k < o.kernels; k++)
            launch_mix(stream, data, o.size, k);
    };
    routine();

    cudaGraphExec_t exec = NULL;
    if (o.graph) {
        cudaGraph_t graph = NULL;
        /* The legacy stream cannot be captured at all. */
        EXPECT_ERROR(cudaStreamBeginCapture(cudaStreamLegacy, cudaStreamCaptureModeGlobal),
                     cudaErrorStreamCaptureUnsupported);
        CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
        routine();
        EXPECT_ERROR(cudaPeekAtLastError(), cudaErrorStreamCaptureInvalidated);
        EXPECT_ERROR(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
        EXPECT(graph == NULL);
        expect_no_capture(stream);

        CHECK(cudaGraphCreate(&graph, 0));
        cudaGraphNode_t node;
        for (long k = 0; k < o.kernels; k++)
            node = add_mix(graph, k ? &node : NULL, data, o.size, k);
        size_t count = 0, roots = 0, edges = 0;
        CHECK(cudaGraphGetNodes(graph, NULL, &count));
        CHECK(cudaGraphGetRootNodes(graph, NULL, &roots));
        CHECK(cudaGraphGetEdges(graph, NULL, NULL, NULL, &edges));
        EXPECT(count == (size_t)o.kernels && roots == 1 && edges == count - 1);
        CHECK(cudaGraphInstantiate(&exec, graph, 0));
        CHECK(cudaGraphDestroy(graph));
    }

    double us = time_loop(
        o,
        [&](long) {
            if (exec)
                CHECK(cudaGraphLaunch(exec, stream));
            else
                routine();
        },
        [&] { CHECK(cudaStreamSynchronize(stream)); });
    destroy(exec);
    CHECK(cudaStreamDestroy(stream));
    report(checksum(data, o.size), o, us);
    return 0;
}
