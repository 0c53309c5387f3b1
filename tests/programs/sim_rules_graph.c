/* SPDX-License-Identifier: MIT */
/* sim_rules_graph.c: the rules of graphs, execs and their updates. */
#include "sim_rules.h"

static uint32_t one = 1;
static void *args[] = {&mem, &one, &one};

static CUDA_KERNEL_NODE_PARAMS kernel_params(CUfunction f)
{
    CUDA_KERNEL_NODE_PARAMS k = {.func = f,
                                 .gridDimX = 1,
                                 .gridDimY = 1,
                                 .gridDimZ = 1,
                                 .blockDimX = 1,
                                 .blockDimY = 1,
                                 .blockDimZ = 1,
                                 .kernelParams = args};
    return k;
}

static CUDA_MEMSET_NODE_PARAMS memset_params(size_t width, size_t height, unsigned elem)
{
    CUDA_MEMSET_NODE_PARAMS m = {.dst = mem,
                                 .pitch = 512,
                                 .value = 1,
                                 .elementSize = elem,
                                 .width = width,
                                 .height = height};
    return m;
}

static CUDA_MEMCPY3D copy_params(size_t n)
{
    CUDA_MEMCPY3D c = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                       .srcDevice = mem,
                       .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                       .dstDevice = mem + 2048,
                       .WidthInBytes = n,
                       .Height = 1,
                       .Depth = 1};
    return c;
}

static void nothing(void *p)
{
    (void)p;
}

static CUgraph kernels(unsigned n, CUfunction f, bool chain)
{
    CUgraph g;
    CUgraphNode last = NULL, node;
    CUDA_KERNEL_NODE_PARAMS k = kernel_params(f);
    OK(cuGraphCreate(&g, 0));
    for (unsigned i = 0; i < n; i++) {
        OK(cuGraphAddKernelNode(&node, g, &last, chain && last ? 1 : 0, &k));
        last = node;
    }
    return g;
}

static void update(const char *label, CUgraphExec x, CUgraph g)
{
    CUgraphExecUpdateResultInfo info;
    memset(&info, 0, sizeof info);
    CUresult r = cuGraphExecUpdate(x, g, &info);
    printf("update: %s = %d result %d node %d\n", label, (int)r, (int)info.result,
           info.errorNode != NULL);
    fflush(stdout);
    OK(cuGraphDestroy(g));
}

