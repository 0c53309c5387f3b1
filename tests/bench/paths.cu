/* SPDX-License-Identifier: MIT */
/*
 * The ways that a call can take through the library, one at a time: for counting its instructions
 * on the simulated driver (tests/bench/instructions.py) and for timing it on a GPU.
 *
 *   usage: paths PATH...
 *
 * A loop of LENGTH kernels and a synchronize becomes hot; then the calls between measure_begin and
 * measure_end are those that count. Prints the name of each path and the CPU time of one call, in
 * ns.
 */
#include <algorithm>
#include <cuda.h>
#include <dlfcn.h>
#include <string.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "driver_function.h"
#include "sample.h"

enum {
    LENGTH = 32,
    WARMUP = 24,
    ITERATIONS = 24,
    SIZE = 2048,
    OTHERS = 300,
    BEFORE = 1 << 13,
    BRANCH = 8,
    COPIES = 6
};

KERNEL(mix, unsigned *data, unsigned size, unsigned k)
{
    unsigned i = INDEX();
    if (i < size)
        data[i] = data[i] * 1664525u + k;
}

/* A kernel for each call of an iteration. */
#define ONE(n)                                                                                     \
    KERNEL(mix##n, unsigned *data, unsigned size, unsigned k)                                      \
    {                                                                                              \
        unsigned i = INDEX();                                                                      \
        if (i < size)                                                                              \
            data[i] = data[i] * 1664525u + k + n;                                                  \
    }
#define EIGHT(of, n) of(n##0) of(n##1) of(n##2) of(n##3) of(n##4) of(n##5) of(n##6) of(n##7)
#define NAME(n)      (const void *)mix##n,
/* clang-format off */
EIGHT(ONE, 1) EIGHT(ONE, 2) EIGHT(ONE, 3) EIGHT(ONE, 4)
static const void *const mixes[LENGTH] = {
    EIGHT(NAME, 1) EIGHT(NAME, 2) EIGHT(NAME, 3) EIGHT(NAME, 4)
};
/* clang-format on */

enum door {
    RUNTIME,   /* cudaLaunchKernel */
    KERNELS,   /* the same, of a kernel for each call */
    SETTERS,   /* one of three kernels, and before it a setter of the kernel */
    RUNTIME13, /* __cudaLaunchKernel, as code of nvcc 13 calls it */
    DRIVER,    /* cuLaunchKernel, as the static runtime gets it */
    AFTER,     /* the same, after a loop of launches with another grid */
    MEMSET,    /* cudaMemsetAsync, which comes by a driver's door; so do the next two */
    COPY,      /* cudaMemcpyAsync */
    UPLOAD,    /* cudaMemcpyAsync from pageable memory */
    FOREIGN,   /* the same from managed memory: cannot be held */
    EVENT,     /* cudaEventRecord */
    EVENTS,    /* the same, while there are hundreds of others */
    AWAIT,     /* cudaStreamWaitEvent, for what another thread has recorded last in its stream */
    QUERY,     /* cuEventQuery: a barrier, and nothing is held */
    POLL,      /* the same, while other threads have open sequences in hundreds of streams */
    NOTHING,   /* a function that does nothing: the loop itself */
    ALONE,     /* cudaLaunchKernel and a synchronize behind it */
    BESIDE,    /* the same, while hundreds of streams have an open sequence */
    STREAM,    /* a stream of its own for each launch: create, launch, wait, destroy */
    CROWD,     /* the same, while there are hundreds of others */
    UPLOADS,   /* a stream of its own for LENGTH copies from managed memory */
    FORK,  /* cuLaunchKernel in two streams in turn, which fork and join every BRANCH launches */
    LATER, /* records and such copies in turn, after a loop that begins with a record */
    TOKEN, /* a launch of the program's own graph, and then COPIES uploads with a wait behind each
            */
};

static const struct path {
    const char *name;
    enum door door;
    bool changing; /* every argument in each iteration */
    bool
        whole; /* the iteration with its end: replay and synchronize; else all but first and last */
    bool novel; /* no launch is like one before */
    const char *what;
} paths[] = {
    {"held-runtime", RUNTIME, false, false, false, "matched and held"},
    {"held-runtime-changing", RUNTIME, true, false, false, "matched and held, other arguments"},
    {"held-kernels", KERNELS, false, false, false, "matched and held, a kernel for each call"},
    {"setters", SETTERS, false, false, false, "matched and held, a setter before each"},
    {"held-runtime13", RUNTIME13, false, false, false, "matched and held"},
    {"held-driver", DRIVER, false, false, false, "matched and held"},
    {"held-driver-changing", DRIVER, true, false, false, "matched and held, other arguments"},
    {"held-memset", MEMSET, false, false, false, "matched and held"},
    {"held-copy", COPY, false, false, false, "matched and held"},
    {"held-upload", UPLOAD, false, false, false, "matched and held, from pageable memory"},
    {"held-event", EVENT, false, false, false, "matched and held"},
    {"whole-runtime", RUNTIME, false, true, false, "with replay and synchronize"},
    {"whole-runtime-changing", RUNTIME, true, true, false, "the same, other arguments"},
    {"whole-driver", DRIVER, false, true, false, "with replay and synchronize"},
    {"whole-driver-changing", DRIVER, true, true, false, "the same, other arguments"},
    {"novel-runtime", RUNTIME, false, true, true, "never seen before"},
    {"novel-driver", DRIVER, false, true, true, "never seen before"},
    {"novel-after", AFTER, false, true, true, "never seen before, after a loop"},
    {"novel-memset", MEMSET, false, true, true, "never seen before"},
    {"novel-copy", COPY, false, true, true, "never seen before"},
    {"novel-upload", UPLOAD, false, true, true, "never seen before"},
    {"novel-event", EVENT, false, true, true, "between memsets never seen before"},
    {"novel-events", EVENTS, false, true, true, "the same, one of hundreds"},
    {"await", AWAIT, false, true, false, "for what stands in another thread's open sequence"},
    {"foreign", FOREIGN, false, true, false, "from managed memory"},
    {"query", QUERY, false, false, false, "barrier, nothing held"},
    {"poll", POLL, false, false, false, "the same, hundreds of other threads' streams are busy"},
    {"nothing", NOTHING, false, false, false, "a function of the program's, which does nothing"},
    {"alone", ALONE, false, false, false, "with replay and synchronize"},
    {"beside", BESIDE, false, false, false, "the same beside hundreds of busy streams"},
    {"stream", STREAM, false, false, false, "a stream created and destroyed for it"},
    {"crowd", CROWD, false, false, false, "the same among hundreds of streams"},
    {"uploads", UPLOADS, false, false, false, "a stream created and destroyed for some of these"},
    {"fork", FORK, false, true, false, "in streams that fork and join, with a synchronize"},
    {"token", TOKEN, false, false, false,
     "the program's own graph, and uploads that are waited for"},
    {"later", LATER, false, true, false, "what began a loop once, before what cannot be held"},
};

static unsigned pageable[SIZE];
static unsigned *data, *managed;
static cudaStream_t stream, branch;
static cudaEvent_t events[LENGTH], theirs;
static cudaGraphExec_t own_graph;
static CUfunction function;
static __typeof__(cuLaunchKernel) *launch_kernel;
static __typeof__(cuEventQuery) *event_query;

static cudaError_t nothing(const void *, dim3, dim3, void **, size_t, cudaStream_t)
{
    return cudaSuccess;
}
static __typeof__(nothing) *volatile do_nothing = nothing; /* called, not inlined */

/* As in the benchmark's loop (loops.h): two set what is set, the third one alternates. */
static void set_function(const void *kernel, unsigned k)
{
    if (k % 3 == 0)
        CHECK(cudaFuncSetCacheConfig(kernel, cudaFuncCachePreferL1));
    else if (k % 3 == 1)
        CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, 50));
    else
        CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   k % 2 ? 16384 : 32768));
}

