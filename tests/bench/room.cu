/* SPDX-License-Identifier: MIT */
/*
 * How much work a stream takes behind a host function that waits, and which calls of another thread
 * wait as well while the launch that comes next waits for room.
 *
 *   usage: room [PATIENCE_MS]
 *
 * Prints a line for what fills the stream, for the context of the other thread (the same one or
 * another), and for each of its calls: how many entries the stream took, and how long the call
 * took, us, or "waits" if it was not back after PATIENCE_MS, or a second. Where a third thread has
 * begun a call before, that comes first, with a "+".
 */
#include <atomic>
#include <chrono>
#include <cuda.h>
#include <thread>

#include "driver_function.h"
#include "sample.h"

enum { NODES = 16, MOST = 16384 };
enum { USES = 3 }; /* of a call in a place: before and in the two measurements */

KERNEL(mix, unsigned *data, unsigned size, unsigned k)
{
    unsigned i = INDEX();
    if (i < size)
        data[i] = data[i] * 1664525u + k;
}

/* What calls need, in one context. */
struct place {
    const char *name;
    CUcontext context;
    cudaStream_t stream;
    cudaEvent_t event;
    cudaGraph_t graph;
    cudaGraphNode_t node; /* its first */
    cudaGraphExec_t exec;
    unsigned *data, host;
    /* For calls that destroy something, and which of them is next. */
    cudaEvent_t events[USES];
    cudaStream_t streams[USES];
    cudaGraphExec_t execs[USES];
    void *memory[USES];
    mutable int event_next, stream_next, exec_next, memory_next;
};

static void launch(const place &p)
{
    LAUNCH(mix, 1, 1, 0, p.stream, p.data, 1u, 3u);
    CHECK(cudaGetLastError());
}

static void launch_graph(const place &p)
{
    CHECK(cudaGraphLaunch(p.exec, p.stream));
}

static void record(const place &p)
{
    CHECK(cudaEventRecord(p.event, p.stream));
}

static void answered(cudaError_t error)
{
    if (error == cudaErrorNotReady)
        (void)cudaGetLastError(); /* which is that one */
    else
        CHECK(error);
}

static void allocate(const place &)
{
    void *memory;
    CHECK(cudaMalloc(&memory, 8 << 20));
}

static void instantiate(const place &p)
{
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, p.graph, 0));
}

static void set_params(const place &p)
{
    unsigned size = 1, k = 3;
    void *arguments[] = {(void *)&p.data, &size, &k};
    cudaKernelNodeParams params = {(void *)mix, dim3(1), dim3(1), 0, arguments, NULL};
    CHECK(cudaGraphExecKernelNodeSetParams(p.exec, p.node, &params));
}

static void update(const place &p)
{
    cudaGraphExecUpdateResultInfo info;
    CHECK(cudaGraphExecUpdate(p.exec, p.graph, &info));
}

static void retain(const place &)
{
    CUcontext context;
    auto retain =
        (__typeof__(cuDevicePrimaryCtxRetain) *)driver_function("cuDevicePrimaryCtxRetain");
    auto release =
        (__typeof__(cuDevicePrimaryCtxRelease) *)driver_function("cuDevicePrimaryCtxRelease");
    CHECK((cudaError_t)retain(&context, 0));
    CHECK((cudaError_t)release(0));
}

/* Everything that is made here stays until the process ends. */
static const struct call {
    const char *name;
    void (*make)(const place &p);
    void (*before)(const place &p) = NULL; /* by the third thread */
} calls[] = {
    {"cudaLaunchKernel", launch},
    {"cudaGraphLaunch", launch_graph},
    {"cudaEventRecord", record},
    {"cudaEventQuery", [](const place &p) { answered(cudaEventQuery(p.event)); }},
    {"cudaStreamQuery", [](const place &p) { answered(cudaStreamQuery(p.stream)); }},
    {"cudaStreamSynchronize", [](const place &p) { CHECK(cudaStreamSynchronize(p.stream)); }},
    {"cudaMemcpyAsync",
     [](const place &p) {
         CHECK(cudaMemcpyAsync(p.data, &p.host, 4, cudaMemcpyHostToDevice, p.stream));
     }},
    {"cudaEventCreate",
     [](const place &) {
         cudaEvent_t event;
         CHECK(cudaEventCreate(&event));
     }},
    {"cudaStreamCreate",
     [](const place &) {
         cudaStream_t stream;
         CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
     }},
    {"cudaMalloc", allocate},
    {"cudaMallocHost",
     [](const place &) {
         void *memory;
         CHECK(cudaMallocHost(&memory, 1 << 20));
     }},
    {"cudaMallocAsync",
     [](const place &p) {
         void *memory;
         CHECK(cudaMallocAsync(&memory, 1 << 20, p.stream));
     }},
    {"cudaFreeAsync",
     [](const place &p) { CHECK(cudaFreeAsync(p.memory[p.memory_next++], p.stream)); }},
    {"cudaMemsetAsync", [](const place &p) { CHECK(cudaMemsetAsync(p.data, 0, 4, p.stream)); }},
    {"cudaLaunchHostFunc",
     [](const place &p) {
         CHECK(cudaLaunchHostFunc(
             p.stream, [](void *) {}, NULL));
     }},
    {"cudaStreamWaitEvent",
     [](const place &p) { CHECK(cudaStreamWaitEvent(p.stream, p.event, 0)); }},
    {"cudaEventSynchronize", [](const place &p) { CHECK(cudaEventSynchronize(p.event)); }},
    {"cudaStreamIsCapturing",
     [](const place &p) {
         cudaStreamCaptureStatus status;
         CHECK(cudaStreamIsCapturing(p.stream, &status));
     }},
    {"cudaThreadExchangeStreamCaptureMode",
     [](const place &) {
         cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
         CHECK(cudaThreadExchangeStreamCaptureMode(&mode));
         CHECK(cudaThreadExchangeStreamCaptureMode(&mode));
     }},
    {"cudaPointerGetAttributes",
     [](const place &p) {
         cudaPointerAttributes attributes;
         CHECK(cudaPointerGetAttributes(&attributes, p.data));
     }},
    {"cuDevicePrimaryCtxRetain", retain},
    {"cudaGraphCreate",
     [](const place &) {
         cudaGraph_t graph;
         CHECK(cudaGraphCreate(&graph, 0));
     }},
    {"cudaGraphInstantiate", instantiate},
    {"cudaGraphExecKernelNodeSetParams", set_params},
    {"cudaGraphExecUpdate", update},
    {"cudaGraphUpload", [](const place &p) { CHECK(cudaGraphUpload(p.exec, p.stream)); }},
    {"cudaGraphExecDestroy",
     [](const place &p) { CHECK(cudaGraphExecDestroy(p.execs[p.exec_next++])); }},
    {"cudaEventDestroy", [](const place &p) { CHECK(cudaEventDestroy(p.events[p.event_next++])); }},
    {"cudaStreamDestroy",
     [](const place &p) { CHECK(cudaStreamDestroy(p.streams[p.stream_next++])); }},
    {"cudaMalloc+cudaLaunchKernel", launch, allocate},
    {"cudaGraphInstantiate+cudaLaunchKernel", launch, instantiate},
    {"cudaGraphInstantiate+cudaGraphLaunch", launch_graph, instantiate},
};

