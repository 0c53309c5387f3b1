/* SPDX-License-Identifier: MIT */
/*
 * Jacobi's method for Laplace's equation on a square with one hot side. An
 * iteration is some sweeps (--kernels) and a test for convergence, for which
 * the residual is copied back. The solver runs until it has converged, or for
 * --iterations at most.
 */
#include <string.h>
#include <utility>

#include "sample.h"

#define TOLERANCE 1e-5f

/* The residual is kept as the bits of a float: for positive ones, integers compare alike. */
KERNEL(sweep, float *to, const float *from, unsigned n, unsigned *residual)
{
    unsigned i = INDEX();
    unsigned x = i % n, y = i / n;
    if (x == 0 || y == 0 || x >= n - 1 || y >= n - 1)
        return;
    float value = 0.25f * ((from[i - 1] + from[i + 1]) + (from[i - n] + from[i + n]));
    to[i] = value;
    if (residual) {
        float difference = value > from[i] ? value - from[i] : from[i] - value;
        unsigned bits;
        memcpy(&bits, &difference, sizeof(bits));
        atomicMax(residual, bits);
    }
}

KERNEL(initialise, float *a, float *b, unsigned n)
{
    unsigned i = INDEX();
    if (i < n * n)
        a[i] = b[i] = i < n ? 1.0f : 0.0f;
}

int main(int argc, char **argv)
{
    struct options o = parse_options(
        argc, argv, "Jacobi solver with a convergence test after some sweeps (--kernels).",
        {10000, 32, 128, 10, 0, false});
    long elements = o.size * o.size;
    float *grid[2] = {device_array<float>(elements), device_array<float>(elements)};
    unsigned *residual = device_array<unsigned>(1), *host_residual;
    CHECK(cudaMallocHost((void **)&host_residual, sizeof(*host_residual)));
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));

    /* Sweeps from grid[from] to the other one and back; the last one gives the residual. */
    auto sweeps = [&](int from) {
        CHECK(cudaMemsetAsync(residual, 0, sizeof(*residual), stream));
        for (long k = 0; k < o.kernels; k++, from = !from)
            LAUNCH(sweep, blocks(elements), BLOCK, 0, stream, grid[!from], grid[from], o.size,
                   k == o.kernels - 1 ? residual : NULL);
        CHECK(cudaMemcpyAsync(host_residual, residual, sizeof(*residual), cudaMemcpyDeviceToHost,
                              stream));
    };
    /* By hand: a graph for each grid to start from (only one is used if the sweeps are even). */
    cudaGraphExec_t exec[2] = {};
    if (o.graph) {
        sweeps(0);
        exec[0] = capture(stream, [&] { sweeps(0); });
        exec[1] = capture(stream, [&] { sweeps(1); });
    }

    auto solve = [&](long most) {
        LAUNCH(initialise, blocks(elements), BLOCK, 0, stream, grid[0], grid[1], o.size);
        int from = 0;
        for (long i = 0; i < most; i++, from = (from + o.kernels) % 2) {
            if (o.graph)
                CHECK(cudaGraphLaunch(exec[from], stream));
            else
                sweeps(from);
            CHECK(cudaStreamSynchronize(stream));
            float value;
            memcpy(&value, host_residual, sizeof(value));
            if (value < TOLERANCE)
                return i + 1;
        }
        return most;
    };
    solve(o.warmup);
    CHECK(cudaStreamSynchronize(stream));
    double start = now_us();
    o.iterations = solve(o.iterations);
    double us = now_us() - start;
    CHECK(cudaGetLastError());
    destroy(exec[0]);
    destroy(exec[1]);
    CHECK(cudaStreamDestroy(stream));
    report(checksum(grid[0], elements, checksum(grid[1], elements)), o, us);
    printf("sweeps %ld\n", o.iterations * o.kernels);
    return 0;
}
