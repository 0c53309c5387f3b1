/* SPDX-License-Identifier: MIT */
/* limits_memory.c SCENARIO: walks along the limits of memsets and copies: nothing, one byte, all of
 * the memory, far beyond it; other elements, rows and kinds of memory. Calls, nodes and execs take
 * each in turn. Prints the codes and the memory: limits_memory.expected. */
#include "sim_test.h"

enum { STEPS = 600, SAME = 20, N = 64, BYTES = 1 << 21, BEYOND = 1 << 30 };

struct graph {
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec exec;
};

static CUstream stream;

static CUdeviceptr a, b; /* of BYTES each */
static unsigned char *pinned;

static void show_bytes(CUdeviceptr at)
{
    static unsigned char bytes[BYTES];
    uint32_t hash = 2166136261u; /* FNV-1a */
    OK(cuStreamSynchronize(stream));
    OK(cuMemcpyDtoH(bytes, at, BYTES));
    for (unsigned i = 0; i < BYTES; i++)
        hash = (hash ^ bytes[i]) * 16777619;
    printf(" (%08x)", hash);
}

/* -- Memsets --------------------------------------------------------------------- */

static CUresult memset_call(const CUDA_MEMSET_NODE_PARAMS *p)
{
    size_t n = p->width;
    if (p->height == 1)
        return p->elementSize == 1   ? cuMemsetD8Async(p->dst, (unsigned char)p->value, n, stream)
               : p->elementSize == 2 ? cuMemsetD16Async(p->dst, (unsigned short)p->value, n, stream)
                                     : cuMemsetD32Async(p->dst, p->value, n, stream);
    return cuMemsetD2D32Async(p->dst, p->pitch, p->value, n, p->height, stream);
}

static void set_memory(struct graph *g, unsigned elem, unsigned offset, size_t width, size_t height)
{
    static unsigned value;
    CUgraphNode node;
    const CUDA_MEMSET_NODE_PARAMS p = {.dst = a + offset,
                                       .pitch = 256,
                                       .value = ++value,
                                       .elementSize = elem,
                                       .width = width,
                                       .height = height};
    printf("element %u at %u, %zu x %zu:", elem, offset, width, height);
    if (elem != 3) {
        printf(" call %d", memset_call(&p));
        show_bytes(a);
        printf(",");
    }
    CUresult added = cuGraphAddMemsetNode(&node, g->graph, NULL, 0, &p, ctx);
    if (added == CUDA_SUCCESS)
        OK(cuGraphDestroyNode(node));
    printf(" add %d, exec %d", added, cuGraphExecMemsetNodeSetParams(g->exec, g->node, &p, ctx));
    OK(cuMemsetD8Async(a, 0, BYTES, stream));
    OK(cuGraphLaunch(g->exec, stream));
    show_bytes(a);
    printf("\n");
}

static void memsets_from(CUDA_MEMSET_NODE_PARAMS first)
{
    struct graph g;
    OK(cuGraphCreate(&g.graph, 0));
    OK(cuGraphAddMemsetNode(&g.node, g.graph, NULL, 0, &first, ctx));
    OK(cuGraphInstantiateWithFlags(&g.exec, g.graph, 0));
    printf("from %zu x %zu\n", first.width, first.height);
    for (unsigned elem = 1; elem <= 4; elem++) {
        const size_t widths[] = {0, 1, 2, 63, 64, 65, BYTES / elem - 1, BYTES / elem, BEYOND};
        for (unsigned i = 0; i < sizeof widths / sizeof *widths; i++)
            set_memory(&g, elem, 0, widths[i], 1);
        set_memory(&g, elem, 1, 8, 1);
        set_memory(&g, elem, 2, 8, 1);
    }
    set_memory(&g, 4, 0, 63, 0);
    set_memory(&g, 4, 0, 63, 2);
    set_memory(&g, 4, 0, 64, 3);
    set_memory(&g, 4, 0, 64, 4);
    set_memory(&g, 4, 0, 65, 4);
    set_memory(&g, 4, 256, 64, 4);
}

static void memsets(void)
{
    CUDA_MEMSET_NODE_PARAMS first = {
        .dst = a, .pitch = 256, .elementSize = 4, .width = 64, .height = 1};
    memsets_from(first);
    first.height = 4;
    memsets_from(first);
}

/* -- Copies ---------------------------------------------------------------------- */

static CUDA_MEMCPY3D copy_of(CUdeviceptr to, CUdeviceptr from, size_t n)
{
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = from,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = to,
                          .WidthInBytes = n,
                          .Height = 1,
                          .Depth = 1};
    return copy;
}

static CUDA_MEMCPY3D upload_of(CUdeviceptr to, const void *from, size_t n)
{
    CUDA_MEMCPY3D copy = copy_of(to, 0, n);
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = from;
    return copy;
}