static void use(const place &p)
{
    auto set = (__typeof__(cuCtxSetCurrent) *)driver_function("cuCtxSetCurrent");
    CHECK((cudaError_t)set(p.context));
}

/* The calling thread has its context from now on. */
static void prepare(place &p)
{
    use(p);
    CHECK(cudaStreamCreateWithFlags(&p.stream, cudaStreamNonBlocking));
    CHECK(cudaEventCreate(&p.event));
    p.data = device_array<unsigned>(1);
    launch(p);
    CHECK(cudaStreamBeginCapture(p.stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < NODES; i++)
        launch(p);
    CHECK(cudaStreamEndCapture(p.stream, &p.graph));
    CHECK(cudaGraphInstantiate(&p.exec, p.graph, 0));
    size_t nodes = 1;
    CHECK(cudaGraphGetNodes(p.graph, &p.node, &nodes));
    for (int i = 0; i < USES; i++) {
        CHECK(cudaEventCreate(&p.events[i]));
        CHECK(cudaStreamCreateWithFlags(&p.streams[i], cudaStreamNonBlocking));
        CHECK(cudaGraphInstantiate(&p.execs[i], p.graph, 0));
        CHECK(cudaMallocAsync(&p.memory[i], 4, p.stream));
    }
    for (const call &call : calls)
        call.make(p); /* the first time takes longer, and may wait for more */
    CHECK(cudaStreamSynchronize(p.stream));
}

static int patience_ms = 1000, settled_ms = 50;

static void sleep_ms(int ms)
{
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}

static std::atomic<bool> released, over;
static std::atomic<int> entries;

static void until_released(void *)
{
    while (!released)
        sleep_ms(1);
}

static void fill(const place &p, void (*entry)(const place &p))
{
    use(p);
    CHECK(cudaLaunchHostFunc(p.stream, until_released, NULL));
    while (!over && entries < MOST) {
        entry(p);
        entries++;
    }
}

static void measure(const char *what, const place &filled, void (*entry)(const place &p),
                    const place &p, const call &call)
{
    std::atomic<bool> back(false);
    double took = 0;
    released = over = false;
    entries = 0;
    std::thread filler(fill, std::cref(filled), entry);
    for (int seen = -1; seen != entries || seen == 0;) { /* 0: it has not begun */
        seen = entries;
        sleep_ms(settled_ms);
    }
    over = true;
    int taken = entries;
    std::thread first([&] {
        use(p);
        if (call.before)
            call.before(p);
    });
    sleep_ms(settled_ms);
    std::thread caller([&] {
        use(p);
        double start = now_us();
        call.make(p);
        took = now_us() - start;
        back = true;
    });
    for (int ms = 0; ms < patience_ms && !back; ms++)
        sleep_ms(1);
    bool waits = !back;
    released = true;
    first.join();
    caller.join();
    filler.join();
    CHECK(cudaStreamSynchronize(filled.stream));
    CHECK(cudaStreamSynchronize(p.stream));
    printf("%s %s %s %d%s ", what, p.name, call.name, taken, taken == MOST ? "+" : "");
    printf(waits ? "waits\n" : "%.1f\n", took);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        patience_ms = atoi(argv[1]);
        settled_ms = patience_ms / 20 + 1;
    }
    static place filled, same, other;
    auto current = (__typeof__(cuCtxGetCurrent) *)driver_function("cuCtxGetCurrent");
    auto create = (__typeof__(cuCtxCreate) *)driver_function("cuCtxCreate");
    same.name = "same";
    other.name = "other";
    CHECK(cudaFree(NULL));
    CHECK((cudaError_t)current(&filled.context));
    same.context = filled.context;
#if CUDA_VERSION >= 13000
    CHECK((cudaError_t)create(&other.context, NULL, 0, 0));
#else
    CHECK((cudaError_t)create(&other.context, 0, 0));
#endif
    prepare(other);
    prepare(same);
    prepare(filled);
    for (const place *p : {&same, &other})
        for (const call &call : calls) {
            measure("kernels", filled, launch, *p, call);
            measure("graphs", filled, launch_graph, *p, call);
        }
    return 0;
}
