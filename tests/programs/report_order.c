/* SPDX-License-Identifier: MIT */
/* report_order.c SCENARIO: order of streams, events, copies and words, as public reports say that
 * it goes wrong (docs/reports.md has their addresses). Prints what came out, which is the same with
 * the library as without it. */
#include "live.h"

static CUevent event_with(unsigned flags)
{
    CUevent event;
    OK(cuEventCreate(&event, flags));
    return event;
}

static CUevent new_event(void)
{
    return event_with(CU_EVENT_DISABLE_TIMING);
}

static void record_and_wait(CUevent event, CUstream from, CUstream to)
{
    OK(cuEventRecord(event, from));
    OK(cuStreamWaitEvent(to, event, 0));
}

/* What N words at an address are, once the stream has ended. */
static uint32_t sum_of(CUdeviceptr at, CUstream s)
{
    uint32_t host[N], sum = 0;
    OK(cuMemcpyDtoHAsync(host, at, sizeof host, s));
    OK(cuStreamSynchronize(s));
    for (unsigned i = 0; i < N; i++)
        sum = sum * 31 + host[i];
    return sum;
}

/* -- Copies -- */

/* Copies without a stream do not wait for a non-blocking stream, here one that waits for the host.
 */
static void copy_beside(void)
{
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    volatile uint32_t *word = host_words(1);
    uint32_t host[N];
    OK(launch_word(spin, word, 0, s)); /* loads it */
    OK(cuStreamSynchronize(s));
    for (uint32_t step = 1; step < STEPS; step++) {
        body(s, buffer[0], step);
        OK(launch_word(spin, word, step, s));
        body(s, buffer[0], step);
        OK(cuMemcpyDtoH(host, buffer[1], sizeof host));
        host[step % N] += step;
        OK(cuMemcpyHtoD(buffer[1], host, sizeof host));
        body(NULL, buffer[1], step);
        OK(cuStreamSynchronize(NULL));
        set_word(word, step);
        OK(cuStreamSynchronize(s)); /* the kernel has seen it before it changes */
    }
}

/* The driver has read pageable memory when the call returns, and the program writes there at once.
 */
static void pageable(void)
{
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    uint32_t late[N];
    for (uint32_t step = 0; step < 2 * STEPS; step++) {
        uint32_t early[N], *passing = malloc(sizeof early);
        CHECK(passing != NULL);
        for (uint32_t i = 0; i < N; i++)
            early[i] = late[i] = passing[i] = step * N + i;
        OK(cuMemcpyHtoDAsync(buffer[0], early, sizeof early, s));
        memset(early, 0xff, sizeof early);
        body(s, buffer[0], step);
        if (step % 8 == 0) {
            OK(cuStreamSynchronize(s));
            OK(cuMemcpyHtoD(buffer[1], late, sizeof late));
            OK(cuStreamSynchronize(NULL)); /* the stream does not wait for such a copy */
        }
        memset(late, 0xff, sizeof late);
        body(s, buffer[1], step);
        OK(cuMemcpyHtoDAsync(buffer[2], passing, sizeof early, s));
        free(passing);
        body(s, buffer[2], step);
        if (step % 8 == 7)
            printf("%08x\n", sum_of(buffer[step / 8 % 3], s));
    }
}

struct note {
    volatile uint32_t *at;
    uint32_t value;
};

static void CUDA_CB write_note(void *arg)
{
    struct note *note = arg;
    for (uint32_t i = 0; i < N; i++)
        note->at[i] = note->value + i;
}

/* A host function writes what the copy behind it reads. */
static void staged(void)
{
    static struct note notes[2 * STEPS];
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    volatile uint32_t *pinned = host_words(N);
    for (uint32_t step = 0; step < 2 * STEPS; step++) {
        notes[step] = (struct note){pinned, step * 1000};
        body(s, buffer[0], step);
        OK(cuLaunchHostFunc(s, write_note, &notes[step]));
        OK(cuMemcpyHtoDAsync(buffer[1], (void *)pinned, 4 * N, s));
        body(s, buffer[1], 1);
        OK(cuMemcpyDtoDAsync(buffer[2], buffer[1], 4 * N, s));
        body(s, buffer[2], 2);
    }
    OK(cuStreamSynchronize(s));
}

/* The host waits for the event behind a copy before it writes to the copy's source again. */
static void staging(void)
{
    enum { PLACES = 3 };
    CUstream s[2] = {made(CU_STREAM_NON_BLOCKING), made(CU_STREAM_NON_BLOCKING)};
    volatile uint32_t *pinned = host_words(PLACES * N);
    CUevent read[PLACES];
    for (unsigned i = 0; i < PLACES; i++)
        read[i] = new_event();
    for (uint32_t step = 0; step < 6 * STEPS; step++) {
        unsigned place = step % PLACES;
        OK(cuEventSynchronize(read[place]));
        for (uint32_t i = 0; i < N; i++)
            pinned[place * N + i] = step ^ i;
        OK(cuMemcpyHtoDAsync(buffer[step % 2], (void *)(pinned + place * N), 4 * N, s[step % 2]));
        OK(cuEventRecord(read[place], s[step % 2]));
        body(s[step % 2], buffer[step % 2], step);
    }
    OK(cuCtxSynchronize());
}

