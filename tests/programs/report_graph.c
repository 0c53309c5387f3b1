/* SPDX-License-Identifier: MIT */
/* report_graph.c SCENARIO: what public reports say that is lost or stale where launches become
 * graphs: arguments, shapes, memory, captures beside (docs/reports.md has their addresses). Prints
 * what came out, which is the same with the library as without it. */
#include "live.h"

/* -- Kernels of this program: as text for a GPU, as functions for the simulated driver -- */

enum { BIG = 8192 }; /* bytes of arguments; 4,096 were the limit before CUDA 12.1 */

/* out = hash of all words of s */
static const char big_ptx[] =
    ".version 8.1\n.target sm_75\n.address_size 64\n"
    ".visible .entry report_big(.param .align 8 .b8 s[8192], .param .u64 out)\n"
    "{\n  .reg .pred %p<2>;\n  .reg .b32 %r<5>;\n  .reg .b64 %rd<5>;\n"
    "  ld.param.u64 %rd1, [out];\n  mov.u64 %rd2, s;\n  mov.u32 %r1, 0;\n  mov.u32 %r2, 0;\n"
    "LOOP:\n  ld.param.u32 %r3, [%rd2];\n  mad.lo.s32 %r1, %r1, 31, %r3;\n"
    "  add.s64 %rd2, %rd2, 4;\n  add.s32 %r2, %r2, 1;\n  setp.lt.u32 %p1, %r2, 2048;\n"
    "  @%p1 bra LOOP;\n  st.global.u32 [%rd1], %r1;\n  ret;\n}\n";

/* One block of one thread, or with clusters some that take turns by a counter at out + 4; out =
   out * 31 + what the launch looks like from inside. */
static const char shape_ptx[] =
    ".version 7.8\n.target sm_90\n.address_size 64\n"
    ".visible .entry report_shape(.param .u64 out)\n"
    "{\n  .reg .pred %p<2>;\n  .reg .b32 %r<9>;\n  .reg .b64 %rd<2>;\n"
    "  ld.param.u64 %rd1, [out];\n  mov.u32 %r1, %ctaid.x;\n  mov.u32 %r2, %tid.x;\n"
    "  or.b32 %r1, %r1, %r2;\n  setp.ne.u32 %p1, %r1, 0;\n  @%p1 bra DONE;\n"
    "  ld.global.u32 %r3, [%rd1];\n"
    "  mov.u32 %r4, %nctaid.x;\n  mad.lo.s32 %r3, %r3, 31, %r4;\n"
    "  mov.u32 %r4, %ntid.x;\n  mad.lo.s32 %r3, %r3, 31, %r4;\n"
    "  mov.u32 %r4, %dynamic_smem_size;\n  mad.lo.s32 %r3, %r3, 31, %r4;\n"
    "  mov.u32 %r4, %cluster_nctaid.x;\n  mad.lo.s32 %r3, %r3, 31, %r4;\n"
    "  st.global.u32 [%rd1], %r3;\nDONE:\n  ret;\n}\n";

void agsim_kernel_report_big(const struct agsim_launch *l, void **params)
{
    const uint32_t *word = params[0];
    uint32_t sum = 0;
    (void)l;
    for (unsigned i = 0; i < BIG / 4; i++)
        sum = sum * 31 + word[i];
    *(uint32_t *)*(uint64_t *)params[1] = sum;
}

void agsim_kernel_report_shape(const struct agsim_launch *l, void **params)
{
    uint32_t *out = (uint32_t *)*(uint64_t *)params[0];
    const uint32_t parts[] = {l->grid[0], l->block[0], l->shared,
                              l->cluster[0] ? l->cluster[0] : 1};
    for (unsigned i = 0; i < 4; i++)
        *out = *out * 31 + parts[i];
}

static CUfunction function_of(const char *ptx, const char *name)
{
    CUmodule m;
    CUfunction f;
    OK(cuModuleLoadData(&m, ptx));
    OK(cuModuleGetFunction(&f, m, name));
    return f;
}

