/* SPDX-License-Identifier: MIT */
/*
 * Capture in each of its three modes. Now and then something that a capture
 * does not allow comes in the middle of one; the program ends it properly, gets
 * the error, and captures again without.
 */
#include <thread>

#include "pattern.h"

/* What a call that may be unsafe returns to another thread. */
static cudaError_t allocate_elsewhere(void)
{
    cudaError_t error;
    std::thread([&] {
        void *pointer = NULL;
        error = cudaMalloc(&pointer, 256);
        if (!error)
            CHECK(cudaFree(pointer));
    }).join();
    return error;
}

/* An error in the middle: 900 from what is not allowed, 901 from all that follows. */
static void fail_in_the_middle(cudaStream_t stream, enum cudaStreamCaptureMode mode, unsigned *data,
                               long size)
{
    void *pointer = NULL;
    CHECK(cudaStreamBeginCapture(stream, mode));
    launch_mix(stream, data, size, 1);
    CHECK(cudaGetLastError());
    if (mode == cudaStreamCaptureModeGlobal) {
        EXPECT_ERROR(allocate_elsewhere(), cudaErrorStreamCaptureUnsupported);
    } else if (mode == cudaStreamCaptureModeThreadLocal) {
        CHECK(allocate_elsewhere());
        EXPECT_ERROR(cudaMalloc(&pointer, 256), cudaErrorStreamCaptureUnsupported);
    } else {
        CHECK(cudaMalloc(&pointer, 256)); /* a relaxed capture allows it */
        EXPECT_ERROR(cudaStreamSynchronize(stream), cudaErrorStreamCaptureUnsupported);
    }
    enum cudaStreamCaptureStatus status;
    CHECK(cudaStreamIsCapturing(stream, &status));
    EXPECT(status == cudaStreamCaptureStatusInvalidated);
    launch_mix(stream, data, size, 2);
    EXPECT_ERROR(cudaPeekAtLastError(), cudaErrorStreamCaptureInvalidated);
    cudaGraph_t graph = NULL;
    EXPECT_ERROR(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
    EXPECT(graph == NULL);
    expect_no_capture(stream);
    CHECK(cudaFree(pointer));
}

int main(int argc, char **argv)
{
    struct options o = parse_options(argc, argv, "Capture in three modes, with errors.",
                                     {1000, 24, 128, 100, 0, false});
    const enum cudaStreamCaptureMode modes[3] = {cudaStreamCaptureModeGlobal,
                                                 cudaStreamCaptureModeThreadLocal,
                                                 cudaStreamCaptureModeRelaxed};
    unsigned *data = device_array<unsigned>(o.size);
    cudaStream_t stream = new_stream();

    auto part = [&](unsigned m) {
        for (long k = m; k < o.kernels; k += 3)
            launch_mix(stream, data, o.size, k);
    };
    auto captured = [&](unsigned m) {
        cudaGraph_t graph;
        cudaGraphExec_t exec;
        size_t nodes = 0;
        CHECK(cudaStreamBeginCapture(stream, modes[m]));
        part(m);
        CHECK(cudaStreamEndCapture(stream, &graph));
        CHECK(cudaGraphGetNodes(graph, NULL, &nodes));
        EXPECT(nodes == (size_t)(o.kernels + 2 - m) / 3);
        CHECK(cudaGraphInstantiate(&exec, graph, 0));
        CHECK(cudaGraphDestroy(graph));
        return exec;
    };
    cudaGraphExec_t execs[3] = {};

    double us = time_loop(
        o,
        [&](long i) {
            for (unsigned m = 0; m < 3; m++) {
                if (o.graph && i % 16 == 0) {
                    if (i) /* a kernel must have run before it can be captured */
                        fail_in_the_middle(stream, modes[m], data, o.size);
                    else
                        part(m);
                    destroy(execs[m]);
                    execs[m] = captured(m);
                    if (i == 0)
                        continue;
                }
                if (o.graph)
                    CHECK(cudaGraphLaunch(execs[m], stream));
                else
                    part(m);
            }
        },
        [&] { CHECK(cudaStreamSynchronize(stream)); });
    for (cudaGraphExec_t exec : execs)
        destroy(exec);
    CHECK(cudaStreamDestroy(stream));
    report(checksum(data, o.size), o, us);
    return 0;
}
