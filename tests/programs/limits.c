/* SPDX-License-Identifier: MIT */
/* limits.c SCENARIO: walks along every limit of a launch's shape: zero, one below, at the limit,
 * one above. Launches, nodes and execs take the shape in turn. Prints the codes, and what the
 * kernels have written: limits.expected. */
#include "limits.h"

#include "sim_test.h"

enum { STEPS = 600, SAME = 20 };

struct shape {
    unsigned grid[3], block[3], shared;
};

static CUstream stream;
static CUdeviceptr out; /* words, all 0 in the beginning; the kernels write two */
static CUcontext other;
static CUfunction any, bound, exact, fixed, wide, pair, told, of_other;

/* -- Ways that a shape can go ------------------------------------------------ */

static CUresult launch(CUfunction f, const struct shape *s, uint32_t add)
{
    uint32_t top = s->shared & ~3u;
    void *args[] = {&out, &add, &top};
    return cuLaunchKernel(f, s->grid[0], s->grid[1], s->grid[2], s->block[0], s->block[1],
                          s->block[2], s->shared, stream, args, NULL);
}

static CUresult launch_with(CUfunction f, const struct shape *s, CUlaunchAttribute *attr)
{
    uint32_t add = 2, top = s->shared & ~3u;
    void *args[] = {&out, &add, &top};
    CUlaunchConfig config = {.gridDimX = s->grid[0],
                             .gridDimY = s->grid[1],
                             .gridDimZ = s->grid[2],
                             .blockDimX = s->block[0],
                             .blockDimY = s->block[1],
                             .blockDimZ = s->block[2],
                             .sharedMemBytes = s->shared,
                             .hStream = stream,
                             .attrs = attr,
                             .numAttrs = attr != NULL};
    return cuLaunchKernelEx(&config, f, args, NULL);
}

/* Valid until the next call. */
static const CUDA_KERNEL_NODE_PARAMS *kernel_params(CUfunction f, const struct shape *s)
{
    static uint32_t add = 3, top;
    static void *args[3];
    static CUDA_KERNEL_NODE_PARAMS params;
    top = s->shared & ~3u;
    args[0] = &out, args[1] = &add, args[2] = &top;
    params = (CUDA_KERNEL_NODE_PARAMS){.func = f,
                                       .gridDimX = s->grid[0],
                                       .gridDimY = s->grid[1],
                                       .gridDimZ = s->grid[2],
                                       .blockDimX = s->block[0],
                                       .blockDimY = s->block[1],
                                       .blockDimZ = s->block[2],
                                       .sharedMemBytes = s->shared,
                                       .kernelParams = args};
    return &params;
}

/* How often kernels have run, and the hash of their shapes. */
static void show(void)
{
    uint32_t words[2];
    CUresult waited = cuStreamSynchronize(stream);
    OK(cuMemcpyDtoH(words, out, sizeof words));
    if (waited != CUDA_SUCCESS)
        printf(" wait %d", waited);
    printf(" (%u %08x)", words[0], words[1]);
}

struct graph {
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec exec;
};

static struct graph graph_of(CUfunction f, const struct shape *s)
{
    struct graph g;
    OK(cuGraphCreate(&g.graph, 0));
    OK(cuGraphAddKernelNode(&g.node, g.graph, NULL, 0, kernel_params(f, s)));
    OK(cuGraphInstantiateWithFlags(&g.exec, g.graph, 0));
    return g;
}

/* A graph of one node, which may be refused. */
static void make(CUfunction f, const struct shape *s)
{
    struct graph g;
    OK(cuGraphCreate(&g.graph, 0));
    CUresult added = cuGraphAddKernelNode(&g.node, g.graph, NULL, 0, kernel_params(f, s));
    printf(": add %d", added);
    if (added == CUDA_SUCCESS)
        printf(", instantiate %d", cuGraphInstantiateWithFlags(&g.exec, g.graph, 0));
    printf("\n");
}

static CUresult add_to(CUgraph graph, CUfunction f, const struct shape *s)
{
    CUgraphNode node;
    CUresult result = cuGraphAddKernelNode(&node, graph, NULL, 0, kernel_params(f, s));
    if (result == CUDA_SUCCESS)
        OK(cuGraphDestroyNode(node));
    return result;
}