static void print_words(CUdeviceptr at, unsigned count, CUstream s)
{
    uint32_t host[N];
    OK(cuMemcpyDtoHAsync(host, at, 4 * count, s));
    OK(cuStreamSynchronize(s));
    for (unsigned i = 0; i < count; i++)
        printf("%08x ", host[i]);
    puts("");
}

/* -- Arguments -- */

/* One array of pointers and one set of values for all launches, overwritten as soon as each
 * returns. */
static void reused_arguments(void)
{
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    static uint64_t place;
    static uint32_t size, value;
    static void *args[3];
    struct {
        uint64_t place;
        uint32_t size, value;
    } packed;
    size_t bytes = sizeof packed;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     CU_LAUNCH_PARAM_END};
    for (uint32_t step = 0; step < 4 * STEPS; step++)
        for (uint32_t i = 0; i < BODY; i++) {
            args[0] = &place, args[1] = &size, args[2] = &value;
            place = buffer[i % 3], size = N, value = i == 2 ? step : i;
            OK(cuLaunchKernel(mix, 1, 1, 1, N, 1, 1, 0, s, args, NULL));
            place = 1, size = ~0u, value = ~0u; /* of no use to anybody */
            memset(args, 0, sizeof args);
            packed.place = buffer[3], packed.size = N, packed.value = step ^ i;
            OK(cuLaunchKernel(mix, 1, 1, 1, N, 1, 1, 0, s, NULL, extra));
            memset(&packed, 0xff, sizeof packed);
        }
    OK(cuStreamSynchronize(s));
}

/* The addresses stay, the number of elements grows now and then, and so does the grid at last. */
static void same_pointers(void)
{
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    for (uint32_t step = 0; step < 6 * STEPS; step++)
        for (uint32_t i = 0; i < BODY; i++) {
            uint32_t n = 1 + step / 12;
            void *args[] = {&buffer[i % 4], &n, &i};
            unsigned blocks = (n + 7) / 8;
            if (n <= N)
                OK(cuLaunchKernel(mix, blocks, 1, 1, 8, 1, 1, 0, s, args, NULL));
        }
    OK(cuStreamSynchronize(s));
}

/* Another function with the same parameters takes a kernel's place for some steps. */
static void other_kernel(void)
{
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    for (uint32_t step = 0; step < 6 * STEPS; step++)
        for (uint32_t i = 0; i < BODY; i++) {
            uint32_t one = 1, value = step % 24 < 17 ? i : step;
            void *copied[] = {&buffer[1], &buffer[0], &one},
                 *mixed[] = {&buffer[i % 2], &one, &value};
            bool copies = i == 3 && step / 32 % 2;
            OK(cuLaunchKernel(copies ? word_copy : mix, 1, 1, 1, 1, 1, 1, 0, s,
                              copies ? copied : mixed, NULL));
        }
    OK(cuStreamSynchronize(s));
}

/* More arguments than the kernels before CUDA 12.1 could have. */
static void big_arguments(void)
{
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    CUfunction big = function_of(big_ptx, "report_big");
    static uint32_t words[BIG / 4];
    for (uint32_t step = 0; step < 2 * STEPS; step++) {
        for (uint32_t i = 0; i < 4; i++) {
            CUdeviceptr to = buffer[i];
            void *args[] = {words, &to};
            words[(step * 7 + i) % (BIG / 4)] += step;
            words[BIG / 4 - 1] = i;
            OK(cuLaunchKernel(big, 1, 1, 1, 1, 1, 1, 0, s, args, NULL));
            OK(launch_mix(to, N, step, s));
        }
        if (step % 16 == 15)
            print_words(buffer[step / 16 % 4], 1, s);
    }
    OK(cuStreamSynchronize(s));
}

/* Launches that differ in grid, block, shared memory, cluster size and whether they are
   cooperative, mixed in one loop. */
