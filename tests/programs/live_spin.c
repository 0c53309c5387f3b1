/* SPDX-License-Identifier: MIT */
/* live_spin.c: programs that wait for the device without telling the driver, or
 * that must go on while a kernel waits for them. Each finishes on the driver
 * alone. Prints the longest and the median wait in microseconds. */
#define _GNU_SOURCE
#include "sim_test.h"

#include <stdbool.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>

enum { STEPS = 60, MOST_STREAMS = 300, N = 16 };

static CUdeviceptr buffer;
static volatile uint32_t *word;
static double waits[STEPS * 4];
static unsigned nwaits;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static void spin_for(volatile uint32_t *at, uint32_t value)
{
    double begin = now();
    while (get_word(at) != value)
        sched_yield(); /* no call of the driver */
    if (nwaits < sizeof waits / sizeof waits[0])
        waits[nwaits++] = now() - begin;
}

/* A loop of three kernels, the last of which the host can see. */
static void body(CUstream s, volatile uint32_t *at, uint32_t step)
{
    CUdeviceptr mine = buffer + 4 * N * (CUdeviceptr)(at - word);
    OK(launch_mix(mine, N, step, s));
    OK(launch_mix(mine, N, 1, s));
    OK(launch_word(flag, at, step, s));
}

/* Makes the loop hot, so that more than one of its rounds is held at once. */
static void warm(CUstream s, volatile uint32_t *at)
{
    for (uint32_t i = 0; i < 400; i++)
        body(s, at, 0);
    OK(cuStreamSynchronize(s));
}

/* -- Waiting without a call -- */

static void spinning(CUstream s)
{
    warm(s, word);
    for (uint32_t step = 1; step <= STEPS; step++) {
        body(s, word, step);
        spin_for(word, step);
    }
}

static void legacy(void)
{
    spinning(CU_STREAM_LEGACY);
}

static void blocking(void)
{
    spinning(made(CU_STREAM_DEFAULT));
}

static void nonblocking(void)
{
    spinning(made(CU_STREAM_NON_BLOCKING));
}

static void per_thread(void)
{
    spinning(CU_STREAM_PER_THREAD);
}

static void *spinning_thread(void *arg)
{
    double begin = now();
    OK(cuCtxSetCurrent(ctx));
    volatile uint32_t *mine = word + (uintptr_t)arg;
    warm(CU_STREAM_PER_THREAD, mine);
    for (uint32_t step = 1; step <= STEPS; step++) {
        body(CU_STREAM_PER_THREAD, mine, step);
        while (get_word(mine) != step)
            sched_yield();
    }
    waits[(uintptr_t)arg] = (now() - begin) / STEPS;
    return NULL;
}

/* More per-thread default streams than there are relays for. */
static void threads(void)
{
    pthread_t t[20];
    for (uintptr_t i = 0; i < 20; i++)
        CHECK(pthread_create(&t[i], NULL, spinning_thread, (void *)i) == 0);
    for (uintptr_t i = 0; i < 20; i++)
        CHECK(pthread_join(t[i], NULL) == 0);
    nwaits = 20;
}

static void streams(void)
{
    enum { MANY = 30 }; /* as there are queues: no more may hold at a time */
    static CUstream s[MANY];
    for (unsigned i = 0; i < MANY; i++)
        s[i] = made(i % 2 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT);
    for (uint32_t step = 1; step <= 40; step++) {
        for (unsigned i = 0; i < MANY; i++)
            body(s[i], word + i, step);
        for (unsigned i = 0; i < MANY; i++)
            spin_for(word + i, step);
    }
}

/* -- Waiting in a callback -- */

static volatile uint32_t heard;

static void wait_in_callback(void *at)
{
    static uint32_t step;
    spin_for(at, ++step);
    set_word(&heard, step);
}

static void callback(void)
{
    CUstream s = made(CU_STREAM_NON_BLOCKING), other = made(CU_STREAM_NON_BLOCKING);
    warm(s, word);
    for (uint32_t step = 1; step <= STEPS; step++) {
        OK(cuLaunchHostFunc(other, wait_in_callback, (void *)word));
        body(s, word, step);
        while (get_word(&heard) != step)
            sched_yield();
    }
}

/* -- Polling -- */

