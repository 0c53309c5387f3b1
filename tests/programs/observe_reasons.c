/* SPDX-License-Identifier: MIT */
/* observe_reasons.c NAME: a loop of kernels and of one call that the library does not hold. */
#include "autograph.h"
#include "sim_test.h"

enum { N = 32, ROUNDS = 60, BYTES = 4096 };

static CUstream stream, other_stream;
static CUdeviceptr buffer, other, managed;
static CUcontext second;
static char pageable[BYTES];
static void *pinned;

/* The calls; `round` makes each another one. */

static void nothing_to_set(uint32_t round)
{
    OK(cuMemsetD32Async(buffer, round, 0, stream));
}

static void nothing_to_copy(uint32_t round)
{
    (void)round;
    OK(cuMemcpyDtoDAsync(other, buffer, 0, stream));
}

static void managed_memset(uint32_t round)
{
    OK(launch_mix(other, N, round, NULL));
    OK(cuMemsetD32(managed, round, 16));
}

static void managed_copy(uint32_t round)
{
    OK(cuMemcpyDtoDAsync(buffer, managed + round % 2, 16, stream));
}

static void managed_word(uint32_t round)
{
    (void)cuStreamWriteValue32(stream, managed, round, 0); /* which is refused */
}

static void large_upload(uint32_t round)
{
    pageable[0] = (char)round;
    OK(cuMemcpyHtoDAsync(other, pageable, BYTES, stream));
}

static CUDA_MEMCPY2D rows(void)
{
    return (CUDA_MEMCPY2D){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                           .srcDevice = buffer,
                           .srcPitch = 32,
                           .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = other,
                           .dstPitch = 32,
                           .WidthInBytes = 8,
                           .Height = 4};
}

static void upload_of_rows(uint32_t round)
{
    CUDA_MEMCPY2D copy = rows();
    (void)round;
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = pageable;
    OK(cuMemcpy2DAsync(&copy, stream));
}

static void rows_to_host(uint32_t round)
{
    CUDA_MEMCPY2D copy = rows();
    (void)round;
    copy.dstMemoryType = CU_MEMORYTYPE_HOST;
    copy.dstHost = pinned;
    OK(cuMemcpy2DAsync(&copy, stream));
}

static void odd_pitch(uint32_t round)
{
    CUDA_MEMCPY2D copy = rows();
    (void)round;
    copy.Height = 1;
    copy.srcPitch = (size_t)1 << 31;
    (void)cuMemcpy2DAsync(&copy, stream);
}

static void blocking_copy(uint32_t round)
{
    OK(launch_mix(other, N, round, NULL));
    OK(cuMemcpy(buffer, (CUdeviceptr)pinned, 16));
}

static void launch_with(CUlaunchAttribute *attrs, unsigned count, uint32_t round)
{
    uint32_t n = N;
    void *args[] = {&buffer, &n, &round};
    CUlaunchConfig config = {.gridDimX = 1,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = N,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .hStream = stream,
                             .attrs = attrs,
                             .numAttrs = count};
    OK(cuLaunchKernelEx(&config, mix, args, NULL));
}

static void many_attributes(uint32_t round)
{
    CUlaunchAttribute attrs[9];
    memset(attrs, 0, sizeof attrs);
    for (unsigned i = 0; i < 9; i++)
        attrs[i].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    launch_with(attrs, 9, round);
}

static void half_a_buffer(uint32_t round)
{
    struct {
        CUdeviceptr to;
        uint32_t n, k, more;
    } arguments = {buffer, N, round, 0};
    size_t size = sizeof arguments;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &arguments, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    (void)cuLaunchKernel(mix, 1, 1, 1, N, 1, 1, 0, stream, NULL, extra);
}

static void wait_for_other_context(uint32_t round)
{
    static CUevent event;
    (void)round;
    if (event == NULL) {
        OK(cuCtxSetCurrent(second));
        OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
        OK(cuEventRecord(event, other_stream));
        OK(cuCtxSetCurrent(ctx));
    }
    OK(cuStreamWaitEvent(stream, event, 0));
}

static void strange_context(uint32_t round)
{
    OK(cuCtxSetCurrent(second));
    OK(cuMemsetD32Async(buffer, round, 4, stream));
    OK(cuCtxSetCurrent(ctx));
}

static void while_paused(uint32_t round)
{
    autograph_pause();
    OK(launch_mix(buffer, N, round, stream));
    autograph_resume();
}

/* A loop that is replayed, and is left for another op now and then: what is held goes out. */
static void side_exits(uint32_t round)
{
    if (round % 8 == 7)
        OK(cuMemsetD32Async(other, round, 4 + round, stream));
}

static const struct {
    const char *name;
    void (*call)(uint32_t round);
} calls[] = {{"nothing_to_set", nothing_to_set},
             {"nothing_to_copy", nothing_to_copy},
             {"managed_memset", managed_memset},
             {"managed_copy", managed_copy},
             {"managed_word", managed_word},
             {"large_upload", large_upload},
             {"upload_of_rows", upload_of_rows},
             {"rows_to_host", rows_to_host},
             {"odd_pitch", odd_pitch},
             {"blocking_copy", blocking_copy},
             {"many_attributes", many_attributes},
             {"half_a_buffer", half_a_buffer},
             {"wait_for_other_context", wait_for_other_context},
             {"strange_context", strange_context},
             {"while_paused", while_paused},
             {"side_exits", side_exits}};

static void prepare(void)
{
    start();
    OK(cuMemAlloc(&buffer, BYTES));
    OK(cuMemAlloc(&other, BYTES));
    OK(cuMemAllocManaged(&managed, BYTES, CU_MEM_ATTACH_GLOBAL));
    OK(cuMemAllocHost(&pinned, BYTES));
    OK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    OK(create_context(&second));
    OK(cuStreamCreate(&other_stream, CU_STREAM_NON_BLOCKING));
    OK(cuCtxSetCurrent(ctx));
    OK(cuMemsetD32(buffer, 0, BYTES / 4));
    OK(cuMemsetD32(other, 0, BYTES / 4));
    OK(cuCtxSynchronize());
}

int main(int argc, char **argv)
{
    unsigned which = 0;
    CHECK(argc == 2);
    while (which < sizeof calls / sizeof calls[0] && strcmp(calls[which].name, argv[1]) != 0)
        which++;
    CHECK(which < sizeof calls / sizeof calls[0]);
    prepare();
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (uint32_t i = 0; i < 3; i++)
            OK(launch_mix(buffer, N, i, stream));
        calls[which].call(round);
        OK(launch_mix(buffer, N, 3, stream));
        OK(cuStreamSynchronize(stream));
    }
    puts("done");
    return 0;
}