static void building(void)
{
    CUgraph g, g2;
    CUgraphNode a, b, c, n, foreign;
    CUgraphExec x;
    CUDA_KERNEL_NODE_PARAMS k = kernel_params(mix), got;
    in = "graph";
    SAY("flags 1", cuGraphCreate(&g, 1));
    OK(cuGraphCreate(&g, 0));
    OK(cuGraphCreate(&g2, 0));
    SAY("kernel", cuGraphAddKernelNode(&a, g, NULL, 0, &k));
    OK(cuGraphAddKernelNode(&b, g, &a, 1, &k));
    OK(cuGraphAddKernelNode(&c, g, &b, 1, &k));
    OK(cuGraphAddKernelNode(&foreign, g2, NULL, 0, &k));
    k.gridDimX = 0;
    SAY("kernel, grid 0", cuGraphAddKernelNode(&n, g2, NULL, 0, &k));
    k.gridDimX = 1, k.blockDimX = 2048;
    SAY("kernel, 2048 threads", cuGraphAddKernelNode(&n, g2, NULL, 0, &k));
    k.blockDimX = 1, k.sharedMemBytes = 65536;
    SAY("kernel, shared 64 KiB", cuGraphAddKernelNode(&n, g2, NULL, 0, &k));
    k.sharedMemBytes = 0, k.func = (CUfunction)kern;
    SAY("kernel, CUkernel as func", cuGraphAddKernelNode(&n, g2, NULL, 0, &k));
    k.func = NULL;
    SAY("kernel, no function", cuGraphAddKernelNode(&n, g2, NULL, 0, &k));
    k.kern = kern;
    SAY("kernel, kern", cuGraphAddKernelNode(&n, g2, NULL, 0, &k));
    memset(&got, 0, sizeof got);
    SAY("its parameters", cuGraphKernelNodeGetParams(n, &got));
    SAY("func given", got.func != NULL);
    SAY("kern given", got.kern != NULL);
    SAY("ctx given", got.ctx != NULL);
    memset(&got, 0, sizeof got);
    SAY("parameters of one by func", cuGraphKernelNodeGetParams(a, &got));
    SAY("func given", got.func == mix);
    SAY("kern given", got.kern != NULL);
    SAY("ctx given", got.ctx != NULL);
    SAY("arguments given", got.kernelParams && *(uint32_t *)got.kernelParams[2] == 1);
    k.func = mix;
    SAY("kernel, both", cuGraphAddKernelNode(&n, g2, NULL, 0, &k));
    k = kernel_params(mix);
    k.kernelParams = NULL;
    SAY("kernel, no arguments", cuGraphAddKernelNode(&n, g2, NULL, 0, &k));
    k = kernel_params(other_mix);
    SAY("kernel of another context", cuGraphAddKernelNode(&n, g2, NULL, 0, &k));
    SAY("instantiate with two contexts", cuGraphInstantiateWithFlags(&x, g2, 0));
    SAY("launch", cuGraphLaunch(x, stream));
    k = kernel_params(mix);
    CUgraphNode twice[] = {a, a};
    SAY("dependency twice", cuGraphAddKernelNode(&n, g, twice, 2, &k));
    SAY("dependency of another graph", cuGraphAddKernelNode(&n, g, &foreign, 1, &k));
    SAY("dependencies NULL", cuGraphAddKernelNode(&n, g, NULL, 1, &k));
    SAY("edge again", cuGraphAddDependencies(g, &a, &b, NULL, 1));
    SAY("edge to itself", cuGraphAddDependencies(g, &a, &a, NULL, 1));
    SAY("remove no edge", cuGraphRemoveDependencies(g, &a, &c, NULL, 1));
    SAY("edge that makes a cycle", cuGraphAddDependencies(g, &c, &a, NULL, 1));
    SAY("instantiate", cuGraphInstantiateWithFlags(&x, g, 0));
    SAY("flags 16", cuGraphInstantiateWithFlags(&x, g2, 16));
    OK(cuGraphCreate(&g, 0));
    SAY("instantiate nothing", cuGraphInstantiateWithFlags(&x, g, 0));
    SAY("launch nothing", cuGraphLaunch(x, stream));
    SAY("instantiate NULL", cuGraphInstantiateWithFlags(&x, NULL, 0));

    in = "graph node";
    CUDA_MEMSET_NODE_PARAMS m = memset_params(4, 1, 4);
    SAY("memset", cuGraphAddMemsetNode(&a, g, NULL, 0, &m, ctx));
    SAY("memset, no context", cuGraphAddMemsetNode(&n, g, NULL, 0, &m, NULL));
    m.width = 0;
    SAY("memset of nothing", cuGraphAddMemsetNode(&n, g, NULL, 0, &m, ctx));
    m = memset_params(4, 0, 4);
    SAY("memset of height 0", cuGraphAddMemsetNode(&n, g, NULL, 0, &m, ctx));
    m = memset_params(4, 1, 3);
    SAY("memset, element size 3", cuGraphAddMemsetNode(&n, g, NULL, 0, &m, ctx));
    m = memset_params(4, 1, 4), m.dst = 0;
    SAY("memset of NULL", cuGraphAddMemsetNode(&n, g, NULL, 0, &m, ctx));
    m = memset_params((size_t)1 << 30, 1, 4);
    SAY("memset beyond", cuGraphAddMemsetNode(&n, g, NULL, 0, &m, ctx));
    m = memset_params(4, 1, 4);
    SAY("kernel's parameters of a memset", cuGraphKernelNodeGetParams(a, &got));
    CUDA_MEMCPY3D cp = copy_params(64);
    SAY("copy", cuGraphAddMemcpyNode(&b, g, NULL, 0, &cp, ctx));
    cp = copy_params(0);
    SAY("copy of nothing", cuGraphAddMemcpyNode(&n, g, NULL, 0, &cp, ctx));
    cp = copy_params((size_t)1 << 30);
    SAY("copy beyond", cuGraphAddMemcpyNode(&n, g, NULL, 0, &cp, ctx));
    CUDA_HOST_NODE_PARAMS h = {.fn = nothing};
    SAY("host", cuGraphAddHostNode(&n, g, NULL, 0, &h));
    h.fn = NULL;
    SAY("host NULL", cuGraphAddHostNode(&n, g, NULL, 0, &h));
    SAY("event NULL", cuGraphAddEventRecordNode(&n, g, NULL, 0, NULL));
    SAY("empty", cuGraphAddEmptyNode(&n, g, NULL, 0));
    SAY("destroy node", cuGraphDestroyNode(n));
    CUgraphNodeParams p;
    memset(&p, 0, sizeof p);
    p.type = CU_GRAPH_NODE_TYPE_EMPTY;
    SAY("generic empty", cuGraphAddNode(&n, g, NULL, NULL, 0, &p));
    p.reserved0[0] = 1;
    SAY("generic, reserved not 0", cuGraphAddNode(&n, g, NULL, NULL, 0, &p));
    p.reserved0[0] = 0;
    p.type = (CUgraphNodeType)99;
    SAY("generic, type 99", cuGraphAddNode(&n, g, NULL, NULL, 0, &p));
    CUgraph child;
    CUgraphNode cn, inner;
    size_t count = 1;
    OK(cuGraphAddChildGraphNode(&cn, g, NULL, 0, g2));
    OK(cuGraphChildGraphNodeGetGraph(cn, &child));
    SAY("child is a copy", child != g2);
    SAY("destroy the child", cuGraphDestroy(child));
    OK(cuGraphGetNodes(child, &inner, &count));
    CUgraphEdgeData data[4];
    CUgraphNode nodes[8];
    count = 8;
    SAY("nodes of more than there are", cuGraphGetNodes(g, nodes, &count));
    SAY("count", count);
    count = 2;
    SAY("nodes of fewer than there are", cuGraphGetNodes(g, nodes, &count));
    SAY("count", count);
    SAY("edges, only data", cuGraphGetEdges(g, NULL, NULL, data, &count));
}

