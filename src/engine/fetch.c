/* SPDX-License-Identifier: MIT */
/* The kernel for read-backs: its text, and loading it. */
#include "engine/fetch.h"

#include <string.h>

#include "driver/driver.h"
#include "engine/hot.h"
#include "graph/function.h"
#include "observe/patience.h"
#include "trace/policy.h"

extern const uint32_t ag_fetch_image[]; /* fetch_image.S */

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
    if (ag_real.cuModuleLoadData(&module, ag_fetch_image) != CUDA_SUCCESS ||
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
    return ag_fetch_image[0] != 0 && !ag_fetch_is_ready(fetch) && !atomic_load(&fetch->never) &&
           atomic_load(&fetch->seen) >= AG_FETCH_AFTER;
}

bool ag_fetch_load(struct ag_fetch *fetch, CUcontext ctx)
{
    bool shared = is_shared();
    CUfunction func = shared ? NULL : load(fetch, ctx);
    atomic_store(&fetch->never, func == NULL);
    atomic_store(&fetch->func, func);
    return shared || func != NULL;
}

void ag_fetch_forget(struct ag_fetch *fetch)
{
    atomic_store(&fetch->func, NULL);
    atomic_store(&fetch->never, false);
    atomic_store(&fetch->seen, 0);
    atomic_store(&fetch->reader, NULL);
}

void ag_fetch_wait(struct ag_fetch *fetch, const struct ag_stream *stream)
{
    const struct ag_stream *reader;
    uint64_t slept = 0;
    while ((reader = atomic_load(&fetch->reader)) != NULL && reader != stream &&
           !atomic_load(&fetch->never) && atomic_load(&ag_hold_bans) == 0)
        if (!ag_patience_lasts(&slept, AG_PATIENCE_NS))
            atomic_store(&fetch->never, true);
}
