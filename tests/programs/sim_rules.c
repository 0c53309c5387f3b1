/* SPDX-License-Identifier: MIT */
/* sim_rules.c: what calls return, for right and wrong uses; sim_rules.expected
 * is what an H200 with driver 580 printed, but for the parts "crash_*", which
 * crash there. Each part runs in a process of its own; its name is the argument. */
#define _GNU_SOURCE
#include "sim_rules.h"

#include <dlfcn.h>
#include <sys/wait.h>

const char *in;
CUcontext other;
CUfunction other_mix;
CUlibrary lib;
CUkernel kern;
CUstream stream, peer;
CUdeviceptr mem;
volatile uint32_t *words;

static void *thread_main(void *arg)
{
    void (**fn)(void) = arg;
    (*fn)();
    return NULL;
}

void in_thread(void (*fn)(void))
{
    pthread_t t;
    CHECK(pthread_create(&t, NULL, thread_main, &fn) == 0);
    CHECK(pthread_join(t, NULL) == 0);
}

static void set_up(void)
{
    CUmodule m;
    CUcontext popped;
    start();
    OK(create_context(&other));
    OK(cuModuleLoadData(&m, agsim_kernels_ptx));
    OK(cuModuleGetFunction(&other_mix, m, "ag_mix"));
    OK(cuCtxPopCurrent(&popped));
    OK(cuCtxSetCurrent(ctx));
    OK(cuLibraryLoadData(&lib, agsim_kernels_ptx, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&kern, lib, "ag_mix"));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&peer, CU_STREAM_DEFAULT));
    OK(cuMemAlloc(&mem, 4096));
    OK(cuMemsetD32(mem, 1, 1024));
    words = host_words(64);
    OK(cuCtxSynchronize());
}

/* -- Before cuInit, and in the child of a fork -- */

static void early(void)
{
    CUcontext c;
    CUstream s;
    CUdeviceptr p;
    CUevent e;
    CUgraph g;
    CUdevice d;
    const char *text;
    void *fn;
    int n;
    SAY_CALL(cuCtxGetCurrent(&c));
    SAY_CALL(cuStreamCreate(&s, 0));
    SAY_CALL(cuMemAlloc(&p, 4));
    SAY_CALL(cuEventCreate(&e, 0));
    SAY_CALL(cuGraphCreate(&g, 0));
    SAY_CALL(cuDeviceGet(&d, 0));
    SAY_CALL(cuDeviceGetCount(&n));
    SAY_CALL(cuCtxSynchronize());
    SAY_CALL(cuStreamQuery(0));
    SAY_CALL(cuDriverGetVersion(&n));
    SAY_CALL(cuGetErrorName(CUDA_ERROR_INVALID_VALUE, &text));
    SAY_CALL(cuGetErrorString((CUresult)12345, &text));
    SAY_CALL(cuGetProcAddress("cuInit", &fn, 12000, 0, NULL));
    SAY_CALL(cuInit(1));
}

static void part_init(void)
{
    in = "before cuInit";
    early();
}

static void part_fork(void)
{
    set_up();
    in = "after fork";
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        CUcontext c;
        CUdeviceptr p;
        int n;
        SAY_CALL(cuInit(0));
        SAY_CALL(cuCtxGetCurrent(&c));
        SAY_CALL(cuMemAlloc(&p, 4));
        SAY_CALL(cuCtxSynchronize());
        SAY_CALL(cuDriverGetVersion(&n));
        SAY_CALL(launch_mix(mem, 1, 1, 0));
        _exit(0);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    in = "parent after fork";
    SAY_CALL(launch_mix(mem, 1, 1, 0));
    SAY_CALL(cuCtxSynchronize());
}

/* -- Without a current context -- */

static void nothing(void *p)
{
    (void)p;
}

static struct {
    CUevent event;
    CUgraph graph;
    CUgraphNode node, node2;
    CUgraphExec exec, exec2;
    CUDA_KERNEL_NODE_PARAMS params;
    CUDA_MEMSET_NODE_PARAMS memset;
    CUgraphExecUpdateResultInfo info;
    CUdeviceptr async;
    uint32_t one;
    void *args[3];
} built;

/* What the thread without a context then uses. */
static void build(void)
{
    built.one = 1;
    built.args[0] = &mem;
    built.args[1] = built.args[2] = &built.one;
    built.params = (CUDA_KERNEL_NODE_PARAMS){.func = mix,
                                             .gridDimX = 1,
                                             .gridDimY = 1,
                                             .gridDimZ = 1,
                                             .blockDimX = 1,
                                             .blockDimY = 1,
                                             .blockDimZ = 1,
                                             .kernelParams = built.args};
    built.memset = (CUDA_MEMSET_NODE_PARAMS){.dst = mem, .elementSize = 4, .width = 4, .height = 1};
    OK(cuEventCreate(&built.event, 0));
    OK(cuMemAllocAsync(&built.async, 64, stream));
    OK(cuGraphCreate(&built.graph, 0));
    OK(cuGraphAddKernelNode(&built.node, built.graph, NULL, 0, &built.params));
    OK(cuGraphAddMemsetNode(&built.node2, built.graph, &built.node, 1, &built.memset, ctx));
    OK(cuGraphInstantiateWithFlags(&built.exec, built.graph, 0));
}

