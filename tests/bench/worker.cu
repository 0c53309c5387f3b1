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

#include "sample.h"

enum {
    LANES = 8,       /* that every process has */
    MOST_LANES = 64, /* that a line can ask for; they are made with the first one that does */
    SIZE = 256,
    THREADS = 32,
    EVENTS = 16,
};

struct shape {
    long n;          /* kernels per iteration */
    long args;       /* arguments that change in each iteration: see below */
    long sync;       /* iterations between two synchronizes; 0: only at the end */
    long rounds;     /* length of a kernel */
    double cpu;      /* us of work on the CPU before each launch */
    long mix;        /* what follows each kernel */
    long streams;    /* that each thread's kernels are dealt out to */
    long deal;       /* so many in a row to each */
    long threads;    /* each with streams of its own */
    long loop;       /* form of the loop */
    long empty;      /* kernels do nothing */
    long warmup;     /* iterations before the clock starts */
    long iterations; /* timed */
    long seed;       /* for loops that never repeat */
};

enum { CONSTANT, ONE, ALL, TWO };
enum { NOTHING, MEMSET, COPY, UPLOAD, EVENT };
enum { STEADY, PERIOD2, NESTED, NEVER };

/* Rounds of dependent arithmetic, so that it can be made to take a while. */
KERNEL(mix, unsigned *data, const unsigned *other, unsigned size, unsigned k, unsigned rounds)
{
    unsigned i = INDEX();
    if (i >= size)
        return;
    unsigned x = data[i] + other[i];
    for (unsigned r = 0; r < rounds; r++)
        x = x * 1664525u + (k ^ r);
    data[i] = x;
}

KERNEL(nothing, unsigned *data, unsigned k)
{
    (void)data;
    (void)k;
}

/* A stream and its memory. */
struct lane {
    cudaStream_t stream;
    cudaEvent_t events[EVENTS];
    unsigned *data, *other, *pinned; /* two halves of SIZE each */
};

static std::vector<lane> lanes;

struct op {
    unsigned k, block, shared;
    long lane;
};

static void spin(double us)
{
    if (us > 0)
        for (double end = now_us() + us; now_us() < end;)
            ;
}

/* -- The loop's body ------------------------------------------------------- */

struct arguments {
    unsigned *data;
    const unsigned *other;
    unsigned size, k, rounds;
    void *pointers[5];

    arguments(const shape &s, const lane &l, const op &op, long i)
    {
        bool all = s.args == ALL, odd = i % 2;
        data = l.data + (all && odd ? SIZE : 0);
        other = l.other + (all && odd ? SIZE : 0);
        size = all && odd ? THREADS - 1 : THREADS;
        k = op.k + (all || (s.args == ONE && op.k == 0) ? (unsigned)(i * s.n)
                    : s.args == TWO && odd              ? 1000
                                                        : 0);
        rounds = s.rounds + (all && odd);
        pointers[0] = &data;
        pointers[1] = &other;
        pointers[2] = &size;
        pointers[3] = &k;
        pointers[4] = &rounds;
    }
};

/* A captured graph records an event only if that is asked for. */
static thread_local bool capturing;

static void run(const shape &s, const lane &l, const op &op, long i)
{
    arguments a(s, l, op, i);
    if (s.empty)
        LAUNCH(nothing, 1, op.block, op.shared, l.stream, a.data, a.k);
    else
        LAUNCH(mix, 1, op.block, op.shared, l.stream, a.data, a.other, a.size, a.k, a.rounds);
    size_t bytes = SIZE * sizeof(*l.data);
    switch (s.mix) {
    case MEMSET:
        CHECK(cudaMemsetAsync(l.other, op.k & 0xff, bytes, l.stream));
        break;
    case COPY:
        CHECK(cudaMemcpyAsync(l.other, l.data, bytes, cudaMemcpyDeviceToDevice, l.stream));
        break;
    case UPLOAD:
        CHECK(cudaMemcpyAsync(l.other, l.pinned, bytes, cudaMemcpyHostToDevice, l.stream));
        break;
    case EVENT:
        if (capturing)
            CHECK(cudaEventRecordWithFlags(l.events[op.k % EVENTS], l.stream,
                                           cudaEventRecordExternal));
        else
            CHECK(cudaEventRecord(l.events[op.k % EVENTS], l.stream));
        break;
    }
}

