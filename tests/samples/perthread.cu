/* SPDX-License-Identifier: MIT */
/* Host threads that launch to "stream 0", built so that it is each thread's own default stream. */
#include <pthread.h>
#include <thread>

#include "sample.h"

KERNEL(mix, unsigned *data, unsigned size, unsigned k)
{
    unsigned i = INDEX();
    if (i < size)
        data[i] = data[i] * 1664525u + k;
}

static pthread_barrier_t start, end;

static void work(const struct options &o, unsigned *data)
{
    auto eager = [&] {
        for (long k = 0; k < o.kernels; k++)
            LAUNCH(mix, blocks(o.size), BLOCK, 0, 0, data, o.size, k);
    };
    eager();
    cudaGraphExec_t exec = o.graph ? capture(0, eager) : NULL;
    auto step = [&] {
        if (exec)
            CHECK(cudaGraphLaunch(exec, 0));
        else
            eager();
    };
    for (long i = 0; i < o.warmup; i++)
        step();
    CHECK(cudaStreamSynchronize(0));
    pthread_barrier_wait(&start);
    for (long i = 0; i < o.iterations; i++)
        step();
    CHECK(cudaStreamSynchronize(0));
    CHECK(cudaGetLastError());
    pthread_barrier_wait(&end);
    destroy(exec);
}

int main(int argc, char **argv)
{
    struct options o =
        parse_options(argc, argv, "Threads, each with its per-thread default stream.",
                      {1000, 64, 128, 100, 1, false});
    pthread_barrier_init(&start, NULL, (unsigned)o.threads + 1);
    pthread_barrier_init(&end, NULL, (unsigned)o.threads + 1);
    std::vector<unsigned *> data;
    std::vector<std::thread> threads;
    for (long t = 0; t < o.threads; t++)
        data.push_back(device_array<unsigned>(o.size + t));
    for (long t = 0; t < o.threads; t++)
        threads.emplace_back(work, std::cref(o), data[t]);
    pthread_barrier_wait(&start);
    double us = now_us();
    pthread_barrier_wait(&end);
    us = now_us() - us;
    for (auto &thread : threads)
        thread.join();

    uint64_t sum = CHECKSUM_START;
    for (long t = 0; t < o.threads; t++)
        sum = checksum(data[t], o.size, sum);
    o.kernels *= o.threads;
    report(sum, o, us);
    return 0;
}
