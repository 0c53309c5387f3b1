/* SPDX-License-Identifier: MIT */
/*
 * loops.h: the loops that tests/bench/worker.cu measures, as a program would write them.
 */
#ifndef LOOPS_H
#define LOOPS_H

#include <string.h>
#include <vector>

#include "sample.h"

enum {
    LANES = 8,       /* that every process has */
    MOST_LANES = 64, /* that a line can ask for; they are made with the first one that does */
    SIZE = 256,
    ROOM = 4 * SIZE, /* words of the arrays that a copy may read */
    THREADS = 32,
    EVENTS = 16,
    FORKED = EVENTS - 2, /* of these, those that order branches */
    JOINED,
};

struct shape {
    long n;       /* kernels per iteration */
    long args;    /* arguments that change in each iteration: see below */
    long sync;    /* iterations between two synchronizes; 0: only at the end */
    long wait;    /* kernels between two synchronizes within an iteration; 0: none */
    long rounds;  /* length of a kernel */
    double cpu;   /* us of work on the CPU before each launch */
    long mix;     /* what follows each kernel */
    long streams; /* that each thread's kernels are dealt out to */
    long deal;    /* so many in a row to each */
    long threads; /* each with streams of its own */
    long loop;    /* form of the loop */
    long empty;   /* kernels do nothing */
    long back;    /* words that a blocking copy reads back at the end of each iteration; 0: none */
    long backs;   /* so many copies */
    long warmup;  /* iterations before the clock starts */
    long iterations; /* timed */
    long seed;       /* for loops that never repeat */
};

enum { CONSTANT, ONE, ALL, TWO };
enum {
    NOTHING,
    MEMSET,
    COPY,
    UPLOAD,
    EVENT,
    TIMED /* events with timing before the first kernel and behind the last */
};
enum {
    STEADY,
    PERIOD2,
    NESTED,
    NEVER,     /* each kernel has another size of dynamic shared memory */
    GRID,      /* one kernel has another grid in each iteration, */
    GRIDS,     /* or each has */
    COUNT,     /* one kernel is launched once, or up to 15 times more */
    CHOICE,    /* every fourth kernel is one of three */
    SIZES,     /* memsets and copies have other sizes */
    MADE,      /* each iteration has a stream of its own */
    UPLOADS,   /* 64 bytes from pageable memory before each half of the kernels */
    SETTERS,   /* each kernel after a setter of its function */
    ALLOCATES, /* each iteration allocates, sets and frees memory in its stream */
    FORK,      /* the first stream forks to all others, n kernels go to each, and they are joined */
    FORKS,     /* it forks to half of them, each half forks to half of its own, and so on */
    BRIEF,     /* as FORK, by events that are made and destroyed for each wait */
};

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

/* Other functions with the parameters of mix. */
KERNEL(turn, unsigned *data, const unsigned *other, unsigned size, unsigned k, unsigned rounds)
{
    unsigned i = INDEX();
    if (i < size)
        data[i] = (data[i] << 5 | data[i] >> 27) ^ (other[i] + k * rounds);
}

KERNEL(fold, unsigned *data, const unsigned *other, unsigned size, unsigned k, unsigned rounds)
{
    unsigned i = INDEX();
    if (i < size)
        data[i] = data[i] * 31 + other[size - 1 - i] + k + rounds;
}

typedef void mixing(unsigned *, const unsigned *, unsigned, unsigned, unsigned);
static mixing *const functions[] = {mix, turn, fold};

KERNEL(nothing, unsigned *data, unsigned k)
{
    (void)data;
    (void)k;
}

/* A stream and its memory. */
struct lane {
    cudaStream_t stream;
    cudaEvent_t events[EVENTS], times[2];
    unsigned *data, *other, *pinned; /* two halves of SIZE each */
    unsigned *back; /* pageable: what was read back, and then a hash of all of it */
};

static std::vector<lane> lanes;

