/* SPDX-License-Identifier: MIT */
/*
 * No loop to measure: asserts what the CUDA runtime does, so that the simulated
 * one can be compared with the real one. Prints a line for each check that
 * fails, and ends with status 1 if any did.
 */
#include <string.h>
#include <thread>

#include "sample.h"

KERNEL(mix, unsigned *data, unsigned size, unsigned k)
{
    unsigned i = INDEX();
    if (i < size)
        data[i] = data[i] * 1664525u + k;
}

/* Never launched with success. */
KERNEL(other, unsigned *data)
{
    data[0] = 0;
}

struct big {
    unsigned values[100];
};

KERNEL(sum, unsigned *to, struct big b)
{
    unsigned total = 0;
    for (unsigned i = 0; i < 100; i++)
        total = total * 31u + b.values[i];
    *to = total;
}

static int failures;

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                         \
            failures++;                                                                            \
        }                                                                                          \
    } while (0)

#define SIZE 64
static unsigned *data;

static unsigned mixed(unsigned value, unsigned k)
{
    return value * 1664525u + k;
}

static void reset(unsigned value)
{
    std::vector<unsigned> host(SIZE, value);
    CHECK(cudaMemcpy(data, host.data(), SIZE * sizeof(unsigned), cudaMemcpyHostToDevice));
    CHECK(cudaDeviceSynchronize());
}

/* The first element, after all work. */
static unsigned first(void)
{
    unsigned value;
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(&value, data, sizeof(value), cudaMemcpyDeviceToHost));
    return value;
}

static void test_errors(void)
{
    EXPECT(cudaGetLastError() == cudaSuccess);
    void *pointer;
    EXPECT(cudaMemcpy(data, data, 4, (enum cudaMemcpyKind)9) == cudaErrorInvalidMemcpyDirection);
    EXPECT(cudaPeekAtLastError() == cudaErrorInvalidMemcpyDirection);
    std::thread([] { EXPECT(cudaGetLastError() == cudaSuccess); }).join();
    EXPECT(cudaGetLastError() == cudaErrorInvalidMemcpyDirection);
    EXPECT(cudaGetLastError() == cudaSuccess);

    LAUNCH(mix, 0, BLOCK, 0, 0, data, SIZE, 1);
    EXPECT(cudaGetLastError() == cudaErrorInvalidValue);
    LAUNCH(mix, 1, 2048, 0, 0, data, SIZE, 1);
    EXPECT(cudaGetLastError() == cudaErrorInvalidValue);
    LAUNCH(other, 1, 1, 1 << 20, 0, data);
    EXPECT(cudaGetLastError() == cudaErrorInvalidValue);
    static int no_kernel;
    EXPECT(cudaLaunchKernel(&no_kernel, dim3(1), dim3(1), NULL, 0, 0) ==
           cudaErrorInvalidResourceHandle);
    EXPECT(cudaGetLastError() == cudaErrorInvalidResourceHandle);

    int count;
    CHECK(cudaGetDeviceCount(&count));
    EXPECT(cudaSetDevice(count) == cudaErrorInvalidDevice);
    EXPECT(cudaGetLastError() == cudaErrorInvalidDevice);
    EXPECT(cudaMalloc(&pointer, 0) == cudaSuccess && pointer == NULL);
    EXPECT(cudaFree(NULL) == cudaSuccess && cudaFreeHost(NULL) == cudaSuccess);
    EXPECT(strcmp(cudaGetErrorName(cudaErrorNotReady), "cudaErrorNotReady") == 0);
    EXPECT(cudaGetLastError() == cudaSuccess);
}

