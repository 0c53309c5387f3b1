/* SPDX-License-Identifier: MIT */
/*
 * graph_room [room BRANCHES NODES | queues BRANCHES GRAPHS [idle]]: what graphs of branches wait
 * for while a kernel of another stream waits for the host. A thread lets that kernel go once a call
 * has been found asleep LOOKS times in a row: on a busy machine a call may be late, but sleeps not.
 *
 * room: how many execs can be made before making one waits, and how many of them can be destroyed
 * before that waits. Each has a fork and a join around branches of so many nodes; one branch is a
 * chain.
 *
 * queues: whether so many graphs in turn run, where the kernel's stream has more work behind it.
 * There is a stream for each branch, which waits for what the graph records at the branch's end.
 * Before each launch these streams fork and join, or have nothing to do (`idle`).
 *
 * Without arguments all that docs/measurements.md tells of, a line each.
 */
#include "live.h"

enum {
    MOST_BRANCHES = 16,
    MOST = 100,
    MOST_NODES = 128,
    LOOKS = 100,
    LAUNCHES = 64,
    TOGETHER = 8,
    SECONDS = 60
};

static volatile uint32_t *word;
static uint32_t awaited; /* by the kernel */
static CUstream held, stream[MOST_BRANCHES];
static CUdeviceptr at;
static CUevent forked, joined;
static CUevent ended[MOST_BRANCHES]; /* NULL: graphs record none */

/* -- A call that may wait ----------------------------------------------------------- */

static _Atomic unsigned calls; /* odd within one */
static _Atomic bool waited;

/* Whether the main thread sleeps. */
static bool is_asleep(void)
{
    char path[64], text[256] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)getpid());
    FILE *file = fopen(path, "r");
    CHECK(file != NULL && fgets(text, sizeof text, file) != NULL);
    fclose(file);
    return strstr(text, ") S ") != NULL;
}

static void *watch(void *arg)
{
    unsigned call = 0, asleep = 0;
    for (;; usleep(2000)) {
        asleep = call == calls && call % 2 == 1 && is_asleep() ? asleep + 1 : 0;
        call = calls;
        if (asleep < LOOKS || waited)
            continue;
        waited = true;
        set_word(word, awaited);
    }
    return arg;
}

static void call_begins(void)
{
    waited = false;
    calls++;
}

static bool call_waited(void)
{
    calls++;
    return waited;
}

/* -- Graphs -------------------------------------------------------------------------- */

static CUgraphNode add(CUgraph graph, const CUgraphNode *behind, unsigned count)
{
    CUgraphNode node;
    uint32_t n = 1, k = 3;
    void *args[] = {&at, &n, &k};
    CUDA_KERNEL_NODE_PARAMS params = kernel_node(mix, args);
    OK(cuGraphAddKernelNode(&node, graph, behind, count, &params));
    return node;
}

static CUgraphExec make(unsigned branches, unsigned nodes)
{
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode last[MOST_BRANCHES];
    OK(cuGraphCreate(&graph, 0));
    CUgraphNode first = add(graph, NULL, 0);
    for (unsigned b = 0; b < branches; b++) {
        last[b] = first;
        for (unsigned i = branches == 1; i < nodes; i++)
            last[b] = add(graph, &last[b], 1);
        if (ended[b])
            OK(cuGraphAddEventRecordNode(&last[b], graph, &last[b], 1, ended[b]));
    }
    if (branches > 1)
        (void)add(graph, last, branches);
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphDestroy(graph));
    return exec;
}

static void begin(void)
{
    pthread_t watcher;
    alarm(SECONDS);
    start();
    word = host_words(2);
    held = made(CU_STREAM_NON_BLOCKING);
    for (unsigned i = 0; i < MOST_BRANCHES; i++)
        stream[i] = NULL;
    OK(cuMemAlloc(&at, 4));
    OK(cuEventCreate(&forked, CU_EVENT_DISABLE_TIMING));
    OK(cuEventCreate(&joined, CU_EVENT_DISABLE_TIMING));
    OK(launch_word(spin, word, 0, held)); /* loading a kernel waits for those that run */
    OK(launch_word(flag, word + 1, 0, held));
    OK(launch_mix(at, 1, 1, held));
    OK(cuCtxSynchronize());
    CHECK(pthread_create(&watcher, NULL, watch, NULL) == 0);
}

