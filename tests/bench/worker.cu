/* SPDX-License-Identifier: MIT */
/*
 * The loops of the benchmark (tests/bench/benchmark.py). Each line of the standard input is one
 * measurement:
 *
 *   eager|graph NAME=NUMBER...      the numbers are the members of struct shape
 *
 * and is answered by a line: microseconds per iteration, and a checksum of all memory, which
 * depends on every operation and on their order. "graph" runs the same loop as one would write it
 * by hand: captured once for each body, launched in each iteration, with arguments set node by node
 * where they change. "calibrate" is answered by the microseconds that one round of a kernel takes.
 * Between lines the process sleeps, so that another one can be measured in turn.
 */
#include "include/autograph.h"
#include <atomic>
#include <optional>
#include <string.h>
#include <string>
#include <thread>
#include <unistd.h>

#include "loops.h"

/* -- By hand ---------------------------------------------------------------- */

/* The graphs that one would write for the loop, and an iteration by them. */
class by_hand
{
    const shape &s_;
    const lane *l_;
    std::vector<cudaGraphExec_t> execs_[2]; /* for even and odd iterations, one for each stream */
    cudaGraph_t graph_ = NULL;              /* whose nodes' arguments are set */
    std::vector<cudaGraphNode_t> nodes_;

    static bool shape_changes(const shape &s)
    {
        return s.loop == GRID || s.loop == GRIDS || s.loop == CHOICE;
    }

    /* Whether a node stays as it is. */
    bool is_constant(const op &op) const
    {
        return (s_.args == ONE && op.k != 0) || (s_.loop == GRID && op.k != odd_one(s_)) ||
               (s_.loop == CHOICE && op.k % 4 != 3);
    }

    template <typename Body> void add(int which, const lane &l, Body body)
    {
        capturing = true;
        execs_[which].push_back(capture(l.stream, body));
        capturing = false;
        CHECK(cudaGraphUpload(execs_[which].back(), l.stream));
    }

    cudaKernelNodeParams params(const op &op, arguments *a)
    {
        cudaKernelNodeParams p = {};
        p.func = (void *)functions[op.function];
        p.gridDim = dim3(op.grid);
        p.blockDim = dim3(op.block);
        p.sharedMemBytes = op.shared;
        p.kernelParams = a->pointers;
        return p;
    }

    /* A chain, node by node, since capturing does not say which node is which. */
    void build()
    {
        CHECK(cudaGraphCreate(&graph_, 0));
        for_each_op(s_, 0, [&](const op &op) {
            arguments a(s_, *l_, op, 0);
            cudaKernelNodeParams p = params(op, &a);
            cudaGraphNode_t node;
            CHECK(cudaGraphAddKernelNode(&node, graph_, nodes_.empty() ? NULL : &nodes_.back(),
                                         !nodes_.empty(), &p));
            nodes_.push_back(node);
        });
        cudaGraphExec_t exec;
        CHECK(cudaGraphInstantiate(&exec, graph_, 0));
        CHECK(cudaGraphUpload(exec, l_->stream));
        execs_[0].push_back(exec);
    }

  public:
    /* Whether somebody could write the graphs, and this class does. */
    static bool can(const shape &s)
    {
        bool set = s.args == ONE || s.args == ALL || shape_changes(s);
        return s.wait == 0 && (s.loop <= NESTED || shape_changes(s) || forks(s)) &&
               s.loop != NEVER && (!set || (s.mix == NOTHING && s.streams == 1 && !s.empty));
    }

    by_hand(const shape &s, const lane *l) : s_(s), l_(l)
    {
        if (s.args == ONE || s.args == ALL || shape_changes(s)) {
            build();
        } else if (forks(s)) {
            add(0, *l, [&] { fork_and_join(s, l, 0); });
        } else if (s.loop == NESTED) {
            for (unsigned part = 0; part < 2; part++)
                add(part, *l, [&] {
                    for (unsigned k = part ? NESTED_HEAD : 0;
                         k < NESTED_HEAD + (part ? NESTED_BODY : 0); k++)
                        run(s, *l, op{k, THREADS, 0, 0}, 0);
                });
        } else {
            for (int which = 0; which < (s.args == TWO || s.loop == PERIOD2 ? 2 : 1); which++)
                for (long lane = 0; lane < s.streams; lane++)
                    add(which, l[lane], [&] {
                        for_each_op(s, which, [&](const op &op) {
                            if (op.lane == lane)
                                run(s, l[lane], op, which);
                        });
                    });
        }
    }