static void test_launches(void)
{
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    unsigned size = SIZE, k = 5, expected = 7;
    void *arguments[] = {&data, &size, &k};
    reset(expected);

    CHECK(cudaLaunchKernel((const void *)mix, dim3(1), dim3(SIZE), arguments, 0, stream));
    k = 6; /* arguments are those at the moment of the call */
    expected = mixed(expected, 5);

    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(1);
    config.blockDim = dim3(SIZE);
    config.stream = stream;
    CHECK(cudaLaunchKernelExC(&config, (const void *)mix, arguments));
    expected = mixed(expected, 6);

    CHECK(
        cudaLaunchCooperativeKernel((const void *)mix, dim3(1), dim3(SIZE), arguments, 0, stream));
    expected = mixed(expected, 6);

    /* A kernel's handle stands for its host function. */
    cudaKernel_t kernel;
    CHECK(cudaGetKernel(&kernel, (const void *)mix));
    CHECK(cudaLaunchKernel((const void *)kernel, dim3(1), dim3(SIZE), arguments, 0, stream));
    expected = mixed(expected, 6);
    cudaFunction_t function;
    CHECK(cudaGetFuncBySymbol(&function, (const void *)mix));
    EXPECT((void *)function != (void *)kernel);

    CHECK(cudaStreamSynchronize(stream));
    EXPECT(cudaStreamQuery(stream) == cudaSuccess);
    EXPECT(first() == expected);

    struct big b;
    expected = 0;
    for (unsigned i = 0; i < 100; i++)
        expected = expected * 31u + (b.values[i] = i * i);
    LAUNCH(sum, 1, 1, 0, stream, data, b);
    CHECK(cudaGetLastError());
    EXPECT(first() == expected);

    struct cudaFuncAttributes attributes;
    CHECK(cudaFuncGetAttributes(&attributes, (const void *)sum));
    EXPECT(attributes.maxThreadsPerBlock >= 1 && attributes.maxThreadsPerBlock <= 1024);
    CHECK(cudaFuncSetAttribute((const void *)sum, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               56 * 1024));
    CHECK(cudaFuncGetAttributes(&attributes, (const void *)sum));
    EXPECT(attributes.maxDynamicSharedSizeBytes == 56 * 1024);
    LAUNCH(sum, 1, 1, 56 * 1024, stream, data, b);
    EXPECT(cudaGetLastError() == cudaSuccess);
    EXPECT(first() == expected);
    CHECK(cudaStreamDestroy(stream));
}

static void add_host_value(void *value)
{
    ++*(unsigned *)value;
}

static void test_memory(void)
{
    unsigned *host, *device, host_value = 0;
    unsigned plain[4] = {1, 2, 3, 4};
    CHECK(cudaHostAlloc((void **)&host, SIZE * sizeof(*host), cudaHostAllocMapped));
    CHECK(cudaHostGetDevicePointer((void **)&device, host, 0));
    struct cudaPointerAttributes attributes;
    CHECK(cudaPointerGetAttributes(&attributes, host));
    EXPECT(attributes.type == cudaMemoryTypeHost && attributes.hostPointer == host);
    CHECK(cudaPointerGetAttributes(&attributes, data));
    EXPECT(attributes.type == cudaMemoryTypeDevice && attributes.devicePointer == data);
    CHECK(cudaPointerGetAttributes(&attributes, plain));
    EXPECT(attributes.type == cudaMemoryTypeUnregistered);

    CHECK(cudaMemsetAsync(data, 0xab, SIZE * sizeof(*data), 0));
    EXPECT(first() == 0xababababu);
    /* Two rows of two words, to every second word. */
    CHECK(cudaMemcpy2D(data, 16, plain, 8, 4, 2, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpyAsync(host, data, 24, cudaMemcpyDefault, 0));
    CHECK(cudaLaunchHostFunc(0, add_host_value, &host_value));
    CHECK(cudaStreamSynchronize(0));
    EXPECT(host[0] == 1 && host[1] == 0xababababu && host[4] == 3 && host[5] == 0xababababu);
    EXPECT(host_value == 1);

    unsigned *from_pool;
    CHECK(cudaMallocAsync((void **)&from_pool, 256, 0));
    CHECK(cudaMemsetAsync(from_pool, 1, 256, 0));
    CHECK(cudaMemcpyAsync(data, from_pool, 256, cudaMemcpyDeviceToDevice, 0));
    CHECK(cudaFreeAsync(from_pool, 0));
    EXPECT(first() == 0x01010101u);

    LAUNCH(sum, 1, 1, 0, 0, device, big());
    CHECK(cudaStreamSynchronize(0));
    EXPECT(host[0] == 0);
    CHECK(cudaFreeHost(host));
}

static void test_events(void)
{
    cudaStream_t stream;
    cudaEvent_t start, end;
    float ms = -1;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&end));
    EXPECT(cudaEventElapsedTime(&ms, start, end) == cudaErrorInvalidResourceHandle);
    EXPECT(cudaGetLastError() == cudaErrorInvalidResourceHandle);
    CHECK(cudaEventRecord(start, stream));
    LAUNCH(mix, 1, SIZE, 0, stream, data, SIZE, 1);
    CHECK(cudaEventRecord(end, stream));
    CHECK(cudaEventSynchronize(end));
    CHECK(cudaEventElapsedTime(&ms, start, end));
    EXPECT(ms >= 0);
    EXPECT(cudaEventQuery(end) == cudaSuccess);
    CHECK(cudaEventDestroy(start));
    CHECK(cudaEventDestroy(end));
    CHECK(cudaStreamDestroy(stream));
}

