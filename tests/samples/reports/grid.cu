/* SPDX-License-Identifier: MIT */
/*
 * Cooperative kernels whose blocks wait for each other, and clusters that read each other's shared
 * memory, in a loop with ordinary ones.
 */
#include <cooperative_groups.h>

#include "../patterns/pattern.h"

namespace cg = cooperative_groups;

static __global__ void turn_around(unsigned *data, unsigned k)
{
    unsigned i = INDEX(), size = gridDim.x * blockDim.x;
    for (unsigned round = 0; round < 3; round++) {
        unsigned value = data[(i + BLOCK) % size] * 1664525u + k;
        cg::this_grid().sync();
        data[i] = value + round;
        cg::this_grid().sync();
    }
}

static __global__ void across_cluster(unsigned *data, unsigned k)
{
    extern __shared__ unsigned mine[];
    cg::cluster_group cluster = cg::this_cluster();
    mine[threadIdx.x] = data[INDEX()] + k;
    cluster.sync();
    unsigned next = (cluster.block_rank() + 1) % cluster.num_blocks();
    unsigned value = cluster.map_shared_rank(mine, next)[threadIdx.x];
    cluster.sync();
    data[INDEX()] = value * 31 + cluster.num_blocks();
}

int main(void)
{
    const unsigned grid = 8;
    unsigned *data = device_array<unsigned>(grid * BLOCK);
    cudaStream_t stream = new_stream();
    for (unsigned step = 0; step < 300; step++)
        for (unsigned k = 0; k < 4; k++) {
            unsigned value = k == 1 ? step : k;
            void *arguments[] = {&data, &value};
            launch_mix(stream, data, grid * BLOCK, k);
            CHECK(cudaLaunchCooperativeKernel((void *)turn_around, dim3(grid), dim3(BLOCK),
                                              arguments, 0, stream));
            cudaLaunchAttribute attribute = {};
            attribute.id = cudaLaunchAttributeClusterDimension;
            attribute.val.clusterDim = {2 + 2 * (step / 50 % 2), 1, 1};
            cudaLaunchConfig_t config = {};
            config.gridDim = dim3(grid);
            config.blockDim = dim3(BLOCK);
            config.dynamicSmemBytes = BLOCK * 4;
            config.stream = stream;
            config.attrs = &attribute;
            config.numAttrs = 1;
            CHECK(cudaLaunchKernelEx(&config, across_cluster, data, value));
        }
    CHECK(cudaStreamSynchronize(stream));
    printf("%016llx\n", (unsigned long long)checksum(data, grid * BLOCK));
    return 0;
}
