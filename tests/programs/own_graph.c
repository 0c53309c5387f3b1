/* SPDX-License-Identifier: MIT */
/*
 * own_graph.c [STEPS]: in each step five kernels with a wait behind each, then two kernels, a graph
 * of the program's own, and a wait. What it costs to replay the single kernels may come with the
 * launch of that graph (AGSIM_SWITCH_US).
 */
#include "sim_test.h"

enum { N = 64, SINGLE = 5, NODES = 16 };

static CUstream stream;
static CUdeviceptr buffer;

static CUgraphExec own_graph(void)
{
    CUgraph graph;
    CUgraphExec exec;
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    for (uint32_t k = 0; k < NODES; k++)
        OK(launch_mix(buffer, N, k, stream));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphDestroy(graph));
    return exec;
}

int main(int argc, char **argv)
{
    uint32_t words[N], sum = 0, steps = argc > 1 ? (uint32_t)atoi(argv[1]) : 1000;
    start();
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&buffer, sizeof words));
    OK(cuMemsetD32(buffer, 1, N));
    OK(cuCtxSynchronize());
    CUgraphExec exec = own_graph();
    for (uint32_t step = 0; step < steps; step++) {
        for (uint32_t i = 0; i < SINGLE; i++) {
            OK(launch_mix(buffer, N, step, stream));
            OK(cuStreamSynchronize(stream));
        }
        OK(cuLaunchKernel(nop, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
        OK(launch_mix(buffer, N, 1, stream));
        OK(cuGraphLaunch(exec, stream));
        OK(cuStreamSynchronize(stream));
    }
    OK(cuCtxGetFlags(&sum)); /* to make a graph sets one */
    OK(cuMemcpyDtoH(words, buffer, sizeof words));
    for (uint32_t i = 0; i < N; i++)
        sum = sum * 31 + words[i];
    printf("checksum %08x\n", sum);
    return 0;
}