/* A graph's copy to the host is made once for each launch, not at later waits. */
static void host_copies(void)
{
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    volatile uint32_t *pinned = host_words(N);
    CUgraph graph;
    CUgraphExec exec;
    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    body(s, buffer[0], 1);
    OK(cuMemcpyDtoHAsync((void *)pinned, buffer[0], 4 * N, s));
    OK(cuStreamEndCapture(s, &graph));
    OK(cuGraphInstantiate(&exec, graph, 0));
    for (uint32_t step = 0; step < STEPS; step++) {
        OK(cuGraphLaunch(exec, s));
        OK(cuStreamSynchronize(s));
        uint32_t first = pinned[0];
        pinned[0] = step; /* stays, whatever is launched behind */
        body(s, buffer[1], step);
        OK(cuMemcpyDtoHAsync((void *)(pinned + 1), buffer[1], 4, s));
        OK(cuStreamSynchronize(s));
        body(s, buffer[1], step);
        OK(cuStreamSynchronize(s));
        printf("%08x %u %08x\n", first, pinned[0], pinned[1]);
    }
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
}

/* Managed memory, which the host reads and writes behind a wait, and that moves back and forth. */
static void managed(void)
{
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at;
    OK(cuMemAllocManaged(&at, 4 * N, CU_MEM_ATTACH_GLOBAL));
    volatile uint32_t *words = (volatile uint32_t *)(uintptr_t)at;
    memset((void *)words, 0, 4 * N);
#if CUDA_VERSION >= 13000
    CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_HOST},
                  there = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = dev};
    bool moves = cuMemPrefetchAsync(at, 4 * N, there, 0, s) == CUDA_SUCCESS;
#define MOVE(where) cuMemPrefetchAsync(at, 4 * N, where, 0, s)
#else
    bool moves = cuMemPrefetchAsync(at, 4 * N, dev, s) == CUDA_SUCCESS;
    CUdevice here = CU_DEVICE_CPU, there = dev;
#define MOVE(where) cuMemPrefetchAsync(at, 4 * N, where, s)
#endif
    for (uint32_t step = 0; step < 2 * STEPS; step++) {
        body(s, at, step);
        if (moves && step % 3 == 0)
            OK(MOVE(here));
        OK(cuStreamSynchronize(s));
        words[step % N] += step;
        if (moves && step % 3 == 1)
            OK(MOVE(there));
        body(s, at, words[(step + 1) % N]);
    }
    printf("%08x\n", sum_of(at, s));
}

/* Copies between two devices (or on one, if there is one) in the streams of either. */
static void between_devices(void)
{
    int devices;
    CUcontext other = ctx, popped;
    OK(cuDeviceGetCount(&devices));
    if (devices > 1)
        OK(cuDevicePrimaryCtxRetain(&other, 1));
    CUstream s[2] = {made(CU_STREAM_NON_BLOCKING)};
    CUdeviceptr there;
    CUmodule m;
    CUfunction f[2] = {mix};
    CUevent event[2] = {new_event()};
    OK(cuCtxPushCurrent(other));
    OK(cuModuleLoadData(&m, agsim_kernels_ptx));
    OK(cuModuleGetFunction(&f[1], m, "ag_mix"));
    OK(cuMemAlloc(&there, 4 * N));
    s[1] = made(CU_STREAM_NON_BLOCKING);
    event[1] = new_event();
    OK(cuCtxPopCurrent(&popped));
    for (uint32_t step = 0; step < 2 * STEPS; step++) {
        body(s[0], buffer[0], step);
        OK(cuMemcpyPeerAsync(there, other, buffer[0], ctx, 4 * N, s[0]));
        record_and_wait(event[0], s[0], s[1]);
        OK(cuCtxPushCurrent(other));
        mix = f[1];
        body(s[1], there, step);
        mix = f[0];
        OK(cuMemcpyAsync(buffer[1], there, 4 * N, s[1]));
        OK(cuCtxPopCurrent(&popped));
        record_and_wait(event[1], s[1], s[0]);
        body(s[0], buffer[1], step);
    }
    OK(cuStreamSynchronize(s[0]));
}

/* -- Events -- */

