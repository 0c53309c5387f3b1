/* SPDX-License-Identifier: MIT */
/* graph_memory.c: a loop copies to memory that graphs of the program's own allocate and free, by
 * nodes that are made in the way that the argument names; "never" of them: the graphs do nothing.
 */
#include "sim_test.h"

enum { ROUNDS = 50, TRIPS = 10, WORDS = 256, BYTES = WORDS * 4 };

static CUstream stream;
static CUdeviceptr target, work;

static const CUmemPoolProps pool = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                    .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};

static void never(CUgraph takes, CUgraph frees)
{
    CUgraphNode made;
    OK(cuMemAlloc(&target, BYTES));
    OK(cuGraphAddEmptyNode(&made, takes, NULL, 0));
    OK(cuGraphAddEmptyNode(&made, frees, NULL, 0));
}

static void node(CUgraph takes, CUgraph frees)
{
    CUgraphNode made;
    CUDA_MEM_ALLOC_NODE_PARAMS params = {.poolProps = pool, .bytesize = BYTES};
    OK(cuGraphAddMemAllocNode(&made, takes, NULL, 0, &params));
    target = params.dptr;
    OK(cuGraphAddMemFreeNode(&made, frees, NULL, 0, target));
}

static void any(CUgraph takes, CUgraph frees)
{
    CUgraphNode made;
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC,
                                .alloc = {.poolProps = pool, .bytesize = BYTES}};
    OK(cuGraphAddNode(&made, takes, NULL, NULL, 0, &params));
    target = params.alloc.dptr;
    params = (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_MEM_FREE, .free = {.dptr = target}};
    OK(cuGraphAddNode(&made, frees, NULL, NULL, 0, &params));
}

static void captured(CUgraph takes, CUgraph frees)
{
    CUgraph same;
    OK(cuStreamBeginCaptureToGraph(stream, takes, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuMemAllocAsync(&target, BYTES, stream));
    OK(cuStreamEndCapture(stream, &same));
    OK(cuStreamBeginCaptureToGraph(stream, frees, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuMemFreeAsync(target, stream));
    OK(cuStreamEndCapture(stream, &same));
}

static const struct {
    const char *name;
    void (*make)(CUgraph takes, CUgraph frees);
} ways[] = {
    {"never", never},
    {"node", node},
    {"any", any},
    {"captured", captured},
};

static void copy(uint32_t trip)
{
    OK(cuMemsetD32Async(work, trip, WORDS, stream));
    OK(cuMemsetD32Async(work, trip + 1, WORDS / 2, stream));
    OK(cuMemcpyDtoDAsync(target, work, BYTES, stream));
    OK(cuStreamSynchronize(stream));
}

int main(int argc, char **argv)
{
    CUgraph takes, frees;
    CUgraphExec first, last;
    start();
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&work, BYTES));
    OK(cuGraphCreate(&takes, 0));
    OK(cuGraphCreate(&frees, 0));
    for (size_t i = 0; argc == 2 && i < sizeof ways / sizeof *ways; i++)
        if (strcmp(ways[i].name, argv[1]) == 0)
            ways[i].make(takes, frees);
    OK(cuGraphInstantiate(&first, takes, 0));
    OK(cuGraphInstantiate(&last, frees, 0));
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t result[WORDS], sum = 0;
        OK(cuGraphLaunch(first, stream));
        for (uint32_t trip = 0; trip < TRIPS; trip++)
            copy(trip);
        OK(cuMemcpyDtoH(result, target, BYTES));
        for (uint32_t i = 0; i < WORDS; i++)
            sum = sum * 31 + result[i];
        OK(cuGraphLaunch(last, stream));
        OK(cuStreamSynchronize(stream));
        printf("%08x\n", sum);
    }
    return 0;
}
