/* SPDX-License-Identifier: MIT */
/* Each kernel has a scalar argument that changes in every iteration. */
#include "sample.h"

KERNEL(mix, unsigned *data, unsigned size, unsigned k)
{
    unsigned i = INDEX();
    if (i < size)
        data[i] = data[i] * 1664525u + k;
}

int main(int argc, char **argv)
{
    struct options o = parse_options(argc, argv, "A loop of kernels with changing scalars.",
                                     {1000, 64, 128, 100, 0, false});
    unsigned *data = device_array<unsigned>(o.size);
    unsigned size = o.size, scalar = 0;
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));

    /* By hand: a chain of kernel nodes, whose parameters are set before each launch. */
    void *arguments[] = {&data, &size, &scalar};
    cudaKernelNodeParams node = {};
    node.func = (void *)mix;
    node.gridDim = dim3(blocks(o.size));
    node.blockDim = dim3(BLOCK);
    node.kernelParams = arguments;
    std::vector<cudaGraphNode_t> nodes(o.kernels);
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    if (o.graph) {
        CHECK(cudaGraphCreate(&graph, 0));
        for (long k = 0; k < o.kernels; k++)
            CHECK(cudaGraphAddKernelNode(&nodes[k], graph, k ? &nodes[k - 1] : NULL, k ? 1 : 0,
                                         &node));
        CHECK(cudaGraphInstantiate(&exec, graph, 0));
        CHECK(cudaGraphUpload(exec, stream));
    }

    double us = time_loop(
        o,
        [&](long i) {
            for (long k = 0; k < o.kernels; k++) {
                scalar = (unsigned)(i * o.kernels + k);
                if (exec)
                    CHECK(cudaGraphExecKernelNodeSetParams(exec, nodes[k], &node));
                else
                    LAUNCH(mix, blocks(o.size), BLOCK, 0, stream, data, size, scalar);
            }
            if (exec)
                CHECK(cudaGraphLaunch(exec, stream));
        },
        [&] { CHECK(cudaStreamSynchronize(stream)); });
    destroy(exec);
    if (graph)
        CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(stream));
    report(checksum(data, o.size), o, us);
    return 0;
}
