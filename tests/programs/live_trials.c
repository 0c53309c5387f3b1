/* SPDX-License-Identifier: MIT */
/*
 * live_trials.c SCENARIO: streams of which half is replayed, for so long that there is a duel: they
 * are held and eager in turn. Prints what came out, which is the same with the library as without
 * it.
 */
#include "live.h"

enum { ROUNDS = 1500, SAME = 4, ODD = 4 };

/* Some ops that come again in each step and, behind a wait, some that do not. */
static void half(CUstream s, CUdeviceptr at, uint32_t step)
{
    for (uint32_t k = 0; k < SAME; k++)
        OK(launch_mix(at, N, k == 1 ? step : k, s));
    OK(cuStreamSynchronize(s));
    for (uint32_t k = 0; k < ODD; k++) {
        uint32_t n = 8, at_most = (step * ODD + k) * 2654435761u >> 8;
        void *args[] = {&at, &n, &k};
        OK(cuLaunchKernel(mix, 1 + at_most % 7, 1, 1, 1 + at_most % 1000, 1, 1, 0, s, args, NULL));
    }
}

/* What the host reads in each step decides what comes next. */
static void values(void)
{
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    uint32_t word = 0;
    for (uint32_t step = 0; step < ROUNDS; step++) {
        half(s, buffer[1], 16 * step + word % 16);
        OK(cuMemcpyDtoHAsync(&word, buffer[1], sizeof word, s));
        OK(cuStreamSynchronize(s));
    }
}

/* Copies do not come again either, and it is asked what lies there where the stream is followed,
   since memory comes and goes. */
static void copies(void)
{
    CUdeviceptr other;
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    for (uint32_t step = 0; step < ROUNDS; step++) {
        half(s, buffer[1], step);
        OK(cuMemAlloc(&other, 4 * N));
        for (uint32_t k = 0; k < ODD; k++)
            OK(cuMemcpyDtoDAsync(buffer[2 + k % 2], buffer[1], 1 + (step * ODD + k) % (4 * N), s));
        OK(cuStreamSynchronize(s));
        OK(cuMemFree(other));
    }
}

/* Two streams that wait for each other's events. */
static void events(void)
{
    CUstream s[2] = {made(CU_STREAM_NON_BLOCKING), made(CU_STREAM_NON_BLOCKING)};
    CUevent event[2];
    for (unsigned i = 0; i < 2; i++)
        OK(cuEventCreate(&event[i], CU_EVENT_DISABLE_TIMING));
    for (uint32_t step = 0; step < ROUNDS; step++) {
        for (unsigned i = 0; i < 2; i++) {
            half(s[i], buffer[1], step);
            OK(cuEventRecord(event[i], s[i]));
            OK(cuStreamWaitEvent(s[!i], event[i], 0));
        }
        OK(cuStreamSynchronize(s[0]));
    }
}

/* The legacy stream and a blocking one. */
static void legacy(void)
{
    CUstream s = made(CU_STREAM_DEFAULT);
    for (uint32_t step = 0; step < ROUNDS; step++) {
        half(s, buffer[1], step);
        half(NULL, buffer[1], step);
        OK(cuCtxSynchronize());
    }
}

/* Captures, now and then, and graphs of the program's own. */
static void captures(void)
{
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    for (uint32_t step = 0; step < ROUNDS; step++) {
        half(s, buffer[1], step);
        if (step % 37 == 0) {
            CUgraph graph;
            CUgraphExec exec;
            OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
            body(s, buffer[1], step);
            OK(cuStreamEndCapture(s, &graph));
            OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
            OK(cuGraphLaunch(exec, s));
            OK(cuStreamSynchronize(s));
            OK(cuGraphExecDestroy(exec));
            OK(cuGraphDestroy(graph));
        }
        OK(cuStreamSynchronize(s));
    }
}

/* A stream ends wherever that is, and another one goes on. */
static void lives(void)
{
    for (uint32_t step = 0; step < ROUNDS;) {
        CUstream s = made(CU_STREAM_NON_BLOCKING);
        for (uint32_t end = step + 201; step < end; step++) {
            half(s, buffer[1], step);
            OK(cuStreamSynchronize(s));
        }
        half(s, buffer[1], step);
        OK(cuStreamDestroy(s));
        OK(cuCtxSynchronize());
    }
}