/* Many streams wait for one event, and one waits for all of them, by an event that each records. */
static void fan_out(void)
{
    enum { MANY = 24 };
    CUstream first = made(CU_STREAM_NON_BLOCKING), s[MANY];
    CUevent begun = new_event(), done = new_event();
    CUdeviceptr part[MANY];
    for (unsigned i = 0; i < MANY; i++) {
        s[i] = made(CU_STREAM_NON_BLOCKING);
        OK(cuMemAlloc(&part[i], 4 * N));
    }
    for (uint32_t step = 0; step < STEPS; step++) {
        body(first, buffer[0], step);
        OK(cuEventRecord(begun, first));
        for (unsigned i = 0; i < MANY; i++) {
            OK(cuStreamWaitEvent(s[i], begun, 0));
            OK(cuMemcpyDtoDAsync(part[i], buffer[0], 4 * N, s[i]));
            OK(launch_mix(part[i], N, i, s[i]));
        }
        for (unsigned i = 0; i < MANY; i++)
            record_and_wait(done, s[i], first);
        for (unsigned i = 0; i < MANY; i += 5)
            OK(cuMemcpyDtoDAsync(buffer[0] + 4 * i, part[i], 4, first));
    }
    OK(cuCtxSynchronize());
    for (unsigned i = 0; i < MANY; i++)
        show("part", part[i]);
}

/* An event is recorded again, in the stream that waits for it, before that has come so far; the
   host waits for the record of the step, not for a later one. */
static void event_again(void)
{
    CUstream s[3];
    CUevent event = new_event(), behind = new_event();
    volatile uint32_t *word = host_words(1);
    for (unsigned i = 0; i < 3; i++)
        s[i] = made(CU_STREAM_NON_BLOCKING);
    OK(launch_word(spin, word, 0, s[0]));
    OK(cuStreamSynchronize(s[0]));
    for (uint32_t step = 1; step < 2 * STEPS; step++) {
        body(s[0], buffer[0], step);
        record_and_wait(event, s[0], s[1]);
        body(s[1], buffer[0], step + 1);
        record_and_wait(event, s[1], s[2]);
        body(s[2], buffer[0], step + 2);
        OK(cuEventRecord(event, s[2]));
        OK(cuEventRecord(behind, s[2]));
        OK(launch_word(spin, word, step, s[2])); /* behind it, so nobody may wait for it */
        OK(cuEventSynchronize(event));
        while (cuEventQuery(behind) == CUDA_ERROR_NOT_READY)
            sched_yield();
        OK(cuStreamWaitEvent(s[0], event, 0));
        OK(cuStreamWaitEvent(s[1], behind, 0));
        set_word(word, step);
    }
    OK(cuCtxSynchronize());
}

/* The host asks until all is done, and calls nothing else. */
static void polled(void)
{
    CUstream s = made(CU_STREAM_NON_BLOCKING), other = made(CU_STREAM_NON_BLOCKING);
    CUevent event = new_event();
    for (uint32_t step = 0; step < STEPS; step++) {
        CUresult state;
        body(other, buffer[0], step);
        record_and_wait(event, other, s);
        body(s, buffer[2], step);
        if (step % 3 == 0) /* a part of the other loop follows, so that it is held */
            OK(launch_mix(buffer[1], N, 0, other));
        do {
            state = step % 2 ? cuStreamQuery(s) : cuEventQuery(event);
            sched_yield();
        } while (state == CUDA_ERROR_NOT_READY);
        CHECK(state == CUDA_SUCCESS);
        while (step % 2 == 0 && cuStreamQuery(s) == CUDA_ERROR_NOT_READY)
            sched_yield();
    }
    OK(cuCtxSynchronize());
}

/* Answers about events: never recorded, without timing, not yet done, done. */
static void elapsed(void)
{
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    CUevent never = event_with(0), from = event_with(0), to = event_with(0), untimed = new_event();
    volatile uint32_t *word = host_words(1);
    float ms = -1;
    OK(launch_word(spin, word, 0, s));
    OK(cuStreamSynchronize(s));
    for (uint32_t step = 1; step < STEPS; step++) {
        OK(cuEventRecord(from, s));
        body(s, buffer[0], step);
        OK(cuEventRecord(untimed, s));
        OK(launch_word(spin, word, step, s));
        OK(cuEventRecord(to, s));
        body(s, buffer[0], step);
        int answers[] = {cuEventQuery(never),
                         cuEventQuery(to),
                         cuEventSynchronize(never),
                         cuEventElapsedTime(&ms, from, to),
                         cuEventElapsedTime(&ms, never, to),
                         cuEventElapsedTime(&ms, from, untimed),
                         cuStreamQuery(s)};
        set_word(word, step);
        OK(cuEventSynchronize(to));
        OK(cuEventElapsedTime(&ms, from, to));
        CHECK(ms >= 0);
        OK(cuEventElapsedTime(&ms, to, from));
        CHECK(ms <= 0);
        for (unsigned i = 0; i < sizeof answers / sizeof *answers; i++)
            printf("%d ", answers[i]);
        printf("%d\n", cuEventQuery(untimed));
    }
}

