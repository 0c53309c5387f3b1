/* SPDX-License-Identifier: MIT */
/* report_callbacks.c SCENARIO: host functions of streams call the driver, and print the codes that
 * they get (docs/reports.md has the reports), while ops of the streams are held. Prints what came
 * out, which is the same with the library as without it. */
#include "live.h"

enum { PIN = 64 };

struct set {
    CUstream peer; /* idle or with held ops */
    CUevent event; /* recorded in `peer` */
    CUgraphExec exec;
    uint32_t *pinned;
};

static struct set set;
static uint32_t finished; /* host functions */

/* Two kernels, in a graph of the program. */
static CUgraphExec new_exec(void)
{
    CUgraph graph;
    CUgraphExec exec;
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    OK(launch_mix(buffer[1], N, 5, s));
    OK(launch_mix(buffer[1], N, 6, s));
    OK(cuStreamEndCapture(s, &graph));
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphDestroy(graph));
    OK(cuStreamDestroy(s));
    return exec;
}

static void set_up(void)
{
    void *pinned;
    set.peer = made(CU_STREAM_NON_BLOCKING);
    set.exec = new_exec();
    OK(cuEventCreate(&set.event, CU_EVENT_DISABLE_TIMING));
    OK(cuMemHostAlloc(&pinned, 4 * PIN, 0));
    set.pinned = memset(pinned, 0, 4 * PIN);
    OK(cuEventRecord(set.event, set.peer));
    OK(cuGraphLaunch(set.exec, set.peer)); /* a driver may load something here */
    loop(set.peer, buffer[1]);
    OK(cuStreamSynchronize(set.peer));
}

/* -- What a host function calls -- */

/* Whether it is done already is a matter of luck. */
static CUresult done_or_not(CUresult answer)
{
    return answer == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : answer;
}

static CUresult ask_stream(void)
{
    return done_or_not(cuStreamQuery(set.peer));
}

static CUresult ask_event(void)
{
    return done_or_not(cuEventQuery(set.event));
}

static CUresult current(void)
{
    CUcontext c;
    return cuCtxGetCurrent(&c);
}

static CUresult make_current(void)
{
    return cuCtxSetCurrent(ctx);
}

static CUresult wait_for_all(void)
{
    return cuCtxSynchronize();
}

static CUresult wait_for_peer(void)
{
    return cuStreamSynchronize(set.peer);
}

static CUresult wait_for_event(void)
{
    return cuEventSynchronize(set.event);
}

static CUresult record(void)
{
    return cuEventRecord(set.event, set.peer);
}

static CUresult let_wait(void)
{
    return cuStreamWaitEvent(set.peer, set.event, 0);
}

static CUresult new_event(void)
{
    CUevent event;
    return cuEventCreate(&event, 0);
}

static CUresult new_stream(void)
{
    CUstream stream;
    return cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
}

static CUresult allocate(void)
{
    CUdeviceptr at;
    return cuMemAlloc(&at, 4);
}

static CUresult allocate_in_stream(void)
{
    CUdeviceptr at;
    return cuMemAllocAsync(&at, 4, set.peer);
}

static CUresult launch(void)
{
    return launch_mix(buffer[1], N, 7, set.peer);
}

static CUresult launch_by_default(void)
{
    return launch_mix(buffer[1], N, 7, NULL);
}

static CUresult launch_graph(void)
{
    return cuGraphLaunch(set.exec, set.peer);
}

static CUresult fill(void)
{
    return cuMemsetD32Async(buffer[1], 11, N / 2, set.peer);
}

static CUresult fill_and_wait(void)
{
    return cuMemsetD32(buffer[1], 11, N / 2);
}

static CUresult copy(void)
{
    return cuMemcpyDtoDAsync(buffer[1], buffer[2], 4, set.peer);
}

static CUresult copy_up(void)
{
    return cuMemcpyHtoDAsync(buffer[1], set.pinned, 4, set.peer);
}

static CUresult copy_up_pageable(void)
{
    uint32_t word = 3;
    return cuMemcpyHtoDAsync(buffer[1], &word, 4, set.peer);
}

static CUresult copy_down(void)
{
    return cuMemcpyDtoHAsync(set.pinned, buffer[1], 4, set.peer);
}

static CUresult copy_down_and_wait(void)
{
    uint32_t word;
    return cuMemcpyDtoH(&word, buffer[1], 4);
}

static CUresult write_word(void)
{
    return cuStreamWriteValue32(set.peer, buffer[1], 13, 0);
}

