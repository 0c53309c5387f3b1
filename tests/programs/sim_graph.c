/* SPDX-License-Identifier: MIT */
/* sim_graph.c: what graphs compute: built by hand and captured, patched,
 * launched over each other, with nodes of every kind. */
#include "sim_test.h"

enum { N = 64 };

static CUstream s, t;
static CUdeviceptr buf, buf2;
static volatile uint32_t *words;

static uint32_t word_at(CUdeviceptr p)
{
    uint32_t got;
    OK(cuCtxSynchronize());
    OK(cuMemcpyDtoH(&got, p, 4));
    return got;
}

static CUDA_KERNEL_NODE_PARAMS mix_params(CUdeviceptr *p, uint32_t *n, uint32_t *k, void *args[3])
{
    args[0] = p, args[1] = n, args[2] = k;
    return (CUDA_KERNEL_NODE_PARAMS){.func = mix,
                                     .gridDimX = 1,
                                     .gridDimY = 1,
                                     .gridDimZ = 1,
                                     .blockDimX = N,
                                     .blockDimY = 1,
                                     .blockDimZ = 1,
                                     .kernelParams = args};
}

/* A chain, patched between launches while the earlier ones still run. */
static void chain(void)
{
    CUgraph g;
    CUgraphNode nodes[20], last = NULL;
    CUgraphExec x;
    void *args[3];
    uint32_t n = N, k, want = 1;
    CUDA_KERNEL_NODE_PARAMS p = mix_params(&buf, &n, &k, args);
    OK(cuMemsetD32(buf, 1, N));
    OK(cuCtxSynchronize()); /* s does not wait for the legacy stream */
    OK(cuGraphCreate(&g, 0));
    for (unsigned i = 0; i < 20; i++) {
        k = i;
        OK(cuGraphAddKernelNode(&nodes[i], g, &last, last ? 1 : 0, &p));
        last = nodes[i];
    }
    OK(cuGraphInstantiateWithFlags(&x, g, 0));
    OK(cuGraphUpload(x, s));
    set_word(&words[0], 0);
    OK(launch_word(spin, &words[0], 1, s));
    for (unsigned round = 0; round < 50; round++) {
        for (unsigned i = 0; i < 20; i++) {
            k = round * 1000 + i;
            OK(cuGraphExecKernelNodeSetParams(x, nodes[i], &p));
            want = mixed(want, k);
        }
        OK(cuGraphLaunch(x, s));
    }
    set_word(&words[0], 1);
    CHECK(word_at(buf) == want && word_at(buf + 4 * (N - 1)) == want);
    /* The source graph's nodes have kept their own. */
    CUDA_KERNEL_NODE_PARAMS old;
    OK(cuGraphKernelNodeGetParams(nodes[3], &old));
    CHECK(*(uint32_t *)old.kernelParams[2] == 3);
    OK(cuGraphExecDestroy(x));
    OK(cuGraphDestroy(g));
}

/* One exec on two streams: the second launch waits for the first. */
static void no_overlap(void)
{
    CUgraph g;
    CUgraphNode a, b;
    CUgraphExec x;
    CUdeviceptr gate = (CUdeviceptr)(uintptr_t)&words[0], out = (CUdeviceptr)(uintptr_t)&words[1];
    uint32_t one = 1;
    void *spin_args[] = {&gate, &one}, *flag_args[] = {&out, &one};
    CUDA_KERNEL_NODE_PARAMS p = {.func = spin,
                                 .gridDimX = 1,
                                 .gridDimY = 1,
                                 .gridDimZ = 1,
                                 .blockDimX = 1,
                                 .blockDimY = 1,
                                 .blockDimZ = 1,
                                 .kernelParams = spin_args};
    OK(cuGraphCreate(&g, 0));
    OK(cuGraphAddKernelNode(&a, g, NULL, 0, &p));
    p.func = flag, p.kernelParams = flag_args;
    OK(cuGraphAddKernelNode(&b, g, &a, 1, &p));
    OK(cuGraphInstantiateWithFlags(&x, g, 0));
    set_word(&words[0], 0);
    set_word(&words[1], 0);
    OK(cuGraphLaunch(x, s));
    p.func = nop, p.kernelParams = NULL;
    OK(cuGraphExecKernelNodeSetParams(x, a, &p)); /* not for the launch before */
    OK(cuGraphLaunch(x, t));
    usleep(10000);
    CHECK(get_word(&words[1]) == 0);
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(t));
    /* Destroyed while it runs: what was launched goes on. */
    OK(cuGraphExecDestroy(x));
    OK(cuGraphDestroy(g));
    set_word(&words[0], 1);
    OK(cuStreamSynchronize(t));
    CHECK(get_word(&words[1]) == 1);
}

static void add_one(void *p)
{
    set_word(p, get_word(p) + 1);
}

