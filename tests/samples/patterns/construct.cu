/* SPDX-License-Identifier: MIT */
/*
 * A graph of every kind of node, built by hand: kernel, memset, copy, host
 * function, empty, child graph, event record and wait, allocation and free; and
 * a second one with a conditional node, nodes of the generic call, and edges
 * that are added and taken away afterwards. Nodes, types and edges are counted.
 *
 * The simulated driver has no conditional nodes: there a child graph stands for
 * the loop, and the program says so.
 */
#include <map>

#include "pattern.h"

KERNEL(absorb, unsigned *data, const unsigned *other, unsigned size)
{
    unsigned i = INDEX();
    if (i < size)
        data[i] = data[i] * 1664525u + other[i];
}

#define ROUNDS 3 /* of the loop */

#ifdef __CUDACC__
#define LOOP_TYPE cudaGraphNodeTypeConditional

/* The loop's body: ends the loop after the last of its rounds. */
__global__ void round_of_loop(unsigned *data, unsigned size, unsigned *rounds,
                              cudaGraphConditionalHandle handle)
{
    unsigned i = INDEX();
    if (i < size)
        data[i] = data[i] * 1664525u + 7;
    if (i == 0) {
        *rounds = (*rounds + 1) % ROUNDS;
        cudaGraphSetConditional(handle, *rounds != 0);
    }
}
#else
#define LOOP_TYPE cudaGraphNodeTypeGraph
#endif

static void count_call(void *counter)
{
    ++*(unsigned *)counter;
}

/* What the work is done on. */
struct world {
    unsigned size;
    unsigned *x, *y, *z, *v, *w, *rounds;
    unsigned calls;          /* of the host function */
    cudaEvent_t ready, done; /* w is there; w may change */
    cudaStream_t stream, other;

    size_t bytes(void) const
    {
        return size * sizeof(*x);
    }
};

/* -- Ordinary launches --- */

static void absorb_into(const struct world *o, unsigned *data, const unsigned *other)
{
    LAUNCH(absorb, blocks(o->size), BLOCK, 0, o->stream, data, other, o->size);
}

static void plain_step(struct world *o)
{
    unsigned *scratch;
    CHECK(cudaMemsetAsync(o->y, 1, o->bytes(), o->stream));
    launch_mix(o->stream, o->x, o->size, 1);
    CHECK(cudaMemcpyAsync(o->z, o->x, o->bytes(), cudaMemcpyDeviceToDevice, o->stream));
    absorb_into(o, o->y, o->x);
    launch_mix(o->stream, o->x, o->size, 2);
    launch_mix(o->stream, o->y, o->size, 3);
    CHECK(cudaStreamWaitEvent(o->stream, o->ready, 0));
    absorb_into(o, o->x, o->w);
    CHECK(cudaEventRecord(o->done, o->stream));
    CHECK(cudaMallocAsync((void **)&scratch, o->bytes(), o->stream));
    CHECK(cudaMemcpyAsync(scratch, o->x, o->bytes(), cudaMemcpyDeviceToDevice, o->stream));
    absorb_into(o, o->y, scratch);
    CHECK(cudaFreeAsync(scratch, o->stream));
    CHECK(cudaLaunchHostFunc(o->stream, count_call, &o->calls));

    launch_mix(o->stream, o->z, o->size, 6);
    for (int i = 0; i < ROUNDS; i++)
        launch_mix(o->stream, o->z, o->size, 7);
    launch_mix(o->stream, o->z, o->size, 8);
    absorb_into(o, o->y, o->z);
    CHECK(cudaMemsetAsync(o->v, 5, o->bytes(), o->stream));
    CHECK(cudaMemcpyAsync(o->v, o->y, o->bytes() / 2, cudaMemcpyDeviceToDevice, o->stream));
    CHECK(cudaLaunchHostFunc(o->stream, count_call, &o->calls));
}

/* -- By hand --- */

static struct cudaKernelNodeParams absorb_params(const struct world *o, void **arguments)
{
    struct cudaKernelNodeParams p = {};
    p.func = (void *)absorb;
    p.gridDim = dim3(blocks(o->size));
    p.blockDim = dim3(BLOCK);
    p.kernelParams = arguments;
    return p;
}