static void CUDA_CB fill_pinned(void *arg)
{
    set.pinned[(uintptr_t)arg]++;
}

static CUresult call_another(void)
{
    return cuLaunchHostFunc(set.peer, fill_pinned, (void *)1);
}

static CUresult begin_capture(void)
{
    CUgraph graph;
    CUresult answer = cuStreamBeginCapture(set.peer, CU_STREAM_CAPTURE_MODE_RELAXED);
    return answer == CUDA_SUCCESS ? cuStreamEndCapture(set.peer, &graph) : answer;
}

static CUresult attribute(void)
{
    int value;
    return cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, buffer[1]);
}

#define CALL(function)                                                                             \
    {                                                                                              \
#function, function                                                                        \
    }

/* Those that the driver refuses change nothing; the others follow what the stream has. */
static const struct call {
    const char *name;
    CUresult (*function)(void);
} calls[] = {CALL(ask_stream),
             CALL(ask_event),
             CALL(current),
             CALL(make_current),
             CALL(wait_for_all),
             CALL(wait_for_peer),
             CALL(record),
             CALL(wait_for_event),
             CALL(let_wait),
             CALL(new_event),
             CALL(new_stream),
             CALL(allocate),
             CALL(allocate_in_stream),
             CALL(launch),
             CALL(launch_by_default),
             CALL(launch_graph),
             CALL(fill),
             CALL(fill_and_wait),
             CALL(copy),
             CALL(copy_up),
             CALL(copy_up_pageable),
             CALL(copy_down),
             CALL(copy_down_and_wait),
             CALL(write_word),
             CALL(call_another),
             CALL(begin_capture),
             CALL(attribute)};
enum { CALLS = sizeof calls / sizeof *calls };

static void CUDA_CB call_and_say(void *arg)
{
    const struct call *call = arg;
    printf("%s: %d\n", call->name, call->function());
    __atomic_fetch_add(&finished, 1, __ATOMIC_SEQ_CST);
}

static void CUDA_CB call_back_and_say(CUstream s, CUresult status, void *arg)
{
    printf("%s%d, ", s ? "" : "no stream ", status);
    call_and_say(arg);
}

/* -- Scenarios -- */

/* Calls each function once, and waits for it without a call. `peer` has ops that are held then. */
static void each_call(bool with_callback, unsigned flags)
{
    CUstream s = made(flags);
    set_up();
    for (uint32_t i = 0; i < CALLS; i++) {
        uint32_t before = finished;
        void *call = (void *)(uintptr_t)&calls[i];
        body(s, buffer[0], i);
        body(set.peer, buffer[1], i);
        if (with_callback)
            OK(cuStreamAddCallback(s, call_back_and_say, call, 0));
        else
            OK(cuLaunchHostFunc(s, call_and_say, call));
        body(s, buffer[0], i);
        while (__atomic_load_n(&finished, __ATOMIC_SEQ_CST) == before)
            sched_yield();
        body(set.peer, buffer[1], i + 1);
        OK(cuStreamSynchronize(set.peer));
        show(calls[i].name, buffer[1]);
    }
    printf("another: %u\n", set.pinned[1]);
}

static void in_functions(void)
{
    each_call(false, CU_STREAM_NON_BLOCKING);
}

static void in_callbacks(void)
{
    each_call(true, CU_STREAM_NON_BLOCKING);
}

static void in_functions_of_the_default(void)
{
    each_call(false, CU_STREAM_DEFAULT);
}

/* -- What ends, and does not in a host function -- */

static struct {
    CUmodule module;
    CUlibrary library;
    CUcontext context;
    CUgraph graph;
    CUresult code[8]; /* the last of each call */
} last;

static void CUDA_CB end_all(void *arg)
{
    const CUresult code[] = {cuModuleUnload(last.module),  cuLibraryUnload(last.library),
                             cuCtxDestroy(last.context),   cuDevicePrimaryCtxRelease(dev),
                             cuDevicePrimaryCtxReset(dev), cuMemFree(buffer[3]),
                             cuGraphDestroy(last.graph),   cuGraphExecDestroy(set.exec)};
    memcpy(last.code, code, sizeof code);
    (void)arg;
}