/* Nodes of all kinds, in a diamond. */
static void kinds(void)
{
    CUgraph g, child;
    CUgraphNode set, left, right, copy, host, sub, record, empty, inner, alloc, release;
    CUgraphExec x;
    CUevent e;
    uint32_t n = N, k = 3, k2 = 5, count = 0;
    void *args[3], *args2[3];
    CUDA_KERNEL_NODE_PARAMS p = mix_params(&buf, &n, &k, args);
    CUDA_KERNEL_NODE_PARAMS p2 = mix_params(&buf2, &n, &k2, args2);
    CUDA_MEMSET_NODE_PARAMS m = {.dst = buf, .value = 9, .elementSize = 4, .width = N, .height = 1};
    CUDA_MEMCPY3D c = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                       .srcDevice = buf,
                       .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                       .dstDevice = buf2,
                       .WidthInBytes = 4 * N,
                       .Height = 1,
                       .Depth = 1};
    CUDA_HOST_NODE_PARAMS h = {.fn = add_one, .userData = &count};
    CUDA_MEM_ALLOC_NODE_PARAMS am = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}},
        .bytesize = 4096};
    OK(cuEventCreate(&e, 0));
    OK(cuGraphCreate(&child, 0));
    OK(cuGraphAddKernelNode(&inner, child, NULL, 0, &p2));
    OK(cuGraphCreate(&g, 0));
    OK(cuGraphAddMemsetNode(&set, g, NULL, 0, &m, ctx));
    OK(cuGraphAddKernelNode(&left, g, &set, 1, &p));
    OK(cuGraphAddHostNode(&right, g, &set, 1, &h));
    CUgraphNode both[] = {left, right};
    OK(cuGraphAddMemcpyNode(&copy, g, both, 2, &c, ctx));
    OK(cuGraphAddChildGraphNode(&sub, g, &copy, 1, child));
    OK(cuGraphAddEventRecordNode(&record, g, &sub, 1, e));
    OK(cuGraphAddEmptyNode(&empty, g, &record, 1));
    OK(cuGraphAddHostNode(&host, g, &empty, 1, &h));
    OK(cuGraphAddMemAllocNode(&alloc, g, &host, 1, &am));
    CHECK(am.dptr);
    m.dst = am.dptr, m.width = 1024;
    OK(cuGraphAddMemsetNode(&empty, g, &alloc, 1, &m, ctx));
    OK(cuGraphAddMemFreeNode(&release, g, &empty, 1, am.dptr));
    OK(cuGraphInstantiateWithFlags(&x, g, 0));
    set_word(&words[0], 0);
    OK(launch_word(spin, &words[0], 1, s));
    OK(cuGraphLaunch(x, s));
    EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(e)); /* recorded by the launch */
    OK(cuStreamWaitEvent(t, e, 0));
    OK(launch_mix(buf2, N, 7, t));
    set_word(&words[0], 1);
    OK(cuEventSynchronize(e));
    OK(cuStreamSynchronize(s));
    CHECK(get_word(&count) == 2);
    CHECK(word_at(buf) == mixed(9, 3));
    CHECK(word_at(buf2) == mixed(mixed(mixed(9, 3), 5), 7));
    OK(cuGraphLaunch(x, s));
    CHECK(word_at(buf2) == mixed(mixed(9, 3), 5));
    OK(cuGraphNodeSetEnabled(x, left, 0));
    OK(cuGraphLaunch(x, s));
    CHECK(word_at(buf2) == mixed(9, 5));
    OK(cuStreamSynchronize(s));
    CHECK(get_word(&count) == 6);
    OK(cuGraphExecDestroy(x));
    OK(cuGraphDestroy(g));
    OK(cuGraphDestroy(child));
    OK(cuEventDestroy(e));
}

/* Captured from two streams; then again with other values, by an update. */
static void captured(void)
{
    CUgraph g;
    CUgraphExec x = NULL;
    CUevent fork, join;
    size_t nodes, edges;
    OK(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
    OK(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
    for (uint32_t round = 0; round < 5; round++) {
        OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        OK(cuMemsetD32Async(buf, round, N, s));
        OK(cuEventRecord(fork, s));
        OK(cuStreamWaitEvent(t, fork, 0));
        OK(launch_mix(buf, N / 2, 1, s));
        OK(launch_mix(buf + 2 * N, N / 2, 2, t));
        OK(cuEventRecord(join, t));
        OK(cuStreamWaitEvent(s, join, 0));
        OK(cuMemcpyDtoDAsync(buf2, buf, 4 * N, s));
        OK(cuStreamEndCapture(s, &g));
        OK(cuGraphGetNodes(g, NULL, &nodes));
        OK(cuGraphGetEdges(g, NULL, NULL, NULL, &edges));
        CHECK(nodes == 4 && edges == 4);
        if (x) {
            CUgraphExecUpdateResultInfo info;
            OK(cuGraphExecUpdate(x, g, &info));
        } else {
            OK(cuGraphInstantiateWithFlags(&x, g, 0));
        }
        OK(cuGraphDestroy(g)); /* the exec does not need it */
        OK(cuGraphLaunch(x, s));
        CHECK(word_at(buf2) == mixed(round, 1));
        CHECK(word_at(buf2 + 4 * (N - 1)) == mixed(round, 2));
    }
    OK(cuGraphExecDestroy(x));
    OK(cuEventDestroy(fork));
    OK(cuEventDestroy(join));
}

int main(void)
{
    alarm(60);
    start();
    words = host_words(16);
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&buf, 4 * N));
    OK(cuMemAlloc(&buf2, 4 * N));
    chain();
    no_overlap();
    kinds();
    captured();
    puts("ok");
    return 0;
}