/* The source node and the exec of `g` get the shape; what the exec has then is launched. */
static void walk(struct graph *g, const char *label, CUfunction f, struct shape s)
{
    printf("%s: launch %d", label, launch(f, &s, 1));
    show();
    printf(", ex %d", launch_with(f, &s, NULL));
    printf(", add %d", add_to(g->graph, f, &s));
    printf(", set %d", cuGraphKernelNodeSetParams(g->node, kernel_params(f, &s)));
    printf(", exec %d", cuGraphExecKernelNodeSetParams(g->exec, g->node, kernel_params(f, &s)));
    OK(cuGraphLaunch(g->exec, stream));
    show();
    printf("\n");
    fflush(stdout);
}

#define WALK(f, ...) walk(&g, #f " " #__VA_ARGS__, f, (struct shape){__VA_ARGS__})
#define ONE                                                                                        \
    {                                                                                              \
        1, 1, 1                                                                                    \
    }

static const struct shape plain = {ONE, {32, 1, 1}, 0};

static void shapes(void)
{
    struct graph g = graph_of(any, &plain);
    WALK(any, {0, 1, 1}, ONE, 0);
    WALK(any, {1, 0, 1}, ONE, 0);
    WALK(any, {1, 1, 0}, ONE, 0);
    WALK(any, {65535, 1, 1}, ONE, 0);
    WALK(any, {65536, 1, 1}, ONE, 0);
    WALK(any, {0x80000000, 1, 1}, ONE, 0);
    WALK(any, {0xffffffff, 1, 1}, ONE, 0);
    WALK(any, {1, 65534, 1}, ONE, 0);
    WALK(any, {1, 65535, 1}, ONE, 0);
    WALK(any, {1, 65536, 1}, ONE, 0);
    WALK(any, {1, 1, 65534}, ONE, 0);
    WALK(any, {1, 1, 65535}, ONE, 0);
    WALK(any, {1, 1, 65536}, ONE, 0);
    WALK(any, ONE, {0, 1, 1}, 0);
    WALK(any, ONE, {1, 0, 1}, 0);
    WALK(any, ONE, {1, 1, 0}, 0);
    WALK(any, ONE, {1023, 1, 1}, 0);
    WALK(any, ONE, {1024, 1, 1}, 0);
    WALK(any, ONE, {1025, 1, 1}, 0);
    WALK(any, ONE, {1, 1023, 1}, 0);
    WALK(any, ONE, {1, 1024, 1}, 0);
    WALK(any, ONE, {1, 1025, 1}, 0);
    WALK(any, ONE, {1, 1, 63}, 0);
    WALK(any, ONE, {1, 1, 64}, 0);
    WALK(any, ONE, {1, 1, 65}, 0);
    WALK(any, ONE, {341, 3, 1}, 0);
    WALK(any, ONE, {32, 32, 1}, 0);
    WALK(any, ONE, {205, 5, 1}, 0);
    WALK(any, ONE, {16, 1, 64}, 0);
    WALK(any, ONE, {17, 1, 64}, 0);
    WALK(any, ONE, {65536, 65536, 1}, 0);
    WALK(any, ONE, ONE, DEFAULT_SHARED - 1);
    WALK(any, ONE, ONE, DEFAULT_SHARED);
    WALK(any, ONE, ONE, DEFAULT_SHARED + 1);
    WALK(any, ONE, ONE, 0xffffffff);
}

/* So many blocks take a moment: they run once in each way. */
static void blocks(void)
{
    struct graph g = graph_of(any, &plain);
    struct shape most = {{0x7fffffff, 1, 1}, ONE, 0};
    printf("launch %d", launch(any, &most, 1));
    show();
    printf("\nadd %d\n", add_to(g.graph, any, &most));
    printf("exec %d", cuGraphExecKernelNodeSetParams(g.exec, g.node, kernel_params(any, &most)));
    OK(cuGraphLaunch(g.exec, stream));
    show();
    printf("\n");
}

static void functions(void)
{
    struct graph g = graph_of(any, &plain);
    WALK(bound, ONE, {BOUND - 1, 1, 1}, 0);
    WALK(bound, ONE, {BOUND, 1, 1}, 0);
    WALK(bound, ONE, {BOUND + 1, 1, 1}, 0);
    WALK(bound, ONE, {1, BOUND, 1}, 0);
    WALK(bound, ONE, {64, 3, 1}, 0);
    WALK(exact, ONE, {EXACT - 1, 1, 1}, 0);
    WALK(exact, ONE, {EXACT, 1, 1}, 0);
    WALK(exact, ONE, {EXACT + 1, 1, 1}, 0);
    WALK(exact, ONE, {1, EXACT, 1}, 0);
    WALK(wide, ONE, {WIDE - 1, 1, 1}, 0);
    WALK(wide, ONE, {WIDE, 1, 1}, 0);
    WALK(wide, ONE, {WIDE + 1, 1, 1}, 0);
    WALK(wide, ONE, {1024, 1, 1}, 0);
    WALK(wide, ONE, {1025, 1, 1}, 0);
    WALK(fixed, ONE, ONE, DEFAULT_SHARED - FIXED - 1);
    WALK(fixed, ONE, ONE, DEFAULT_SHARED - FIXED);
    WALK(fixed, ONE, ONE, DEFAULT_SHARED - FIXED + 1);
    WALK(of_other, ONE, ONE, 0);
    /* From each of these back to another one. */
    WALK(exact, {2, 1, 1}, {EXACT, 1, 1}, 0);
    WALK(bound, {3, 1, 1}, {BOUND, 1, 1}, 0);
    WALK(any, {4, 1, 1}, {1024, 1, 1}, 0);
}