    void step(long i)
    {
        if (s_.cpu > 0)
            for_each_op(s_, i, [&](const op &) { spin(s_.cpu); });
        if (s_.loop == NESTED) {
            CHECK(cudaGraphLaunch(execs_[0][0], l_->stream));
            for (long trip = 0; trip < trips(i); trip++)
                CHECK(cudaGraphLaunch(execs_[1][0], l_->stream));
            run(s_, *l_, op{NESTED_HEAD + NESTED_BODY, THREADS, 0, 0}, i);
            return;
        }
        if (graph_)
            for_each_op(s_, i, [&](const op &op) {
                if (is_constant(op))
                    return;
                arguments a(s_, *l_, op, i);
                cudaKernelNodeParams p = params(op, &a);
                CHECK(cudaGraphExecKernelNodeSetParams(execs_[0][0], nodes_[op.k], &p));
            });
        const auto &execs = execs_[i % 2 && !execs_[1].empty()];
        for (size_t lane = 0; lane < execs.size(); lane++)
            CHECK(cudaGraphLaunch(execs[lane], by_default(s_) ? NULL : l_[lane].stream));
        if (s_.back)
            read_back(s_, *l_);
    }

    ~by_hand()
    {
        for (auto &execs : execs_)
            for (auto exec : execs)
                CHECK(cudaGraphExecDestroy(exec));
        if (graph_)
            CHECK(cudaGraphDestroy(graph_));
    }
};

/* -- Measuring ------------------------------------------------------------- */

static void wait(const shape &s, const lane *l)
{
    for (long lane = 0; lane < (forks(s) ? 1 : s.streams); lane++)
        CHECK(cudaStreamSynchronize(by_default(s) ? NULL : l[lane].stream));
}