static void poll_stream(void)
{
    CUstream s = made(CU_STREAM_NON_BLOCKING), other = made(CU_STREAM_NON_BLOCKING);
    warm(s, word);
    for (uint32_t step = 1; step <= STEPS; step++) {
        double begin = now();
        body(s, word, step);
        while (get_word(word) != step)
            OK(cuStreamQuery(other));
        waits[nwaits++] = now() - begin;
    }
}

/* The watchdog has submitted a loop of the thread's own default stream, by another way. The thread
   asks for the stream while the loop spins there. */
static void poll_relayed(void)
{
    CUstream s = CU_STREAM_PER_THREAD;
    unsigned early = 0;
    volatile uint32_t *other = host_words(1);
    for (uint32_t step = 1; step <= 400 + STEPS; step++) {
        set_word(other, step <= 400);
        OK(launch_word(spin, other, 1, s));
        body(s, word, step);
        if (step > 400) {
            usleep(20000);
            early += cuStreamQuery(s) == CUDA_SUCCESS;
            set_word(other, 1);
            while (get_word(word) != step)
                sched_yield();
        }
        if (step == 400)
            OK(cuStreamSynchronize(s));
    }
    CHECK(early == 0);
}

static void poll_event(void)
{
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    CUevent e;
    OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    for (uint32_t step = 0; step < STEPS * 4; step++) {
        double begin = now();
        CUresult r;
        body(s, word, step);
        OK(cuEventRecord(e, s));
        while ((r = cuEventQuery(e)) == CUDA_ERROR_NOT_READY)
            ;
        OK(r);
        CHECK(get_word(word) == step);
        waits[nwaits++] = now() - begin;
    }
}

/* The thread also asks for what happened long ago. */
static void poll_both(void)
{
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    CUevent past, e;
    OK(cuEventCreate(&past, CU_EVENT_DISABLE_TIMING));
    OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    OK(cuEventRecord(past, s));
    OK(cuStreamSynchronize(s));
    for (uint32_t step = 0; step < STEPS * 4; step++) {
        double begin = now();
        CUresult r;
        body(s, word, step);
        OK(cuEventRecord(e, s));
        do
            OK(cuEventQuery(past));
        while ((r = cuEventQuery(e)) == CUDA_ERROR_NOT_READY);
        OK(r);
        CHECK(get_word(word) == step);
        waits[nwaits++] = now() - begin;
    }
}

/* -- A kernel that waits for the host -- */

/* Hundreds of different loops get hot meanwhile: none may wait for the kernel. */
static void hot_loop(CUstream s, CUdeviceptr mine, uint32_t loop, uint32_t ops, uint32_t steps,
                     bool wait)
{
    for (uint32_t step = 0; step < steps; step++) {
        void *args[] = {&mine, &(uint32_t){N}, &step};
        for (uint32_t i = 0; i < ops; i++)
            OK(cuLaunchKernel(mix, 1 + loop, 1 + i, 1, N, 1, 1, 0, s, args, NULL));
        if (wait)
            OK(cuStreamSynchronize(s));
        else
            kick(s);
    }
}

static void stuck_with(unsigned loops, uint32_t ops)
{
    CUstream waiter = made(CU_STREAM_NON_BLOCKING), s[8];
    for (unsigned i = 0; i < 8; i++)
        s[i] = made(CU_STREAM_NON_BLOCKING);
    OK(cuCtxSynchronize());
    OK(launch_word(spin, word, 1, waiter));
    for (uint32_t loop = 0; loop < loops; loop++)
        hot_loop(s[loop % 8], buffer + 4 * N * (loop % 8), loop, ops, 12, false);
    set_word(word, 1);
    OK(cuCtxSynchronize());
}

static void stuck(void)
{
    stuck_with(400, 4);
}

/* The same with long loops, after many short ones, whose graphs were made while the device was idle
   and are gone: theirs was less memory. */
static void stuck_longer(void)
{
    CUstream early;
    OK(cuStreamCreate(&early, CU_STREAM_NON_BLOCKING));
    for (uint32_t loop = 0; loop < 80; loop++)
        hot_loop(early, buffer, loop, 4, 5, true); /* so few replays that none makes room */
    OK(cuStreamDestroy(early));
    stuck_with(80, 100);
}

/* The kernel that waits is in a stream which the library loses from sight, and the host waits for
   others. */