enum { NESTED_HEAD = 2, NESTED_BODY = 4 };

static long trips(long i)
{
    return 3 + i * 7 % 5;
}

/* Calls f(op) for the ops of an iteration. */
template <typename F> static void for_each_op(const shape &s, long i, F f)
{
    auto kernel = [&](long k) {
        op op = {(unsigned)k, THREADS, 0, k / s.deal % s.streams};
        if (s.loop == PERIOD2 && i % 2)
            op.block = 2 * THREADS;
        if (s.loop == NEVER) /* the size of the shared memory, which nothing uses */
            op.shared =
                ((unsigned)(s.seed * 1000003 + i * s.n + k) * 2654435761u >> 17) / 8 * 16 % 40960;
        f(op);
    };
    if (s.loop == NESTED) {
        for (long k = 0; k < NESTED_HEAD; k++)
            kernel(k);
        for (long trip = 0; trip < trips(i); trip++)
            for (long k = 0; k < NESTED_BODY; k++)
                kernel(NESTED_HEAD + k);
        kernel(NESTED_HEAD + NESTED_BODY);
    } else
        for (long k = 0; k < s.n; k++)
            kernel(k);
}

static void eager(const shape &s, const lane *l, long i)
{
    for_each_op(s, i, [&](const op &op) {
        spin(s.cpu);
        run(s, l[op.lane], op, i);
    });
}

/* -- By hand ---------------------------------------------------------------- */

/* The graphs that one would write for the loop, and an iteration by them. */
class by_hand
{
    const shape &s_;
    const lane *l_;
    std::vector<cudaGraphExec_t> execs_[2]; /* for even and odd iterations, one for each stream */
    cudaGraph_t graph_ = NULL;              /* whose nodes' arguments are set */
    std::vector<cudaGraphNode_t> nodes_;

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
        p.func = (void *)mix;
        p.gridDim = dim3(1);
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
    by_hand(const shape &s, const lane *l) : s_(s), l_(l)
    {
        if (s.args == ONE || s.args == ALL) {
            build();
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
                if (s_.args == ONE && op.k != 0)
                    return;
                arguments a(s_, *l_, op, i);
                cudaKernelNodeParams p = params(op, &a);
                CHECK(cudaGraphExecKernelNodeSetParams(execs_[0][0], nodes_[op.k], &p));
            });
        const auto &execs = execs_[i % 2 && !execs_[1].empty()];
        for (size_t lane = 0; lane < execs.size(); lane++)
            CHECK(cudaGraphLaunch(execs[lane], l_[lane].stream));
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
    for (long lane = 0; lane < s.streams; lane++)
        CHECK(cudaStreamSynchronize(l[lane].stream));
}

static void reset()
{
    std::vector<unsigned> host(2 * SIZE);
    for (const auto &l : lanes) {
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
    {"mix", &shape::mix, 0, EVENT},
    {"streams", &shape::streams, 1, MOST_LANES},
    {"deal", &shape::deal, 1, 100000},
    {"loop", &shape::loop, 0, NEVER},
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
    l.data = device_array<unsigned>(2 * SIZE);
    l.other = device_array<unsigned>(2 * SIZE);
    CHECK(cudaMallocHost((void **)&l.pinned, SIZE * sizeof(unsigned)));
    for (unsigned i = 0; i < SIZE; i++)
        l.pinned[i] = i * i;
    CHECK(cudaStreamCreate(&l.stream));
    for (auto &event : l.events)
        CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
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
        shape s = {1, CONSTANT, 0, 1, 0, NOTHING, 1, 1, 1, STEADY, 0, 0, 1, 0};
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
        else if (strcmp(variant, "graph") == 0 && s.loop != NEVER &&
                 (s.args == CONSTANT || s.args == TWO ||
                  (s.mix == NOTHING && s.streams == 1 && !s.empty)))
            measure(s, true);
        else
            bad_line("cannot be run", variant);
    }
    return 0;
}
