/* SPDX-License-Identifier: MIT */
/* live_soak.c: OPS ops in loops that go on changing. Prints the resident memory
 * in KiB after each eighth of them. */
#define _GNU_SOURCE
#include "sim_test.h"

enum { N = 4, LOOKS = 8 };

static CUdeviceptr buffer;
static unsigned long long issued;

static long resident(void)
{
    long kib = 0;
    char line[128];
    FILE *f = fopen("/proc/self/status", "r");
    CHECK(f);
    while (fgets(line, sizeof line, f) && sscanf(line, "VmRSS: %ld", &kib) != 1)
        ;
    fclose(f);
    return kib;
}

static uint32_t next(uint32_t *r)
{
    *r ^= *r << 13;
    *r ^= *r >> 17;
    return *r ^= *r << 5;
}

/* One of many loops: its body and the number of rounds follow from its number. */
static void loop(uint32_t number, CUstream s, CUevent e)
{
    uint32_t r = number * 2654435761u + 1, length = 1 + next(&r) % 20, rounds = 5 + next(&r) % 60;
    for (uint32_t round = 0; round < rounds; round++) {
        uint32_t body = r;
        for (uint32_t i = 0; i < length; i++, issued++) {
            uint32_t what = next(&body);
            if (what % 8 == 0)
                OK(cuMemsetD32Async(buffer, round, 1 + what / 8 % N, s));
            else
                OK(cuLaunchKernel(nop, 1 + what % 5, 1, 1, 1 + number % 64, 1, 1, 0, s, NULL,
                                  NULL));
        }
        if (number % 3 == 0) {
            OK(cuEventRecord(e, s));
            OK(cuStreamWaitEvent(s, e, 0));
        }
        if (number % 5 == 0 || round % 16 == 15)
            OK(cuStreamSynchronize(s));
    }
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    unsigned long long ops = strtoull(argv[1], NULL, 10), next_look = ops / LOOKS;
    uint32_t r = 1;
    CUstream s[4];
    CUevent e;
    start();
    OK(cuMemAlloc(&buffer, 4 * N));
    OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    for (unsigned i = 0; i < 4; i++)
        OK(cuStreamCreate(&s[i], i % 2 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
    while (issued < ops) {
        uint32_t what = next(&r);
        /* Few loops often, and ever new ones. */
        loop(what % 4 ? what / 4 % 32 : what / 4, s[what / 1024 % 4], e);
        if (what % 64 == 0) { /* streams come and go */
            unsigned i = what / 64 % 4;
            OK(cuStreamDestroy(s[i]));
            OK(cuStreamCreate(&s[i], i % 2 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
        }
        if (issued >= next_look) {
            OK(cuCtxSynchronize());
            printf("%ld\n", resident());
            fflush(stdout);
            next_look += ops / LOOKS;
        }
    }
    return 0;
}