static void no_context(void)
{
    CUcontext c;
    CUdevice d;
    CUdeviceptr p;
    CUstream s;
    CUevent e;
    CUmodule m;
    CUfunction f;
    CUstreamCaptureStatus status;
    unsigned u;
    int i;
    size_t offset, size;
    void *host;
    uint32_t word = 0;
    in = "no context";
    SAY_CALL(cuCtxGetCurrent(&c));
    SAY_CALL(cuCtxGetDevice(&d));
    SAY_CALL(cuCtxSynchronize());
    SAY_CALL(cuCtxPopCurrent(&c));
    SAY_CALL(cuMemAlloc(&p, 4));
    SAY_CALL(cuMemFree(0));
    SAY_CALL(cuMemAllocHost(&host, 4));
    SAY_CALL(cuStreamCreate(&s, 0));
    SAY_CALL(cuEventCreate(&e, 0));
    SAY_CALL(cuModuleLoadData(&m, agsim_kernels_ptx));
    SAY_CALL(launch_mix(mem, 1, 1, 0));
    SAY_CALL(launch_mix(mem, 1, 1, CU_STREAM_PER_THREAD));
    SAY_CALL(launch_mix(mem, 1, 1, stream));
    SAY_CALL(cuMemsetD32Async(mem, 1, 1, 0));
    SAY_CALL(cuMemsetD32Async(mem, 1, 1, stream));
    SAY_CALL(cuMemcpyHtoDAsync(mem, &word, 4, stream));
    SAY_CALL(cuMemcpyDtoDAsync(mem, mem + 8, 4, stream));
    SAY_CALL(cuMemcpyDtoH(&word, mem, 4));
    SAY_CALL(cuMemsetD32(mem, 1, 1));
    SAY_CALL(cuStreamSynchronize(stream));
    SAY_CALL(cuStreamQuery(stream));
    SAY_CALL(cuStreamSynchronize(0));
    SAY_CALL(cuStreamGetFlags(stream, &u));
    SAY_CALL(cuStreamGetCtx(stream, &c));
    SAY_CALL(cuStreamIsCapturing(stream, &status));
    SAY_CALL(cuStreamIsCapturing(0, &status));
    SAY_CALL(cuPointerGetAttribute(&i, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, mem));
    SAY_CALL(cuFuncGetAttribute(&i, CU_FUNC_ATTRIBUTE_NUM_REGS, mix));
    SAY_CALL(cuFuncGetParamInfo(mix, 0, &offset, &size));
    SAY_CALL(cuKernelGetParamInfo(kern, 0, &offset, &size));
    SAY_CALL(cuKernelGetFunction(&f, kern));
    SAY_CALL(cuModuleGetFunction(&f, mod, "ag_mix"));
    SAY_CALL(cuMemGetAddressRange(&p, &size, mem));
    SAY_CALL(cuMemAllocAsync(&p, 4, stream));
    SAY_CALL(cuEventQuery(built.event));
    SAY_CALL(cuEventSynchronize(built.event));
    SAY_CALL(cuEventRecord(built.event, 0));
    SAY_CALL(cuEventRecord(built.event, stream));
    SAY_CALL(cuStreamWaitEvent(stream, built.event, 0));
    SAY_CALL(cuStreamWaitEvent(0, built.event, 0));
    SAY_CALL(cuLaunchHostFunc(stream, nothing, NULL));
    SAY("launch CUkernel on a stream",
        cuLaunchKernel((CUfunction)kern, 1, 1, 1, 1, 1, 1, 0, stream, built.args, NULL));
    SAY("launch CUkernel on stream 0",
        cuLaunchKernel((CUfunction)kern, 1, 1, 1, 1, 1, 1, 0, 0, built.args, NULL));
    SAY_CALL(cuStreamSynchronize(stream));
    SAY_CALL(cuGraphLaunch(built.exec, stream));
    SAY_CALL(cuGraphLaunch(built.exec, 0));
    SAY_CALL(cuGraphUpload(built.exec, stream));
    SAY_CALL(cuStreamSynchronize(stream));
}

