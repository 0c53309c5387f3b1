/* SPDX-License-Identifier: MIT */
/* graph_branches.c SCENARIO: the program's own graphs with branches, and events in them. */
#define _GNU_SOURCE
#include "sim_test.h"

#include <sched.h>
#include <stdbool.h>

static volatile uint32_t *word;
static CUdeviceptr buffer;
static CUstream s, other;
static CUevent event;
static CUgraph graph;

static CUgraphNode kernel(CUfunction f, void **args, CUgraphNode *behind)
{
    CUgraphNode node;
    CUDA_KERNEL_NODE_PARAMS params = kernel_node(f, args);
    OK(cuGraphAddKernelNode(&node, graph, behind, behind != NULL, &params));
    return node;
}

static CUgraphNode on_word(CUfunction f, unsigned which, uint32_t value, CUgraphNode *behind)
{
    CUdeviceptr at = (CUdeviceptr)(uintptr_t)&word[which];
    void *args[] = {&at, &value};
    return kernel(f, args, behind);
}

static CUgraphNode mixes(uint32_t k, CUgraphNode *behind)
{
    uint32_t n = 1;
    void *args[] = {&buffer, &n, &k};
    return kernel(mix, args, behind);
}

static void begin(void)
{
    alarm(20);
    start();
    word = host_words(4);
    OK(cuMemAlloc(&buffer, 4));
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cuGraphCreate(&graph, 0));
}

static CUgraphExec instantiated(void)
{
    CUgraphExec exec;
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    return exec;
}

/* Two chains of three kernels each. */
static void orders(void)
{
    for (uint32_t chain = 0; chain < 2; chain++) {
        CUgraphNode last;
        for (uint32_t i = 0; i < 3; i++)
            last = mixes(10 * chain + i, i > 0 ? &last : NULL);
    }
    CUgraphExec exec = instantiated();
    for (int i = 0; i < 200; i++)
        OK(cuGraphLaunch(exec, s));
    OK(cuStreamSynchronize(s));
}

/* Each of two branches waits for the other. */
static void across(void)
{
    for (unsigned i = 0; i < 2; i++) {
        CUgraphNode first = on_word(flag, i, 1, NULL);
        CUgraphNode then = on_word(spin, 1 - i, 1, &first);
        then = on_word(flag, 2 + i, 1, &then);
        (void)on_word(spin, 3 - i, 1, &then);
    }
    CUgraphExec exec = instantiated();
    for (int i = 0; i < 50; i++) {
        for (unsigned w = 0; w < 4; w++)
            set_word(word + w, 0);
        OK(cuGraphLaunch(exec, s));
        OK(cuStreamSynchronize(s));
    }
}

static CUgraphNode await(CUgraphNode *behind)
{
    CUgraphNode node;
    OK(cuGraphAddEventWaitNode(&node, graph, behind, behind != NULL, event));
    return node;
}

/* What a branch records is there for others while another branch goes on. A wait that no edge
   orders behind the record is for the record before. */
static void events(void)
{
    OK(cuEventRecord(event, s));
    OK(cuStreamSynchronize(s));
    CUgraphNode record, first = on_word(spin, 0, 1, NULL);
    OK(cuGraphAddEventRecordNode(&record, graph, &first, 1, event));
    (void)on_word(spin, 1, 1, &record);
    CUgraphNode apart = await(NULL), behind = await(&record);
    (void)on_word(flag, 2, 1, &apart);
    (void)on_word(flag, 3, 1, &behind);
    CUgraphExec exec = instantiated();
    for (int i = 0; i < 50; i++) {
        for (unsigned w = 0; w < 4; w++)
            set_word(word + w, 0);
        OK(cuGraphLaunch(exec, s));
        EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(event));
        OK(cuStreamWaitEvent(other, event, 0));
        while (get_word(word + 2) == 0)
            sched_yield();
        CHECK(get_word(word + 3) == 0);
        EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(other));
        set_word(word, 1);
        OK(cuEventSynchronize(event));
        OK(cuStreamSynchronize(other));
        while (get_word(word + 3) == 0)
            sched_yield();
        EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(s));
        set_word(word + 1, 1);
        OK(cuStreamSynchronize(s));
    }
}

/* Two branches record the event: without an edge between the two the first record counts; with one,
 * the second. */
static void twice(bool in_order)
{
    CUgraphNode record[2], first = on_word(spin, 0, 1, NULL), second = on_word(spin, 1, 1, NULL);
    OK(cuGraphAddEventRecordNode(&record[0], graph, &first, 1, event));
    const CUgraphNode behind[] = {second, record[0]};
    OK(cuGraphAddEventRecordNode(&record[1], graph, behind, in_order ? 2 : 1, event));
    OK(cuGraphLaunch(instantiated(), s));
    set_word(word, 1);
    usleep(20000);
    printf("%s\n", cuEventQuery(event) == CUDA_SUCCESS ? "first" : "second");
    set_word(word + 1, 1);
    OK(cuEventSynchronize(event));
    OK(cuStreamSynchronize(s));
}

static void apart(void)
{
    twice(false);
}

static void ordered(void)
{
    twice(true);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } all[] = {{"orders", orders},
               {"across", across},
               {"events", events},
               {"apart", apart},
               {"ordered", ordered}};
    unsigned i = 0;
    CHECK(argc == 2);
    while (i < sizeof all / sizeof all[0] && strcmp(all[i].name, argv[1]))
        i++;
    CHECK(i < sizeof all / sizeof all[0]);
    begin();
    all[i].run();
    return 0;
}