static void setting(void)
{
    CUgraph g;
    CUgraphNode k, m, m2, c, n, cn, inner;
    CUgraphExec x;
    CUDA_KERNEL_NODE_PARAMS kp = kernel_params(mix);
    CUDA_MEMSET_NODE_PARAMS mp = memset_params(16, 1, 4), mp2 = memset_params(16, 4, 4);
    CUDA_MEMCPY3D cp = copy_params(64);
    CUgraph sub = kernels(2, mix, true), child;
    size_t count = 1;
    OK(cuGraphCreate(&g, 0));
    OK(cuGraphAddKernelNode(&k, g, NULL, 0, &kp));
    OK(cuGraphAddMemsetNode(&m, g, &k, 1, &mp, ctx));
    OK(cuGraphAddMemsetNode(&m2, g, &m, 1, &mp2, ctx));
    OK(cuGraphAddMemcpyNode(&c, g, &m2, 1, &cp, ctx));
    OK(cuGraphAddChildGraphNode(&cn, g, &c, 1, sub));
    OK(cuGraphChildGraphNodeGetGraph(cn, &child));
    OK(cuGraphGetNodes(child, &inner, &count));
    OK(cuGraphInstantiateWithFlags(&x, g, 0));
    in = "exec";
    SAY("kernel", cuGraphExecKernelNodeSetParams(x, k, &kp));
    SAY("kernel inside a child", cuGraphExecKernelNodeSetParams(x, inner, &kp));
    kp.gridDimX = 7, kp.blockDimX = 64, kp.sharedMemBytes = 1024;
    SAY("kernel, shape", cuGraphExecKernelNodeSetParams(x, k, &kp));
    kp.gridDimX = 0;
    SAY("kernel, grid 0", cuGraphExecKernelNodeSetParams(x, k, &kp));
    kp = kernel_params(nop);
    SAY("kernel, another function", cuGraphExecKernelNodeSetParams(x, k, &kp));
    kp = kernel_params(other_mix);
    SAY("kernel, of another context", cuGraphExecKernelNodeSetParams(x, k, &kp));
    kp = kernel_params((CUfunction)kern);
    SAY("kernel, CUkernel as func", cuGraphExecKernelNodeSetParams(x, k, &kp));
    kp.func = NULL, kp.kern = kern;
    SAY("kernel, kern", cuGraphExecKernelNodeSetParams(x, k, &kp));
    kp = kernel_params(mix);
    SAY("kernel of a memset node", cuGraphExecKernelNodeSetParams(x, m, &kp));
    mp.value = 5, mp.dst = mem + 64;
    SAY("memset, value and address", cuGraphExecMemsetNodeSetParams(x, m, &mp, ctx));
    mp.width = 32;
    SAY("memset, wider", cuGraphExecMemsetNodeSetParams(x, m, &mp, ctx));
    mp.elementSize = 1;
    SAY("memset, element size", cuGraphExecMemsetNodeSetParams(x, m, &mp, ctx));
    mp = memset_params(16, 2, 4);
    SAY("memset, height", cuGraphExecMemsetNodeSetParams(x, m, &mp, ctx));
    mp = memset_params(0, 1, 4);
    SAY("memset, nothing", cuGraphExecMemsetNodeSetParams(x, m, &mp, ctx));
    mp = memset_params(16, 1, 4);
    SAY("memset, other context", cuGraphExecMemsetNodeSetParams(x, m, &mp, other));
    mp.dst = (CUdeviceptr)(uintptr_t)words;
    SAY("memset, host memory", cuGraphExecMemsetNodeSetParams(x, m, &mp, ctx));
    mp2.value = 9;
    SAY("memset 2D, value", cuGraphExecMemsetNodeSetParams(x, m2, &mp2, ctx));
    mp2.width = 8;
    SAY("memset 2D, width", cuGraphExecMemsetNodeSetParams(x, m2, &mp2, ctx));
    mp2 = memset_params(16, 3, 4);
    SAY("memset 2D, height", cuGraphExecMemsetNodeSetParams(x, m2, &mp2, ctx));
    cp.WidthInBytes = 32, cp.srcDevice = mem + 256;
    SAY("copy, size and address", cuGraphExecMemcpyNodeSetParams(x, c, &cp, ctx));
    cp.srcMemoryType = CU_MEMORYTYPE_HOST, cp.srcHost = (void *)words;
    SAY("copy, from host", cuGraphExecMemcpyNodeSetParams(x, c, &cp, ctx));
    cp = copy_params(16), cp.Height = 2, cp.srcPitch = cp.dstPitch = 64;
    SAY("copy, 2D", cuGraphExecMemcpyNodeSetParams(x, c, &cp, ctx));
    SAY("upload", cuGraphUpload(x, stream));
    SAY("launch", cuGraphLaunch(x, stream));
    SAY("launch on a blocking stream", cuGraphLaunch(x, peer));
    SAY("launch on stream 0", cuGraphLaunch(x, 0));
    unsigned on;
    SAY("disable kernel", cuGraphNodeSetEnabled(x, k, 0));
    SAY("enabled?", cuGraphNodeGetEnabled(x, k, &on));
    SAY("is", on);
    SAY("disable child", cuGraphNodeSetEnabled(x, cn, 0));
    CUgraph clone;
    OK(cuGraphClone(&clone, g));
    SAY("node in a clone", cuGraphNodeFindInClone(&n, k, clone));
    kp = kernel_params(mix);
    SAY("exec, node of the clone", cuGraphExecKernelNodeSetParams(x, n, &kp));
    SAY("a node added later",
        (cuGraphAddKernelNode(&n, g, NULL, 0, &kp), cuGraphExecKernelNodeSetParams(x, n, &kp)));
    CUlaunchAttributeValue v;
    memset(&v, 0, sizeof v);
    v.priority = -1;
    SAY("node attribute", cuGraphKernelNodeSetAttribute(k, CU_LAUNCH_ATTRIBUTE_PRIORITY, &v));
    SAY("node attribute 63", cuGraphKernelNodeSetAttribute(k, (CUlaunchAttributeID)63, &v));
    SAY("attribute of a memset node",
        cuGraphKernelNodeSetAttribute(m, CU_LAUNCH_ATTRIBUTE_PRIORITY, &v));
    SAY_CALL(cuStreamSynchronize(stream));
    CUgraphNode k_gone;
    kp = kernel_params(mix);
    OK(cuGraphAddKernelNode(&k_gone, clone, NULL, 0, &kp));
    OK(cuGraphDestroyNode(k_gone));
    SAY("patch by a destroyed node", cuGraphExecKernelNodeSetParams(x, k_gone, &kp));
    OK(cuGraphDestroy(g));
    SAY("patch after the graph is gone", cuGraphExecKernelNodeSetParams(x, k, &kp));
    SAY("launch after the graph is gone", cuGraphLaunch(x, stream));
    SAY_CALL(cuStreamSynchronize(stream));
    SAY("exec destroy", cuGraphExecDestroy(x));
    SAY("exec destroy again", cuGraphExecDestroy(x));
    SAY("launch destroyed", cuGraphLaunch(x, stream));
}