/* Returns once the kernel runs, as far as the host can tell. */
static void hold(void)
{
    OK(launch_word(flag, word + 1, ++awaited, held));
    OK(launch_word(spin, word, awaited, held));
    while (get_word(word + 1) != awaited)
        sched_yield();
    usleep(10000);
}

/* -- What is measured ------------------------------------------------------------------ */

static void room(unsigned branches, unsigned nodes)
{
    CUgraphExec exec[MOST];
    unsigned made = 0, destroyed = 0;
    bool waits = false;
    hold();
    while (!waits && made < MOST) {
        call_begins();
        exec[made] = make(branches, nodes);
        waits = call_waited();
        made += !waits;
    }
    set_word(word, awaited);
    OK(cuCtxSynchronize());
    hold();
    for (waits = false; !waits && destroyed < made; destroyed += !waits) {
        call_begins();
        OK(cuGraphExecDestroy(exec[destroyed]));
        waits = call_waited();
    }
    printf("%u branches of %u: %u made, %u destroyed\n", branches, nodes, made, destroyed);
    set_word(word, awaited);
}

/* A fork and a join without a graph. */
static void fork_and_join(unsigned branches)
{
    OK(launch_mix(at, 1, 1, stream[0]));
    OK(cuEventRecord(forked, stream[0]));
    for (unsigned b = 1; b < branches; b++) {
        OK(cuStreamWaitEvent(stream[b], forked, 0));
        OK(launch_mix(at, 1, 1, stream[b]));
        OK(cuEventRecord(joined, stream[b]));
        OK(cuStreamWaitEvent(stream[0], joined, 0));
    }
}

static void queues(unsigned branches, unsigned graphs, bool idle)
{
    CUgraphExec exec[MOST];
    unsigned waits = 0;
    for (unsigned b = 0; b < branches; b++) {
        stream[b] = made(CU_STREAM_NON_BLOCKING);
        OK(cuEventCreate(&ended[b], CU_EVENT_DISABLE_TIMING));
    }
    for (unsigned i = 0; i < graphs; i++)
        exec[i] = make(branches, 2);
    for (unsigned i = 0; i < LAUNCHES; i += TOGETHER) {
        hold();
        OK(launch_mix(at, 1, 1, held));
        call_begins();
        for (unsigned j = i; j < i + TOGETHER; j++) {
            if (!idle)
                fork_and_join(branches);
            OK(cuGraphLaunch(exec[j % graphs], stream[0]));
            for (unsigned b = 1; b < branches; b++)
                OK(cuStreamWaitEvent(stream[b], ended[b], 0));
        }
        OK(cuStreamSynchronize(stream[0]));
        waits += call_waited();
        set_word(word, awaited);
        OK(cuCtxSynchronize());
    }
    printf("%u graphs of %u branches%s: %s\n", graphs, branches, idle ? ", alone" : "",
           waits != 0 ? "wait" : "run");
}

/* Each in a process of its own, since a context keeps what execs took. */
static void all(const char *program)
{
    static const char *const lines[] = {
        "room 1 16", "room 1 128", "room 2 4",   "room 3 4",   "room 4 4",        "room 6 4",
        "room 7 4",  "room 8 4",   "queues 2 1", "queues 7 1", "queues 7 1 idle", "queues 4 8"};
    for (unsigned i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        char command[512];
        snprintf(command, sizeof command, "'%s' %s", program, lines[i]);
        fflush(stdout);
        CHECK(system(command) == 0);
    }
}

int main(int argc, char **argv)
{
    if (argc == 1) {
        all(argv[0]);
        return 0;
    }
    CHECK(argc >= 4);
    unsigned branches = (unsigned)strtoul(argv[2], NULL, 10);
    unsigned count = (unsigned)strtoul(argv[3], NULL, 10);
    CHECK(branches > 0 && branches <= MOST_BRANCHES && count > 0 && count <= MOST_NODES);
    begin();
    if (strcmp(argv[1], "room") == 0)
        room(branches, count);
    else
        queues(branches, count, argc == 5);
    OK(cuCtxSynchronize());
    return 0;
}