/* Without a context too. */
static void no_context_more(void)
{
    CUgraph g;
    CUgraphNode n;
    in = "no context";
    SAY_CALL(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    SAY("launch while capturing", launch_mix(mem, 1, 1, stream));
    SAY_CALL(cuStreamEndCapture(stream, &g));
    SAY_CALL(cuGraphDestroy(g));
    SAY_CALL(cuGraphCreate(&g, 0));
    SAY_CALL(cuGraphAddEmptyNode(&n, g, NULL, 0));
    SAY_CALL(cuMemFreeAsync(built.async, stream));
    SAY_CALL(cuStreamSynchronize(stream));
    SAY_CALL(cuGraphExecDestroy(built.exec));
    SAY_CALL(cuGraphDestroy(built.graph));
    SAY_CALL(cuEventDestroy(built.event));
    SAY_CALL(cuMemFree(mem));
    SAY_CALL(cuStreamDestroy(stream));
    SAY_CALL(cuModuleUnload(mod));
}

static void no_context_add(void)
{
    CUgraphNode n;
    in = "no context";
    SAY("add memset node", cuGraphAddMemsetNode(&n, built.graph, NULL, 0, &built.memset, ctx));
}

static void no_context_instantiate(void)
{
    CUgraphExec x;
    in = "no context";
    SAY("instantiate", cuGraphInstantiateWithFlags(&x, built.graph, 0));
}

static void no_context_update(void)
{
    in = "no context";
    SAY("update", cuGraphExecUpdate(built.exec, built.graph, &built.info));
}

static void no_context_set_memset(void)
{
    in = "no context";
    SAY("set memset of exec",
        cuGraphExecMemsetNodeSetParams(built.exec, built.node2, &built.memset, ctx));
}

static void no_context_set(void)
{
    CUgraphNode n;
    in = "no context";
    SAY("add kernel node", cuGraphAddKernelNode(&n, built.graph, NULL, 0, &built.params));
    SAY("set kernel of exec",
        cuGraphExecKernelNodeSetParams(built.exec, built.node, &built.params));
    SAY("set kernel node", cuGraphKernelNodeSetParams(built.node, &built.params));
}

#define NO_CONTEXT(name)                                                                           \
    static void part_##name(void)                                                                  \
    {                                                                                              \
        set_up();                                                                                  \
        build();                                                                                   \
        OK(cuCtxSynchronize());                                                                    \
        in_thread(name);                                                                           \
    }
NO_CONTEXT(no_context)
NO_CONTEXT(no_context_more)
NO_CONTEXT(no_context_add)
NO_CONTEXT(no_context_instantiate)
NO_CONTEXT(no_context_update)
NO_CONTEXT(no_context_set_memset)
NO_CONTEXT(no_context_set)

/* -- Functions, kernels, launches -- */

static CUresult launch_shape(unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                             unsigned bz, unsigned shared)
{
    return cuLaunchKernel(nop, gx, gy, gz, bx, by, bz, shared, stream, NULL, NULL);
}

static CUresult launch_attr(CUlaunchAttributeID id, CUlaunchAttributeValue v, unsigned grid)
{
    CUlaunchAttribute a = {.id = id, .value = v};
    CUlaunchConfig c = {.gridDimX = grid,
                        .gridDimY = 1,
                        .gridDimZ = 1,
                        .blockDimX = 32,
                        .blockDimY = 1,
                        .blockDimZ = 1,
                        .hStream = stream,
                        .attrs = &a,
                        .numAttrs = 1};
    return cuLaunchKernelEx(&c, nop, NULL, NULL);
}

static void part_launch(void)
{
    set_up();
    in = "launch";
    SAY("plain", launch_shape(1, 1, 1, 1, 1, 1, 0));
    SAY("grid x 0", launch_shape(0, 1, 1, 1, 1, 1, 0));
    SAY("grid z 0", launch_shape(1, 1, 0, 1, 1, 1, 0));
    SAY("block 0", launch_shape(1, 1, 1, 0, 1, 1, 0));
    SAY("1024 threads", launch_shape(1, 1, 1, 32, 32, 1, 0));
    SAY("1025 threads", launch_shape(1, 1, 1, 1025, 1, 1, 0));
    SAY("2048 threads", launch_shape(1, 1, 1, 64, 32, 1, 0));
    SAY("block z 65", launch_shape(1, 1, 1, 1, 1, 65, 0));
    SAY("grid y 65536", launch_shape(1, 65536, 1, 1, 1, 1, 0));
    SAY("shared 48 KiB", launch_shape(1, 1, 1, 1, 1, 1, 49152));
    SAY("shared 48 KiB + 1", launch_shape(1, 1, 1, 1, 1, 1, 49153));
    SAY("allow 64 KiB",
        cuFuncSetAttribute(nop, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 65536));
    SAY("shared 64 KiB", launch_shape(1, 1, 1, 1, 1, 1, 65536));
    SAY("shared 64 KiB + 1", launch_shape(1, 1, 1, 1, 1, 1, 65537));
    SAY("allow 228 KiB",
        cuFuncSetAttribute(nop, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 233472));
    SAY("allow -1", cuFuncSetAttribute(nop, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, -1));
    SAY("set read-only attribute", cuFuncSetAttribute(nop, CU_FUNC_ATTRIBUTE_NUM_REGS, 8));
    SAY("carveout 101",
        cuFuncSetAttribute(nop, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 101));

    uint32_t one = 1;
    struct {
        CUdeviceptr p;
        uint32_t n, k, more[4];
    } packed = {mem, 1, 1, {0}};
    size_t size = 16;
    void *args[] = {&mem, &one, &one};
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    SAY("extra", cuLaunchKernel(mix, 1, 1, 1, 1, 1, 1, 0, stream, NULL, extra));
    SAY("params and extra", cuLaunchKernel(mix, 1, 1, 1, 1, 1, 1, 0, stream, args, extra));
    size = 12;
    SAY("extra too short", cuLaunchKernel(mix, 1, 1, 1, 1, 1, 1, 0, stream, NULL, extra));
    size = 24;
    SAY("extra too long", cuLaunchKernel(mix, 1, 1, 1, 1, 1, 1, 0, stream, NULL, extra));
    struct {
        CUdeviceptr p;
        uint32_t value, more[5];
    } two = {mem, 1, {0}};
    extra[1] = &two;
    for (size = 8; size <= 32; size += 4) {
        char label[40];
        snprintf(label, sizeof label, "12 bytes of extra as %d", (int)size);
        SAY(label, cuLaunchKernel(flag, 1, 1, 1, 1, 1, 1, 0, stream, NULL, extra));
    }
    SAY("no params", cuLaunchKernel(mix, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
    SAY("function NULL", cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, stream, args, NULL));

    in = "launch attribute";
    CUlaunchAttributeValue v;
    memset(&v, 0, sizeof v);
    SAY("ignore", launch_attr(CU_LAUNCH_ATTRIBUTE_IGNORE, v, 1));
    SAY("63", launch_attr((CUlaunchAttributeID)63, v, 1));
    v.cooperative = 1;
    SAY("cooperative", launch_attr(CU_LAUNCH_ATTRIBUTE_COOPERATIVE, v, 4));
    SAY("cooperative, a million blocks", launch_attr(CU_LAUNCH_ATTRIBUTE_COOPERATIVE, v, 1000000));
    memset(&v, 0, sizeof v);
    v.clusterDim.x = 2, v.clusterDim.y = v.clusterDim.z = 1;
    SAY("cluster 2 of 4", launch_attr(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, v, 4));
    v.clusterDim.x = 3;
    SAY("cluster 3 of 4", launch_attr(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, v, 4));
    v.clusterDim.x = 16;
    SAY("cluster 16 of 16", launch_attr(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, v, 16));
    v.clusterDim.x = 0;
    SAY("cluster 0", launch_attr(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, v, 4));
    memset(&v, 0, sizeof v);
    v.programmaticStreamSerializationAllowed = 1;
    SAY("programmatic", launch_attr(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, v, 1));
    memset(&v, 0, sizeof v);
    v.priority = 100;
    SAY("priority 100", launch_attr(CU_LAUNCH_ATTRIBUTE_PRIORITY, v, 1));
    memset(&v, 0, sizeof v);
    SAY("synchronization policy", launch_attr(CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, v, 1));
    SAY("device updatable", launch_attr(CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE, v, 1));
    SAY_CALL(cuStreamSynchronize(stream));

    in = "handle";
    CUfunction f, f2;
    CUmodule m;
    const char *name;
    int i;
    size_t offset, bytes;
    SAY("launch CUkernel",
        cuLaunchKernel((CUfunction)kern, 1, 1, 1, 1, 1, 1, 0, stream, args, NULL));
    SAY_CALL(cuKernelGetFunction(&f, kern));
    OK(cuKernelGetFunction(&f2, kern));
    SAY("same function", f == f2);
    SAY("function is the kernel", (void *)f == (void *)kern);
    SAY("launch it", cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, args, NULL));
    SAY("cuKernelGetFunction of a function", cuKernelGetFunction(&f2, (CUkernel)mix));
    SAY("cuKernelGetParamInfo of a function",
        cuKernelGetParamInfo((CUkernel)mix, 0, &offset, &bytes));
    SAY("cuFuncGetParamInfo of a kernel", cuFuncGetParamInfo((CUfunction)kern, 0, &offset, &bytes));
    SAY("cuFuncGetAttribute of a kernel",
        cuFuncGetAttribute(&i, CU_FUNC_ATTRIBUTE_NUM_REGS, (CUfunction)kern));
    SAY("cuFuncSetAttribute of a kernel",
        cuFuncSetAttribute((CUfunction)kern, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                           65536));
    SAY("cuFuncGetName of a kernel", cuFuncGetName(&name, (CUfunction)kern));
    SAY("cuFuncGetModule of a kernel", cuFuncGetModule(&m, (CUfunction)kern));
    SAY("cuFuncGetModule of its function", cuFuncGetModule(&m, f));
    SAY("unload the library's module", cuModuleUnload(m));
    OK(cuModuleGetFunction(&f2, mod, "ag_mix"));
    SAY("cuModuleGetFunction again gives the same", f2 == mix);
    SAY_CALL(cuModuleGetFunction(&f2, mod, "ag_none"));
    CUkernel k2;
    SAY_CALL(cuLibraryGetKernel(&k2, lib, "ag_none"));
    SAY("load no image", cuModuleLoadData(&m, "rubbish"));
    SAY("load bad PTX",
        cuModuleLoadData(&m, ".version 7.0\n.target sm_75\n.address_size 64\n.entry x(\n"));
    SAY("kernel's parameter info NULL size", cuKernelGetParamInfo(kern, 2, &offset, NULL));
    SAY("kernel's parameter 3", cuKernelGetParamInfo(kern, 3, &offset, &bytes));

    OK(cuCtxSynchronize());
    in = "two contexts";
    CUcontext popped;
    CUstream s2;
    CUevent e2;
    CUdeviceptr mem2;
    OK(cuCtxPushCurrent(other));
    OK(cuStreamCreate(&s2, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&e2, 0));
    OK(cuMemAlloc(&mem2, 4096));
    OK(cuCtxPopCurrent(&popped));
    SAY("other's function, our stream",
        cuLaunchKernel(other_mix, 1, 1, 1, 1, 1, 1, 0, stream, args, NULL));
    SAY("other's function, our stream 0",
        cuLaunchKernel(other_mix, 1, 1, 1, 1, 1, 1, 0, 0, args, NULL));
    SAY("other's function, other's stream",
        cuLaunchKernel(other_mix, 1, 1, 1, 1, 1, 1, 0, s2, args, NULL));
    SAY("our function, other's stream", cuLaunchKernel(mix, 1, 1, 1, 1, 1, 1, 0, s2, args, NULL));
    SAY("CUkernel, other's stream",
        cuLaunchKernel((CUfunction)kern, 1, 1, 1, 1, 1, 1, 0, s2, args, NULL));
    SAY("memset of our memory, other's stream", cuMemsetD32Async(mem + 64, 1, 1, s2));
    SAY("copy between contexts, our stream", cuMemcpyDtoDAsync(mem + 128, mem2 + 128, 4, stream));
    SAY("copy of other's memory, our stream", cuMemcpyDtoDAsync(mem2, mem2 + 8, 4, stream));
    SAY("copy of other's memory, other's stream", cuMemcpyDtoDAsync(mem2 + 64, mem2 + 72, 4, s2));
    SAY("record other's event, our stream", cuEventRecord(e2, stream));
    SAY("record other's event, other's stream", cuEventRecord(e2, s2));
    SAY("our stream waits for other's event", cuStreamWaitEvent(stream, e2, 0));
    SAY("synchronize other's stream", cuStreamSynchronize(s2));
    SAY("synchronize other's event", cuEventSynchronize(e2));
    OK(cuCtxSynchronize());
    SAY("free other's memory", cuMemFree(mem2));
    SAY("destroy other's stream", cuStreamDestroy(s2));
    SAY("destroy other's event", cuEventDestroy(e2));
    SAY_CALL(cuCtxSynchronize());
}

/* -- Memory, streams, events, look-ups -- */

static void part_values(void)
{
    CUdeviceptr p, q;
    CUstream s;
    CUevent e, e2;
    void *host;
    size_t size;
    unsigned u;
    int i, j;
    uint32_t buffer[16] = {0};
    float ms;
    set_up();
    in = "memory";
    SAY_CALL(cuMemAlloc(&p, 0));
    SAY_CALL(cuMemFree(0));
    SAY("free inside", cuMemFree(mem + 4));
    SAY("free host memory", cuMemFree((CUdeviceptr)(uintptr_t)words));
    SAY("free unknown host", cuMemFreeHost(buffer));
    OK(cuMemAlloc(&p, 1000));
    SAY("range of the end", cuMemGetAddressRange(&q, &size, p + 999));
    SAY("size is as asked", size == 1000);
    SAY("range behind the end", cuMemGetAddressRange(&q, &size, p + 1000));
    SAY("range of nothing", cuMemGetAddressRange(&q, &size, 64));
    SAY("memset to the end", cuMemsetD8Async(p, 0, 1000, stream));
    SAY("memset beyond the end", cuMemsetD8Async(p, 0, (size_t)1 << 30, stream));
    SAY("memset misaligned", cuMemsetD32Async(p + 2, 0, 1, stream));
    SAY("memset 16 misaligned", cuMemsetD16Async(p + 1, 0, 1, stream));
    SAY("memset nothing", cuMemsetD32Async(p, 0, 0, stream));
    SAY("memset nothing at NULL", cuMemsetD32Async(0, 0, 0, stream));
    SAY("memset NULL", cuMemsetD32Async(0, 0, 1, stream));
    SAY("2D pitch too small", cuMemsetD2D32Async(p, 4, 0, 2, 2, stream));
    SAY("copy nothing", cuMemcpyDtoDAsync(p, mem, 0, stream));
    SAY("copy from NULL", cuMemcpyDtoDAsync(p, 0, 4, stream));
    SAY("copy host as device", cuMemcpyDtoDAsync(p, (CUdeviceptr)(uintptr_t)buffer, 4, stream));
    SAY("copy pinned as device", cuMemcpyDtoDAsync(p, (CUdeviceptr)(uintptr_t)words, 4, stream));
    SAY("copy device as host", cuMemcpyHtoDAsync(p, (void *)(uintptr_t)mem, 4, stream));
    SAY("copy from NULL host", cuMemcpyHtoDAsync(p, NULL, 4, stream));
    SAY("copy unified", cuMemcpyAsync((CUdeviceptr)(uintptr_t)buffer, p, 4, stream));
    SAY("attribute of host memory", cuPointerGetAttribute(&u, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                                          (CUdeviceptr)(uintptr_t)buffer));
    SAY("attribute of pinned memory",
        cuPointerGetAttribute(&u, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)words));
    SAY("its type", u);
    SAY("attribute of device memory",
        cuPointerGetAttribute(&u, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, mem));
    SAY("its type", u);
    SAY("host pointer of device memory",
        cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, mem));
    CUpointer_attribute attrs[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void *outs[] = {&i, &j};
    SAY("attributes of host memory",
        cuPointerGetAttributes(2, attrs, outs, (CUdeviceptr)(uintptr_t)buffer));
    SAY("type", i);
    SAY("ordinal", j);
    CHECK(posix_memalign(&host, 4096, 8192) == 0);
    SAY("register", cuMemHostRegister(host, 4096, 0));
    SAY("register again", cuMemHostRegister(host, 4096, 0));
    SAY("register overlapping", cuMemHostRegister(host, 8192, 0));
    SAY("device pointer of it", cuMemHostGetDevicePointer(&q, host, 0));
    SAY("unregister", cuMemHostUnregister(host));
    SAY("unregister again", cuMemHostUnregister(host));
    SAY("device pointer of it", cuMemHostGetDevicePointer(&q, host, 0));
    SAY("device pointer of device memory",
        cuMemHostGetDevicePointer(&q, (void *)(uintptr_t)mem, 0));
    SAY("free", cuMemFree(p));
    SAY("free again", cuMemFree(p));
    SAY("use freed", cuMemsetD8Async(p, 0, 4, stream));
    SAY("allocate async", cuMemAllocAsync(&p, 1024, stream));
    SAY("free async", cuMemFreeAsync(p, stream));
    SAY("free async again", cuMemFreeAsync(p, stream));
    OK(cuMemAllocAsync(&q, 1024, stream));
    SAY("same stream has it again", p == q);
    SAY("free an async allocation", cuMemFree(q));
    OK(cuMemAlloc(&p, 1024));
    SAY("free async a plain allocation", cuMemFreeAsync(p, stream));
    SAY("allocate async nothing", cuMemAllocAsync(&p, 0, stream));
    SAY_CALL(cuCtxSynchronize());
    SAY("managed, bad flags", cuMemAllocManaged(&p, 16, 0));
    OK(cuMemAllocManaged(&p, 1024, CU_MEM_ATTACH_GLOBAL));
    SAY("attach it", cuStreamAttachMemAsync(stream, p, 0, CU_MEM_ATTACH_SINGLE));
    SAY("attach all bytes", cuStreamAttachMemAsync(stream, p, 1024, CU_MEM_ATTACH_HOST));
    SAY("attach half", cuStreamAttachMemAsync(stream, p, 512, CU_MEM_ATTACH_SINGLE));
    SAY("attach from within", cuStreamAttachMemAsync(stream, p + 512, 0, CU_MEM_ATTACH_SINGLE));
    SAY("attach to legacy alone", cuStreamAttachMemAsync(NULL, p, 0, CU_MEM_ATTACH_SINGLE));
    SAY("attach in legacy", cuStreamAttachMemAsync(NULL, p, 0, CU_MEM_ATTACH_GLOBAL));
    OK(cuMemAlloc(&q, 1024));
    SAY("attach plain", cuStreamAttachMemAsync(stream, q, 0, CU_MEM_ATTACH_SINGLE));
    SAY("attach nothing", cuStreamAttachMemAsync(stream, 0, 0, CU_MEM_ATTACH_SINGLE));
    OK(cuMemFree(q));
    OK(cuMemFree(p));

    in = "stream";
    SAY("flags 2", cuStreamCreate(&s, 2));
    SAY("legacy flags", cuStreamGetFlags(0, &u));
    SAY("are", u);
    SAY("per-thread flags", cuStreamGetFlags(CU_STREAM_PER_THREAD, &u));
    SAY("are", u);
    OK(cuCtxGetStreamPriorityRange(&i, &j));
    SAY("least priority", i);
    SAY("greatest priority", -j);
    OK(cuStreamCreateWithPriority(&s, 0, 1000));
    OK(cuStreamGetPriority(s, &i));
    SAY("priority 1000 becomes", i);
    SAY("destroy", cuStreamDestroy(s));
    SAY("destroy legacy", cuStreamDestroy(CU_STREAM_LEGACY));
    SAY("destroy per-thread", cuStreamDestroy(CU_STREAM_PER_THREAD));
    SAY("destroy NULL", cuStreamDestroy(0));
    SAY("wait value, misaligned", cuStreamWaitValue32(stream, mem + 2, 0, 0));
    SAY("wait value, NULL", cuStreamWaitValue32(stream, 0, 0, 0));
    SAY("write value", cuStreamWriteValue32(stream, mem, 5, 0));
    SAY("wait value", cuStreamWaitValue32(stream, mem, 5, CU_STREAM_WAIT_VALUE_EQ));
    SAY("write value, flags 2", cuStreamWriteValue32(stream, mem, 5, 2));
    SAY("wait value, flags 8", cuStreamWaitValue32(stream, mem, 5, 8));
    SAY("host function NULL", cuLaunchHostFunc(stream, NULL, NULL));
    SAY("callback flags 1", cuStreamAddCallback(stream, (CUstreamCallback)(void *)1, NULL, 1));
    SAY_CALL(cuStreamSynchronize(stream));
    SAY_CALL(cuStreamQuery(stream));

    in = "event";
    SAY("flags 8", cuEventCreate(&e, 8));
    SAY("interprocess with timing", cuEventCreate(&e, CU_EVENT_INTERPROCESS));
    OK(cuEventCreate(&e, 0));
    OK(cuEventCreate(&e2, CU_EVENT_DISABLE_TIMING));
    SAY("elapsed, never recorded", cuEventElapsedTime(&ms, e, e));
    OK(cuEventRecord(e, stream));
    OK(cuEventRecord(e2, stream));
    OK(cuStreamSynchronize(stream));
    SAY("elapsed", cuEventElapsedTime(&ms, e, e));
    SAY("elapsed, no timing", cuEventElapsedTime(&ms, e, e2));
    SAY("record flags 2", cuEventRecordWithFlags(e, stream, 2));
    SAY("record external", cuEventRecordWithFlags(e, stream, CU_EVENT_RECORD_EXTERNAL));
    SAY("wait external", cuStreamWaitEvent(stream, e, CU_EVENT_WAIT_EXTERNAL));
    SAY("wait flags 2", cuStreamWaitEvent(stream, e, 2));
    SAY("query NULL", cuEventQuery(NULL));
    SAY("record NULL", cuEventRecord(NULL, stream));
    SAY_CALL(cuStreamSynchronize(stream));
}

