/* SPDX-License-Identifier: MIT */
/*
 * live_untracked.c SCENARIO: many streams for one op each, which is another one each time; then
 * streams that the library does not follow yet, in whatever CUDA orders against others, or another
 * thread ends. Prints what came out, which is the same with the library as without it.
 */
#include "live.h"

enum { LIVES = 600, LOOPS = 60 };

/* One that comes only once. */
static void odd(CUstream s, CUdeviceptr at)
{
    static unsigned threads;
    uint32_t n = 8, k = threads;
    void *args[] = {&at, &n, &k};
    OK(cuLaunchKernel(mix, 1, 1, 1, 1 + threads++ % 1000, 1, 1, 0, s, args, NULL));
}

static void gone(CUstream s)
{
    OK(cuStreamSynchronize(s));
    OK(cuStreamDestroy(s));
}

static void short_lives(void)
{
    for (unsigned life = 0; life < LIVES; life++) {
        CUstream s = made(CU_STREAM_NON_BLOCKING);
        odd(s, buffer[0]);
        gone(s);
    }
}

/* Copies to and from it. */
static void copies(void)
{
    volatile uint32_t *words = host_words(2 * N);
    CUdeviceptr host;
    OK(cuMemHostGetDevicePointer(&host, (void *)words, 0));
    short_lives();
    for (uint32_t step = 0; step < STEPS; step++) {
        CUstream s = made(CU_STREAM_DEFAULT);
        for (unsigned i = 0; i < N; i++)
            words[i] = step + i;
        OK(cuMemcpyHtoDAsync(buffer[1], (void *)words, 4 * N, s));
        odd(s, buffer[1]);
        OK(cuMemcpyDtoHAsync((void *)(words + N), buffer[1], 4 * N, s));
        gone(s);
        OK(cuMemcpyHtoD(buffer[2], (void *)(words + N), 4 * N));
        OK(launch_mix(buffer[2], N, step, NULL));
    }
}

/* A stream that lasts is followed in the end. */
static void lasts(void)
{
    short_lives();
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    for (uint32_t step = 0; step < STEPS; step++) {
        body(s, buffer[1], step);
        OK(cuStreamSynchronize(s));
    }
    gone(s);
}

/* Streams that do the same in each step are not short for ever. */
static void gains(void)
{
    short_lives();
    for (uint32_t step = 0; step < 8 * LIVES; step++) {
        CUstream s = made(CU_STREAM_NON_BLOCKING);
        body(s, buffer[1], step);
        gone(s);
    }
}

/* The legacy stream holds what comes before, and holds again behind it. */
static void legacy(void)
{
    short_lives();
    for (uint32_t step = 0; step < STEPS; step++) {
        CUstream s = made(CU_STREAM_DEFAULT);
        body(NULL, buffer[1], step);
        OK(launch_mix(buffer[1], N, step, s));
        body(NULL, buffer[1], 0);
        gone(s);
    }
}

/* Destroys a stream, and makes the other kind of the same name. */
static void *renames(void *stream)
{
    CUstream *s = stream;
    unsigned flags;
    OK(cuCtxSetCurrent(ctx));
    OK(cuStreamGetFlags(*s, &flags));
    OK(cuStreamDestroy(*s));
    *s = made(flags ^ CU_STREAM_NON_BLOCKING);
    return NULL;
}