struct op {
    unsigned k, block, shared;
    long lane;
    unsigned grid = 1, function = 0;
    size_t bytes = SIZE * sizeof(unsigned); /* of the memset or copy behind it */
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
        size = all && odd ? THREADS - 1 : s.loop == GRID || s.loop == GRIDS ? SIZE : THREADS;
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

static void record(cudaEvent_t event, const lane &l)
{
    CHECK(cudaEventRecordWithFlags(event, l.stream, capturing ? cudaEventRecordExternal : 0));
}

static void run(const shape &s, const lane &l, const op &op, long i)
{
    arguments a(s, l, op, i);
    if (s.mix == TIMED && op.k == 0)
        record(l.times[0], l);
    if (s.empty)
        LAUNCH(nothing, 1, op.block, op.shared, l.stream, a.data, a.k);
    else
        LAUNCH(functions[op.function], op.grid, op.block, op.shared, l.stream, a.data, a.other,
               a.size, a.k, a.rounds);
    switch (s.mix) {
    case MEMSET:
        CHECK(cudaMemsetAsync(l.other, op.k & 0xff, op.bytes, l.stream));
        break;
    case COPY:
        CHECK(cudaMemcpyAsync(l.other, l.data, op.bytes, cudaMemcpyDeviceToDevice, l.stream));
        break;
    case UPLOAD:
        CHECK(cudaMemcpyAsync(l.other, l.pinned, op.bytes, cudaMemcpyHostToDevice, l.stream));
        break;
    case EVENT:
        if (capturing)
            record(l.events[op.k % EVENTS], l);
        else
            CHECK(cudaEventRecord(l.events[op.k % EVENTS], l.stream));
        break;
    case TIMED:
        if (op.k == s.n - 1)
            record(l.times[1], l);
        break;
    }
}

enum { NESTED_HEAD = 2, NESTED_BODY = 4 };

static long trips(long i)
{
    return 3 + i * 7 % 5;
}

/* One of 32,768 numbers, for kernel k of iteration i. */
static unsigned draw(const shape &s, long i, long k)
{
    return (unsigned)(s.seed * 1000003 + i * s.n + k) * 2654435761u >> 17;
}

/* The only kernel of an iteration that differs, in loops in which one does. */
static long odd_one(const shape &s)
{
    return s.n / 2;
}

static op kernel_of(const shape &s, long i, long k)
{
    op op = {(unsigned)k, THREADS, 0, k / s.deal % s.streams};
    unsigned random = draw(s, i, k);
    if (s.loop == PERIOD2 && i % 2)
        op.block = 2 * THREADS;
    if (s.loop == NEVER) /* nothing uses the shared memory */
        op.shared = random / 8 * 16 % 40960;
    if (s.loop == GRIDS || (s.loop == GRID && k == odd_one(s)))
        op.grid = 1 + random % (SIZE / THREADS);
    if (s.loop == CHOICE && k % 4 == 3)
        op.function = random % 3;
    if (s.loop == SIZES)
        op.bytes = sizeof(unsigned) * (1 + random % SIZE);
    return op;
}

/* Calls f(op) for the ops of an iteration. */
template <typename F> static void for_each_op(const shape &s, long i, F f)
{
    if (s.loop == NESTED) {
        for (long k = 0; k < NESTED_HEAD; k++)
            f(kernel_of(s, i, k));
        for (long trip = 0; trip < trips(i); trip++)
            for (long k = 0; k < NESTED_BODY; k++)
                f(kernel_of(s, i, NESTED_HEAD + k));
        f(kernel_of(s, i, NESTED_HEAD + NESTED_BODY));
        return;
    }
    for (long k = 0; k < s.n; k++) {
        long times = s.loop == COUNT && k == odd_one(s) ? 1 + draw(s, i, k) % 16 : 1;
        while (times-- > 0)
            f(kernel_of(s, i, k));
    }
}

/* -- Forks and joins ---------------------------------------------------------- */

static bool forks(const shape &s)
{
    return s.loop == FORK || s.loop == FORKS || s.loop == BRIEF;
}

/* What the stream does from now on comes behind what the other one has done. */
static void edge(const lane &from, const lane &to, int event)
{
    CHECK(cudaEventRecord(from.events[event], from.stream));
    CHECK(cudaStreamWaitEvent(to.stream, from.events[event], 0));
}

static void launch_in(const shape &s, const lane *l, long lane, long i)
{
    for (long k = 0; k < s.n; k++) {
        spin(s.cpu);
        run(s, l[lane], op{(unsigned)k, THREADS, 0, lane}, i);
    }
}

static void fork_halves(const shape &s, const lane *l, long first, long end, long i)
{
    long middle = (first + end + 1) / 2;
    if (end - first == 1) {
        launch_in(s, l, first, i);
        return;
    }
    edge(l[first], l[middle], FORKED);
    fork_halves(s, l, first, middle, i);
    fork_halves(s, l, middle, end, i);
    edge(l[middle], l[first], JOINED);
}

/* The same by an event that lives no longer, as PyTorch's wait_stream does it. */
static void brief_edge(const lane &from, const lane &to)
{
    cudaEvent_t event;
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    CHECK(cudaEventRecord(event, from.stream));
    CHECK(cudaStreamWaitEvent(to.stream, event, 0));
    CHECK(cudaEventDestroy(event));
}

static void fork_briefly(const shape &s, const lane *l, long i)
{
    for (long lane = 1; lane < s.streams; lane++)
        brief_edge(*l, l[lane]);
    for (long lane = 0; lane < s.streams; lane++)
        launch_in(s, l, lane, i);
    for (long lane = 1; lane < s.streams; lane++)
        brief_edge(l[lane], *l);
}

static void fork_and_join(const shape &s, const lane *l, long i)
{
    if (s.loop == FORKS) {
        fork_halves(s, l, 0, s.streams, i);
        return;
    }
    if (s.loop == BRIEF) {
        fork_briefly(s, l, i);
        return;
    }
    CHECK(cudaEventRecord(l->events[FORKED], l->stream));
    for (long lane = 1; lane < s.streams; lane++)
        CHECK(cudaStreamWaitEvent(l[lane].stream, l->events[FORKED], 0));
    for (long lane = 0; lane < s.streams; lane++)
        launch_in(s, l, lane, i);
    for (long lane = 1; lane < s.streams; lane++)
        edge(l[lane], *l, JOINED);
}

/* -- What surrounds the kernels --------------------------------------------- */

/* A value that is read back goes into the checksum. */
static void read_back(const shape &s, const lane &l)
{
    size_t bytes = s.back * sizeof(unsigned);
    for (long part = 0; part < s.backs; part++) {
        if (forks(s)) { /* in the stream that has been joined */
            CHECK(cudaMemcpyAsync(l.back, l.data + part, bytes, cudaMemcpyDeviceToHost, l.stream));
            CHECK(cudaStreamSynchronize(l.stream));
        } else {
            CHECK(cudaMemcpy(l.back, l.data + part, bytes, cudaMemcpyDeviceToHost));
        }
        unsigned *hash = l.back + ROOM;
        *hash = *hash * 31 + l.back[0] + l.back[s.back - 1];
    }
}

static void upload(const lane &l, long i, long half)
{
    unsigned words[16];
    for (unsigned w = 0; w < 16; w++)
        words[w] = (unsigned)i * 17 + (unsigned)half * 5 + w;
    CHECK(cudaMemcpy(l.other, words, sizeof words, cudaMemcpyHostToDevice));
}

/* A cache preference, a carve-out, a limit with two values: what programs set. */
static void set_function(long i, unsigned k)
{
    const void *function = (const void *)functions[k % 3];
    if (k % 3 == 0)
        CHECK(cudaFuncSetCacheConfig(function, cudaFuncCachePreferL1));
    else if (k % 3 == 1)
        CHECK(cudaFuncSetAttribute(function, cudaFuncAttributePreferredSharedMemoryCarveout, 50));
    else
        CHECK(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   i % 2 ? 16384 : 32768));
}