/* What the stream does from now on comes behind what the other one has done. */
static void edge(cudaStream_t from, cudaStream_t to, cudaEvent_t event)
{
    CHECK(cudaEventRecord(event, from));
    CHECK(cudaStreamWaitEvent(to, event, 0));
}

static void one_call(const struct path *path, long iteration, unsigned k)
{
    unsigned shared = path->novel ? (unsigned)(iteration * LENGTH + k + 1) : 0;
    unsigned size = path->changing ? 1 + iteration % 2 : 1;
    unsigned value = path->changing ? k + (unsigned)iteration : k;
    unsigned *at = path->changing ? data + iteration % 3 : data;
    size_t bytes = sizeof(*at) + shared;
    void *arguments[] = {&at, &size, &value};

    switch (path->door) {
    case RUNTIME:
        CHECK(cudaLaunchKernel((const void *)mix, dim3(1), dim3(1), arguments, shared, stream));
        break;
    case KERNELS:
        CHECK(cudaLaunchKernel(mixes[k], dim3(1), dim3(1), arguments, shared, stream));
        break;
    case SETTERS:
        set_function(mixes[k % 3], k);
        CHECK(cudaLaunchKernel(mixes[k % 3], dim3(1), dim3(1), arguments, shared, stream));
        break;
    case RUNTIME13:
        LAUNCH(mix, 1, 1, shared, stream, at, size, value);
        break;
    case DRIVER:
    case AFTER:
        CHECK((cudaError_t)launch_kernel(function, 1, 1, 1, 1, 1, 1, shared, (CUstream)stream,
                                         arguments, NULL));
        break;
    case FORK: {
        unsigned *own = data + k % 2 * (SIZE / 2), which = k % BRANCH;
        void *those[] = {&own, &size, &which};
        if (k % BRANCH == 0)
            edge(stream, branch, events[0]);
        CHECK((cudaError_t)launch_kernel(function, 1, 1, 1, 1, 1, 1, 0,
                                         (CUstream)(k % 2 ? branch : stream), those, NULL));
        if (k % BRANCH == BRANCH - 1)
            edge(branch, stream, events[1]);
        break;
    }
    case MEMSET:
        CHECK(cudaMemsetAsync(at, (int)value, bytes, stream));
        break;
    case COPY:
        CHECK(cudaMemcpyAsync(at, data + SIZE / 2, bytes, cudaMemcpyDeviceToDevice, stream));
        break;
    case UPLOAD:
        CHECK(cudaMemcpyAsync(at, pageable, bytes, cudaMemcpyHostToDevice, stream));
        break;
    case FOREIGN:
        CHECK(cudaMemcpyAsync(at, managed, sizeof(*at), cudaMemcpyHostToDevice, stream));
        break;
    case LATER:
        if (k % 2 == 0)
            CHECK(cudaEventRecord(events[0], stream));
        else
            CHECK(cudaMemcpyAsync(at, managed, sizeof(*at), cudaMemcpyHostToDevice, stream));
        break;
    case TOKEN:
        CHECK(cudaGraphLaunch(own_graph, stream));
        for (unsigned i = 0; i < COPIES; i++) {
            CHECK(cudaMemcpyAsync(data + i * 64, pageable + i * 64, sizeof *data,
                                  cudaMemcpyHostToDevice, stream));
            CHECK(cudaStreamSynchronize(stream));
        }
        break;
    case EVENT:
    case EVENTS: /* records alone make no trace */
        if (k == 0 || k == LENGTH - 1)
            CHECK(cudaMemsetAsync(at, (int)value, bytes, stream));
        else
            CHECK(cudaEventRecord(events[k], stream));
        break;
    case AWAIT:
        if (k == 0 || k == LENGTH - 1)
            CHECK(cudaMemsetAsync(at, (int)value, bytes, stream));
        else
            CHECK(cudaStreamWaitEvent(stream, theirs, 0));
        break;
    case QUERY:
    case POLL:
        CHECK((cudaError_t)event_query((CUevent)events[k]));
        break;
    case NOTHING:
        CHECK(do_nothing((const void *)mix, dim3(1), dim3(1), arguments, shared, stream));
        break;
    case ALONE:
    case BESIDE:
        CHECK(cudaLaunchKernel((const void *)mix, dim3(1), dim3(1), arguments, shared, stream));
        CHECK(cudaStreamSynchronize(stream));
        break;
    case UPLOADS: {
        cudaStream_t own;
        CHECK(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking));
        for (unsigned i = 0; i < LENGTH; i++)
            CHECK(cudaMemcpyAsync(at, managed, sizeof(*at), cudaMemcpyHostToDevice, own));
        CHECK(cudaStreamSynchronize(own));
        CHECK(cudaStreamDestroy(own));
        break;
    }
    case STREAM:
    case CROWD: {
        cudaStream_t own;
        CHECK(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking));
        CHECK((cudaError_t)launch_kernel(function, 1, 1, 1, 1, 1, 1, shared, (CUstream)own,
                                         arguments, NULL));
        CHECK(cudaStreamSynchronize(own));
        CHECK(cudaStreamDestroy(own));
        break;
    }
    }
}