static void orphan(void (*launch)(CUstream hot))
{
    CUstream hot = made(CU_STREAM_NON_BLOCKING);
    OK(cuCtxSynchronize());
    launch(hot);
    for (uint32_t loop = 0; loop < 80; loop++)
        hot_loop(hot, buffer, loop, 4, 5, true); /* so few replays that none makes room */
    set_word(word, 1);
    OK(cuStreamSynchronize(hot));
}

static void destroyed(CUstream hot)
{
    CUstream waiter = made(CU_STREAM_NON_BLOCKING);
    (void)hot;
    OK(launch_word(spin, word, 1, waiter));
    OK(cuStreamDestroy(waiter));
}

/* What comes behind a wait for the stream: a kernel, or a graph with one. */
static CUstream waited_for(void)
{
    CUstream waiter;
    for (unsigned life = 0; life < 2; life++) {
        waiter = made(CU_STREAM_NON_BLOCKING);
        OK(launch_mix(buffer, 8, 1, waiter));
        OK(cuStreamSynchronize(waiter));
        if (life == 0)
            OK(cuStreamDestroy(waiter));
    }
    return waiter;
}

static void destroyed_behind_a_wait(CUstream hot)
{
    CUstream waiter = waited_for();
    (void)hot;
    OK(launch_word(spin, word, 1, waiter));
    OK(cuStreamDestroy(waiter));
}