/* -- Words and graphs -- */

/* A stream waits for what another one writes later. */
static void words(void)
{
    CUstream s = made(CU_STREAM_NON_BLOCKING), other = made(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = buffer[3];
    OK(cuMemsetD32(at, 0, N));
    OK(cuCtxSynchronize());
    for (uint32_t step = 1; step < 2 * STEPS; step++) {
        OK(cuStreamWaitValue64(s, at, 2 * step, CU_STREAM_WAIT_VALUE_GEQ));
        body(s, buffer[0], step);
        OK(cuStreamWriteValue32(s, at + 8, step, 0));
        body(other, buffer[0], step + 1);
        OK(cuStreamWriteValue64(other, at, 2 * step, 0));
        OK(launch_mix(buffer[1], N, step, other));
        if (step % 2)
            OK(cuStreamSynchronize(s));
        OK(cuStreamWaitValue32(other, at + 8, step, CU_STREAM_WAIT_VALUE_GEQ));
    }
    OK(cuStreamSynchronize(other));
}

/* A graph that is launched again and again keeps its place among the stream's ops. */
static void launches_again(void)
{
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    CUgraph graph;
    CUgraphExec exec;
    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    body(s, buffer[0], 9);
    OK(cuStreamEndCapture(s, &graph));
    OK(cuGraphInstantiate(&exec, graph, 0));
    for (uint32_t step = 0; step < 4 * STEPS; step++) {
        for (unsigned i = 0; i < 1 + step % 3; i++)
            OK(cuGraphLaunch(exec, s));
        body(s, buffer[0], step);
        OK(launch_mix(buffer[0], N, 3, s));
    }
    OK(cuStreamSynchronize(s));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
}

/* A kernel that waits for the host comes first, between two timing events, as benchmarks do it. */
static void blocked_start(void)
{
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    CUevent from = event_with(0), to = event_with(0);
    volatile uint32_t *word = host_words(1);
    float ms;
    OK(launch_word(spin, word, 0, s)); /* loads it */
    OK(cuStreamSynchronize(s));
    for (uint32_t step = 1; step < STEPS; step++) {
        OK(launch_word(spin, word, step, s));
        OK(cuEventRecord(from, s));
        for (uint32_t i = 0; i < 1 + step / 4; i++) /* another loop in each fourth step */
            body(s, buffer[0], i);
        OK(cuEventRecord(to, s));
        set_word(word, step);
        OK(cuStreamSynchronize(s));
        OK(cuEventElapsedTime(&ms, from, to));
        CHECK(ms >= 0);
    }
}

/* -- Default streams -- */

static pthread_barrier_t both;

static void *own_default(void *arg)
{
    OK(cuCtxSetCurrent(ctx));
    CUevent event = new_event();
    for (uint32_t step = 0; step < STEPS; step++) {
        pthread_barrier_wait(&both);
        body(CU_STREAM_PER_THREAD, buffer[0],
             step); /* behind what the legacy stream has, and before */
        OK(cuEventRecord(event, CU_STREAM_PER_THREAD));
        pthread_barrier_wait(&both);
    }
    OK(cuEventSynchronize(event));
    return arg;
}

/* One thread uses the legacy stream, the other its own default stream, which is a blocking one; the
   first uses the same handle, which means another stream there. */
static void default_streams(void)
{
    pthread_t thread;
    CHECK(pthread_barrier_init(&both, NULL, 2) == 0);
    CHECK(pthread_create(&thread, NULL, own_default, NULL) == 0);
    for (uint32_t step = 0; step < STEPS; step++) {
        body(NULL, buffer[0], step);
        body(CU_STREAM_PER_THREAD, buffer[1], step);
        pthread_barrier_wait(&both);
        pthread_barrier_wait(&both);
    }
    body(NULL, buffer[0], 0);
    CHECK(pthread_join(thread, NULL) == 0);
    OK(cuStreamSynchronize(NULL));
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {{"copy_beside", copy_beside},
                                          {"pageable", pageable},
                                          {"staged", staged},
                                          {"staging", staging},
                                          {"host_copies", host_copies},
                                          {"managed", managed},
                                          {"between_devices", between_devices},
                                          {"fan_out", fan_out},
                                          {"event_again", event_again},
                                          {"polled", polled},
                                          {"elapsed", elapsed},
                                          {"words", words},
                                          {"launches_again", launches_again},
                                          {"blocked_start", blocked_start},
                                          {"default_streams", default_streams},
                                          {NULL, NULL}};
    run(all, argc, argv);
    show_all(argv[1]);
    return 0;
}