static void launch_all(const shape &s, const lane *l, long i)
{
    for_each_op(s, i, [&](op op) {
        spin(s.cpu);
        if (s.loop == UPLOADS && op.k % ((s.n + 1) / 2) == 0)
            upload(l[op.lane], i, op.k);
        if (s.loop == SETTERS) {
            op.function = op.k % 3;
            set_function(i, op.k);
        }
        run(s, l[op.lane], op, i);
        if (s.wait && (op.k + 1) % s.wait == 0)
            CHECK(cudaStreamSynchronize(l[op.lane].stream));
    });
}

/* In memory of its own; what was in it goes into the data. */
static void allocate(const shape &s, lane l, long i)
{
    CHECK(cudaMallocAsync((void **)&l.other, SIZE * sizeof(unsigned), l.stream));
    CHECK(cudaMemsetAsync(l.other, i & 0xff, SIZE * sizeof(unsigned), l.stream));
    launch_all(s, &l, i);
    CHECK(cudaFreeAsync(l.other, l.stream));
    CHECK(cudaStreamSynchronize(l.stream));
}

static void make_stream(const shape &s, lane l, long i)
{
    CHECK(cudaStreamCreate(&l.stream));
    launch_all(s, &l, i);
    CHECK(cudaStreamSynchronize(l.stream));
    CHECK(cudaStreamDestroy(l.stream));
}

/* Blocking copies are work of the default stream, and so is what surrounds them. */
static bool by_default(const shape &s)
{
    return (s.back > 0 && !forks(s)) || s.loop == UPLOADS;
}

static void eager(const shape &s, const lane *l, long i)
{
    lane all = *l;
    if (by_default(s)) {
        all.stream = NULL;
        l = &all;
    }
    if (s.loop == ALLOCATES)
        allocate(s, *l, i);
    else if (s.loop == MADE)
        make_stream(s, *l, i);
    else if (forks(s))
        fork_and_join(s, l, i);
    else
        launch_all(s, l, i);
    if (s.back)
        read_back(s, *l);
}

#endif