/* A node takes what its exec does not. */
static void registers(void)
{
    for (unsigned threads = WIDE - 1; threads <= WIDE + 1; threads++) {
        printf("wide, %u threads", threads);
        make(wide, &(struct shape){ONE, {threads, 1, 1}, 0});
    }
}

static void attributes(void)
{
    static const CUfunction_attribute all[] = {
        CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,         CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES,
        CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET,
        CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH,        CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT,
        CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH,
    };
    const struct {
        CUfunction f;
        const char *name;
    } functions[] = {{any, "any"},   {bound, "bound"}, {exact, "exact"}, {fixed, "fixed"},
                     {wide, "wide"}, {pair, "pair"},   {told, "told"}};
    for (unsigned i = 0; i < sizeof functions / sizeof *functions; i++) {
        printf("%s:", functions[i].name);
        for (unsigned k = 0; k < sizeof all / sizeof *all; k++) {
            int value = -1;
            OK(cuFuncGetAttribute(&value, all[k], functions[i].f));
            printf(" %d", value);
        }
        printf("\n");
    }
}

/* -- Limits that the program sets -------------------------------------------- */

static CUresult allow(CUfunction f, int bytes)
{
    return cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes);
}

#define SAY(call) printf("%s = %d\n", #call, (int)(call))

static void raised(void)
{
    struct graph g = graph_of(any, &plain), kept;
    const struct shape more = {ONE, {32, 1, 1}, 100000};
    SAY(allow(any, 100000));
    WALK(any, ONE, ONE, 99999);
    WALK(any, ONE, ONE, 100000);
    WALK(any, ONE, ONE, 100001);
    SAY(allow(any, MOST_SHARED));
    WALK(any, ONE, ONE, MOST_SHARED - 1);
    WALK(any, ONE, ONE, MOST_SHARED);
    WALK(any, ONE, ONE, MOST_SHARED + 1);
    SAY(allow(any, MOST_SHARED + 1));
    SAY(allow(any, -1));
    SAY(allow(fixed, MOST_SHARED));
    SAY(allow(fixed, MOST_SHARED - FIXED + 1));
    SAY(allow(fixed, MOST_SHARED - FIXED));
    WALK(fixed, ONE, ONE, MOST_SHARED - FIXED);
    WALK(fixed, ONE, ONE, MOST_SHARED - FIXED + 1);
    kept = graph_of(any, &more);
    SAY(allow(any, 1000));
    WALK(any, ONE, ONE, 1000);
    WALK(any, ONE, ONE, 1001);
    SAY(allow(any, 0));
    WALK(any, ONE, ONE, 0);
    WALK(any, ONE, ONE, 1);
    printf("exec with more than the limit by now: %d", cuGraphLaunch(kept.exec, stream));
    show();
    printf(", set %d",
           cuGraphExecKernelNodeSetParams(kept.exec, kept.node, kernel_params(any, &more)));
    OK(cuGraphLaunch(kept.exec, stream));
    show();
    printf("\n");
}

/* -- Clusters ------------------------------------------------------------------ */

static void cluster(struct graph *g, CUfunction f, unsigned x, unsigned blocks)
{
    const struct shape s = {{blocks, 1, 1}, {32, 1, 1}, 0};
    CUlaunchAttribute attr;
    memset(&attr, 0, sizeof attr);
    attr.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attr.value.clusterDim.x = x, attr.value.clusterDim.y = attr.value.clusterDim.z = 1;
    printf("%s, cluster %u of %u: launch %d",
           f == pair   ? "pair"
           : f == told ? "told"
                       : "any",
           x, blocks, launch_with(f, &s, x != 0 ? &attr : NULL));
    show();
    if (g != NULL)
        printf(", exec %d", cuGraphExecKernelNodeSetParams(g->exec, g->node, kernel_params(f, &s)));
    if (g != NULL) {
        OK(cuGraphLaunch(g->exec, stream));
        show();
    }
    printf("\n");
}