static void shapes(void)
{
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    CUmodule m;
    CUfunction shape;
    if (cuModuleLoadData(&m, shape_ptx) != CUDA_SUCCESS)
        return; /* a GPU without clusters */
    OK(cuModuleGetFunction(&shape, m, "report_shape"));
    for (uint32_t step = 0; step < 4 * STEPS; step++) {
        for (uint32_t i = 0; i < BODY; i++) {
            void *args[] = {&buffer[0]};
            CUlaunchAttribute attributes[] = {
                {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                 .value = {.clusterDim = {1 + i % 2, 1, 1}}},
                {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value = {.cooperative = i % 3 == 0}}};
            CUlaunchConfig config =
                one_block(1 + 32 * (i % 2), attributes, i % 4 == 3 ? 2 : i % 3, s);
            config.gridDimX = 2 + 2 * (step / 40 % 2);
            config.sharedMemBytes = 1024 * i + 16 * (step % 50 == 49);
            OK(cuLaunchKernelEx(&config, shape, args, NULL));
        }
        if (step % 16 == 15)
            print_words(buffer[0], 1, s);
    }
}

/* -- Memory -- */

/* A buffer is freed and another one taken, mostly elsewhere; the old address becomes another's. */
static void repointed(void)
{
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    CUdeviceptr own = 0, last = 0;
    for (uint32_t step = 0; step < 8 * STEPS; step++) {
        if (step % 20 == 0) {
            CUdeviceptr next;
            OK(cuMemAlloc(&next, 4 * N << step / 20 % 3));
            OK(cuMemsetD32Async(next, step, N, s));
            if (own)
                OK(cuMemcpyDtoDAsync(next, own, 4 * N, s));
            if (last)
                OK(cuMemFree(last));
            last = own, own = next;
        }
        body(s, own, step);
        OK(cuMemcpyDtoDAsync(buffer[step % 2], own, 4 * N, s));
        if (step == 4 * STEPS + 7) { /* nobody writes there from now on, but whoever gets it */
            OK(cuMemFree(last));
            last = 0;
        }
    }
    OK(cuStreamSynchronize(s));
    show("own", own);
}