static cudaGraphNode_t add_absorb(const struct world *o, cudaGraph_t graph,
                                  std::vector<cudaGraphNode_t> after, unsigned *data,
                                  const unsigned *other)
{
    unsigned size = o->size;
    void *arguments[] = {&data, &other, &size};
    struct cudaKernelNodeParams p = absorb_params(o, arguments);
    cudaGraphNode_t node;
    CHECK(cudaGraphAddKernelNode(&node, graph, after.data(), after.size(), &p));
    return node;
}

/* Nodes of each type, with a check of the number of roots and edges. */
static std::map<enum cudaGraphNodeType, unsigned> inventory(cudaGraph_t graph, size_t roots,
                                                            size_t edges)
{
    size_t count = 0, found_roots = 0, found_edges = 0;
    CHECK(cudaGraphGetNodes(graph, NULL, &count));
    CHECK(cudaGraphGetRootNodes(graph, NULL, &found_roots));
    CHECK(cudaGraphGetEdges(graph, NULL, NULL, NULL, &found_edges));
    EXPECT(found_roots == roots && found_edges == edges);
    std::vector<cudaGraphNode_t> nodes(count);
    CHECK(cudaGraphGetNodes(graph, nodes.data(), &count));
    EXPECT(count == nodes.size());
    std::map<enum cudaGraphNodeType, unsigned> types;
    for (cudaGraphNode_t node : nodes) {
        enum cudaGraphNodeType type;
        size_t before = 0, after = 0;
        CHECK(cudaGraphNodeGetType(node, &type));
        CHECK(cudaGraphNodeGetDependencies(node, NULL, NULL, &before));
        CHECK(cudaGraphNodeGetDependentNodes(node, NULL, NULL, &after));
        EXPECT(before + after > 0);
        types[type]++;
    }
    return types;
}

static cudaGraphExec_t instantiated(cudaGraph_t graph)
{
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphDestroy(graph));
    return exec;
}

/* A call for each kind. */
static cudaGraphExec_t every_kind(struct world *o)
{
    cudaGraph_t graph, child, inner;
    CHECK(cudaGraphCreate(&graph, 0));

    cudaGraphNode_t clear, copy, join, children, wait, record, allocate, save, release, host;
    struct cudaMemsetParams clear_params = {};
    clear_params.dst = o->y;
    clear_params.value = 1;
    clear_params.elementSize = 1;
    clear_params.width = o->bytes();
    clear_params.height = 1;
    CHECK(cudaGraphAddMemsetNode(&clear, graph, NULL, 0, &clear_params));
    cudaGraphNode_t first = add_mix(graph, NULL, o->x, o->size, 1);
    CHECK(cudaGraphAddMemcpyNode1D(&copy, graph, &first, 1, o->z, o->x, o->bytes(),
                                   cudaMemcpyDeviceToDevice));
    cudaGraphNode_t fork[2] = {copy, add_absorb(o, graph, {clear, first}, o->y, o->x)};
    CHECK(cudaGraphAddEmptyNode(&join, graph, fork, 2));

    CHECK(cudaGraphCreate(&child, 0)); /* two kernels side by side */
    add_mix(child, NULL, o->x, o->size, 2);
    add_mix(child, NULL, o->y, o->size, 3);
    CHECK(cudaGraphAddChildGraphNode(&children, graph, &join, 1, child));
    CHECK(cudaGraphDestroy(child)); /* the node has a copy */
    size_t count = 0;
    CHECK(cudaGraphChildGraphNodeGetGraph(children, &inner));
    CHECK(cudaGraphGetNodes(inner, NULL, &count));
    EXPECT(count == 2);

    cudaEvent_t event = NULL;
    CHECK(cudaGraphAddEventWaitNode(&wait, graph, &children, 1, o->ready));
    CHECK(cudaGraphEventWaitNodeGetEvent(wait, &event));
    EXPECT(event == o->ready);
    cudaGraphNode_t used = add_absorb(o, graph, {wait}, o->x, o->w);
    CHECK(cudaGraphAddEventRecordNode(&record, graph, &used, 1, o->done));
    CHECK(cudaGraphEventRecordNodeGetEvent(record, &event));
    EXPECT(event == o->done);

    struct cudaMemAllocNodeParams memory = {}, got = {};
    memory.poolProps.allocType = cudaMemAllocationTypePinned;
    memory.poolProps.location.type = cudaMemLocationTypeDevice;
    memory.bytesize = o->bytes();
    CHECK(cudaGraphAddMemAllocNode(&allocate, graph, NULL, 0, &memory));
    CHECK(cudaGraphMemAllocNodeGetParams(allocate, &got));
    EXPECT(got.dptr == memory.dptr && memory.dptr && got.bytesize == o->bytes());
    cudaGraphNode_t both[2] = {used, allocate};
    CHECK(cudaGraphAddMemcpyNode1D(&save, graph, both, 2, memory.dptr, o->x, o->bytes(),
                                   cudaMemcpyDeviceToDevice));
    cudaGraphNode_t last = add_absorb(o, graph, {save}, o->y, (unsigned *)memory.dptr);
    CHECK(cudaGraphAddMemFreeNode(&release, graph, &last, 1, memory.dptr));
    void *freed = NULL;
    CHECK(cudaGraphMemFreeNodeGetParams(release, &freed));
    EXPECT(freed == memory.dptr);

    struct cudaHostNodeParams call = {}, got_call = {};
    call.fn = count_call;
    call.userData = &o->calls;
    CHECK(cudaGraphAddHostNode(&host, graph, &last, 1, &call));
    CHECK(cudaGraphHostNodeGetParams(host, &got_call));
    EXPECT(got_call.fn == count_call && got_call.userData == &o->calls);

    auto types = inventory(graph, 3, 14);
    EXPECT(types[cudaGraphNodeTypeKernel] == 4 && types[cudaGraphNodeTypeMemset] == 1 &&
           types[cudaGraphNodeTypeMemcpy] == 2 && types[cudaGraphNodeTypeHost] == 1 &&
           types[cudaGraphNodeTypeEmpty] == 1 && types[cudaGraphNodeTypeGraph] == 1 &&
           types[cudaGraphNodeTypeWaitEvent] == 1 && types[cudaGraphNodeTypeEventRecord] == 1 &&
           types[cudaGraphNodeTypeMemAlloc] == 1 && types[cudaGraphNodeTypeMemFree] == 1);
    EXPECT(types.size() == 10);
    return instantiated(graph);
}