/* A node gets its attributes when it has been added: none here. */
static void cluster_node(CUfunction f, unsigned blocks)
{
    printf("%s, %u blocks", f == pair ? "pair" : "told", blocks);
    make(f, &(struct shape){{blocks, 1, 1}, {32, 1, 1}, 0});
}

static void clusters(void)
{
    struct graph g = graph_of(any, &plain);
    for (unsigned blocks = 1; blocks <= 4; blocks++)
        cluster(&g, pair, 0, blocks);
    cluster(NULL, pair, 2, 4);
    cluster(NULL, pair, 4, 4);
    cluster(NULL, told, 0, 2);
    cluster(NULL, told, 2, 2);
    cluster(NULL, told, 2, 3);
    cluster(NULL, any, 7, 7);
    cluster(NULL, any, 8, 8);
    cluster(NULL, any, 9, 9);
    cluster(NULL, any, 8, 9);
    cluster_node(pair, 1);
    cluster_node(pair, 2);
    cluster_node(told, 1);
    cluster_node(told, 2);
    SAY(cuFuncSetAttribute(pair, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, 4));
    SAY(cuFuncSetAttribute(bound, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, 3));
    SAY(launch(bound, &plain, 1));
    SAY(cuFuncSetAttribute(bound, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT, 1));
    SAY(cuFuncSetAttribute(bound, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH, 1));
    SAY(launch(bound, &plain, 1));
    SAY(launch(bound, &(struct shape){{3, 1, 1}, ONE, 0}, 1));
    SAY(launch(bound, &(struct shape){{4, 1, 1}, ONE, 0}, 1));
    SAY(cuFuncSetAttribute(bound, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, -1));
}

/* -- Loops: some steps with one shape, then another in each step ------------------- */

static unsigned codes[1000];

static void count(CUresult result)
{
    codes[result]++;
}

static void others(uint32_t step)
{
    for (uint32_t i = 0; i < 7; i++)
        OK(launch(any, &plain, i == 3 ? step : i));
    if (step % 16 == 15)
        OK(cuStreamSynchronize(stream));
}

static unsigned turn_of(uint32_t step)
{
    return step < STEPS / 2 ? step / SAME : step;
}

static void loop(CUfunction f, const struct shape *shapes, unsigned n)
{
    for (uint32_t step = 0; step < STEPS; step++) {
        count(launch(f, &shapes[turn_of(step) % n], step));
        others(step);
    }
}

#define LOOP(f, ...)                                                                               \
    do {                                                                                           \
        static const struct shape all[] = {__VA_ARGS__};                                           \
        loop(f, all, sizeof all / sizeof *all);                                                    \
    } while (0)

static void loop_grid(void)
{
    LOOP(any, {{1, 65534, 1}, ONE, 0}, {{1, 65535, 1}, ONE, 0}, {{1, 65536, 1}, ONE, 0},
         {{0, 1, 1}, ONE, 0}, {{1, 1, 65535}, ONE, 0}, {{1, 1, 65536}, ONE, 0},
         {{65536, 1, 1}, ONE, 0}, {{0x80000000, 1, 1}, ONE, 0});
}

static void loop_block(void)
{
    LOOP(any, {ONE, {1023, 1, 1}, 0}, {ONE, {1024, 1, 1}, 0}, {ONE, {1025, 1, 1}, 0},
         {ONE, {0, 1, 1}, 0}, {ONE, {1, 1, 64}, 0}, {ONE, {1, 1, 65}, 0}, {ONE, {32, 32, 1}, 0},
         {ONE, {33, 32, 1}, 0});
}

static void loop_shared(void)
{
    LOOP(any, {ONE, ONE, DEFAULT_SHARED - 1}, {ONE, ONE, DEFAULT_SHARED},
         {ONE, ONE, DEFAULT_SHARED + 1}, {ONE, ONE, 0});
}

static void loop_fixed(void)
{
    LOOP(fixed, {ONE, ONE, DEFAULT_SHARED - FIXED - 1}, {ONE, ONE, DEFAULT_SHARED - FIXED},
         {ONE, ONE, DEFAULT_SHARED - FIXED + 1}, {ONE, ONE, 0});
}

static void loop_bound(void)
{
    LOOP(bound, {ONE, {BOUND - 1, 1, 1}, 0}, {ONE, {BOUND, 1, 1}, 0}, {ONE, {BOUND + 1, 1, 1}, 0});
}

