/* SPDX-License-Identifier: MIT */
/* observe_reasons.c NAME: a loop of kernels, and a call for which ops are not held or are
 * given up.
 */
#include <signal.h>
#include <stdbool.h>

#include "autograph.h"
#include "sim_test.h"

enum { N = 32, ROUNDS = 60, BYTES = 4096 };

static CUstream stream, beside, other_stream;
static CUdeviceptr buffer, other, managed;
static CUcontext second;
static char pageable[BYTES];
static void *pinned;

/* -- Calls that are not held; `round` makes each another one -- */

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

static void launch_block(uint32_t n, unsigned shared)
{
    uint32_t k = 1;
    void *args[] = {&buffer, &n, &k};
    (void)cuLaunchKernel(mix, 1, 1, 1, n, 1, 1, shared, stream, args, NULL);
}

static void more_than_the_limit(uint32_t round)
{
    (void)round;
    launch_block(N, 1 << 20); /* which is refused */
}

static void too_many_threads(uint32_t round)
{
    (void)round;
    launch_block(2048, 0); /* which is refused */
}

static void other_block(uint32_t round)
{
    launch_block(round < ROUNDS / 2 ? N : N / 2, 0);
}

static void mipmap(uint32_t round)
{
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = buffer,
                          .srcLOD = 1,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = other,
                          .WidthInBytes = 8,
                          .Height = 1,
                          .Depth = 1};
    (void)round;
    (void)cuMemcpy3DAsync(&copy, stream);
}

static void small_upload(uint32_t round)
{
    pageable[0] = (char)round;
    OK(cuMemcpyHtoDAsync(other, pageable, 64, stream));
}

static void new_event(uint32_t round)
{
    CUevent event;
    (void)round;
    OK(cuEventCreate(&event, CU_EVENT_DEFAULT));
    OK(cuEventRecord(event, stream));
    OK(cuEventDestroy(event));
}

static void green_context(uint32_t round)
{
    static CUgreenCtx green;
    static CUcontext of_green;
    static CUstream there;
    static CUdeviceptr memory;
    if (green == NULL) {
        OK(cuGreenCtxCreate(&green, NULL, dev, CU_GREEN_CTX_DEFAULT_STREAM));
        OK(cuCtxFromGreenCtx(&of_green, green));
        OK(cuCtxSetCurrent(of_green));
        OK(cuStreamCreate(&there, CU_STREAM_NON_BLOCKING));
        OK(cuMemAlloc(&memory, BYTES));
    }
    OK(cuCtxSetCurrent(of_green));
    OK(cuMemsetD32Async(memory, round, 4, there));
    OK(cuCtxSetCurrent(ctx));
}

static void per_thread(uint32_t round)
{
    for (uint32_t i = 0; i < 4; i++)
        OK(launch_mix(other, N, round, CU_STREAM_PER_THREAD));
    OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
}

static void capture(bool launches)
{
    CUgraph graph;
    OK(cuStreamBeginCapture(beside, CU_STREAM_CAPTURE_MODE_RELAXED));
    if (launches)
        OK(launch_mix(buffer, N, 5, stream));
    OK(cuStreamEndCapture(beside, &graph));
    OK(cuGraphDestroy(graph));
}

static void beside_a_capture(uint32_t round)
{
    (void)round;
    capture(true);
}

static void before_a_capture(uint32_t round)
{
    (void)round;
    capture(false);
}

static void kernels_alone(uint32_t round)
{
    (void)round;
}

/* -- A loop that is replayed, and is left now and then: what is held goes out -- */

static bool now(uint32_t round)
{
    return round % 8 == 7;
}

static void side_exits(uint32_t round)
{
    if (now(round))
        OK(cuMemsetD32Async(other, round, 4 + round, stream));
}

static void for_a_function(void *nothing)
{
    (void)nothing;
}

static void host_function(uint32_t round)
{
    if (now(round))
        OK(cuLaunchHostFunc(stream, for_a_function, NULL));
}

static void waits(uint32_t round)
{
    if (now(round))
        OK(cuStreamSynchronize(stream));
}

static void frees(uint32_t round)
{
    CUdeviceptr memory;
    if (!now(round))
        return;
    OK(cuMemAlloc(&memory, BYTES));
    OK(cuMemFree(memory));
}

static void legacy(uint32_t round)
{
    if (now(round))
        OK(cuMemsetD32Async(other, round, 4, NULL));
}

/* Nothing but the watchdog submits what the host looks for. */
static void looks(uint32_t round)
{
    static volatile uint32_t *word;
    if (word == NULL)
        word = host_words(1);
    OK(launch_word(flag, word, round + 1, stream));
    while (now(round) && get_word(word) != round + 1)
        continue;
}

static void waited_for_elsewhere(uint32_t round)
{
    static CUevent event;
    if (event == NULL)
        OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cuEventRecord(event, stream));
    if (now(round))
        OK(cuStreamWaitEvent(beside, event, 0));
}

static void captures(uint32_t round)
{
    if (now(round))
        capture(false);
}

static void destroys(uint32_t round)
{
    if (!now(round))
        return;
    OK(cuStreamDestroy(stream));
    OK(cuCtxSynchronize()); /* the next one goes on with what it has learnt */
    OK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
}

static void sets_attributes(uint32_t round)
{
    CUstreamAttrValue value;
    memset(&value, 0, sizeof value);
    value.syncPolicy = CU_SYNC_POLICY_YIELD;
    if (round == ROUNDS / 2)
        OK(cuStreamSetAttribute(stream, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
}

static void ends(uint32_t round)
{
    if (round < ROUNDS - 1)
        return;
    puts("done");
    exit(0);
}

static void flushes(uint32_t round)
{
    if (now(round))
        autograph_flush();
}

static void turns_to_another_stream(uint32_t round)
{
    if (now(round))
        OK(launch_mix(other, N, round, beside));
}

/* The process ends by the system call, behind a report of what it holds. */
static void reports(uint32_t round)
{
    if (round < ROUNDS - 1)
        return;
    const char *file = getenv("AUTOGRAPH_REPORT");
    CHECK(file != NULL);
    (void)unlink(file);
    CHECK(raise(SIGUSR2) == 0);
    while (access(file, F_OK) != 0)
        usleep(1000);
    puts("done");
    fflush(stdout);
    _exit(0);
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
             {"more_than_the_limit", more_than_the_limit},
             {"too_many_threads", too_many_threads},
             {"other_block", other_block},
             {"mipmap", mipmap},
             {"small_upload", small_upload},
             {"new_event", new_event},
             {"green_context", green_context},
             {"per_thread", per_thread},
             {"beside_a_capture", beside_a_capture},
             {"before_a_capture", before_a_capture},
             {"kernels_alone", kernels_alone},
             {"side_exits", side_exits},
             {"host_function", host_function},
             {"waits", waits},
             {"frees", frees},
             {"legacy", legacy},
             {"looks", looks},
             {"waited_for_elsewhere", waited_for_elsewhere},
             {"captures", captures},
             {"destroys", destroys},
             {"sets_attributes", sets_attributes},
             {"ends", ends},
             {"flushes", flushes},
             {"turns_to_another_stream", turns_to_another_stream},
             {"reports", reports}};

static void prepare(void)
{
    start();
    OK(cuMemAlloc(&buffer, BYTES));
    OK(cuMemAlloc(&other, BYTES));
    OK(cuMemAllocManaged(&managed, BYTES, CU_MEM_ATTACH_GLOBAL));
    OK(cuMemAllocHost(&pinned, BYTES));
    OK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    OK(cuStreamCreate(&beside, CU_STREAM_NON_BLOCKING));
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
