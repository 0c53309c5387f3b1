/* SPDX-License-Identifier: MIT */
/*
 * trace_phases.c OPS STREAMS SIZE STEPS ... [busy]: phases of STEPS steps, each of OPS kernels of
 * SIZE threads and a synchronize in each stream; busy: one more stream has a kernel that runs
 * meanwhile. Prints what memory holds in the end.
 */
#include "sim_test.h"

enum { N = 64, MOST = 8 };

static CUdeviceptr buffer[MOST];
static CUstream stream[MOST];

static void phase(int streams, uint32_t ops, uint32_t size, uint32_t steps)
{
    for (uint32_t step = 0; step < steps; step++)
        for (int s = 0; s < streams; s++) {
            for (uint32_t i = 0; i < ops; i++)
                OK(launch_mix(buffer[s], size, i + step, stream[s]));
            OK(cuStreamSynchronize(stream[s]));
        }
}

int main(int argc, char **argv)
{
    CHECK(argc >= 3);
    uint32_t ops = (uint32_t)atoi(argv[1]), sum = 0;
    int streams = atoi(argv[2]);
    CHECK(streams <= MOST);
    start();
    volatile uint32_t *word = host_words(1);
    if (argc % 2 == 0) {
        CUstream busy;
        OK(cuStreamCreate(&busy, CU_STREAM_NON_BLOCKING));
        OK(launch_word(spin, word, 1, busy));
    }
    for (int s = 0; s < streams; s++) {
        OK(cuStreamCreate(&stream[s], CU_STREAM_NON_BLOCKING));
        OK(cuMemAlloc(&buffer[s], 4 * N));
        OK(cuMemsetD32(buffer[s], 1, N));
    }
    OK(cuStreamSynchronize(NULL));
    for (int i = 3; i + 1 < argc; i += 2)
        phase(streams, ops, (uint32_t)atoi(argv[i]), (uint32_t)atoi(argv[i + 1]));
    set_word(word, 1);
    for (int s = 0; s < streams; s++) {
        uint32_t words[N];
        OK(cuMemcpyDtoH(words, buffer[s], sizeof words));
        for (int i = 0; i < N; i++)
            sum = sum * 31 + words[i];
    }
    printf("%08x\n", sum);
    return 0;
}