/* The loop goes on as if nothing had been called. */
static void ends(void)
{
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    set_up();
    OK(cuModuleLoadData(&last.module, agsim_kernels_ptx));
    OK(cuLibraryLoadData(&last.library, agsim_kernels_ptx, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuGraphCreate(&last.graph, 0));
    OK(create_context(&last.context));
    OK(cuCtxSetCurrent(ctx));
    for (uint32_t step = 0; step < 5 * STEPS; step++) {
        body(s, buffer[0], step);
        if (step % 4 == 0)
            OK(cuLaunchHostFunc(s, end_all, NULL));
        body(s, buffer[1], step);
        if (step % 16 == 15)
            OK(cuStreamSynchronize(s));
    }
    OK(cuStreamSynchronize(s));
    for (unsigned i = 0; i < sizeof last.code / sizeof *last.code; i++)
        printf("%d ", (int)last.code[i]);
    OK(cuModuleUnload(last.module));
    OK(cuLibraryUnload(last.library));
    OK(cuCtxDestroy(last.context));
    OK(cuGraphDestroy(last.graph));
}

/* -- An allocator of the program -- */

enum { CACHED = 4 };

/* Its lock is had once: who takes it again has come back into the allocator. */
static struct {
    pthread_mutex_t lock;
    CUdeviceptr cached[CACHED];
    unsigned count;
    CUevent event; /* made when the allocator first gives memory back, with the lock */
} pool;

static CUdeviceptr pool_get(void)
{
    CUdeviceptr at;
    CHECK(pthread_mutex_lock(&pool.lock) == 0);
    if (pool.count != 0)
        at = pool.cached[--pool.count];
    else
        OK(cuMemAllocManaged(&at, 4 * N, CU_MEM_ATTACH_GLOBAL));
    CHECK(pthread_mutex_unlock(&pool.lock) == 0);
    return at;
}

static void pool_put(CUdeviceptr at)
{
    CHECK(pthread_mutex_lock(&pool.lock) == 0);
    if (pool.count == CACHED) {
        if (pool.event)
            OK(cuEventDestroy(pool.event));
        OK(cuEventCreate(&pool.event, CU_EVENT_DISABLE_TIMING));
        OK(cuEventRecord(pool.event, CU_STREAM_PER_THREAD));
        while (pool.count != 0)
            OK(cuMemFree(pool.cached[--pool.count]));
    }
    pool.cached[pool.count++] = at;
    CHECK(pthread_mutex_unlock(&pool.lock) == 0);
}

/* -- A thread that is told by host functions what to give back -- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t more;
    CUdeviceptr used[STEPS];
    unsigned told, done;
} worker = {.lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER};

static void CUDA_CB tell_worker(void *arg)
{
    pthread_mutex_lock(&worker.lock);
    worker.used[worker.told++] = (CUdeviceptr)(uintptr_t)arg;
    pthread_cond_signal(&worker.more);
    pthread_mutex_unlock(&worker.lock);
}

static void *gives_back(void *arg)
{
    OK(cuCtxSetCurrent(ctx));
    for (; worker.done < STEPS; worker.done++) {
        pthread_mutex_lock(&worker.lock);
        while (worker.told == worker.done)
            pthread_cond_wait(&worker.more, &worker.lock);
        CUdeviceptr at = worker.used[worker.done];
        pthread_mutex_unlock(&worker.lock);
        pool_put(at);
        pool_put(pool_get());
    }
    return arg;
}

/* Each step works in memory of the allocator, which another thread gives back when the stream has
   come so far. */
static void allocator(void)
{
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    pthread_mutexattr_t once;
    pthread_t thread;
    CHECK(pthread_mutexattr_init(&once) == 0);
    CHECK(pthread_mutexattr_settype(&once, PTHREAD_MUTEX_ERRORCHECK) == 0);
    CHECK(pthread_mutex_init(&pool.lock, &once) == 0);
    CHECK(pthread_create(&thread, NULL, gives_back, NULL) == 0);
    for (uint32_t step = 0; step < STEPS; step++) {
        CUdeviceptr at = pool_get();
        OK(cuMemsetD32Async(at, step, N, s));
        body(s, at, step);
        OK(cuMemcpyDtoDAsync(buffer[step % 2], at, 4 * N, s));
        OK(cuLaunchHostFunc(s, tell_worker, (void *)(uintptr_t)at));
        body(s, buffer[2], step);
        if (step % 16 == 15)
            OK(cuStreamSynchronize(s));
    }
    CHECK(pthread_join(thread, NULL) == 0);
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {{"in_functions", in_functions},
                                          {"in_callbacks", in_callbacks},
                                          {"of_a_blocking_stream", in_functions_of_the_default},
                                          {"ends", ends},
                                          {"allocator", allocator},
                                          {NULL, NULL}};
    run(all, argc, argv);
    show_all(argv[1]);
    return 0;
}
