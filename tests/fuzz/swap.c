/* SPDX-License-Identifier: MIT */
/*
 * A library that is wrong on purpose: now and then it holds a launch back until after the next one
 * on the same stream. With FUZZ_FORGET it forgets a stream's wait for an event instead, and with
 * FUZZ_LATE it makes a copy to the host only when the host waits. The fuzzer must notice all
 * (test_fuzz.py).
 */
#define _GNU_SOURCE
#include <cuda.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { EVERY = 50 };

static __typeof__(cuLaunchKernel) *real;
static __thread unsigned count;
static __thread struct {
    bool held;
    CUfunction f;
    unsigned grid[2], block, shared;
    CUstream stream;
    uint64_t bytes[4]; /* the arguments of fz_plain */
} late;

static CUresult launch_late(void)
{
    void *params[] = {&late.bytes[0], &late.bytes[1], &late.bytes[2], &late.bytes[3]};
    late.held = false;
    return real(late.f, late.grid[0], late.grid[1], 1, late.block, 1, 1, late.shared, late.stream,
                params, NULL);
}

static bool plain(CUfunction f)
{
    const char *name = NULL;
    return cuFuncGetName(&name, f) == CUDA_SUCCESS && strcmp(name, "fz_plain") == 0;
}

CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                        unsigned by, unsigned bz, unsigned shared, CUstream stream, void **params,
                        void **extra)
{
    if (real == NULL)
        real = (__typeof__(real))dlsym(RTLD_NEXT, "cuLaunchKernel");
    if (!late.held && getenv("FUZZ_FORGET") == NULL && ++count % EVERY == 0 && params != NULL &&
        gx != 0 && bx <= 1024 && shared <= 49152 && plain(f)) {
        late.f = f;
        late.grid[0] = gx;
        late.grid[1] = gy;
        late.block = bx;
        late.shared = shared;
        late.stream = stream;
        for (int i = 0; i < 4; i++)
            memcpy(&late.bytes[i], params[i], i < 2 ? 8 : 4);
        late.held = true;
        return CUDA_SUCCESS;
    }
    CUresult result = real(f, gx, gy, gz, bx, by, bz, shared, stream, params, extra);
    if (late.held && late.stream == stream)
        (void)launch_late();
    return result;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    static __typeof__(cuStreamWaitEvent) *wait;
    if (wait == NULL)
        wait = (__typeof__(wait))dlsym(RTLD_NEXT, "cuStreamWaitEvent");
    if (getenv("FUZZ_FORGET") != NULL && ++count % EVERY == 0)
        return CUDA_SUCCESS;
    return wait(stream, event, flags);
}

static __thread struct {
    bool held;
    void *dst;
    CUdeviceptr src;
    size_t bytes;
    CUstream stream;
} copy;

CUresult cuMemcpyDtoHAsync(void *dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
    static __typeof__(cuMemcpyDtoHAsync) *copies;
    if (copies == NULL)
        copies = (__typeof__(copies))dlsym(RTLD_NEXT, "cuMemcpyDtoHAsync_v2");
    if (getenv("FUZZ_LATE") == NULL || copy.held)
        return copies(dst, src, bytes, stream);
    copy = (__typeof__(copy)){true, dst, src, bytes, stream};
    return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream stream)
{
    static __typeof__(cuStreamSynchronize) *waits;
    if (waits == NULL)
        waits = (__typeof__(waits))dlsym(RTLD_NEXT, "cuStreamSynchronize");
    CUresult result = waits(stream);
    if (result != CUDA_SUCCESS || !copy.held || copy.stream != stream)
        return result;
    result = cuMemcpyDtoHAsync(copy.dst, copy.src, copy.bytes, stream);
    copy.held = false;
    return result == CUDA_SUCCESS ? waits(stream) : result;
}
