/* SPDX-License-Identifier: MIT */
/*
 * Parameters of nodes, read and set one by one: the program asks each kernel,
 * memset and copy node for what it has, changes one thing in it, and sets that
 * in the graph and in the exec. One node is switched off every other time.
 */
#include <string.h>

#include "pattern.h"

KERNEL(absorb, unsigned *data, const unsigned *other, unsigned size)
{
    unsigned i = INDEX();
    if (i < size)
        data[i] = data[i] * 1664525u + other[i];
}

struct by_hand {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaGraphNode_t clear, copy, absorb;
    std::vector<cudaGraphNode_t> mixes;
};

/* The kernel's third argument, changed from what it was. */
static void set_k(const struct by_hand *g, cudaGraphNode_t node, unsigned *was, unsigned k)
{
    struct cudaKernelNodeParams p, now;
    CHECK(cudaGraphKernelNodeGetParams(node, &p));
    EXPECT(p.blockDim.x == BLOCK && p.gridDim.y == 1 && p.sharedMemBytes == 0);
    EXPECT(*(unsigned *)p.kernelParams[2] == *was);
    /* What was read belongs to the node: the other arguments are handed back as they are. */
    void *arguments[] = {p.kernelParams[0], p.kernelParams[1], &k};
    p.kernelParams = arguments;
    CHECK(cudaGraphExecKernelNodeSetParams(g->exec, node, &p));
    CHECK(cudaGraphKernelNodeSetParams(node, &p));
    CHECK(cudaGraphKernelNodeGetParams(node, &now));
    EXPECT(*(unsigned *)now.kernelParams[2] == k && now.gridDim.x == p.gridDim.x);
    *was = k;
}

static void set_value(const struct by_hand *g, unsigned *was, unsigned value)
{
    struct cudaMemsetParams p, now;
    CHECK(cudaGraphMemsetNodeGetParams(g->clear, &p));
    EXPECT(p.value == *was && p.elementSize == 4 && p.height == 1);
    p.value = value;
    CHECK(cudaGraphMemsetNodeSetParams(g->clear, &p));
    CHECK(cudaGraphExecMemsetNodeSetParams(g->exec, g->clear, &p));
    CHECK(cudaGraphMemsetNodeGetParams(g->clear, &now));
    EXPECT(now.value == value && now.dst == p.dst && now.width == p.width);
    *was = value;
}

int main(int argc, char **argv)
{
    struct options o = parse_options(argc, argv, "Parameters of nodes, read and set one by one.",
                                     {1000, 16, 128, 100, 0, false});
    unsigned *data = device_array<unsigned>(o.size), *cleared = device_array<unsigned>(o.size),
             *sources = device_array<unsigned>(2 * o.size),
             *copied = device_array<unsigned>(o.size);
    size_t bytes = o.size * sizeof(*data);
    cudaStream_t stream = new_stream();

    /* A byte in every place, so that an ordinary memset can do the same. */
    auto value = [](long i) { return (unsigned)(i % 251) * 0x01010101u; };
    auto step = [&](long i) {
        CHECK(cudaMemsetAsync(cleared, value(i) & 0xff, bytes, stream));
        for (long k = 0; k < o.kernels; k++)
            launch_mix(stream, k % 2 ? cleared : data, o.size, i + k);
        CHECK(cudaMemcpyAsync(copied, sources + i % 2 * o.size, bytes, cudaMemcpyDeviceToDevice,
                              stream));
        LAUNCH(absorb, blocks(o.size), BLOCK, 0, stream, data, cleared, o.size);
        if (i % 2)
            LAUNCH(absorb, blocks(o.size), BLOCK, 0, stream, data, copied, o.size);
    };

    struct by_hand g = {};
    std::vector<unsigned> ks(o.kernels, 0);
    unsigned set = 0;
    if (o.graph) {
        CHECK(cudaGraphCreate(&g.graph, 0));
        struct cudaMemsetParams clear = {};
        clear.dst = cleared;
        clear.elementSize = 4;
        clear.width = o.size;
        clear.height = 1;
        CHECK(cudaGraphAddMemsetNode(&g.clear, g.graph, NULL, 0, &clear));
        cudaGraphNode_t last = g.clear;
        for (long k = 0; k < o.kernels; k++)
            g.mixes.push_back(last = add_mix(g.graph, &last, k % 2 ? cleared : data, o.size, 0));
        CHECK(cudaGraphAddMemcpyNode1D(&g.copy, g.graph, &last, 1, copied, sources, bytes,
                                       cudaMemcpyDeviceToDevice));
        cudaGraphNode_t with;
        unsigned size = o.size;
        void *arguments[] = {&data, &cleared, &size};
        struct cudaKernelNodeParams p = {};
        p.func = (void *)absorb;
        p.gridDim = dim3(blocks(o.size));
        p.blockDim = dim3(BLOCK);
        p.kernelParams = arguments;
        CHECK(cudaGraphAddKernelNode(&with, g.graph, &g.copy, 1, &p));
        arguments[1] = &copied;
        CHECK(cudaGraphAddKernelNode(&g.absorb, g.graph, &with, 1, &p));
        CHECK(cudaGraphInstantiate(&g.exec, g.graph, 0));
    }
    auto graph_step = [&](long i) {
        for (long k = 0; k < o.kernels; k++)
            set_k(&g, g.mixes[k], &ks[k], i + k);
        set_value(&g, &set, value(i));
        const unsigned *source = sources + i % 2 * o.size;
        CHECK(cudaGraphMemcpyNodeSetParams1D(g.copy, copied, source, bytes,
                                             cudaMemcpyDeviceToDevice));
        CHECK(cudaGraphExecMemcpyNodeSetParams1D(g.exec, g.copy, copied, source, bytes,
                                                 cudaMemcpyDeviceToDevice));
        unsigned enabled = 2;
        CHECK(cudaGraphNodeSetEnabled(g.exec, g.absorb, i % 2));
        CHECK(cudaGraphNodeGetEnabled(g.exec, g.absorb, &enabled));
        EXPECT(enabled == i % 2);
        CHECK(cudaGraphLaunch(g.exec, stream));
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
    destroy(g.exec);
    if (g.graph)
        CHECK(cudaGraphDestroy(g.graph));
    CHECK(cudaStreamDestroy(stream));
    report(checksum(data, o.size, checksum(cleared, o.size, checksum(copied, o.size))), o, us);
    return 0;
}