static void destroyed_behind_a_graph(CUstream hot)
{
    CUstream waiter = waited_for();
    CUgraph graph;
    CUgraphExec exec;
    OK(cuStreamBeginCapture(hot, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(launch_word(spin, word, 1, hot));
    OK(cuStreamEndCapture(hot, &graph));
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphLaunch(exec, waiter));
    OK(cuStreamDestroy(waiter));
}

/* During a capture it cannot be asked whether the stream has work left. */
static void destroyed_in_capture(CUstream hot)
{
    CUstream waiter = made(CU_STREAM_NON_BLOCKING);
    CUgraph graph;
    OK(launch_word(spin, word, 1, waiter));
    OK(cuStreamBeginCapture(hot, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuStreamDestroy(waiter));
    OK(cuStreamEndCapture(hot, &graph));
    OK(cuGraphDestroy(graph));
}

/* Somebody gives back the context, which lives on. */
static void released(CUstream hot)
{
    CUcontext again;
    (void)hot;
    OK(launch_word(spin, word, 1, made(CU_STREAM_NON_BLOCKING)));
    OK(cuDevicePrimaryCtxRetain(&again, dev));
    CHECK(again == ctx);
    OK(cuDevicePrimaryCtxRelease(dev));
}

/* A stream that has a handle needs no current context. */
static void launched_without(CUstream hot)
{
    CUstream waiter = made(CU_STREAM_NON_BLOCKING);
    (void)hot;
    OK(cuCtxSetCurrent(NULL));
    OK(launch_word(spin, word, 1, waiter));
    OK(cuCtxSetCurrent(ctx));
}

static void stuck_orphan(void)
{
    orphan(destroyed);
}

static void waited_orphan(void)
{
    orphan(destroyed_behind_a_wait);
}

static void graph_orphan(void)
{
    orphan(destroyed_behind_a_graph);
}

static void captured_orphan(void)
{
    orphan(destroyed_in_capture);
}

static void released_orphan(void)
{
    orphan(released);
}

static void contextless_orphan(void)
{
    orphan(launched_without);
}

/* The same, but that the host then waits for everything, and goes on. */
static void orphan_ends(void)
{
    CUstream waiter, hot = made(CU_STREAM_NON_BLOCKING);
    OK(cuStreamCreate(&waiter, CU_STREAM_NON_BLOCKING));
    OK(launch_word(spin, word, 1, waiter));
    OK(cuStreamDestroy(waiter));
    for (uint32_t loop = 0; loop < 160; loop++) {
        hot_loop(hot, buffer, loop, 4, 5, true);
        if (loop == 80) {
            set_word(word, 1);
            OK(cuCtxSynchronize());
        }
    }
}

/* -- A kernel that waits for another ---------------------------------------- */

/* A kernel waits for what another stream has been given; the result is one that was never used. */
static CUkernel fresh_while_waiting(CUstream waiter)
{
    CUstream hot = made(CU_STREAM_NON_BLOCKING);
    CUlibrary library;
    CUkernel fresh;
    OK(cuLibraryLoadData(&library, agsim_kernels_ptx, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&fresh, library, "ag_nop"));
    for (unsigned i = 0; i < 30; i++) { /* so that one round is the beginning of a trace */
        for (unsigned round = 0; round < 3; round++)
            body(hot, word, 0);
        OK(cuStreamSynchronize(hot));
    }
    OK(launch_word(spin, word, 7, waiter));
    usleep(5000); /* it runs now */
    body(hot, word, 7);
    return fresh;
}

/* Loading it makes the driver wait for the one that runs, and all other launches for the driver. */
static void loading(void)
{
    CUstream waiter = made(CU_STREAM_NON_BLOCKING);
    CUfunction fresh = (CUfunction)fresh_while_waiting(waiter);
    OK(cuLaunchKernel(fresh, 1, 1, 1, 1, 1, 1, 0, waiter, NULL, NULL));
}

static void asking(void)
{
    CUfunction function;
    OK(cuKernelGetFunction(&function, fresh_while_waiting(made(CU_STREAM_NON_BLOCKING))));
}

/* The function of another library has the name of one that is known. */
static void naming(void)
{
    CUlibrary library;
    CUmodule module;
    CUfunction function;
    OK(cuLibraryLoadData(&library, agsim_kernels_ptx, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetModule(&module, library));
    (void)fresh_while_waiting(made(CU_STREAM_NON_BLOCKING));
    OK(cuModuleGetFunction(&function, module, "ag_mix"));
}

static void setting(void)
{
    CUkernel fresh = fresh_while_waiting(made(CU_STREAM_NON_BLOCKING));
    OK(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1024, fresh, dev));
}

static CUDA_KERNEL_NODE_PARAMS node_of(CUfunction function, CUkernel kernel)
{
    return (CUDA_KERNEL_NODE_PARAMS){.func = function,
                                     .kern = kernel,
                                     .ctx = kernel ? ctx : NULL,
                                     .gridDimX = 1,
                                     .gridDimY = 1,
                                     .gridDimZ = 1,
                                     .blockDimX = 1,
                                     .blockDimY = 1,
                                     .blockDimZ = 1};
}

/* A node is made of it. */
static void adding(void)
{
    CUgraph graph;
    CUgraphNode node;
    OK(cuGraphCreate(&graph, 0));
    CUDA_KERNEL_NODE_PARAMS params =
        node_of(NULL, fresh_while_waiting(made(CU_STREAM_NON_BLOCKING)));
    OK(cuGraphAddKernelNode(&node, graph, NULL, 0, &params));
}

static void changing(void)
{
    CUgraph graph;
    CUgraphNode node;
    CUDA_KERNEL_NODE_PARAMS params = node_of(nop, NULL);
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddKernelNode(&node, graph, NULL, 0, &params));
    params = node_of(NULL, fresh_while_waiting(made(CU_STREAM_NON_BLOCKING)));
    OK(cuGraphKernelNodeSetParams(node, &params));
}

/* ag_flag by way of local memory, by an index that only the GPU knows. */
static const char local_ptx[] =
    ".version 7.0\n.target sm_75\n.address_size 64\n"
    ".visible .entry ag_flag(.param .u64 addr, .param .u32 value)\n{\n"
    "  .local .align 4 .b8 words[4096];\n  .reg .b32 %r<5>;\n  .reg .b64 %rd<7>;\n"
    "  ld.param.u64 %rd1, [addr];\n  ld.param.u32 %r1, [value];\n  mov.u64 %rd2, words;\n"
    "  mov.u32 %r2, %tid.x;\n  mul.wide.u32 %rd3, %r2, 4;\n  add.s64 %rd4, %rd2, %rd3;\n"
    "  st.local.u32 [%rd4], %r1;\n  mov.u32 %r3, %ctaid.x;\n  mul.wide.u32 %rd5, %r3, 4;\n"
    "  add.s64 %rd6, %rd2, %rd5;\n  ld.local.u32 %r4, [%rd6];\n  st.global.u32 [%rd1], %r4;\n"
    "  ret;\n}\n";

/* An exec's node gets a function that has not been launched: its local memory makes the driver wait
 * for the kernel that runs. */
static void patching(void)
{
    CUstream waiter = made(CU_STREAM_NON_BLOCKING);
    CUmodule module;
    CUfunction local;
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec exec;
    CUdeviceptr at = (CUdeviceptr)(word + 1);
    uint32_t value = 3;
    void *args[] = {&at, &value};
    CUDA_KERNEL_NODE_PARAMS params = node_of(nop, NULL);
    OK(cuModuleLoadData(&module, local_ptx));
    OK(cuModuleGetFunction(&local, module, "ag_flag"));
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddKernelNode(&node, graph, NULL, 0, &params));
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    (void)fresh_while_waiting(waiter);
    params = node_of(local, NULL);
    params.kernelParams = args;
    OK(cuGraphExecKernelNodeSetParams(exec, node, &params));
    OK(cuGraphLaunch(exec, waiter));
    OK(cuStreamSynchronize(waiter));
    CHECK(get_word(word + 1) == 3);
}

