/* SPDX-License-Identifier: MIT */
/* refused.c SCENARIO: a loop is replayed; then one of its calls is made with arguments for which
 * the driver refuses it, which the library has to leave to the driver. Prints what that call, the
 * waits and the memory say. */
#include <stdbool.h>

#include "sim_test.h"

enum { N = 64, STEPS = 60, BAD_STEPS = 4 };

static CUstream s, beside;
static CUdeviceptr a, b;
static CUevent event, foreign, dead;

static void show(const char *what, CUdeviceptr at, unsigned words)
{
    uint32_t host[N], sum = 0;
    OK(cuMemcpyDtoH(host, at, 4 * words));
    for (unsigned i = 0; i < words; i++)
        sum = sum * 31 + host[i];
    printf("%s %08x\n", what, sum);
}

/* -- Memsets -- */

static CUresult memset32(bool bad)
{
    return cuMemsetD32Async(b + (bad ? 2 : 0), 7, 8, s);
}

static CUresult memset16(bool bad)
{
    return cuMemsetD16Async(b + (bad ? 1 : 0), 7, 8, s);
}

/* -- Copies -- */

static CUDA_MEMCPY3D row(void)
{
    return (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                           .srcDevice = a,
                           .srcPitch = 128,
                           .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = b,
                           .dstPitch = 128,
                           .WidthInBytes = 64,
                           .Height = 1,
                           .Depth = 1};
}

static CUresult pitch3d(bool bad)
{
    CUDA_MEMCPY3D copy = row();
    copy.srcPitch = bad ? 32 : 128;
    return cuMemcpy3DAsync(&copy, s);
}

static CUresult type3d(bool bad)
{
    CUDA_MEMCPY3D copy = row();
    copy.srcMemoryType = bad ? (CUmemorytype)9 : CU_MEMORYTYPE_DEVICE;
    return cuMemcpy3DAsync(&copy, s);
}

static CUresult copy2d(size_t pitch, CUmemorytype type)
{
    const CUDA_MEMCPY2D copy = {.srcMemoryType = type,
                                .srcDevice = a,
                                .srcPitch = 128,
                                .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                .dstDevice = b,
                                .dstPitch = pitch,
                                .WidthInBytes = 64,
                                .Height = 1};
    return cuMemcpy2DAsync(&copy, s);
}

static CUresult pitch2d(bool bad)
{
    return copy2d(bad ? 32 : 128, CU_MEMORYTYPE_DEVICE);
}

static CUresult type2d(bool bad)
{
    return copy2d(128, bad ? (CUmemorytype)0 : CU_MEMORYTYPE_DEVICE);
}

/* Rows without a pitch lie close together; the memory becomes smaller at the same address. */
static CUresult packed(bool bad)
{
    static CUdeviceptr to, neighbour;
    if (to == 0)
        OK(cuMemAlloc(&to, 1024));
    if (bad && neighbour == 0) {
        CUdeviceptr before = to;
        OK(cuMemFree(to));
        OK(cuMemAlloc(&to, 100));
        OK(cuMemAlloc(&neighbour, 100));
        OK(cuMemsetD8(neighbour, 0x55, 100));
        printf("%s\n", to == before ? "same address" : "another address");
    }
    const CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                                .srcDevice = a,
                                .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                .dstDevice = to,
                                .WidthInBytes = 64,
                                .Height = 16};
    CUresult result = cuMemcpy2DAsync(&copy, s);
    if (bad)
        show("neighbour", neighbour, 25);
    return result;
}

/* -- Kernels -- */

static CUresult both_arguments(bool bad)
{
    struct {
        CUdeviceptr at;
        uint32_t n, k;
    } buffer = {b, N, 5};
    size_t size = sizeof buffer;
    void *args[] = {&buffer.at, &buffer.n, &buffer.k};
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    return cuLaunchKernel(mix, 1, 1, 1, N, 1, 1, 0, s, args, bad ? extra : NULL);
}

/* The kernel has none. */
static CUresult needless_arguments(bool bad)
{
    uint64_t words[2] = {0};
    size_t size = sizeof words;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, words, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    return cuLaunchKernel(nop, 1, 1, 1, 1, 1, 1, 0, s, NULL, bad ? extra : NULL);
}

static CUresult no_attributes(bool bad)
{
    uint32_t n = N, k = 5;
    void *args[] = {&b, &n, &k};
    CUlaunchConfig config = one_block(N, NULL, bad, s);
    return cuLaunchKernelEx(&config, mix, args, NULL);
}

/* -- Events -- */

static CUresult event_elsewhere(bool bad)
{
    return cuEventRecord(bad ? foreign : event, s);
}

static CUresult event_gone(bool bad)
{
    return cuEventRecord(bad ? dead : event, s);
}

static CUresult wait_gone(bool bad)
{
    static bool tried;
    if (!tried)
        printf("record %d\n", cuEventRecord(dead, s));
    tried = true;
    OK(cuEventRecord(event, beside));
    return cuStreamWaitEvent(s, bad ? dead : event, 0);
}

static void prepare(void)
{
    CUcontext other, popped;
    start();
    OK(create_context(&other));
    OK(cuEventCreate(&foreign, 0));
    OK(cuCtxPopCurrent(&popped));
    OK(cuCtxSetCurrent(ctx));
    OK(cuEventCreate(&event, 0));
    OK(cuEventCreate(&dead, 0));
    OK(cuEventDestroy(dead));
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&beside, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&a, 1024));
    OK(cuMemAlloc(&b, 1024));
    OK(cuMemsetD32(a, 1, 256));
    OK(cuMemsetD32(b, 2, 256));
    OK(cuCtxSynchronize());
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        CUresult (*op)(bool bad);
    } all[] = {{"memset32", memset32},
               {"memset16", memset16},
               {"pitch2d", pitch2d},
               {"pitch3d", pitch3d},
               {"type2d", type2d},
               {"type3d", type3d},
               {"packed", packed},
               {"both_arguments", both_arguments},
               {"needless_arguments", needless_arguments},
               {"no_attributes", no_attributes},
               {"event_elsewhere", event_elsewhere},
               {"event_gone", event_gone},
               {"wait_gone", wait_gone}};
    unsigned i = 0;
    CHECK(argc == 2);
    while (i < sizeof all / sizeof all[0] && strcmp(all[i].name, argv[1]))
        i++;
    CHECK(i < sizeof all / sizeof all[0]);
    alarm(100);
    prepare();
    for (uint32_t step = 0; step < STEPS + BAD_STEPS; step++) {
        bool bad = step >= STEPS;
        OK(launch_mix(a, N, step, s));
        OK(launch_mix(a, N, 1, s));
        CUresult result = all[i].op(bad);
        OK(launch_mix(a, N, 2, s));
        CUresult waited = cuStreamSynchronize(s);
        if (bad)
            printf("call %d, wait %d\n", result, waited);
        else
            CHECK(result == CUDA_SUCCESS && waited == CUDA_SUCCESS);
    }
    OK(cuCtxSynchronize());
    show("a", a, N);
    show("b", b, N);
    return 0;
}