static void reset()
{
    std::vector<unsigned> host(2 * SIZE);
    for (const auto &l : lanes) {
        memset(l.back, 0, (ROOM + 1) * sizeof(*l.back));
        for (unsigned i = 0; i < 2 * SIZE; i++)
            host[i] = i + (unsigned)(&l - lanes.data()) * 4096;
        CHECK(cudaMemcpy(l.data, host.data(), host.size() * sizeof(unsigned),
                         cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy(l.other, host.data(), host.size() * sizeof(unsigned),
                         cudaMemcpyHostToDevice));
    }
    CHECK(cudaDeviceSynchronize());
}

/* All threads begin their timed iterations together. */
class gate
{
    std::atomic<long> waiting_{0};

  public:
    void pass(long threads)
    {
        waiting_.fetch_add(1);
        while (waiting_.load() < threads)
            ;
    }
};

struct span {
    double begin, end;
};

static span loop(const shape &s, const lane *l, bool graph, gate *start)
{
    span result;
    {
        std::optional<by_hand> hand;
        if (graph) {
            autograph_pause(); /* what is written by hand is not the library's to learn from */
            hand.emplace(s, l);
        }
        for (long i = 0; i < s.warmup + s.iterations; i++) {
            if (i == s.warmup) {
                wait(s, l);
                start->pass(s.threads);
                result.begin = now_us();
            }
            if (graph)
                hand->step(i);
            else
                eager(s, l, i);
            if (s.sync && (i + 1) % s.sync == 0)
                wait(s, l);
        }
        wait(s, l);
        result.end = now_us();
    }
    if (graph)
        autograph_resume();
    CHECK(cudaGetLastError());
    return result;
}

static void measure(const shape &s, bool graph)
{
    std::vector<span> spans(s.threads);
    std::vector<std::thread> threads;
    gate start;
    reset();
    for (long t = 1; t < s.threads; t++)
        threads.emplace_back([&, t] { spans[t] = loop(s, &lanes[t * s.streams], graph, &start); });
    spans[0] = loop(s, &lanes[0], graph, &start);
    for (auto &t : threads)
        t.join();
    span all = spans[0];
    for (const auto &one : spans)
        all = {std::min(all.begin, one.begin), std::max(all.end, one.end)};
    uint64_t hash = CHECKSUM_START;
    for (const auto &l : lanes) {
        hash = checksum(l.data, 2 * SIZE, hash);
        hash = checksum(l.other, 2 * SIZE, hash);
        hash = checksum_bytes(l.back + ROOM, sizeof(*l.back), hash);
    }
    printf("%.4f %016llx\n", (all.end - all.begin) / (double)s.iterations,
           (unsigned long long)hash);
    fflush(stdout);
}

/* Less the time of a short kernel. */
static void calibrate()
{
    const lane &l = lanes[0];
    double us[2] = {1e9, 1e9};
    const unsigned rounds[2] = {1000, 101000};
    for (int run = 0; run < 6; run++)
        for (int which = 0; which < 2; which++) {
            double begin = now_us();
            LAUNCH(mix, 1, THREADS, 0, l.stream, l.data, l.other, THREADS, 1, rounds[which]);
            CHECK(cudaStreamSynchronize(l.stream));
            us[which] = std::min(us[which], now_us() - begin);
        }
    printf("%.9f\n", (us[1] - us[0]) / (rounds[1] - rounds[0]));
    fflush(stdout);
}

/* -- Commands --------------------------------------------------------------- */

[[noreturn]] static void bad_line(const char *what, const char *word)
{
    fprintf(stderr, "worker: %s: '%s'\n", what, word);
    exit(2);
}

typedef long shape::*number;

static const struct {
    const char *name;
    number member;
    long least, most;
} numbers[] = {
    {"n", &shape::n, 1, 100000},
    {"args", &shape::args, CONSTANT, TWO},
    {"sync", &shape::sync, 0, 100000},
    {"rounds", &shape::rounds, 1, 100000000},
    {"mix", &shape::mix, 0, TIMED},
    {"streams", &shape::streams, 1, MOST_LANES},
    {"deal", &shape::deal, 1, 100000},
    {"loop", &shape::loop, 0, BRIEF},
    {"wait", &shape::wait, 0, 100000},
    {"back", &shape::back, 0, ROOM},
    {"backs", &shape::backs, 1, ROOM},
    {"empty", &shape::empty, 0, 1},
    {"threads", &shape::threads, 1, MOST_LANES},
    {"seed", &shape::seed, 0, 100000},
    {"warmup", &shape::warmup, 0, 100000000},
    {"iterations", &shape::iterations, 1, 100000000},
};

static void set(shape *s, char *word)
{
    char *value = strchr(word, '='), *end;
    if (!value)
        bad_line("NAME=NUMBER is wanted", word);
    *value++ = '\0';
    double number = strtod(value, &end);
    if (end == value || *end)
        bad_line("not a number", value);
    if (strcmp(word, "cpu") == 0) {
        s->cpu = number;
        return;
    }
    for (const auto &n : numbers)
        if (strcmp(word, n.name) == 0) {
            if (number < n.least || number > n.most)
                bad_line("out of range", value);
            s->*n.member = (long)number;
            return;
        }
    bad_line("unknown", word);
}

static lane new_lane()
{
    lane l;
    l.data = device_array<unsigned>(2 * ROOM);
    l.other = device_array<unsigned>(2 * SIZE);
    CHECK(cudaMallocHost((void **)&l.pinned, SIZE * sizeof(unsigned)));
    for (unsigned i = 0; i < SIZE; i++)
        l.pinned[i] = i * i;
    l.back = new unsigned[ROOM + 1]();
    CHECK(cudaStreamCreate(&l.stream));
    for (auto &event : l.events)
        CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    for (auto &event : l.times)
        CHECK(cudaEventCreate(&event));
    return l;
}

static void need(long count)
{
    while ((long)lanes.size() < count)
        lanes.push_back(new_lane());
}

int main()
{
    need(LANES);
    char line[1024];
    while (fgets(line, sizeof line, stdin)) {
        shape s = {1, CONSTANT, 0, 0, 1, 0, NOTHING, 1, 1, 1, STEADY, 0, 0, 1, 0, 1, 0};
        char *rest, *variant = strtok_r(line, " \n", &rest);
        if (!variant)
            continue;
        while (char *word = strtok_r(NULL, " \n", &rest))
            set(&s, word);
        if (s.streams * s.threads > MOST_LANES)
            bad_line("too many streams", variant);
        need(s.streams * s.threads);
        if (strcmp(variant, "calibrate") == 0)
            calibrate();
        else if (strcmp(variant, "eager") == 0)
            measure(s, false);
        else if (strcmp(variant, "ready") == 0)
            printf("ready\n"), fflush(stdout);
        else if (strcmp(variant, "graph") == 0 && by_hand::can(s))
            measure(s, true);
        else
            bad_line("cannot be run", variant);
    }
    return 0;
}