static void look_up(const char *name, int version, cuuint64_t flags)
{
    void *fn = NULL;
    CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)9;
    Dl_info info;
    CUresult r = cuGetProcAddress(name, &fn, version, flags, &status);
    const char *symbol = fn && dladdr(fn, &info) && info.dli_sname ? info.dli_sname : "-";
    printf("look up: %s %d %d = %d %d %s\n", name, version, (int)flags, (int)r, (int)status,
           symbol);
}

static void part_look_up(void)
{
    static const char *const names[] = {"cuLaunchKernel",
                                        "cuMemAlloc",
                                        "cuGraphInstantiate",
                                        "cuGraphExecUpdate",
                                        "cuStreamBeginCapture",
                                        "cuGraphAddKernelNode",
                                        "cuMemcpyHtoDAsync",
                                        "cuMemcpy",
                                        "cuCtxCreate",
                                        "cuGetProcAddress",
                                        "cuStreamGetCaptureInfo",
                                        "cuEventElapsedTime",
                                        "cuStreamWaitValue32",
                                        "cuKernelGetParamInfo",
                                        "cuEventRecord",
                                        "cuMemcpyDtoH",
                                        "cuGraphLaunch",
                                        "cuProfilerStart",
                                        "cuMemAllocAsync",
                                        "cuLaunchKernelEx",
                                        "cuStreamSynchronize"};
    static const int versions[] = {2000,  3020,  6050,  7000,  10000, 10010, 11000,
                                   11030, 12000, 12030, 12080, 13000, 20000};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        for (unsigned v = 0; v < sizeof versions / sizeof *versions; v++)
            for (unsigned flags = 0; flags < 3; flags++)
                look_up(names[i], versions[v], flags);
    look_up("", 12000, 0);
    look_up("cuNone", 12000, 0);
    look_up("cuLaunchKernel_ptsz", 12000, 0);
    look_up("cuMemAlloc_v2", 12000, 0);
    look_up("cudaMalloc", 12000, 0);
    look_up("cuLaunchKernel", 12000, 3);
    look_up("cuLaunchKernel", 12000, 4);
    look_up("cuLaunchKernel", 0, 0);
    in = "look up";
    void *fn;
    SAY("no status", cuGetProcAddress("cuNone", &fn, 12000, 0, NULL));
    CUresult (*v1)(const char *, void **, int, cuuint64_t);
    void *self;
    OK(cuGetProcAddress("cuGetProcAddress", &self, 11030, 0, NULL));
    memcpy(&v1, &self, sizeof v1);
    SAY("first form", v1("cuInit", &fn, 12000, 0));
    fn = &fn;
    SAY("first form, no such name", v1("cuNone", &fn, 12000, 0));
    SAY("clears the pointer", fn == NULL);
    SAY("first form, version too low", v1("cuGraphLaunch", &fn, 2000, 0));
}