/* The main thread has made a stream of that name, too, but another one. */
static void renamed(void)
{
    unsigned same = 0;
    short_lives();
    for (uint32_t step = 0; step < STEPS; step++) {
        pthread_t thread;
        CUstream first = made(step % 2 ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING), s = first;
        CHECK(pthread_create(&thread, NULL, renames, &s) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
        same += s == first;
        body(NULL, buffer[1], step);
        if (step % 2)
            OK(cuStreamSynchronize(NULL));
        for (uint32_t i = 0; i < 5; i++) {
            body(s, buffer[1], i);
            if (step % 2)
                OK(cuStreamSynchronize(s));
            body(NULL, buffer[1], step);
            if (step % 2)
                OK(cuStreamSynchronize(NULL));
        }
        gone(s);
    }
    CHECK(same > 0 || getenv("AGSIM_LOG") == NULL); /* a real driver may take other names */
}

static CUcontext replaced_context;
static CUstream replaced_stream;

/* Ends a context and its stream, and makes both anew, the stream ordered with the legacy one. */
static void *replaces(void *unused)
{
    (void)unused;
    OK(cuCtxDestroy(replaced_context));
    OK(create_context(&replaced_context));
    replaced_stream = made(CU_STREAM_DEFAULT);
    return NULL;
}

/* The main thread has made a stream of that name in a context of that name, but of another kind. */
static void replaced(void)
{
    CUfunction function = mix;
    unsigned same = 0;
    for (unsigned round = 0; round < 6; round++) {
        CUcontext first, popped;
        CUdeviceptr at;
        CUmodule module;
        pthread_t thread;
        OK(create_context(&first));
        CUstream s = made(CU_STREAM_NON_BLOCKING);
        OK(cuCtxPopCurrent(&popped));
        replaced_context = first;
        CHECK(pthread_create(&thread, NULL, replaces, NULL) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
        same += first == replaced_context && s == replaced_stream;
        OK(cuCtxSetCurrent(replaced_context));
        OK(cuModuleLoadData(&module, agsim_kernels_ptx));
        OK(cuModuleGetFunction(&mix, module, "ag_mix"));
        OK(cuMemAlloc(&at, 4 * N));
        OK(cuMemsetD32(at, 1, N));
        for (uint32_t step = 0; step < STEPS; step++) {
            body(replaced_stream, at, step);
            body(NULL, at, 0);
        }
        show("context", at);
        OK(cuCtxDestroy(replaced_context));
        OK(cuCtxSetCurrent(ctx));
        mix = function;
    }
    CHECK(same > 0 || getenv("AGSIM_LOG") == NULL);
}

/* Events of a stream that is held, and of one that is young. */
static void events(void)
{
    CUevent before, behind;
    CUstream t = made(CU_STREAM_NON_BLOCKING);
    OK(cuEventCreate(&before, CU_EVENT_DISABLE_TIMING));
    OK(cuEventCreate(&behind, CU_EVENT_DISABLE_TIMING));
    short_lives();
    for (uint32_t step = 0; step < STEPS; step++) {
        CUstream s = made(CU_STREAM_NON_BLOCKING);
        body(t, buffer[1], step);
        OK(cuEventRecord(before, t));
        OK(cuStreamWaitEvent(s, before, 0));
        OK(launch_mix(buffer[1], N, step, s));
        OK(cuEventRecord(behind, s));
        OK(cuStreamWaitEvent(t, behind, 0));
        body(t, buffer[1], 0);
        OK(cuStreamSynchronize(t));
        gone(s);
    }
}

/* A graph of the program's, and one that is captured there. */
static void graphs(void)
{
    short_lives();
    for (uint32_t step = 0; step < STEPS; step++) {
        CUgraph graph;
        CUgraphExec exec;
        CUstream s = made(CU_STREAM_NON_BLOCKING);
        odd(s, buffer[1]);
        OK(cuStreamSynchronize(s));
        OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        body(s, buffer[1], step);
        OK(cuStreamEndCapture(s, &graph));
        OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
        CUstream other = made(CU_STREAM_NON_BLOCKING);
        OK(cuGraphLaunch(exec, other));
        OK(cuStreamSynchronize(other));
        OK(cuGraphLaunch(exec, s));
        OK(cuStreamSynchronize(s));
        OK(cuGraphExecDestroy(exec));
        OK(cuGraphDestroy(graph));
        gone(other);
        gone(s);
    }
}

/* Their context goes, and with it streams that were young. */
static void contexts(void)
{
    for (unsigned round = 0; round < 3; round++) {
        CUcontext c;
        CUdeviceptr at, first = buffer[0];
        CUfunction function = mix;
        CUmodule module;
        OK(create_context(&c));
        OK(cuModuleLoadData(&module, agsim_kernels_ptx));
        OK(cuModuleGetFunction(&mix, module, "ag_mix"));
        OK(cuMemAlloc(&at, 4 * N));
        OK(cuMemsetD32(at, 1, N));
        OK(cuCtxSynchronize());
        buffer[0] = at;
        short_lives();
        for (unsigned i = 0; i < 4; i++) {
            odd(made(CU_STREAM_NON_BLOCKING), at);
            OK(cuCtxSynchronize());
        }
        show("context", at);
        OK(cuCtxDestroy(c));
        OK(cuCtxSetCurrent(ctx));
        buffer[0] = first;
        mix = function;
        CUstream s = made(CU_STREAM_NON_BLOCKING);
        loop(s, buffer[1]);
        gone(s);
    }
}

static void *ends(void *s)
{
    OK(cuCtxSetCurrent(ctx));
    OK(cuStreamDestroy(s));
    return NULL;
}

static void *begins(void *s)
{
    OK(cuCtxSetCurrent(ctx));
    odd(s, buffer[2]);
    return NULL;
}

/* Threads that make such streams for others. */
static void threads(void)
{
    CUstream hot = made(CU_STREAM_NON_BLOCKING);
    short_lives();
    for (uint32_t step = 0; step < STEPS; step++) {
        pthread_t first, second;
        CUstream s = made(CU_STREAM_NON_BLOCKING);
        CHECK(pthread_create(&first, NULL, begins, s) == 0);
        body(hot, buffer[1], step);
        CHECK(pthread_join(first, NULL) == 0);
        odd(s, buffer[2]);
        CHECK(pthread_create(&second, NULL, ends, s) == 0);
        body(hot, buffer[1], step);
        OK(cuStreamSynchronize(hot));
        CHECK(pthread_join(second, NULL) == 0);
        OK(cuCtxSynchronize()); /* it may have gone with work left */
    }
    /* The threads may have cut each sequence at another place: alone it is replayed. */
    for (uint32_t step = 0; step < STEPS; step++) {
        body(hot, buffer[1], step);
        OK(cuStreamSynchronize(hot));
    }
}

/* More hot loops than there are graphs without a wait for running kernels. */
static void hot_loops(CUstream s)
{
    for (unsigned i = 0; i < LOOPS; i++)
        for (uint32_t step = 0; step < 8; step++) {
            uint32_t n = N;
            void *args[] = {&buffer[1], &n, &step};
            for (unsigned k = 0; k < BODY; k++)
                OK(cuLaunchKernel(mix, 2 + i, 1, 1, N, 1, 1, 0, s, args, NULL));
            OK(cuStreamSynchronize(s));
        }
}

/* The moments for them: a young stream has done its work. */
static void idle(void)
{
    CUstream young = made(CU_STREAM_NON_BLOCKING), hot = made(CU_STREAM_NON_BLOCKING);
    OK(launch_mix(buffer[0], N, 1, hot)); /* the kernel is loaded */
    OK(cuStreamSynchronize(hot));
    short_lives();
    CUstream other = made(CU_STREAM_NON_BLOCKING);
    odd(young, buffer[2]);
    odd(other, buffer[3]);
    OK(cuStreamSynchronize(young));
    OK(cuStreamSynchronize(other));
    hot_loops(hot);
    gone(young);
    gone(other);
}

static volatile uint32_t *word;
static CUstream waiting;

static void *waits(void *destroyed)
{
    OK(cuCtxSetCurrent(ctx));
    OK(launch_word(spin, word, 1, waiting));
    if (destroyed != NULL)
        OK(cuStreamDestroy(waiting));
    return NULL;
}

/* A kernel in it waits for the host: there is no such moment. */
static void busy(bool thread, bool destroyed)
{
    pthread_t t;
    word = host_words(1);
    CUstream hot = made(CU_STREAM_NON_BLOCKING);
    OK(launch_mix(buffer[0], N, 1, hot));
    set_word(word, 1);
    OK(launch_word(spin, word, 1, hot)); /* both kernels are loaded */
    OK(cuStreamSynchronize(hot));
    set_word(word, 0);
    short_lives();
    waiting = made(CU_STREAM_NON_BLOCKING);
    if (thread) {
        CHECK(pthread_create(&t, NULL, waits, destroyed ? &t : NULL) == 0);
        CHECK(pthread_join(t, NULL) == 0);
    } else {
        (void)waits(destroyed ? &t : NULL);
    }
    hot_loops(hot);
    set_word(word, 1);
    if (!destroyed)
        gone(waiting);
    gone(hot);
}

static void stuck(void)
{
    busy(false, false);
}

static void stuck_beside(void)
{
    busy(true, false);
}

static void stuck_orphan(void)
{
    busy(true, true);
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {{"copies", copies},
                                          {"lasts", lasts},
                                          {"gains", gains},
                                          {"legacy", legacy},
                                          {"events", events},
                                          {"renamed", renamed},
                                          {"replaced", replaced},
                                          {"graphs", graphs},
                                          {"contexts", contexts},
                                          {"threads", threads},
                                          {"idle", idle},
                                          {"stuck", stuck},
                                          {"stuck_beside", stuck_beside},
                                          {"stuck_orphan", stuck_orphan},
                                          {NULL, NULL}};
    run(all, argc, argv);
    show_all(argv[1]);
    return 0;
}
