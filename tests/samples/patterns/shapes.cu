/* SPDX-License-Identifier: MIT */
/* Shapes and strides passed by value, in structs: the number of rows in use changes with each step,
 * and by hand each node of the exec gets its new structs. */
#include "pattern.h"

#define RANK 4

struct tensor {
    unsigned *data;
    int shape[RANK];
    int stride[RANK]; /* in elements */
};

KERNEL(add_strided, struct tensor to, struct tensor from, unsigned size, unsigned k)
{
    unsigned i = INDEX(), rest = i, at = 0, other = 0;
    if (i >= size)
        return;
    for (int d = RANK - 1; d >= 0; d--) {
        unsigned x = rest % to.shape[d];
        rest /= to.shape[d];
        at += x * to.stride[d];
        other += x * from.stride[d];
    }
    if (rest == 0) /* beyond the last row in use otherwise */
        to.data[at] = to.data[at] * 1664525u + from.data[other] + k;
}

/* Rows in use, then columns; the two last dimensions are swapped if the other way round is asked.
 */
static struct tensor shaped(unsigned *data, int rows, int side, bool transposed)
{
    return {data,
            {1, rows, side, side},
            {0, side * side, transposed ? 1 : side, transposed ? side : 1}};
}

int main(int argc, char **argv)
{
    struct options o = parse_options(argc, argv, "Shapes and strides as kernel arguments.",
                                     {1000, 12, 6, 100, 0, false});
    const int side = (int)o.size, rows = 4;
    unsigned size = rows * side * side;
    unsigned *x = device_array<unsigned>(size), *y = device_array<unsigned>(size);
    cudaStream_t stream = new_stream();

    struct tensor to, from;
    unsigned k;
    auto set = [&](long i, long kernel) {
        to = shaped(kernel % 2 ? y : x, 1 + i % rows, side, false);
        from = shaped(kernel % 2 ? x : y, 1 + i % rows, side, kernel % 3 == 0);
        k = (unsigned)kernel;
    };
    auto step = [&](long i) {
        for (long kernel = 0; kernel < o.kernels; kernel++) {
            set(i, kernel);
            LAUNCH(add_strided, blocks(size), BLOCK, 0, stream, to, from, size, k);
        }
    };

    /* The kernel's arguments are where the variables are at the time of the call. */
    void *arguments[] = {&to, &from, &size, &k};
    struct cudaKernelNodeParams p = {};
    p.func = (void *)add_strided;
    p.gridDim = dim3(blocks(size));
    p.blockDim = dim3(BLOCK);
    p.kernelParams = arguments;
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    std::vector<cudaGraphNode_t> nodes(o.kernels);
    if (o.graph) {
        CHECK(cudaGraphCreate(&graph, 0));
        for (long kernel = 0; kernel < o.kernels; kernel++) {
            set(0, kernel);
            CHECK(cudaGraphAddKernelNode(&nodes[kernel], graph, kernel ? &nodes[kernel - 1] : NULL,
                                         kernel != 0, &p));
        }
        CHECK(cudaGraphInstantiate(&exec, graph, 0));
        struct cudaKernelNodeParams got;
        CHECK(cudaGraphKernelNodeGetParams(nodes[0], &got));
        EXPECT(((struct tensor *)got.kernelParams[0])->data == x);
        EXPECT(((struct tensor *)got.kernelParams[1])->stride[2] == 1);
        EXPECT(*(unsigned *)got.kernelParams[2] == size);
    }

    double us = time_loop(
        o,
        [&](long i) {
            if (!exec) {
                step(i);
                return;
            }
            for (long kernel = 0; kernel < o.kernels; kernel++) {
                set(i, kernel);
                CHECK(cudaGraphExecKernelNodeSetParams(exec, nodes[kernel], &p));
            }
            CHECK(cudaGraphLaunch(exec, stream));
        },
        [&] { CHECK(cudaStreamSynchronize(stream)); });
    destroy(exec);
    if (graph)
        CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(stream));
    report(checksum(x, size, checksum(y, size)), o, us);
    return 0;
}