/* A node that runs its body ROUNDS times. */
static cudaGraphNode_t add_loop(struct world *o, cudaGraph_t graph)
{
    cudaGraphNode_t node;
    struct cudaGraphNodeParams p = {};
#ifdef __CUDACC__
    cudaGraphConditionalHandle handle;
    CHECK(cudaGraphConditionalHandleCreate(&handle, graph, 1, cudaGraphCondAssignDefault));
    p.type = LOOP_TYPE;
    p.conditional.handle = handle;
    p.conditional.type = cudaGraphCondTypeWhile;
    p.conditional.size = 1;
    CHECK(cudaGraphAddNode(&node, graph, NULL, NULL, 0, &p));

    unsigned size = o->size;
    void *arguments[] = {&o->z, &size, &o->rounds, &handle};
    struct cudaKernelNodeParams body = {};
    body.func = (void *)round_of_loop;
    body.gridDim = dim3(blocks(size));
    body.blockDim = dim3(BLOCK);
    body.kernelParams = arguments;
    cudaGraphNode_t inside;
    CHECK(cudaGraphAddKernelNode(&inside, p.conditional.phGraph_out[0], NULL, 0, &body));
#else
    CHECK(cudaGraphCreate(&p.graph.graph, 0));
    cudaGraph_t rounds = p.graph.graph;
    p.type = LOOP_TYPE;
    cudaGraphNode_t last = NULL;
    for (int i = 0; i < ROUNDS; i++)
        last = add_mix(rounds, i ? &last : NULL, o->z, o->size, 7);
    CHECK(cudaGraphAddNode(&node, graph, NULL, NULL, 0, &p));
    CHECK(cudaGraphDestroy(rounds));
    printf("left_out conditional\n");
#endif
    return node;
}