/* Instructions are counted while this runs. */
extern "C" __attribute__((noinline)) void measured(const struct path *path, long iteration,
                                                   unsigned first, unsigned last)
{
    for (unsigned k = first; k < last; k++)
        one_call(path, iteration, k);
    if (path->whole)
        CHECK(cudaStreamSynchronize(stream));
}

/* Streams that are alive, and have had a launch, which has been waited for or not. */
static void crowd(bool wait)
{
    std::vector<cudaStream_t> others(OTHERS);
    unsigned size = 1, value = 0;
    void *arguments[] = {&data, &size, &value};
    for (auto &other : others) /* which ends open sequences */
        CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    for (auto other : others) {
        CHECK((cudaError_t)launch_kernel(function, 1, 1, 1, 1, 1, 1, 0, (CUstream)other, arguments,
                                         NULL));
        if (wait)
            CHECK(cudaStreamSynchronize(other));
    }
}

/* Events that are alive, and have been recorded. */
static void other_events()
{
    for (int i = 0; i < OTHERS; i++) {
        cudaEvent_t other;
        CHECK(cudaEventCreateWithFlags(&other, cudaEventDisableTiming));
        CHECK(cudaMemsetAsync(data, 0, sizeof *data, stream));
        CHECK(cudaEventRecord(other, stream));
        CHECK(cudaStreamSynchronize(stream));
    }
}