/* -- Calls from the driver's threads -- */

static void from_host_function(void *what)
{
    CUcontext c;
    CUdeviceptr p;
    CUdevice d;
    CUstreamCaptureStatus status;
    CUevent e;
    CUstream s;
    CUgraph g;
    int i;
    unsigned u;
    size_t size;
    const char *text;
    uint32_t word = 0;
    in = what;
    SAY_CALL(cuCtxGetCurrent(&c));
    SAY_CALL(cuCtxSetCurrent(ctx));
    SAY_CALL(cuCtxPushCurrent(ctx));
    SAY_CALL(cuCtxGetDevice(&d));
    SAY_CALL(cuCtxSynchronize());
    SAY_CALL(cuStreamQuery(peer));
    SAY_CALL(cuStreamQuery(0));
    SAY_CALL(cuStreamSynchronize(peer));
    SAY_CALL(cuStreamGetFlags(peer, &u));
    SAY_CALL(cuStreamIsCapturing(peer, &status));
    SAY_CALL(cuStreamWaitEvent(peer, built.event, 0));
    SAY_CALL(cuEventQuery(built.event));
    SAY_CALL(cuEventRecord(built.event, peer));
    SAY_CALL(cuEventSynchronize(built.event));
    SAY_CALL(cuEventCreate(&e, 0));
    SAY_CALL(cuStreamCreate(&s, 0));
    SAY_CALL(cuMemAlloc(&p, 4));
    SAY_CALL(cuMemAllocAsync(&p, 4, peer));
    SAY_CALL(cuMemFreeAsync(mem, peer));
    SAY_CALL(launch_mix(mem, 1, 1, peer));
    SAY_CALL(cuMemsetD32Async(mem, 1, 1, peer));
    SAY_CALL(cuMemcpyHtoDAsync(mem, &word, 4, peer));
    SAY_CALL(cuMemcpyDtoDAsync(mem, mem + 64, 4, peer));
    SAY_CALL(cuMemcpyDtoH(&word, mem, 4));
    SAY_CALL(cuLaunchHostFunc(peer, nothing, NULL));
    SAY_CALL(cuGraphCreate(&g, 0));
    SAY_CALL(cuGraphLaunch(built.exec, peer));
    SAY_CALL(cuGraphUpload(built.exec, peer));
    SAY("set kernel of exec",
        cuGraphExecKernelNodeSetParams(built.exec, built.node, &built.params));
    SAY("instantiate", cuGraphInstantiateWithFlags(&built.exec2, built.graph, 0));
    SAY_CALL(cuDeviceGetCount(&i));
    SAY_CALL(cuDriverGetVersion(&i));
    SAY_CALL(cuGetErrorName(CUDA_SUCCESS, &text));
    SAY_CALL(cuInit(0));
    SAY_CALL(cuPointerGetAttribute(&i, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, mem));
    SAY_CALL(cuFuncGetAttribute(&i, CU_FUNC_ATTRIBUTE_NUM_REGS, mix));
    SAY_CALL(cuFuncGetParamInfo(mix, 0, &size, &size));
    SAY_CALL(cuStreamWriteValue32(peer, mem, 1, 0));
}

