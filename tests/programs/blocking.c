/* SPDX-License-Identifier: MIT */
/*
 * blocking.c read | fail | priorities [NAME=VALUE]...: what a variable of CUDA's promises, which
 * the environment of the program has, or which it sets itself before cuInit. read        the host
 * reads what a kernel writes as soon as its launch has returned fail        a kernel fails: which
 * launch reports it, and with which code priorities  kernels in streams of two priorities, and some
 * with their own (argument "own")
 */
#include "agsim.h"
#include "sim_test.h"

enum { STEPS = 300, OPS = 4, BAD = STEPS / 2 * OPS + 2 };

static CUfunction put;
static CUstream stream;

/* Writes after a while; 0 is no address. */
static void body(const struct agsim_launch *launch, void **params)
{
    volatile uint32_t *to = *(volatile uint32_t **)params[0];
    (void)launch;
    usleep(20);
    if (to == NULL)
        agsim_fail(CUDA_ERROR_ILLEGAL_ADDRESS);
    else
        set_word(to, *(uint32_t *)params[1]);
}

static void reads(void)
{
    volatile uint32_t *word = host_words(OPS);
    unsigned stale = 0;
    for (uint32_t i = 1; i <= STEPS; i++)
        for (unsigned op = 0; op < OPS; op++) {
            OK(launch_word(put, word + op, i, stream));
            stale += get_word(word + op) != i;
        }
    OK(cuStreamSynchronize(stream));
    CHECK(get_word(word) == STEPS);
    printf("stale reads %u\n", stale);
}

static void fails(void)
{
    volatile uint32_t *word = host_words(OPS);
    for (unsigned i = 0; i < STEPS * OPS; i++) {
        CUresult result = launch_word(put, i == BAD ? NULL : word + i % OPS, i, stream);
        if (result != CUDA_SUCCESS) {
            printf("launch %d behind the one that fails reports %d\n", (int)i - BAD, (int)result);
            return;
        }
    }
    printf("no launch reports it\n");
}

static void priorities(int own)
{
    CUstream streams[2];
    CUdeviceptr buffer;
    OK(cuMemAlloc(&buffer, 4096));
    OK(cuMemsetD8(buffer, 0, 4096));
    OK(cuCtxSynchronize()); /* nothing below waits for it */
    for (int i = 0; i < 2; i++)
        OK(cuStreamCreateWithPriority(&streams[i], CU_STREAM_NON_BLOCKING, -2 * i));
    for (unsigned i = 0; i < 100; i++)
        for (unsigned s = 0; s < 2; s++) {
            CUlaunchAttribute attr = {.id = CU_LAUNCH_ATTRIBUTE_PRIORITY,
                                      .value = {.priority = -1}};
            CUlaunchConfig config = one_block(64, &attr, own != 0, streams[s]);
            uint32_t n = 64, k = i;
            CUdeviceptr at = buffer + 1024 * s;
            void *args[] = {&at, &n, &k};
            OK(launch_mix(at, 64, i, streams[s]));
            OK(cuLaunchKernelEx(&config, mix, args, NULL));
            OK(launch_mix(at, 64, i + 1, streams[s]));
            OK(cuStreamSynchronize(streams[s]));
        }
}

int main(int argc, char **argv)
{
    int own = 0;
    CHECK(argc > 1);
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "own") == 0)
            own = 1;
        else if (strcmp(argv[i], "late") == 0) /* what follows is set behind cuInit() */
            OK(cuInit(0));
        else
            CHECK(putenv(argv[i]) == 0);
    }
    start();
    const size_t sizes[] = {8, 4};
    CUmodule module;
    OK(cuModuleLoadData(&module, agsim_register_kernel("put", 2, sizes, body)));
    OK(cuModuleGetFunction(&put, module, "put"));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    if (strcmp(argv[1], "read") == 0)
        reads();
    else if (strcmp(argv[1], "fail") == 0)
        fails();
    else
        priorities(own);
    return 0;
}
