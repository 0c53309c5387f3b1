/* SPDX-License-Identifier: MIT */
/* Small matrix products by cuBLAS, one after each two kernels of our own. */
#include <cublas_v2.h>

#include "sample.h"

/* Integers below 64 keep every product and sum exact, whatever algorithm cuBLAS takes. */
KERNEL(reduce, float *to, const float *from, unsigned size, unsigned k)
{
    unsigned i = INDEX();
    if (i < size)
        to[i] = (float)(((unsigned)from[i] + (unsigned)to[i] * 5u + i + k) % 64u);
}

static void check_blas(cublasStatus_t status, const char *what)
{
    if (status == CUBLAS_STATUS_SUCCESS)
        return;
    fprintf(stderr, "%s: %s\n", what, cublasGetStatusString(status));
    exit(1);
}
#define CHECK_BLAS(call) check_blas((call), #call)

int main(int argc, char **argv)
{
    struct options o =
        parse_options(argc, argv, "cuBLAS products of size x size matrices, one for two kernels.",
                      {1000, 48, 32, 100, 0, false});
    if (o.size > 1024) {
        fprintf(stderr, "%s: sums are exact up to --size 1024\n", argv[0]);
        return 2;
    }
    int n = (int)o.size;
    long elements = (long)n * n;
    float *a = device_array<float>(elements), *b = device_array<float>(elements),
          *c = device_array<float>(elements);
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));

    /* A workspace of our own: cuBLAS then allocates nothing while a stream is captured. */
    const size_t workspace_bytes = 32 << 20;
    void *workspace;
    cublasHandle_t blas;
    CHECK(cudaMalloc(&workspace, workspace_bytes));
    CHECK_BLAS(cublasCreate(&blas));
    CHECK_BLAS(cublasSetStream(blas, stream));
    CHECK_BLAS(cublasSetWorkspace(blas, workspace, workspace_bytes));

    const float one = 1, zero = 0;
    auto eager = [&] {
        for (long k = 0; k < o.kernels; k++)
            if (k % 3 < 2)
                LAUNCH(reduce, blocks(elements), BLOCK, 0, stream, k % 3 ? b : a, c, elements, k);
            else
                CHECK_BLAS(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, a, n, b, n,
                                       &zero, c, n));
    };
    LAUNCH(reduce, blocks(elements), BLOCK, 0, stream, c, a, elements, 0);
    eager();
    cudaGraphExec_t exec = o.graph ? capture(stream, eager) : NULL;

    double us = time_loop(
        o,
        [&](long) {
            if (exec)
                CHECK(cudaGraphLaunch(exec, stream));
            else
                eager();
        },
        [&] { CHECK(cudaStreamSynchronize(stream)); });
    uint64_t sum = checksum(a, elements, checksum(b, elements, checksum(c, elements)));
    destroy(exec);
    CHECK_BLAS(cublasDestroy(blas));
    CHECK(cudaStreamDestroy(stream));
    report(sum, o, us);
    return 0;
}