static void from_callback(CUstream s, CUresult r, void *what)
{
    (void)s, (void)r;
    from_host_function(what);
}

static void part_callback(void)
{
    set_up();
    build();
    rules_capture_in_callback();
    OK(cuLaunchHostFunc(stream, from_host_function, "from a host function"));
    OK(cuStreamSynchronize(stream));
    OK(cuCtxSynchronize()); /* for what it gave to `peer` */
    OK(cuStreamAddCallback(stream, from_callback, "from a callback", 0));
    OK(cuStreamSynchronize(stream));
}

/* -- Stale handles: most crash a real driver, so each has its process -- */

static void part_stale_stream(void)
{
    unsigned u;
    set_up();
    in = "destroyed stream";
    OK(cuStreamDestroy(stream));
    SAY_CALL(cuStreamQuery(stream));
    SAY_CALL(cuStreamGetFlags(stream, &u));
    SAY_CALL(launch_mix(mem, 1, 1, stream));
    SAY_CALL(cuStreamDestroy(stream));
}

static void part_stale_event(void)
{
    CUevent e;
    set_up();
    in = "destroyed event";
    OK(cuEventCreate(&e, 0));
    OK(cuEventDestroy(e));
    SAY_CALL(cuEventQuery(e));
    SAY_CALL(cuEventRecord(e, stream));
    SAY_CALL(cuStreamWaitEvent(stream, e, 0));
    SAY_CALL(cuEventDestroy(e));
}

