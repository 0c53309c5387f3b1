/* SPDX-License-Identifier: MIT */
/* sim_test.h: what the driver-API test programs share. Each runs on the
 * simulated driver and on a GPU alike. */
#ifndef SIM_TEST_H
#define SIM_TEST_H

#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels.h"

#define EXPECT(code, call)                                                                         \
    do {                                                                                           \
        CUresult got_ = (call), want_ = (code);                                                    \
        if (got_ != want_) {                                                                       \
            fprintf(stderr, "%s:%d: %s gave %d, not %d\n", __FILE__, __LINE__, #call, (int)got_,   \
                    (int)want_);                                                                   \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)
#define OK(call) EXPECT(CUDA_SUCCESS, call)
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

/* Weak: one of each in a program of several files. */
#define SHARED __attribute__((weak))
SHARED CUdevice dev;
SHARED CUcontext ctx;
SHARED CUmodule mod;
SHARED CUfunction mix, nop, spin, flag, word_copy;

static inline CUresult create_context(CUcontext *c)
{
#if CUDA_VERSION >= 13000
    return cuCtxCreate(c, NULL, 0, dev);
#else
    return cuCtxCreate(c, 0, dev);
#endif
}

static inline void start(void)
{
    OK(cuInit(0));
    OK(cuDeviceGet(&dev, 0));
    OK(cuDevicePrimaryCtxRetain(&ctx, dev));
    OK(cuCtxSetCurrent(ctx));
    OK(cuModuleLoadData(&mod, agsim_kernels_ptx));
    OK(cuModuleGetFunction(&mix, mod, "ag_mix"));
    OK(cuModuleGetFunction(&nop, mod, "ag_nop"));
    OK(cuModuleGetFunction(&spin, mod, "ag_spin"));
    OK(cuModuleGetFunction(&flag, mod, "ag_flag"));
    OK(cuModuleGetFunction(&word_copy, mod, "ag_copy"));
}

/* One block of up to 1,024 elements. */
static inline CUresult launch_mix(CUdeviceptr buf, uint32_t n, uint32_t k, CUstream s)
{
    void *args[] = {&buf, &n, &k};
    return cuLaunchKernel(mix, 1, 1, 1, n, 1, 1, 0, s, args, NULL);
}

__attribute__((noinline, unused)) static CUstream made(unsigned flags)
{
    CUstream s;
    OK(cuStreamCreate(&s, flags));
    return s;
}

/* What the stream holds goes out: so many questions in a row are a barrier. */
static inline void kick(CUstream s)
{
    for (unsigned i = 0; i < 4; i++)
        (void)cuStreamQuery(s);
}

/* A node's kernel. */
static inline CUDA_KERNEL_NODE_PARAMS kernel_node(CUfunction f, void **args)
{
    return (CUDA_KERNEL_NODE_PARAMS){.func = f,
                                     .gridDimX = 1,
                                     .gridDimY = 1,
                                     .gridDimZ = 1,
                                     .blockDimX = 1,
                                     .blockDimY = 1,
                                     .blockDimZ = 1,
                                     .kernelParams = args};
}

/* Of one block, for cuLaunchKernelEx. */
static inline CUlaunchConfig one_block(unsigned threads, CUlaunchAttribute *attrs, unsigned count,
                                       CUstream s)
{
    return (CUlaunchConfig){.gridDimX = 1,
                            .gridDimY = 1,
                            .gridDimZ = 1,
                            .blockDimX = threads,
                            .blockDimY = 1,
                            .blockDimZ = 1,
                            .hStream = s,
                            .attrs = attrs,
                            .numAttrs = count};
}

/* Launches with an address and a word: ag_spin or ag_flag. */
static inline CUresult launch_word(CUfunction f, volatile uint32_t *addr, uint32_t value,
                                   CUstream s)
{
    CUdeviceptr p = (CUdeviceptr)(uintptr_t)addr;
    void *args[] = {&p, &value};
    return cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, args, NULL);
}

static inline void set_word(volatile uint32_t *p, uint32_t value)
{
    __atomic_store_n((uint32_t *)p, value, __ATOMIC_SEQ_CST);
}

static inline uint32_t get_word(volatile uint32_t *p)
{
    return __atomic_load_n((uint32_t *)p, __ATOMIC_SEQ_CST);
}

static inline volatile uint32_t *host_words(unsigned n)
{
    void *p;
    OK(cuMemHostAlloc(&p, n * 4, CU_MEMHOSTALLOC_DEVICEMAP));
    memset(p, 0, n * 4);
    return p;
}

static inline uint32_t mixed(uint32_t x, uint32_t k)
{
    return x * 1664525u + k;
}

#endif
