/* SPDX-License-Identifier: MIT */
/*
 * newer.c SCENARIO: what drivers after CUDA 12.4 take, by numbers and names that headers may lack.
 *   preferred nvlink cluster shared   launches with such an attribute, in a loop
 *   limit                             and one that leaves it to the function, whose limit changes
 *   modes                             with all of them in turn, in another order
 *   graphics                          some steps of a loop are captured for a graphics interface
 *   functions                         calls of new functions between the launches of a loop
 * Prints what the calls return, and what the memory is in the end.
 */
#include "newer.h"
#include "sim_test.h"

#include <stdbool.h>

enum { N = 64, STEPS = 80 };
enum { PREFERRED = 11, NVLINK = 16, CLUSTER_MODE = 17, SHARED_MODE = 18, ANY = 2 };

static CUstream stream;
static CUdeviceptr buffer;

static void show(void)
{
    uint32_t host[N], sum = 0;
    OK(cuMemcpyDtoH(host, buffer, sizeof host));
    for (unsigned i = 0; i < N; i++)
        sum = sum * 31 + host[i];
    printf("%08x\n", sum);
}

/* -- Attributes -- */

static CUlaunchAttribute words(unsigned id, unsigned x, unsigned y, unsigned z)
{
    CUlaunchAttribute attr = {.id = (CUlaunchAttributeID)id};
    const unsigned value[] = {x, y, z};
    memcpy(&attr.value, value, sizeof value);
    return attr;
}

static CUresult launch(unsigned grid, unsigned shared, CUlaunchAttribute *attrs, unsigned count,
                       uint32_t k)
{
    uint32_t n = N;
    void *args[] = {&buffer, &n, &k};
    CUlaunchConfig config = one_block(N, attrs, count, stream);
    config.gridDimX = grid;
    config.sharedMemBytes = shared;
    return cuLaunchKernelEx(&config, mix, args, NULL);
}

static CUresult preferred(uint32_t k)
{
    CUlaunchAttribute attrs[] = {words(PREFERRED, 4, 1, 1),
                                 words(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, 2, 1, 1)};
    return launch(4, 0, attrs, 2, k);
}

static CUresult nvlink(uint32_t k)
{
    CUlaunchAttribute attr = words(NVLINK, k % 2, 0, 0);
    return launch(1, 0, &attr, 1, k / 2);
}

static CUresult cluster(uint32_t k)
{
    CUlaunchAttribute attrs[] = {words(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, 16, 1, 1),
                                 words(CLUSTER_MODE, ANY, 0, 0)};
    return launch(16, 0, attrs, 2, k);
}

static CUresult shared(uint32_t k)
{
    CUlaunchAttribute attr = words(SHARED_MODE, ANY, 0, 0);
    return launch(1, 100000, &attr, 1, k);
}

/* As the function's limit says, which is lowered once. */
static CUresult limit(uint32_t k)
{
    CUlaunchAttribute attr = words(SHARED_MODE, 0, 0, 0);
    if (k == 0 || k == STEPS / 2)
        OK(cuFuncSetAttribute(mix, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                              k == 0 ? 100000 : 49152));
    return launch(1, 100000, &attr, 1, k);
}

static void loop(CUresult (*const *calls)(uint32_t), unsigned count)
{
    unsigned refused = 0;
    for (uint32_t i = 0; i < STEPS; i++) {
        OK(launch_mix(buffer, N, i, stream));
        OK(launch_mix(buffer, N, 5, stream));
        for (unsigned c = 0; c < count; c++)
            refused += calls[c](i) != CUDA_SUCCESS;
        OK(launch_mix(buffer, N, 3, stream));
        OK(launch_mix(buffer, N, i + 1, stream));
        OK(cuStreamSynchronize(stream));
    }
    printf("refused %u\n", refused);
}

/* -- Functions -- */

static void graphics(void)
{
#if CUDA_VERSION >= 13000
    CUctxCigParam cig = {.sharedDataType = CIG_DATA_TYPE_NV_BLOB};
    CUctxCreateParams params = {.cigParams = &cig};
    int command_list;
    CUcontext other;
    OK(cuCtxCreate_v4(&other, &params, 0, dev));
    OK(cuModuleLoadData(&mod, agsim_kernels_ptx));
    OK(cuModuleGetFunction(&mix, mod, "ag_mix"));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&buffer, 4 * N));
    OK(cuMemsetD32(buffer, 1, N));
    OK(cuCtxSynchronize());
    EXPECT(CUDA_ERROR_ILLEGAL_STATE, cuStreamEndCaptureToCig(stream));
    for (uint32_t i = 0; i < STEPS; i++) {
        bool captured = i > STEPS / 2 && i % 5 == 0;
        for (uint32_t k = 0; k < 6; k++) {
            if (captured && k == 3)
                OK(cuStreamBeginCaptureToCig(stream, (void *)&command_list));
            OK(launch_mix(buffer, N, k, stream));
        }
        if (captured)
            OK(cuStreamEndCaptureToCig(stream));
        OK(cuStreamSynchronize(stream));
    }
#endif
}

static void host_function(void *data)
{
    ++*(unsigned *)data;
}

static void functions(void)
{
    unsigned called = 0, id = 0;
    size_t count = 0;
    uint64_t attributes[4] = {0};
    CUdeviceptr from;
    OK(cuMemAlloc(&from, 4 * N));
    for (uint32_t i = 0; i < STEPS; i++) {
        for (uint32_t k = 0; k < 6; k++)
            OK(launch_mix(buffer, N, k + i, stream));
        OK(cuMemcpyWithAttributesAsync(from, buffer, 4 * N, (void *)attributes, stream));
        OK(launch_mix(from, N, i, stream));
        OK(cuMemcpyWithAttributesAsync(buffer, from, 4 * N, (void *)attributes, stream));
        OK(cuFuncGetParamCount(mix, &count));
        OK(cuLaunchHostFunc_v2(stream, host_function, &called, i % 2));
        (void)cuGraphGetId(NULL, &id);
        OK(cuStreamSynchronize(stream));
        CHECK(called == i + 1 && count == 3);
    }
}

int main(int argc, char **argv)
{
    static CUresult (*const all[])(uint32_t) = {preferred, nvlink, cluster, shared, limit};
    static const char *const names[] = {"preferred", "nvlink", "cluster", "shared", "limit"};
    CHECK(argc == 2);
    start();
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&buffer, 4 * N));
    OK(cuMemsetD32(buffer, 1, N));
    OK(cuCtxSynchronize());
    for (unsigned i = 0; i < 5; i++)
        if (strcmp(argv[1], names[i]) == 0)
            loop(&all[i], 1);
    if (strcmp(argv[1], "modes") == 0)
        loop(all, 4);
    if (strcmp(argv[1], "graphics") == 0)
        graphics();
    if (strcmp(argv[1], "functions") == 0)
        functions();
    show();
    return 0;
}