/* Streams are created, more than there are free. */
static void creating(void)
{
    (void)fresh_while_waiting(made(CU_STREAM_NON_BLOCKING));
    for (unsigned i = 0; i < 32; i++)
        (void)made(CU_STREAM_NON_BLOCKING);
}

/* Once it is loaded, asking costs nothing. */
static void asking_again(void)
{
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    CUlibrary library;
    CUkernel kernel;
    CUfunction function;
    OK(cuLibraryLoadData(&library, agsim_kernels_ptx, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&kernel, library, "ag_nop"));
    for (uint32_t i = 0; i < 400; i++) {
        body(s, word, i);
        OK(cuKernelGetFunction(&function, kernel));
    }
}

/* A wait for a word, behind the write of another stream; more streams than the GPU has queues. */
static void words(void)
{
    CUstream s[64];
    for (unsigned i = 0; i < 64; i++)
        s[i] = made(CU_STREAM_NON_BLOCKING);
    for (uint32_t step = 1; step <= STEPS; step++)
        for (unsigned i = 0; i < 64; i++) {
            unsigned next = (i + 1) % 64;
            OK(launch_mix(buffer + 4 * N * i, N, step, s[i]));
            OK(cuStreamWriteValue32(s[i], (CUdeviceptr)(word + i), step, 0));
            OK(cuStreamWaitValue32(s[next], (CUdeviceptr)(word + i), step,
                                   CU_STREAM_WAIT_VALUE_GEQ));
        }
}

static int compare(const void *a, const void *b)
{
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } all[] = {{"legacy", legacy},
               {"blocking", blocking},
               {"nonblocking", nonblocking},
               {"per_thread", per_thread},
               {"threads", threads},
               {"streams", streams},
               {"callback", callback},
               {"poll_both", poll_both},
               {"poll_event", poll_event},
               {"poll_relayed", poll_relayed},
               {"poll_stream", poll_stream},
               {"stuck", stuck},
               {"stuck_longer", stuck_longer},
               {"stuck_orphan", stuck_orphan},
               {"waited_orphan", waited_orphan},
               {"graph_orphan", graph_orphan},
               {"captured_orphan", captured_orphan},
               {"released_orphan", released_orphan},
               {"contextless_orphan", contextless_orphan},
               {"orphan_ends", orphan_ends},
               {"loading", loading},
               {"asking", asking},
               {"asking_again", asking_again},
               {"naming", naming},
               {"setting", setting},
               {"adding", adding},
               {"changing", changing},
               {"patching", patching},
               {"creating", creating},
               {"words", words}};
    unsigned i = 0;
    CHECK(argc == 3);
    while (i < sizeof all / sizeof all[0] && strcmp(all[i].name, argv[1]))
        i++;
    CHECK(i < sizeof all / sizeof all[0]);
    alarm((unsigned)atoi(argv[2]));
    start();
    OK(cuMemAlloc(&buffer, 4 * N * MOST_STREAMS));
    OK(cuMemsetD32(buffer, 1, N * MOST_STREAMS));
    OK(cuCtxSynchronize());
    word = host_words(MOST_STREAMS);
    all[i].run();
    OK(cuCtxSynchronize());
    qsort(waits, nwaits, sizeof waits[0], compare);
    printf("%.0f %.0f\n", nwaits ? waits[nwaits - 1] : 0, nwaits ? waits[nwaits / 2] : 0);
    return 0;
}