static CUstream shared;

static void *takes_over(void *arg)
{
    OK(cuCtxSetCurrent(ctx));
    for (uint32_t step = (uint32_t)(uintptr_t)arg, end = step + 150; step < end; step++) {
        half(shared, buffer[1], step);
        OK(cuStreamSynchronize(shared));
    }
    return NULL;
}

/* One thread after the other issues the ops of a stream. */
static void threads(void)
{
    shared = made(CU_STREAM_NON_BLOCKING);
    for (uintptr_t step = 0; step < ROUNDS; step += 150) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, takes_over, (void *)step) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
    }
}

static struct side {
    CUcontext context;
    CUfunction kernel;
    CUdeviceptr at;
    CUstream stream;
    CUevent recorded;
} side[2];
static pthread_barrier_t both;

/* In each step one thread goes on from what the other has recorded, and records that. */
static void *one_of_two(void *arg)
{
    unsigned me = (unsigned)(uintptr_t)arg;
    const struct side *own = &side[me];
    OK(cuCtxSetCurrent(own->context));
    for (uint32_t step = 0; step < ROUNDS; step++) {
        for (unsigned turn = 0; turn < 2; turn++) {
            if (turn == me) {
                OK(cuStreamWaitEvent(own->stream, side[1 - me].recorded, 0));
                for (uint32_t k = 0; k < SAME; k++) {
                    uint32_t words = N, add = k == 1 ? step : 2 * k + me;
                    void *args[] = {(void *)&own->at, &words, &add};
                    OK(cuLaunchKernel(own->kernel, 1, 1, 1, N, 1, 1, 0, own->stream, args, NULL));
                }
                OK(cuEventRecord(own->recorded, own->stream));
                if (step % 16 != 0)
                    OK(cuStreamSynchronize(own->stream));
            }
            (void)pthread_barrier_wait(&both);
        }
    }
    return NULL;
}

/* The second thread's side is that of this context, with this kernel. */
static void steps(CUcontext other, CUfunction kernel, CUdeviceptr at)
{
    pthread_t thread[2];
    CHECK(pthread_barrier_init(&both, NULL, 2) == 0);
    side[0] = (struct side){.context = ctx, .kernel = mix, .at = buffer[1]};
    side[1] = (struct side){.context = other, .kernel = kernel, .at = at};
    for (unsigned i = 0; i < 2; i++) {
        OK(cuCtxSetCurrent(side[i].context));
        side[i].stream = made(CU_STREAM_NON_BLOCKING);
        OK(cuEventCreate(&side[i].recorded, CU_EVENT_DISABLE_TIMING));
        OK(cuEventRecord(side[i].recorded, side[i].stream));
    }
    OK(cuCtxSetCurrent(ctx));
    for (uintptr_t i = 0; i < 2; i++)
        CHECK(pthread_create(&thread[i], NULL, one_of_two, (void *)i) == 0);
    for (uintptr_t i = 0; i < 2; i++)
        CHECK(pthread_join(thread[i], NULL) == 0);
}

static void in_step(void)
{
    steps(ctx, mix, buffer[1]);
}

/* A wait for what was recorded in another context is not held. */
static void apart(void)
{
    CUcontext other;
    CUmodule module;
    CUfunction kernel;
    CUdeviceptr at;
    OK(create_context(&other));
    OK(cuModuleLoadData(&module, agsim_kernels_ptx));
    OK(cuModuleGetFunction(&kernel, module, "ag_mix"));
    OK(cuMemAlloc(&at, 4 * N));
    OK(cuMemsetD32(at, 1, N));
    OK(cuCtxSynchronize());
    steps(other, kernel, at);
    OK(cuCtxSetCurrent(other));
    OK(cuCtxSynchronize());
    show("other", at);
    OK(cuCtxSetCurrent(ctx));
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {
        {"values", values},     {"copies", copies}, {"events", events},   {"legacy", legacy},
        {"captures", captures}, {"lives", lives},   {"threads", threads}, {"in_step", in_step},
        {"apart", apart},       {NULL, NULL}};
    run(all, argc, argv);
    show_all(argv[1]);
    return 0;
}