/* memset to 0, then two kernels; the second one's argument is set in the exec. */
static void test_graph(void)
{
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaGraphNode_t nodes[3];
    CHECK(cudaStreamCreate(&stream));
    unsigned size = SIZE, k = 3;
    void *arguments[] = {&data, &size, &k};
    struct cudaMemsetParams clear = {};
    clear.dst = data;
    clear.elementSize = 4;
    clear.width = SIZE;
    clear.height = 1;
    cudaKernelNodeParams kernel = {};
    kernel.func = (void *)mix;
    kernel.gridDim = dim3(1);
    kernel.blockDim = dim3(SIZE);
    kernel.kernelParams = arguments;

    reset(99);
    CHECK(cudaGraphCreate(&graph, 0));
    CHECK(cudaGraphAddMemsetNode(&nodes[0], graph, NULL, 0, &clear));
    CHECK(cudaGraphAddKernelNode(&nodes[1], graph, &nodes[0], 1, &kernel));
    CHECK(cudaGraphAddKernelNode(&nodes[2], graph, &nodes[1], 1, &kernel));
    size_t count = 0;
    CHECK(cudaGraphGetNodes(graph, NULL, &count));
    EXPECT(count == 3);
    CHECK(cudaGraphGetRootNodes(graph, NULL, &count));
    EXPECT(count == 1);
    enum cudaGraphNodeType type;
    CHECK(cudaGraphNodeGetType(nodes[0], &type));
    EXPECT(type == cudaGraphNodeTypeMemset);
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphLaunch(exec, stream));
    EXPECT(first() == mixed(3, 3));

    k = 8;
    CHECK(cudaGraphExecKernelNodeSetParams(exec, nodes[2], &kernel));
    clear.value = 1;
    CHECK(cudaGraphExecMemsetNodeSetParams(exec, nodes[0], &clear));
    CHECK(cudaGraphLaunch(exec, stream));
    EXPECT(first() == mixed(mixed(1, 3), 8));

    /* The same graph by capture, and the exec updated from it as a whole. */
    cudaGraph_t captured;
    enum cudaStreamCaptureStatus status;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    CHECK(cudaMemsetAsync(data, 0, SIZE * sizeof(*data), stream));
    LAUNCH(mix, 1, SIZE, 0, stream, data, SIZE, 10);
    LAUNCH(mix, 1, SIZE, 0, stream, data, SIZE, 11);
    CHECK(cudaStreamIsCapturing(stream, &status));
    EXPECT(status == cudaStreamCaptureStatusActive);
    CHECK(cudaStreamEndCapture(stream, &captured));
    CHECK(cudaStreamIsCapturing(stream, &status));
    EXPECT(status == cudaStreamCaptureStatusNone);
    cudaGraphExec_t captured_exec;
    CHECK(cudaGraphInstantiate(&captured_exec, captured, 0));
    CHECK(cudaGraphLaunch(captured_exec, stream));
    EXPECT(first() == mixed(10, 11));

    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    EXPECT(cudaStreamSynchronize(stream) == cudaErrorStreamCaptureUnsupported);
    cudaGraph_t broken = graph;
    EXPECT(cudaStreamEndCapture(stream, &broken) == cudaErrorStreamCaptureInvalidated);
    EXPECT(broken == NULL);
    (void)cudaGetLastError();

    cudaGraphExecUpdateResultInfo info;
    CHECK(cudaGraphKernelNodeSetParams(nodes[1], &kernel));
    CHECK(cudaGraphExecUpdate(exec, graph, &info));
    EXPECT(info.result == cudaGraphExecUpdateSuccess);
    CHECK(cudaGraphExecDestroy(captured_exec));
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(captured));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(stream));
}

static void test_devices(void)
{
    int device = -1, threads = 0, runtime = 0, driver = 0;
    struct cudaDeviceProp properties;
    CHECK(cudaGetDevice(&device));
    EXPECT(device == 0);
    CHECK(cudaGetDeviceProperties(&properties, device));
    CHECK(cudaDeviceGetAttribute(&threads, cudaDevAttrMaxThreadsPerBlock, device));
    EXPECT(properties.maxThreadsPerBlock == threads && threads == 1024);
    CHECK(cudaRuntimeGetVersion(&runtime));
    CHECK(cudaDriverGetVersion(&driver));
    EXPECT(runtime >= 12000 && driver >= 12000);

    /* Everything is gone, and the next call begins anew, in any thread. */
    CHECK(cudaDeviceReset());
    EXPECT(cudaGetLastError() == cudaSuccess);
    data = device_array<unsigned>(SIZE);
    reset(1);
    LAUNCH(mix, 1, SIZE, 0, 0, data, SIZE, 4);
    CHECK(cudaGetLastError());
    EXPECT(first() == mixed(1, 4));
}

int main(void)
{
    data = device_array<unsigned>(SIZE);
    test_errors();
    test_launches();
    test_memory();
    test_events();
    test_graph();
    test_devices();
    printf("failures %d\n", failures);
    return failures != 0;
}
