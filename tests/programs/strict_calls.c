/* SPDX-License-Identifier: MIT */
/*
 * strict_calls.c: the program plays the library under test (AGSIM_LIBRARY): it makes calls that may
 * wait for work while a kernel waits for the host. What each scenario may not do, its `ordered`
 * form does where nothing is left to do, or behind what is.
 */
#include "sim_test.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

#include "agsim.h"

enum { N = 32, ROOM = 1024, EXECS = 32, MOST_STREAMS = 40, QUEUES = 8 };

static CUstream at_work, other;
static CUdeviceptr buffer[3];
static volatile uint32_t *word;
static bool ordered;

static void *release(void *arg)
{
    (void)arg;
    usleep(30000);
    set_word(word, 1);
    return NULL;
}

/* A kernel that ends with the process's release, in the one stream. */
static void begin(void)
{
    static pthread_t thread;
    OK(launch_word(spin, word, 1, at_work));
    CHECK(!pthread_create(&thread, NULL, release, NULL));
    if (ordered)
        OK(cuCtxSynchronize());
}

/* Kernels side by side. */
static CUgraphExec exec_wide(unsigned paths, CUfunction f, void **args)
{
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode node;
    CUDA_KERNEL_NODE_PARAMS params = kernel_node(f, args);
    OK(cuGraphCreate(&graph, 0));
    for (unsigned i = 0; i < paths; i++)
        OK(cuGraphAddKernelNode(&node, graph, NULL, 0, &params));
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    return exec;
}

static CUgraphExec exec_of(CUfunction f, void **args)
{
    return exec_wide(1, f, args);
}

static void instantiate(void)
{
    begin();
    for (unsigned i = 0; i < EXECS; i++)
        (void)exec_of(nop, NULL);
}

static void create(void)
{
    begin();
    for (unsigned i = 0; i < MOST_STREAMS; i++)
        (void)made(CU_STREAM_NON_BLOCKING);
}

static void unpin(void)
{
    volatile uint32_t *words = host_words(1);
    begin();
    OK(cuMemFreeHost((void *)words));
}

static void load(void)
{
    CUlibrary library;
    CUkernel kernel;
    CUfunction f;
    OK(cuLibraryLoadData(&library, agsim_kernels_ptx, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&kernel, library, "ag_nop"));
    begin();
    OK(cuKernelGetFunction(&f, kernel));
}

static void synchronize(void)
{
    begin();
    OK(cuStreamSynchronize(at_work));
}

/* Entries behind the kernel: one upload, then as many ops as there is room for, or one more. */
static void fill(void)
{
    CUgraphExec exec = exec_of(nop, NULL);
    begin();
    if (!ordered)
        OK(cuGraphUpload(exec, at_work));
    for (unsigned i = 0; i < ROOM - 1; i++)
        OK(cuLaunchKernel(nop, 1, 1, 1, 1, 1, 1, 0, at_work, NULL, NULL));
}

static void upload(void)
{
    CUgraphExec exec = exec_of(nop, NULL);
    begin();
    for (unsigned i = 0; i < ROOM - 1; i++)
        OK(cuLaunchKernel(nop, 1, 1, 1, 1, 1, 1, 0, ordered ? other : at_work, NULL, NULL));
    OK(cuGraphUpload(exec, at_work));
}

static volatile uint32_t full;

static void *overfill(void *arg)
{
    OK(cuCtxSetCurrent(ctx));
    for (unsigned i = 0; i < ROOM + 1; i++) {
        set_word(&full, i);
        OK(cuLaunchKernel(nop, 1, 1, 1, 1, 1, 1, 0, at_work, NULL, NULL));
    }
    return arg;
}

static void beside(void)
{
    CUevent event;
    pthread_t thread;
    begin();
    CHECK(!pthread_create(&thread, NULL, overfill, NULL));
    while (get_word(&full) < ROOM - 1)
        sched_yield();
    usleep(10000);
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CHECK(!pthread_join(thread, NULL));
}

static void no_copy(const struct agsim_launch *launch, void **params)
{
    (void)launch;
    (void)params;
}

static CUgraphExec read_back(void)
{
    static const size_t sizes[] = {8, 8, 4};
    CUmodule module;
    CUfunction f;
    void *args[] = {&buffer[0], &buffer[1], &(uint32_t){4}};
    OK(cuModuleLoadData(&module, agsim_register_kernel("autograph_fetch", 3, sizes, no_copy)));
    OK(cuModuleGetFunction(&f, module, "autograph_fetch"));
    return exec_of(f, args);
}

static void fetch(void)
{
    CUgraphExec exec = read_back();
    begin();
    OK(cuGraphLaunch(exec, other));
}

/* Behind the kernel, and beside what comes later. */
static void fetch_first(void)
{
    CUgraphExec exec = read_back();
    begin();
    OK(cuGraphLaunch(exec, at_work));
    OK(launch_mix(buffer[2], N, 1, other));
}

static void chain(void)
{
    CUevent event;
    CUgraphExec exec = exec_of(nop, NULL);
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(launch_word(spin, word, 1, at_work));
    OK(cuGraphLaunch(exec, at_work));
    OK(cuEventRecord(event, at_work));
    if (ordered)
        OK(cuStreamWaitEvent(other, event, 0));
    OK(cuGraphLaunch(exec, other));
    set_word(word, 1);
}

/* Streams that have had kernels keep their queues; ordered: others have none. */
static void queues(void)
{
    CUgraphExec exec = exec_wide(QUEUES / 2, nop, NULL);
    for (unsigned i = 0; i < QUEUES / 2; i++) {
        CUstream s = made(CU_STREAM_NON_BLOCKING);
        if (!ordered)
            OK(cuLaunchKernel(nop, 1, 1, 1, 1, 1, 1, 0, s, NULL, NULL));
    }
    OK(cuCtxSynchronize());
    OK(cuGraphLaunch(exec, other));
}

static const struct scenario {
    const char *name;
    void (*run)(void);
} scenarios[] = {{"instantiate", instantiate},
                 {"create", create},
                 {"unpin", unpin},
                 {"load", load},
                 {"fill", fill},
                 {"synchronize", synchronize},
                 {"upload", upload},
                 {"beside", beside},
                 {"fetch", fetch},
                 {"later", fetch_first},
                 {"chain", chain},
                 {"queues", queues},
                 {NULL, NULL}};

/* All kernels are loaded. */
static void prepare(void)
{
    start();
    at_work = made(CU_STREAM_NON_BLOCKING);
    other = made(CU_STREAM_NON_BLOCKING);
    word = host_words(1);
    set_word(word, 1);
    for (unsigned b = 0; b < 3; b++)
        OK(cuMemAlloc(&buffer[b], 4 * N));
    OK(launch_word(spin, word, 1, other));
    OK(launch_mix(buffer[2], N, 1, other));
    OK(cuLaunchKernel(nop, 1, 1, 1, 1, 1, 1, 0, other, NULL, NULL));
    OK(cuCtxSynchronize());
    set_word(word, 0);
}

int main(int argc, char **argv)
{
    const struct scenario *s = scenarios;
    CHECK(argc >= 2);
    ordered = argc > 2;
    while (s->name && strcmp(s->name, argv[1]))
        s++;
    CHECK(s->name);
    alarm(100);
    prepare();
    s->run();
    set_word(word, 1);
    OK(cuCtxSynchronize());
    return 0;
}