static void copy_memory(struct graph *g, const char *label, CUDA_MEMCPY3D copy)
{
    CUgraphNode node;
    printf("%s, %zu: call %d", label, copy.WidthInBytes, cuMemcpy3DAsync(&copy, stream));
    show_bytes(b);
    CUresult added = cuGraphAddMemcpyNode(&node, g->graph, NULL, 0, &copy, ctx);
    if (added == CUDA_SUCCESS)
        OK(cuGraphDestroyNode(node));
    printf(", add %d, exec %d", added,
           cuGraphExecMemcpyNodeSetParams(g->exec, g->node, &copy, ctx));
    OK(cuMemsetD8Async(b, 0, BYTES, stream));
    OK(cuGraphLaunch(g->exec, stream));
    show_bytes(b);
    printf("\n");
}

static void copies_from(CUDA_MEMCPY3D first)
{
    struct graph g;
    static const size_t sizes[] = {0, 1, 3, 4, 65535, 65536, 65537, BYTES - 1, BYTES, BEYOND};
    OK(cuGraphCreate(&g.graph, 0));
    OK(cuGraphAddMemcpyNode(&g.node, g.graph, NULL, 0, &first, ctx));
    OK(cuGraphInstantiateWithFlags(&g.exec, g.graph, 0));
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
        copy_memory(&g, "within", copy_of(b, a, sizes[i]));
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes - 1; i++)
        copy_memory(&g, "upload", upload_of(b, pinned, sizes[i]));
    CUDA_MEMCPY3D rows = copy_of(b + 64, a + 128, 64);
    rows.srcPitch = rows.dstPitch = 256;
    rows.Height = 2;
    copy_memory(&g, "rows", rows);
    rows.Height = 0;
    copy_memory(&g, "no rows", rows);
}

static void copies(void)
{
    copies_from(copy_of(b, a, 64));
    printf("from an upload\n");
    copies_from(upload_of(b, pinned, 64));
}

/* An exec's copy from one kind of memory is given another. */
static void kinds(void)
{
    static unsigned char pageable[BYTES];
    static const char *const names[] = {"pageable", "pinned", "device"};
    for (unsigned k = 0; k < BYTES; k++)
        pageable[k] = (unsigned char)(k * 3);
    OK(cuMemsetD8(a, 5, BYTES));
    const CUDA_MEMCPY3D from[] = {upload_of(b, pageable, BYTES), upload_of(b, pinned, BYTES),
                                  copy_of(b, a, BYTES)};
    for (unsigned i = 0; i < 9; i++) {
        struct graph g;
        OK(cuGraphCreate(&g.graph, 0));
        OK(cuGraphAddMemcpyNode(&g.node, g.graph, NULL, 0, &from[i / 3], ctx));
        OK(cuGraphInstantiateWithFlags(&g.exec, g.graph, 0));
        printf("%s, then %s: %d", names[i / 3], names[i % 3],
               cuGraphExecMemcpyNodeSetParams(g.exec, g.node, &from[i % 3], ctx));
        OK(cuMemsetD8Async(b, 0, BYTES, stream));
        OK(cuGraphLaunch(g.exec, stream));
        show_bytes(b);
        printf("\n");
    }
}

/* -- A loop: some steps with one size, then another in each step ------------------- */

static void loop_sizes(void)
{
    static const size_t sizes[] = {64, 0, 1, BYTES / 4, BEYOND, 65536};
    unsigned refused[2] = {0, 0};
    for (uint32_t step = 0; step < STEPS; step++) {
        size_t n = sizes[(step < STEPS / 2 ? step / SAME : step) % 6];
        refused[0] += cuMemsetD32Async(a, step, n, stream) == CUDA_ERROR_INVALID_VALUE;
        refused[1] += cuMemcpyDtoDAsync(b, a, 4 * n, stream) == CUDA_ERROR_INVALID_VALUE;
        for (uint32_t i = 0; i < 7; i++)
            OK(launch_mix(b, N - i, i == 3 ? step : i, stream));
        if (step % 16 == 15)
            OK(cuStreamSynchronize(stream));
    }
    printf("%u memsets and %u copies refused\n", refused[0], refused[1]);
    show_bytes(a);
    show_bytes(b);
    printf("\n");
}

static const struct {
    const char *name;
    void (*run)(void);
} scenarios[] = {
    {"memsets", memsets}, {"copies", copies}, {"kinds", kinds}, {"loop_sizes", loop_sizes}};

int main(int argc, char **argv)
{
    unsigned i = 0, n = sizeof scenarios / sizeof *scenarios;
    CHECK(argc == 2);
    while (i < n && strcmp(scenarios[i].name, argv[1]) != 0)
        i++;
    CHECK(i < n);
    alarm(100);
    start();
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&a, BYTES));
    OK(cuMemAlloc(&b, BYTES));
    OK(cuMemHostAlloc((void **)&pinned, BYTES, 0));
    for (unsigned k = 0; k < BYTES; k++)
        pinned[k] = (unsigned char)(k * 7 + k / 256);
    OK(cuMemcpyHtoD(a, pinned, BYTES));
    OK(cuMemsetD8(b, 0, BYTES));
    OK(cuCtxSynchronize());
    scenarios[i].run();
    return 0;
}
