/* SPDX-License-Identifier: MIT */
/* The kernel for read-backs: its text, and loading it. */
#include "engine/fetch.h"

#include <string.h>

#include "driver/driver.h"
#include "engine/hot.h"
#include "graph/function.h"
#include "observe/thread.h"
#include "trace/policy.h"

/* autograph_fetch(src, place, n) copies n bytes from src to the place, 16 bytes, 4 bytes or one
   byte at a time, by one block. PTX ISA 7.0 is older than driver 12.0. */
static const char text[] =
    ".version 7.0\n.target sm_50\n.address_size 64\n"
    ".visible .entry autograph_fetch(.param .u64 src, .param .u64 place, .param .u32 n)\n"
    "{\n"
    "  .reg .pred %p;\n  .reg .b16 %h;\n  .reg .b32 %i, %n, %w, %x, %y, %z;\n"
    "  .reg .b64 %at, %from, %s, %to, %t;\n"
    "  ld.param.u64 %from, [src];\n  ld.param.u64 %to, [place];\n  ld.param.u32 %n, [n];\n"
    "  cvta.to.global.u64 %from, %from;\n  cvta.to.global.u64 %to, %to;\n"
    "  mov.u32 %i, %tid.x;\n"
    "  setp.ne.u32 %p, %i, 0;\n  @%p bra COPY;\n"
    "  mov.u32 %w, 1;\n  st.global.u32 [%to], %w;\n"
    "COPY:\n"
    "  add.u64 %to, %to, 16;\n"
    "  cvt.u32.u64 %w, %from;\n  or.b32 %w, %w, %n;\n"
    "  and.b32 %x, %w, 15;\n  setp.eq.u32 %p, %x, 0;\n  @%p bra LINES;\n"
    "  and.b32 %x, %w, 3;\n  setp.eq.u32 %p, %x, 0;\n  @%p bra WORDS;\n"
    "BYTES:\n"
    "  setp.ge.u32 %p, %i, %n;\n  @%p bra DONE;\n"
    "  cvt.u64.u32 %at, %i;\n  add.u64 %s, %from, %at;\n  add.u64 %t, %to, %at;\n"
    "  ld.global.u8 %h, [%s];\n  st.global.u8 [%t], %h;\n"
    "  add.u32 %i, %i, 256;\n  bra BYTES;\n"
    "WORDS:\n  shl.b32 %i, %i, 2;\n"
    "WORD:\n"
    "  setp.ge.u32 %p, %i, %n;\n  @%p bra DONE;\n"
    "  cvt.u64.u32 %at, %i;\n  add.u64 %s, %from, %at;\n  add.u64 %t, %to, %at;\n"
    "  ld.global.u32 %w, [%s];\n  st.global.u32 [%t], %w;\n"
    "  add.u32 %i, %i, 1024;\n  bra WORD;\n"
    "LINES:\n  shl.b32 %i, %i, 4;\n"
    "LINE:\n"
    "  setp.ge.u32 %p, %i, %n;\n  @%p bra DONE;\n"
    "  cvt.u64.u32 %at, %i;\n  add.u64 %s, %from, %at;\n  add.u64 %t, %to, %at;\n"
    "  ld.global.v4.u32 {%w, %x, %y, %z}, [%s];\n  st.global.v4.u32 [%t], {%w, %x, %y, %z};\n"
    "  add.u32 %i, %i, 4096;\n  bra LINE;\n"
    "DONE:\n  ret;\n}\n";

/* One launch, which copies nothing: whatever the driver puts off until then is done. */
static bool runs(CUfunction func, CUdeviceptr at, volatile const struct ag_fetched *place)
{
    uint32_t bytes = 0;
    void *arguments[] = {&at, &at, &bytes};
    return ag_real.cuLaunchKernel(func, 1, 1, 1, AG_FETCH_THREADS, 1, 1, 0, CU_STREAM_LEGACY,
                                  arguments, NULL) == CUDA_SUCCESS &&
           ag_real.cuStreamSynchronize(CU_STREAM_LEGACY) == CUDA_SUCCESS && place->done == 1;
}

/* Whether another process may fill the device, and wait for this one: by MPS they share it. */
static bool is_shared(void)
{
    CUdevice device;
    int mps;
    return ag_real.cuCtxGetDevice(&device) != CUDA_SUCCESS ||
           (ag_real.cuDeviceGetAttribute(&mps, CU_DEVICE_ATTRIBUTE_MPS_ENABLED, device) ==
                CUDA_SUCCESS &&
            mps != 0);
}

/* What is made here lives as long as the context, also where something is refused: it is not tried
   again. */
static CUfunction load(struct ag_fetch *fetch, CUcontext ctx)
{
    CUmodule module;
    CUfunction func;
    void *place;
    if (is_shared() || ag_real.cuModuleLoadData(&module, text) != CUDA_SUCCESS ||
        ag_real.cuModuleGetFunction(&func, module, "autograph_fetch") != CUDA_SUCCESS ||
        ag_real.cuEventCreate(&fetch->event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS ||
        ag_real.cuMemHostAlloc(&place, sizeof *fetch->place, CU_MEMHOSTALLOC_DEVICEMAP) !=
            CUDA_SUCCESS)
        return NULL;
    fetch->place = memset(place, 0, sizeof *fetch->place);
    if (ag_real.cuMemHostGetDevicePointer_v2(&fetch->at, place, 0) != CUDA_SUCCESS ||
        !runs(func, fetch->at, fetch->place))
        return NULL;
    ag_function_learn(func, ctx);
    return func;
}

bool ag_fetch_is_wanted(const struct ag_fetch *fetch)
{
    return atomic_load(&fetch->func) == NULL && !atomic_load(&fetch->never) &&
           atomic_load(&fetch->seen) >= AG_FETCH_AFTER;
}

bool ag_fetch_load(struct ag_fetch *fetch, CUcontext ctx)
{
    CUfunction func = load(fetch, ctx);
    atomic_store(&fetch->never, func == NULL);
    atomic_store(&fetch->func, func);
    return func != NULL;
}

void ag_fetch_forget(struct ag_fetch *fetch)
{
    atomic_store(&fetch->func, NULL);
    atomic_store(&fetch->never, false);
    atomic_store(&fetch->seen, 0);
    atomic_store(&fetch->reader, NULL);
}

void ag_fetch_wait(const struct ag_fetch *fetch, const struct ag_stream *stream)
{
    const struct ag_stream *reader;
    uint64_t looks = AG_PATIENCE_NS / AG_PATIENCE_LOOK_NS;
    while ((reader = atomic_load(&fetch->reader)) != NULL && reader != stream && looks-- > 0 &&
           atomic_load(&ag_hold_bans) == 0)
        ag_thread_pause(AG_PATIENCE_LOOK_NS);
}
