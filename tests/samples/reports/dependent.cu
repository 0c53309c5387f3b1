/* SPDX-License-Identifier: MIT */
/*
 * Programmatic dependent launches: each kernel lets the next one begin at once, writes late, and
 * waits for the one before; a third reads what the first wrote. Mixed with launches and copies that
 * know nothing of this.
 */
#include "../patterns/pattern.h"

static __device__ void pause_here(void)
{
    long long begin = clock64();
    while (clock64() - begin < 3000)
        continue;
}

static __global__ void stage(unsigned *out, const unsigned *in, const unsigned *older, unsigned k)
{
    cudaTriggerProgrammaticLaunchCompletion();
    cudaGridDependencySynchronize();
    unsigned i = INDEX(), value = in[i] * 1664525u + older[i] + k;
    pause_here();
    out[i] = value;
}

static void launch_stage(cudaStream_t stream, unsigned *out, unsigned *in, unsigned *older,
                         unsigned k, bool dependent)
{
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(4);
    config.blockDim = dim3(BLOCK);
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = dependent;
    CHECK(
        cudaLaunchKernelEx(&config, stage, out, (const unsigned *)in, (const unsigned *)older, k));
}

int main(void)
{
    const long size = 4 * BLOCK;
    unsigned *data[4];
    cudaStream_t stream = new_stream();
    for (unsigned *&each : data)
        each = device_array<unsigned>(size);
    for (unsigned step = 0; step < 400; step++) {
        for (unsigned k = 0; k < 9; k++)
            launch_stage(stream, data[k % 3], data[(k + 2) % 3], data[(k + 1) % 3],
                         k == 4 ? step : k, k % 4 != 0);
        if (step % 2)
            CHECK(cudaMemcpyAsync(data[3], data[2], size * 4, cudaMemcpyDeviceToDevice, stream));
        else
            launch_mix(stream, data[3], size, step);
        launch_stage(stream, data[0], data[3], data[2], 1, true);
    }
    CHECK(cudaStreamSynchronize(stream));
    for (unsigned *each : data)
        printf("%016llx\n", (unsigned long long)checksum(each, size));
    return 0;
}