static void updating(void)
{
    CUgraph g = kernels(3, mix, true), h;
    CUgraphNode nodes[3], n;
    size_t count = 3;
    CUgraphExec x;
    CUDA_MEMSET_NODE_PARAMS mp = memset_params(4, 1, 4);
    OK(cuGraphInstantiateWithFlags(&x, g, 0));
    in = "update";
    update("same", x, kernels(3, mix, true));
    update("fewer nodes", x, kernels(2, mix, true));
    update("more nodes", x, kernels(4, mix, true));
    update("no edges", x, kernels(3, mix, false));
    update("another function", x, kernels(3, nop, true));
    update("function of another context", x, kernels(3, other_mix, true));
    h = kernels(2, mix, true);
    OK(cuGraphGetNodes(h, nodes, &count));
    OK(cuGraphAddMemsetNode(&n, h, &nodes[1], 1, &mp, ctx));
    update("another type", x, h);
    h = kernels(3, mix, true);
    count = 3;
    OK(cuGraphGetNodes(h, nodes, &count));
    CUlaunchAttributeValue v;
    memset(&v, 0, sizeof v);
    v.cooperative = 1;
    OK(cuGraphKernelNodeSetAttribute(nodes[1], CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &v));
    update("cooperative", x, h);
    h = kernels(3, mix, true);
    OK(cuGraphGetNodes(h, nodes, &count));
    memset(&v, 0, sizeof v);
    v.priority = -1;
    OK(cuGraphKernelNodeSetAttribute(nodes[1], CU_LAUNCH_ATTRIBUTE_PRIORITY, &v));
    update("priority", x, h);
    h = kernels(3, mix, true);
    OK(cuGraphGetNodes(h, nodes, &count));
    CUDA_KERNEL_NODE_PARAMS k = kernel_params(mix);
    k.gridDimX = 5;
    OK(cuGraphKernelNodeSetParams(nodes[1], &k));
    update("shape", x, h);
    OK(cuGraphExecDestroy(x));

    OK(cuGraphCreate(&h, 0));
    mp = memset_params(16, 4, 4);
    OK(cuGraphAddMemsetNode(&n, h, NULL, 0, &mp, ctx));
    OK(cuGraphInstantiateWithFlags(&x, h, 0));
    mp.width = 8;
    OK(cuGraphMemsetNodeSetParams(n, &mp));
    update("memset 2D, width", x, h);
    OK(cuGraphCreate(&h, 0));
    mp = memset_params(16, 1, 4);
    OK(cuGraphAddMemsetNode(&n, h, NULL, 0, &mp, ctx));
    update("memset 2D to 1D", x, h);
    OK(cuGraphExecDestroy(x));
    OK(cuGraphCreate(&h, 0));
    OK(cuGraphAddMemsetNode(&n, h, NULL, 0, &mp, ctx));
    OK(cuGraphInstantiateWithFlags(&x, h, 0));
    mp.width = 8;
    OK(cuGraphMemsetNodeSetParams(n, &mp));
    update("memset 1D, width", x, h);
}