/* An open sequence with a record; an event's first one goes by. */
static void record_theirs()
{
    static cudaStream_t own;
    CHECK(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking));
    for (int i = 0; i < 2; i++)
        CHECK(cudaEventRecord(theirs, own));
}

/* Kernels, as many as a loop has. */
static void make_graph()
{
    cudaGraph_t graph;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    for (unsigned k = 0; k < LENGTH; k++)
        LAUNCH(mix, 1, 1, 0, stream, data, 1u, k);
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiateWithFlags(&own_graph, graph, 0));
    CHECK(cudaGraphDestroy(graph));
}

/* Launches with a grid of their own. */
static void loop(bool behind_record)
{
    unsigned size = 1, value = 0;
    void *arguments[] = {&data, &size, &value};
    for (int i = 0; i < WARMUP; i++) {
        if (behind_record)
            CHECK(cudaEventRecord(events[0], stream));
        for (int k = 0; k < LENGTH; k++)
            CHECK((cudaError_t)launch_kernel(function, 2, 1, 1, 1, 1, 1, 0, (CUstream)stream,
                                             arguments, NULL));
        CHECK(cudaStreamSynchronize(stream));
    }
}

static void run(const struct path *path)
{
    if (path->door == AFTER || path->door == LATER)
        loop(path->door == LATER);
    for (unsigned k = 0; path->door == LATER && k < BEFORE; k++)
        one_call(path, 0, k);
    if (path->door == CROWD)
        crowd(true);
    if (path->door == TOKEN)
        make_graph();
    if (path->door == EVENTS)
        other_events();
    if (path->door == AWAIT)
        CHECK(cudaEventCreateWithFlags(&theirs, cudaEventDisableTiming));
    unsigned first = path->whole ? 0 : 1, last = LENGTH - first;
    std::vector<double> times;
    for (long i = 0; i < WARMUP + ITERATIONS; i++) {
        if (i == WARMUP && path->door == BESIDE)
            crowd(false);
        if (i == WARMUP && path->door == POLL)
            std::thread(crowd, false).join();
        if (i == WARMUP && path->door == AWAIT)
            std::thread(record_theirs).join();
        for (unsigned k = 0; k < first; k++)
            one_call(path, i, k);
        double start = now_us();
        if (i < WARMUP) {
            for (unsigned k = first; k < last; k++)
                one_call(path, i, k);
            if (path->whole)
                CHECK(cudaStreamSynchronize(stream));
        } else
            measured(path, i, first, last);
        times.push_back(now_us() - start);
        for (unsigned k = last; k < LENGTH; k++)
            one_call(path, i, k);
        CHECK(cudaStreamSynchronize(stream));
    }
    std::sort(times.begin() + WARMUP, times.end());
    printf("%s %.1f\n", path->name, times[WARMUP + ITERATIONS / 2] * 1e3 / (last - first));
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: paths PATH...\n");
        for (const auto &path : paths)
            fprintf(stderr, "  %-24s%s\n", path.name, path.what);
        return 2;
    }
    data = device_array<unsigned>(SIZE);
    CHECK(cudaMallocManaged((void **)&managed, sizeof *managed));
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamCreate(&branch));
    for (auto &event : events)
        CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    CHECK(cudaGetFuncBySymbol((cudaFunction_t *)&function, (const void *)mix));
    launch_kernel = (__typeof__(launch_kernel))driver_function("cuLaunchKernel");
    event_query = (__typeof__(event_query))driver_function("cuEventQuery");
    /* The library asks the kernel for what its locks need when it meets the first stream. */
    CHECK(cudaMemsetAsync(data, 0, sizeof *data, stream));
    CHECK(cudaStreamSynchronize(stream));
    usleep(100000);
    for (int i = 1; i < argc; i++) {
        const struct path *found = NULL;
        for (const auto &path : paths)
            if (strcmp(path.name, argv[i]) == 0)
                found = &path;
        if (!found) {
            fprintf(stderr, "paths: there is no path %s\n", argv[i]);
            return 2;
        }
        run(found);
    }
    for (auto event : events)
        CHECK(cudaEventDestroy(event));
    CHECK(cudaStreamDestroy(branch));
    CHECK(cudaStreamDestroy(stream));
    return 0;
}