/* The generic call, and edges that come and go after the nodes. */
static cudaGraphExec_t generic(struct world *o)
{
    cudaGraph_t graph;
    CHECK(cudaGraphCreate(&graph, 0));
    cudaGraphNode_t before = add_mix(graph, NULL, o->z, o->size, 6), loop = add_loop(o, graph),
                    after = add_mix(graph, &before, o->z, o->size, 8), last;

    unsigned size = o->size;
    void *arguments[] = {&o->y, &o->z, &size};
    struct cudaGraphNodeParams p = {};
    p.type = cudaGraphNodeTypeKernel;
    p.kernel.func = (void *)absorb;
    p.kernel.gridDim = dim3(blocks(size));
    p.kernel.blockDim = dim3(BLOCK);
    p.kernel.kernelParams = arguments;
    CHECK(cudaGraphAddNode(&last, graph, &after, NULL, 1, &p));

    /* The loop goes between the two, and one edge more than needed goes round it. */
    CHECK(cudaGraphRemoveDependencies(graph, &before, &after, NULL, 1));
    cudaGraphNode_t from[3] = {before, loop, before}, to[3] = {loop, after, last};
    CHECK(cudaGraphAddDependencies(graph, from, to, NULL, 3));

    cudaGraphNode_t clear, copy, empty, host;
    p = {};
    p.type = cudaGraphNodeTypeMemset;
    p.memset.dst = o->v;
    p.memset.value = 5;
    p.memset.elementSize = 1;
    p.memset.width = o->bytes();
    p.memset.height = 1;
    CHECK(cudaGraphAddNode(&clear, graph, NULL, NULL, 0, &p));
    p = {};
    p.type = cudaGraphNodeTypeMemcpy;
    p.memcpy.copyParams.srcPtr = {o->y, o->bytes(), o->bytes(), 1};
    p.memcpy.copyParams.dstPtr = {o->v, o->bytes(), o->bytes(), 1};
    p.memcpy.copyParams.extent = {o->bytes() / 2, 1, 1};
    p.memcpy.copyParams.kind = cudaMemcpyDeviceToDevice;
    cudaGraphNode_t both[2] = {last, clear};
    CHECK(cudaGraphAddNode(&copy, graph, both, NULL, 2, &p));
    p = {};
    p.type = cudaGraphNodeTypeEmpty;
    CHECK(cudaGraphAddNode(&empty, graph, &copy, NULL, 1, &p));
    p = {};
    p.type = cudaGraphNodeTypeHost;
    p.host.fn = count_call;
    p.host.userData = &o->calls;
    CHECK(cudaGraphAddNode(&host, graph, &empty, NULL, 1, &p));

    auto types = inventory(graph, 2, 8);
    EXPECT(types[cudaGraphNodeTypeKernel] == 3 && types[cudaGraphNodeTypeMemset] == 1 &&
           types[cudaGraphNodeTypeMemcpy] == 1 && types[cudaGraphNodeTypeEmpty] == 1 &&
           types[cudaGraphNodeTypeHost] == 1);
    EXPECT(types[LOOP_TYPE] == 1 && types.size() == 6);
    return instantiated(graph);
}

int main(int argc, char **argv)
{
    struct options o =
        parse_options(argc, argv, "A graph of every kind of node.", {1000, 16, 128, 100, 0, false});
    struct world world = {};
    world.size = (unsigned)o.size;
    for (unsigned **array : {&world.x, &world.y, &world.z, &world.v, &world.w})
        *array = device_array<unsigned>(o.size);
    world.rounds = device_array<unsigned>(1);
    world.ready = new_event();
    world.done = new_event();
    world.stream = new_stream();
    world.other = new_stream();

    plain_step(&world); /* loads the kernels */
    cudaGraphExec_t kinds = NULL, loop = NULL;
    if (o.graph) {
        CHECK(cudaStreamSynchronize(world.stream));
        kinds = every_kind(&world);
        loop = generic(&world);
    }
    double us = time_loop(
        o,
        [&](long i) {
            CHECK(cudaStreamWaitEvent(world.other, world.done, 0));
            launch_mix(world.other, world.w, world.size, i);
            CHECK(cudaEventRecord(world.ready, world.other));
            if (o.graph) {
                CHECK(cudaGraphLaunch(kinds, world.stream));
                CHECK(cudaGraphLaunch(loop, world.stream));
            } else {
                plain_step(&world);
            }
        },
        [&] { CHECK(cudaStreamSynchronize(world.stream)); });
    EXPECT(world.calls == 2 * (o.warmup + o.iterations + 1));
    destroy(kinds);
    destroy(loop);
    CHECK(cudaEventDestroy(world.ready));
    CHECK(cudaEventDestroy(world.done));
    CHECK(cudaStreamDestroy(world.stream));
    CHECK(cudaStreamDestroy(world.other));
    uint64_t hash = CHECKSUM_START;
    for (unsigned *array : {world.x, world.y, world.z, world.v, world.w})
        hash = checksum(array, o.size, hash);
    report(hash, o, us);
    return 0;
}