static void part_stale_function(void)
{
    int i;
    set_up();
    in = "unloaded module";
    OK(cuModuleUnload(mod));
    SAY_CALL(launch_mix(mem, 1, 1, stream));
    SAY_CALL(cuFuncGetAttribute(&i, CU_FUNC_ATTRIBUTE_NUM_REGS, mix));
    SAY_CALL(cuModuleUnload(mod));
}

static void part_stale_kernel(void)
{
    CUfunction f;
    uint32_t one = 1;
    void *args[] = {&mem, &one, &one};
    set_up();
    in = "unloaded library";
    OK(cuKernelGetFunction(&f, kern));
    OK(cuLibraryUnload(lib));
    SAY("launch its kernel",
        cuLaunchKernel((CUfunction)kern, 1, 1, 1, 1, 1, 1, 0, stream, args, NULL));
    SAY("launch its function", cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, args, NULL));
    SAY_CALL(cuKernelGetFunction(&f, kern));
}

static void part_destroyed(void)
{
    CUcontext c, popped;
    CUdeviceptr p;
    set_up();
    in = "destroyed context";
    OK(create_context(&c));
    OK(cuCtxPopCurrent(&popped));
    OK(cuCtxPushCurrent(c));
    OK(cuCtxPushCurrent(ctx));
    OK(cuCtxDestroy(c));
    OK(cuCtxPopCurrent(&popped));
    SAY("still current", (cuCtxGetCurrent(&popped), popped == c));
    SAY("allocate in it", cuMemAlloc(&p, 64));
    SAY_CALL(cuCtxSynchronize());
}

