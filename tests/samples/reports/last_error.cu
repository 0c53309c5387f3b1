/* SPDX-License-Identifier: MIT */
/*
 * The runtime's last error around launches that cannot be, in a loop of others: what the launch
 * leaves, how long it stays, and that nobody else's calls take it away or leave one.
 */
#include "../patterns/pattern.h"

int main(void)
{
    const long size = 1000;
    unsigned *data = device_array<unsigned>(size);
    cudaStream_t stream = new_stream();
    for (unsigned step = 0; step < 320; step++) {
        unsigned way = step % 16 == 15 ? 1 + step / 16 % 4 : 0;
        for (unsigned k = 0; k < 5; k++)
            launch_mix(stream, data, size, k == 2 ? step : k);
        if (way == 0)
            continue;
        cudaError_t found[8] = {cudaPeekAtLastError()};
        void *pointer = NULL;
        if (way == 1)
            LAUNCH(mix, 1, 4096, 0, stream, data, size, 1); /* too many threads */
        else if (way == 2)
            LAUNCH(mix, 0, BLOCK, 0, stream, data, size, 1); /* no blocks */
        else if (way == 3)
            found[1] = cudaMalloc(&pointer, (size_t)1 << 60);
        found[2] = cudaPeekAtLastError();
        launch_mix(stream, data, size, 7); /* takes nothing away */
        found[3] = cudaPeekAtLastError();
        found[4] = cudaStreamSynchronize(stream);
        found[5] = cudaGetLastError();
        found[6] = cudaGetLastError();
        launch_mix(stream, data, size, 8);
        found[7] = cudaGetLastError();
        for (cudaError_t error : found)
            printf("%d ", error);
        printf("way %u\n", way);
    }
    CHECK(cudaStreamSynchronize(stream));
    printf("%016llx\n", (unsigned long long)checksum(data, size));
    return 0;
}