static void loop_exact(void)
{
    LOOP(exact, {ONE, {EXACT, 1, 1}, 0}, {ONE, {EXACT - 1, 1, 1}, 0}, {{2, 1, 1}, {EXACT, 1, 1}, 0},
         {ONE, {EXACT + 1, 1, 1}, 0}, {ONE, {1, EXACT, 1}, 0});
}

static void loop_wide(void)
{
    LOOP(wide, {ONE, {WIDE - 1, 1, 1}, 0}, {ONE, {WIDE, 1, 1}, 0}, {ONE, {WIDE + 1, 1, 1}, 0});
}

static void loop_pair(void)
{
    LOOP(pair, {{2, 1, 1}, ONE, 0}, {{3, 1, 1}, ONE, 0}, {{4, 1, 1}, ONE, 0}, {{1, 1, 1}, ONE, 0});
}

/* The limit changes between two launches at the limit of before. */
static void loop_raised(void)
{
    static const int limits[] = {60000, 59999, 60001, MOST_SHARED, 1000};
    for (uint32_t step = 0; step < STEPS; step++) {
        int limit = limits[turn_of(step) % 5];
        OK(allow(any, limit));
        for (int shared = limit - 1; shared <= limit + 1; shared++)
            count(launch(any, &(struct shape){ONE, ONE, (unsigned)shared}, step));
        count(launch(any, &(struct shape){ONE, ONE, 60000}, step));
        others(step);
    }
}

/* One launch of nine is of another function, at its limit or one above. */
static void loop_functions(void)
{
    const struct {
        CUfunction f;
        unsigned threads;
    } all[] = {{bound, BOUND}, {exact, EXACT}, {wide, WIDE}, {any, 1024}};
    for (uint32_t step = 0; step < STEPS; step++) {
        unsigned i = turn_of(step) % 8;
        count(launch(all[i % 4].f, &(struct shape){ONE, {all[i % 4].threads + i / 4, 1, 1}, 0}, i));
        others(step);
    }
}

/* -- The table --------------------------------------------------------------------- */

static const struct {
    const char *name;
    void (*run)(void);
} scenarios[] = {{"shapes", shapes},
                 {"blocks", blocks},
                 {"functions", functions},
                 {"registers", registers},
                 {"attributes", attributes},
                 {"raised", raised},
                 {"clusters", clusters},
                 {"loop_grid", loop_grid},
                 {"loop_block", loop_block},
                 {"loop_shared", loop_shared},
                 {"loop_fixed", loop_fixed},
                 {"loop_bound", loop_bound},
                 {"loop_exact", loop_exact},
                 {"loop_wide", loop_wide},
                 {"loop_pair", loop_pair},
                 {"loop_raised", loop_raised},
                 {"loop_functions", loop_functions}};

static CUfunction function_of(CUmodule m, const char *name)
{
    CUfunction f;
    OK(cuModuleGetFunction(&f, m, name));
    return f;
}

static void prepare(void)
{
    CUmodule m, m2;
    char *text = limits_ptx();
    CUcontext popped;
    OK(cuInit(0));
    OK(cuDeviceGet(&dev, 0));
    OK(create_context(&other));
    OK(cuModuleLoadData(&m2, text));
    of_other = function_of(m2, "ag_shape");
    OK(cuCtxPopCurrent(&popped));
    OK(cuDevicePrimaryCtxRetain(&ctx, dev));
    OK(cuCtxSetCurrent(ctx));
    OK(cuModuleLoadData(&m, text));
    free(text);
    any = function_of(m, "ag_shape");
    bound = function_of(m, "ag_bound");
    exact = function_of(m, "ag_exact");
    fixed = function_of(m, "ag_fixed");
    wide = function_of(m, "ag_wide");
    pair = function_of(m, "ag_pair");
    told = function_of(m, "ag_told");
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&out, 4096));
    OK(cuMemsetD8(out, 0, 4096));
    OK(cuCtxSynchronize());
}

int main(int argc, char **argv)
{
    unsigned i = 0, n = sizeof scenarios / sizeof *scenarios;
    CHECK(argc == 2);
    while (i < n && strcmp(scenarios[i].name, argv[1]) != 0)
        i++;
    CHECK(i < n);
    alarm(100);
    prepare();
    scenarios[i].run();
    for (unsigned code = 0; code < sizeof codes / sizeof *codes; code++)
        if (codes[code] != 0)
            printf("%u times %u\n", codes[code], code);
    printf("end");
    show();
    printf("\n");
    return 0;
}