static void part_stale_context(void)
{
    CUcontext c, popped;
    CUstream s;
    CUevent e;
    CUdeviceptr p;
    set_up();
    in = "of a destroyed context";
    OK(create_context(&c));
    OK(cuStreamCreate(&s, 0));
    OK(cuEventCreate(&e, 0));
    OK(cuMemAlloc(&p, 64));
    OK(cuCtxPopCurrent(&popped));
    OK(cuCtxDestroy(c));
    OK(cuCtxSetCurrent(ctx));
    SAY_CALL(cuMemFree(p));
    SAY_CALL(cuCtxPushCurrent(c));
    SAY_CALL(cuStreamQuery(s));
    SAY_CALL(cuEventQuery(e));
}

static void part_reset(void)
{
    CUcontext c;
    CUdeviceptr p;
    unsigned flags;
    int active;
    set_up();
    in = "primary context reset";
    SAY_CALL(cuDevicePrimaryCtxReset(dev));
    OK(cuDevicePrimaryCtxGetState(dev, &flags, &active));
    SAY("active", active);
    SAY("still current", (cuCtxGetCurrent(&c), c == ctx));
    SAY("allocate in it", cuMemAlloc(&p, 64));
    SAY("stream query", cuStreamQuery(0));
    OK(cuDevicePrimaryCtxRetain(&c, dev));
    SAY("same handle", c == ctx);
    SAY("its old memory", cuMemFree(mem));
    SAY("allocate without setting it", cuMemAlloc(&p, 64));
    SAY("set it", cuCtxSetCurrent(c));
    SAY("allocate", cuMemAlloc(&p, 64));
    SAY("release", cuDevicePrimaryCtxRelease(dev));
    SAY("release again", cuDevicePrimaryCtxRelease(dev));
}

static void part_capture(void)
{
    set_up();
    rules_capture();
}

static void part_graph(void)
{
    set_up();
    rules_graph();
}

static void part_waiting(void)
{
    set_up();
    rules_waiting();
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {
        {"init", part_init},
        {"look_up", part_look_up},
        {"no_context", part_no_context},
        {"no_context_more", part_no_context_more},
        {"no_context_add", part_no_context_add},
        {"no_context_instantiate", part_no_context_instantiate},
        {"no_context_update", part_no_context_update},
        {"no_context_set_memset", part_no_context_set_memset},
        {"crash_no_context", part_no_context_set},
        {"launch", part_launch},
        {"values", part_values},
        {"callback", part_callback},
        {"capture", part_capture},
        {"graph", part_graph},
        {"waiting", part_waiting},
        {"fork", part_fork},
        {"reset", part_reset},
        {"destroyed", part_destroyed},
        {"crash_stream", part_stale_stream},
        {"crash_event", part_stale_event},
        {"stale_function", part_stale_function},
        {"crash_kernel", part_stale_kernel},
        {"crash_context", part_stale_context},
    };
    if (argc < 2 || argc > 3) {
        for (unsigned i = 0; i < sizeof parts / sizeof *parts; i++)
            puts(parts[i].name);
        return argc == 1 ? 0 : 2;
    }
    alarm(120);
    patience_ms = argc == 3 ? (unsigned)atoi(argv[2]) : patience_ms;
    for (unsigned i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strcmp(parts[i].name, argv[1])) {
            parts[i].run();
            fflush(stdout);
            _exit(0); /* what is left pending is no part of the rules */
        }
    return 2;
}
