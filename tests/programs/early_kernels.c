/* SPDX-License-Identifier: MIT */
/* early_kernels.c WHAT: a kernel writes a word; the next one, which may begin before it has ended
 * (programmatic stream serialization), has nothing to do with it and does not wait for it; then an
 * op reads the word: a kernel, one behind more early ones (chain), a copy, or one behind an event.
 * A stream promises that this comes behind the first kernel. Prints how many read something else.
 */
#include "sim_test.h"

enum { STEPS = 200 };

int main(int argc, char **argv)
{
    CUstream s, beside;
    CUdeviceptr word, out;
    CUevent event;
    uint32_t got[STEPS], wrong = 0;
    CHECK(argc == 2);
    alarm(100);
    start();
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&beside, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cuMemAlloc(&word, 4));
    OK(cuMemAlloc(&out, 4 * STEPS));
    OK(cuMemsetD32(word, 0, 1));
    OK(cuCtxSynchronize());
    CUlaunchAttribute early = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                               .value = {.programmaticStreamSerializationAllowed = 1}};
    CUlaunchConfig config = one_block(1, &early, 1, s);
    for (uint32_t i = 0; i < STEPS; i++) {
        CUdeviceptr to = out + 4 * i;
        uint32_t one = 1;
        void *args[] = {&to, &word, &one};
        OK(launch_word(flag, (uint32_t *)word, i, s));
        OK(cuLaunchKernelEx(&config, nop, NULL, NULL));
        if (!strcmp(argv[1], "chain"))
            for (int k = 0; k < 3; k++)
                OK(cuLaunchKernelEx(&config, nop, NULL, NULL));
        if (!strcmp(argv[1], "kernel") || !strcmp(argv[1], "chain")) {
            OK(cuLaunchKernel(word_copy, 1, 1, 1, 1, 1, 1, 0, s, args, NULL));
        } else if (!strcmp(argv[1], "copy")) {
            OK(cuMemcpyDtoDAsync(to, word, 4, s));
        } else {
            OK(cuEventRecord(event, s));
            OK(cuStreamWaitEvent(beside, event, 0));
            OK(cuMemcpyDtoDAsync(to, word, 4, beside));
            OK(cuStreamSynchronize(beside));
        }
        OK(cuStreamSynchronize(s));
    }
    OK(cuMemcpyDtoH(got, out, sizeof got));
    for (uint32_t i = 0; i < STEPS; i++)
        wrong += got[i] != i;
    printf("%u of %u\n", wrong, STEPS);
    return 0;
}
