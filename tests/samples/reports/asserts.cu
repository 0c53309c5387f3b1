/* SPDX-License-Identifier: MIT */
/*
 * An assertion fails in a kernel after a loop of others: each later call says so, and what the
 * assertion prints appears once.
 */
#undef NDEBUG
#include <assert.h>

#include "../patterns/pattern.h"

static __global__ void check_step(unsigned *data, unsigned step)
{
    data[0] += step;
    assert(step != 70);
}

int main(void)
{
    unsigned *data = device_array<unsigned>(4);
    cudaStream_t stream = new_stream();
    for (unsigned step = 0; step <= 70; step++) {
        for (unsigned k = 0; k < 5; k++)
            launch_mix(stream, data, 4, k);
        check_step<<<1, 1, 0, stream>>>(data, step);
        if (step % 10 == 0)
            printf("%u: %d\n", step, cudaStreamSynchronize(stream));
    }
    void *pointer;
    launch_mix(stream, data, 4, 1);
    printf("%d ", cudaGetLastError());
    printf("%d ", cudaMalloc(&pointer, 4));
    printf("%d ", cudaDeviceSynchronize());
    printf("%d ", cudaStreamQuery(stream));
    printf("%d\n", cudaGetLastError());
    return 0;
}