/* One range of addresses, behind which now this memory lies and now that. */
static void remapped(void)
{
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, dev}};
    CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle[2];
    CUdeviceptr at;
    size_t size;
    OK(cuMemGetAllocationGranularity(&size, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    OK(cuMemAddressReserve(&at, size, 0, 0, 0));
    for (unsigned i = 0; i < 2; i++)
        OK(cuMemCreate(&handle[i], size, &prop, 0));
    for (uint32_t step = 0; step < 8 * STEPS; step++) {
        unsigned behind = step / 40 % 2;
        if (step % 40 == 0) {
            OK(cuStreamSynchronize(s));
            if (step > 0)
                OK(cuMemUnmap(at, size));
            OK(cuMemMap(at, size, 0, handle[behind], 0));
            OK(cuMemSetAccess(at, size, &access, 1));
            if (step <= 40)
                OK(cuMemsetD32Async(at, step, N, s));
        }
        body(s, at, step);
        OK(cuMemcpyDtoDAsync(buffer[behind], at, 4 * N, s));
    }
    OK(cuStreamSynchronize(s));
}

/* Memory is given back while the last kernel that uses it may wait in a non-blocking stream. */
static void freed_at_once(void)
{
    CUstream s = made(CU_STREAM_NON_BLOCKING), other = made(CU_STREAM_NON_BLOCKING);
    for (uint32_t step = 0; step < 2 * STEPS; step++) {
        CUdeviceptr at, next;
        OK(cuMemAlloc(&at, 4 * N));
        OK(cuMemsetD32Async(at, step, N, s));
        body(s, at, step);
        OK(cuMemcpyDtoDAsync(buffer[0], at, 4 * N, s));
        OK(cuMemFree(at));
        OK(cuMemAlloc(&next, 4 * N)); /* most likely the same */
        OK(cuMemsetD32Async(next, ~step, N, other));
        body(other, next, step);
        OK(cuMemcpyDtoDAsync(buffer[1], next, 4 * N, other));
        OK(cuStreamSynchronize(other));
        OK(cuMemFree(next));
    }
}

/* Between two repetitions of a sequence other work comes, whose memory is that of the sequence. */
static void interleaved(void)
{
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    for (uint32_t step = 0; step < 4 * STEPS; step++) {
        CUdeviceptr x, y;
        OK(cuMemAllocAsync(&x, 4 * N, s));
        OK(cuMemsetD32Async(x, step, N, s));
        body(s, x, step);
        OK(cuMemcpyDtoDAsync(buffer[0], x, 4 * N, s));
        OK(cuMemFreeAsync(x, s));
        for (uint32_t i = 0; i < step % 5; i++) {
            OK(cuMemAllocAsync(&y, 4 * N << i % 2, s));
            OK(cuMemsetD32Async(y, i, N, s));
            OK(launch_mix(y, N, step, s));
            OK(cuMemcpyDtoDAsync(buffer[1], y, 4 * N, s));
            OK(cuMemFreeAsync(y, s));
        }
        body(s, buffer[0], step);
    }
    OK(cuStreamSynchronize(s));
}

/* Memory of a stream that another one waits for: taken, used and given back there. */
static void substream(void)
{
    CUstream s = made(CU_STREAM_NON_BLOCKING), sub = made(CU_STREAM_NON_BLOCKING);
    CUevent forked, joined;
    OK(cuEventCreate(&forked, CU_EVENT_DISABLE_TIMING));
    OK(cuEventCreate(&joined, CU_EVENT_DISABLE_TIMING));
    for (uint32_t step = 0; step < 4 * STEPS; step++) {
        CUdeviceptr x, y;
        OK(launch_mix(buffer[0], N, step, s));
        OK(cuEventRecord(forked, s));
        OK(cuStreamWaitEvent(sub, forked, 0));
        OK(cuMemAllocAsync(&x, 4 * N, sub));
        OK(cuMemcpyDtoDAsync(x, buffer[0], 4 * N, sub));
        body(sub, x, step);
        OK(cuMemcpyDtoDAsync(buffer[1], x, 4 * N, sub));
        OK(cuMemFreeAsync(x, sub));
        OK(cuEventRecord(joined, sub));
        OK(cuMemAllocAsync(&y, 4 * N, s)); /* beside the other stream's work */
        OK(cuMemsetD32Async(y, step, N, s));
        body(s, y, step);
        OK(cuMemcpyDtoDAsync(buffer[2], y, 4 * N, s));
        OK(cuStreamWaitEvent(s, joined, 0));
        OK(launch_mix(buffer[1], N, step, s));
        OK(cuMemFreeAsync(y, s));
    }
    OK(cuStreamSynchronize(s));
}

/* A stream is destroyed while memory that was taken in it lives on, and is given back elsewhere. */
static void orphan_memory(void)
{
    CUstream other = made(CU_STREAM_NON_BLOCKING);
    CUevent event;
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    for (uint32_t step = 0; step < 2 * STEPS; step++) {
        CUstream s = made(CU_STREAM_NON_BLOCKING);
        CUdeviceptr x;
        OK(cuMemAllocAsync(&x, 4 * N, s));
        OK(cuMemsetD32Async(x, step, N, s));
        body(s, x, step);
        OK(cuEventRecord(event, s));
        OK(cuStreamDestroy(s));
        OK(cuStreamWaitEvent(other, event, 0));
        body(other, x, step);
        OK(cuMemcpyDtoDAsync(buffer[step % 2], x, 4 * N, other));
        if (step % 8 == 7) {
            OK(cuStreamSynchronize(other));
            OK(cuMemFree(x));
        } else {
            OK(cuMemFreeAsync(x, other));
        }
    }
    OK(cuStreamSynchronize(other));
}

/* Memsets of rows, with a pitch, in memory with rows of its own and without; of other heights. */
static void memset2d(void)
{
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    CUdeviceptr plain, pitched;
    size_t pitch;
    enum { WIDTH = 12, ROWS = 8, PLAIN_PITCH = 32 };
    OK(cuMemAlloc(&plain, PLAIN_PITCH * ROWS));
    OK(cuMemAllocPitch(&pitched, &pitch, WIDTH, ROWS, 4));
    OK(cuMemsetD8(plain, 0xee, PLAIN_PITCH * ROWS));
    OK(cuMemsetD2D8(pitched, pitch, 0xdd, WIDTH, ROWS));
    OK(cuCtxSynchronize());
    for (uint32_t step = 0; step < 4 * STEPS; step++) {
        uint32_t height = step % 32 == 31 ? 3 : ROWS, value = 0x1234567 * (step / 80);
        OK(cuMemsetD2D8Async(plain, PLAIN_PITCH, value & 0xff, WIDTH, height, s));
        OK(cuMemsetD2D32Async(pitched, pitch, value, WIDTH / 4, height, s));
        OK(cuMemsetD2D16Async(plain + 16, PLAIN_PITCH, value & 0xffff, 3 - step / 160, ROWS, s));
        OK(launch_mix(plain, PLAIN_PITCH * ROWS / 4, step, s));
        OK(launch_mix(pitched, WIDTH / 4, step, s));
        if (step % 16 == 15) {
            print_words(plain, N, s);
            print_words(pitched + pitch * (step / 16 % ROWS), WIDTH / 4, s);
        }
    }
}

/* -- What the driver refuses -- */

/* Nothing to do: a grid of no blocks is refused, copies and memsets of no bytes are not. */
static void zero_sizes(void)
{
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    for (uint32_t step = 0; step < 2 * STEPS; step++) {
        uint32_t n = step % 6 == 5 ? 0 : N, k = step;
        void *args[] = {&buffer[0], &n, &k};
        body(s, buffer[0], step);
        CUresult answers[] = {cuLaunchKernel(mix, n / 8, 1, 1, 8, 1, 1, 0, s, args, NULL),
                              cuMemsetD32Async(buffer[1], step, n, s),
                              cuMemcpyDtoDAsync(buffer[2], buffer[1], 4 * n, s),
                              cuMemcpyDtoDAsync(n ? buffer[3] : 0, n ? buffer[2] : 0, 4 * n, s),
                              cuLaunchKernel(mix, 1, 1, 1, n, 1, 1, 0, s, args, NULL)};
        OK(launch_mix(buffer[1], N, 1, s));
        for (unsigned i = 0; n == 0 && i < sizeof answers / sizeof *answers; i++)
            printf("%d%c", answers[i], i < 4 ? ' ' : '\n');
    }
    OK(cuStreamSynchronize(s));
}

/* A launch that cannot be, in the middle of a loop; its answer comes at once, and no later one. */
static void wrong_launches(void)
{
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    for (uint32_t step = 0; step < 4 * STEPS; step++) {
        unsigned way = step % 16 == 15 ? 1 + step / 16 % 3 : 0;
        uint32_t n = N;
        void *args[] = {&buffer[1], &n, &step};
        body(s, buffer[0], step);
        CUresult answer = cuLaunchKernel(mix, 1, 1, 1, way == 1 ? 4096 : N, 1, 1,
                                         way == 2 ? 1 << 20 : 0, s, args, NULL);
        CUresult behind = launch_mix(buffer[2], N, step, s);
        CUresult asked = cuStreamQuery(NULL);
        if (way)
            printf("%u: %d %d %d %d\n", way, answer, behind, asked, cuStreamSynchronize(s));
    }
    OK(cuStreamSynchronize(s));
}

/* -- Captures -- */

static volatile uint32_t over;

static void *makes_graphs(void *arg)
{
    OK(cuCtxSetCurrent(ctx));
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    set_word(&over, 1);
    for (uint32_t round = 0; get_word(&over) == 1;
         round++) /* launches alone, which no capture forbids */
        for (uint32_t step = 0; step < 30; step++)
            for (uint32_t i = 0; i < 3 + round % 20; i++)
                OK(launch_mix(buffer[1], N, i == 2 ? step : i, s));
    set_word(&over, 3);
    return arg;
}

/* A program captures, in each mode, beside a thread whose loops become graphs. */
static void captures_beside(void)
{
    static const CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL,
                                                CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                                CU_STREAM_CAPTURE_MODE_RELAXED};
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    pthread_t thread;
    unsigned failed = 0;
    CHECK(pthread_create(&thread, NULL, makes_graphs, NULL) == 0);
    while (get_word(&over) != 1)
        sched_yield();
    for (uint32_t step = 0; step < 3 * STEPS; step++) {
        CUgraph graph = NULL;
        CUgraphExec exec;
        OK(cuStreamBeginCapture(s, modes[step % 3]));
        for (uint32_t i = 0; i < 3; i++) {
            failed += launch_mix(buffer[0], N, step + i, s) != CUDA_SUCCESS;
            usleep(100);
        }
        failed += cuStreamEndCapture(s, &graph) != CUDA_SUCCESS;
        CHECK(graph != NULL);
        OK(cuGraphInstantiate(&exec, graph, 0));
        OK(cuGraphLaunch(exec, s));
        body(s, buffer[0], step);
        OK(cuGraphExecDestroy(exec));
        OK(cuGraphDestroy(graph));
    }
    set_word(&over, 2);
    CHECK(pthread_join(thread, NULL) == 0);
    OK(cuCtxSynchronize());
    printf("%u failed\n", failed);
    OK(cuMemsetD32(buffer[1], 0, N)); /* how far the thread came does not show */
}