/* -- Events of an exec that are destroyed -- */

static void losing(void)
{
    for (int waits = 0; waits < 2; waits++) {
        CUevent first, second;
        CUgraph g;
        CUgraphNode n;
        CUgraphExec x;
        in = waits ? "exec, wait" : "exec, record";
        OK(cuEventCreate(&first, CU_EVENT_DISABLE_TIMING));
        OK(cuEventCreate(&second, CU_EVENT_DISABLE_TIMING));
        OK(cuGraphCreate(&g, 0));
        OK(waits ? cuGraphAddEventWaitNode(&n, g, NULL, 0, first)
                 : cuGraphAddEventRecordNode(&n, g, NULL, 0, first));
        OK(cuGraphInstantiateWithFlags(&x, g, 0));
        OK(cuEventDestroy(first));
        SAY("set event, the old one is gone",
            waits ? cuGraphExecEventWaitNodeSetEvent(x, n, second)
                  : cuGraphExecEventRecordNodeSetEvent(x, n, second));
        if (!waits) /* a GPU's driver dies of a wait */
            SAY("launch, the event is gone", cuGraphLaunch(x, stream));
        SAY("set event of the source", waits ? cuGraphEventWaitNodeSetEvent(n, second)
                                             : cuGraphEventRecordNodeSetEvent(n, second));
        update("the old event is gone", x, g);
        OK(cuStreamSynchronize(stream));
        OK(cuGraphExecDestroy(x));
        OK(cuEventDestroy(second));
    }
}

void rules_graph(void)
{
    building();
    setting();
    updating();
    losing();
}
