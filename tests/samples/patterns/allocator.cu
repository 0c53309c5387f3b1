/* SPDX-License-Identifier: MIT */
/*
 * Stream-ordered allocation in the loop. Each step gets scratch memory and a
 * result that outlives it; a caching allocator keeps the result's memory for the
 * next one, and now and then gives it back. By hand the allocations are nodes of
 * a graph that frees the result of its last launch when it is launched again.
 */
#include "pattern.h"

KERNEL(make, unsigned *to, const unsigned *from, unsigned size, unsigned k)
{
    unsigned i = INDEX();
    if (i < size)
        to[i] = from[i] * 1664525u + k;
}

/* Keeps one block, for requests of one size. */
class cache
{
    size_t bytes_;
    unsigned *block_ = NULL;

  public:
    explicit cache(size_t bytes) : bytes_(bytes) {}

    unsigned *take(cudaStream_t stream)
    {
        unsigned *block = block_;
        block_ = NULL;
        if (!block)
            CHECK(cudaMallocAsync((void **)&block, bytes_, stream));
        return block;
    }
    void give(unsigned *block)
    {
        EXPECT(!block_);
        block_ = block;
    }
    void trim(cudaStream_t stream)
    {
        if (block_)
            CHECK(cudaFreeAsync(block_, stream));
        block_ = NULL;
    }
};

#define STEPS_UNTIL_TRIM 8

int main(int argc, char **argv)
{
    struct options o = parse_options(argc, argv, "Stream-ordered allocation in the loop.",
                                     {1000, 12, 128, 100, 0, false});
    unsigned *data = device_array<unsigned>(o.size), *kept = device_array<unsigned>(o.size);
    size_t bytes = o.size * sizeof(*data);
    cudaStream_t stream = new_stream();

    auto kernel = [&](unsigned *to, const unsigned *from, unsigned k) {
        LAUNCH(make, blocks(o.size), BLOCK, 0, stream, to, from, o.size, k);
    };
    /* Through scratch memory from the data into the result. */
    auto work = [&](unsigned *result) {
        unsigned *scratch;
        CHECK(cudaMallocAsync((void **)&scratch, bytes, stream));
        for (long k = 0; k < o.kernels; k++)
            if (k % 2)
                kernel(data, scratch, k);
            else
                kernel(scratch, data, k);
        kernel(result, scratch, 99);
        CHECK(cudaFreeAsync(scratch, stream));
    };
    kernel(kept, kept, 0); /* loads the kernel */

    cudaGraph_t graph;
    cudaGraphExec_t exec = NULL;
    unsigned *graph_result = NULL;
    if (o.graph) {
        CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        CHECK(cudaMallocAsync((void **)&graph_result, bytes, stream));
        work(graph_result);
        CHECK(cudaStreamEndCapture(stream, &graph));
        std::vector<cudaGraphNode_t> nodes(o.kernels + 4);
        size_t count = nodes.size();
        CHECK(cudaGraphGetNodes(graph, nodes.data(), &count));
        EXPECT(count == (size_t)o.kernels + 4);
        unsigned allocations = 0, frees = 0;
        for (cudaGraphNode_t node : nodes) {
            enum cudaGraphNodeType type;
            CHECK(cudaGraphNodeGetType(node, &type));
            allocations += type == cudaGraphNodeTypeMemAlloc;
            frees += type == cudaGraphNodeTypeMemFree;
        }
        EXPECT(allocations == 2 && frees == 1);
        CHECK(
            cudaGraphInstantiateWithFlags(&exec, graph, cudaGraphInstantiateFlagAutoFreeOnLaunch));
        CHECK(cudaGraphDestroy(graph));
    }

    cache results(bytes);
    double us = time_loop(
        o,
        [&](long i) {
            unsigned *result = graph_result;
            if (exec) {
                CHECK(cudaGraphLaunch(exec, stream));
            } else {
                result = results.take(stream);
                work(result);
            }
            CHECK(cudaMemcpyAsync(kept, result, bytes, cudaMemcpyDeviceToDevice, stream));
            launch_mix(stream, kept, o.size, i);
            if (exec)
                return;
            results.give(result);
            if (i % STEPS_UNTIL_TRIM == STEPS_UNTIL_TRIM - 1)
                results.trim(stream);
        },
        [&] { CHECK(cudaStreamSynchronize(stream)); });
    if (exec)
        CHECK(cudaFreeAsync(graph_result, stream)); /* that of the last launch */
    else
        results.trim(stream);
    CHECK(cudaStreamSynchronize(stream));
    destroy(exec);
    CHECK(cudaStreamDestroy(stream));
    report(checksum(data, o.size, checksum(kept, o.size)), o, us);
    return 0;
}