/* A graph of the program waits for events that other streams record, and records one that they and
   the host wait for. */
static void external_events(void)
{
    CUstream s = made(CU_STREAM_NON_BLOCKING), other = made(CU_STREAM_NON_BLOCKING);
    CUevent in, out, timed;
    CUgraph graph;
    CUgraphExec exec;
    float ms;
    OK(cuEventCreate(&in, CU_EVENT_DISABLE_TIMING));
    OK(cuEventCreate(&out, 0));
    OK(cuEventCreate(&timed, 0));
    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    OK(cuEventRecordWithFlags(timed, s, CU_EVENT_RECORD_EXTERNAL));
    OK(cuStreamWaitEvent(s, in, CU_EVENT_WAIT_EXTERNAL));
    OK(cuMemcpyDtoDAsync(buffer[1], buffer[0], 4 * N, s));
    OK(launch_mix(buffer[1], N, 5, s));
    OK(cuEventRecordWithFlags(out, s, CU_EVENT_RECORD_EXTERNAL));
    OK(cuStreamEndCapture(s, &graph));
    OK(cuGraphInstantiate(&exec, graph, 0));
    for (uint32_t step = 0; step < 4 * STEPS; step++) {
        body(other, buffer[0], step);
        OK(cuEventRecord(in, other));
        OK(cuGraphLaunch(exec, s));
        OK(cuStreamWaitEvent(other, out, 0));
        OK(cuMemcpyDtoDAsync(buffer[2], buffer[1], 4 * N, other));
        body(other, buffer[2], step);
        if (step % 16 == 15) {
            OK(cuEventSynchronize(out));
            OK(cuEventElapsedTime(&ms, timed, out));
            CHECK(ms >= 0);
        }
    }
    OK(cuStreamSynchronize(other));
    OK(cuStreamSynchronize(s));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {{"reused_arguments", reused_arguments},
                                          {"same_pointers", same_pointers},
                                          {"other_kernel", other_kernel},
                                          {"big_arguments", big_arguments},
                                          {"shapes", shapes},
                                          {"repointed", repointed},
                                          {"remapped", remapped},
                                          {"freed_at_once", freed_at_once},
                                          {"interleaved", interleaved},
                                          {"substream", substream},
                                          {"orphan_memory", orphan_memory},
                                          {"memset2d", memset2d},
                                          {"zero_sizes", zero_sizes},
                                          {"wrong_launches", wrong_launches},
                                          {"captures_beside", captures_beside},
                                          {"external_events", external_events},
                                          {NULL, NULL}};
    run(all, argc, argv);
    show_all(argv[1]);
    return 0;
}
