/* SPDX-License-Identifier: MIT */
/* The kernel for read-backs: its text, and loading it. */
#include "engine/context/fetch.h"

#include <string.h>

#include "driver/driver.h"
#include "engine/base/thread.h"
#include "engine/hot.h"
#include "graph/function.h"
#include "mutant.h"
#include "observe/patience.h"
#include "policy/policy.h"

extern const uint32_t ag_fetch_image[]; /* fetch_image.S */

/* Whether a thread that waits in the current context for the driver is to sleep. Other waits obey
   the context by themselves. */
static bool sleeps(void)
{
    unsigned flags;
    return ag_real.cuCtxGetFlags(&flags) != CUDA_SUCCESS ||
           (flags & CU_CTX_SCHED_MASK) == CU_CTX_SCHED_BLOCKING_SYNC;
}

/* One launch, which copies nothing: whatever the driver puts off until then is done. Waits for no
   work that another thread may launch behind it. */
static bool runs(const struct ag_fetch *fetch, CUfunction func)
{
    uint32_t bytes = 0;
    CUdeviceptr at = fetch->at;
    CUevent event = fetch->event[sleeps()];
    void *arguments[] = {&at, &at, &bytes, &at};
    return ag_real.cuLaunchKernel(func, 1, 1, 1, AG_FETCH_THREADS, 1, 1, 0, CU_STREAM_LEGACY,
                                  arguments, NULL) == CUDA_SUCCESS &&
           ag_real.cuEventRecord(event, CU_STREAM_LEGACY) == CUDA_SUCCESS &&
           ag_real.cuEventSynchronize(event) == CUDA_SUCCESS && fetch->place->done == 1;
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

/* What the read-backs of a context need but for the kernel. What is made lives as long as the
   context; what is refused is made the next time. */
static bool prepare(struct ag_fetch *fetch)
{
    for (unsigned i = 0; i < 2; i++) {
        unsigned flags = CU_EVENT_DISABLE_TIMING | (i != 0 ? CU_EVENT_BLOCKING_SYNC : 0);
        CUevent event;
        if (fetch->event[i] != NULL)
            continue;
        if (ag_real.cuEventCreate(&event, flags) != CUDA_SUCCESS)
            return false;
        fetch->event[i] = event;
    }
    void *place = fetch->place;
    if (place == NULL && ag_real.cuMemHostAlloc(&place, sizeof *fetch->place,
                                                CU_MEMHOSTALLOC_DEVICEMAP) != CUDA_SUCCESS)
        return false;
    fetch->place = memset(place, 0, sizeof *fetch->place);
    return ag_real.cuMemHostGetDevicePointer_v2(&fetch->at, place, 0) == CUDA_SUCCESS;
}

static CUfunction load(struct ag_fetch *fetch, CUcontext ctx)
{
    CUmodule module = fetch->module;
    CUfunction func;
    if (module == NULL && ag_real.cuModuleLoadData(&module, ag_fetch_image) != CUDA_SUCCESS)
        return NULL;
    fetch->module = module;
    if (ag_real.cuModuleGetFunction(&func, module, "autograph_fetch") != CUDA_SUCCESS ||
        !prepare(fetch) || !runs(fetch, func))
        return NULL;
    ag_function_learn(func, ctx);
    return func;
}

bool ag_fetch_is_wanted(const struct ag_fetch *fetch)
{
    return ag_fetch_image[0] != 0 && !ag_fetch_is_ready(fetch) && !atomic_load(&fetch->never) &&
           atomic_load(&fetch->seen) >= AG_FETCH_AFTER.first &&
           atomic_load(&fetch->seen) >= atomic_load(&fetch->after);
}

bool ag_fetch_load(struct ag_fetch *fetch, CUcontext ctx)
{
    bool shared = is_shared();
    CUfunction func = shared ? NULL : load(fetch, ctx);
    uint32_t more = ag_backoff_next(&fetch->tries, AG_FETCH_AFTER);
    atomic_store(&fetch->never, shared);
    atomic_store(&fetch->after, atomic_load(&fetch->seen) + more);
    atomic_store(&fetch->func, func);
    return shared || func != NULL;
}

void ag_fetch_forget(struct ag_fetch *fetch)
{
    atomic_store(&fetch->func, NULL);
    atomic_store(&fetch->never, false);
    atomic_store(&fetch->seen, 0);
    atomic_store(&fetch->after, 0);
    atomic_store(&fetch->rest, 0);
    ag_backoff_reset(&fetch->rests);
    ag_backoff_reset(&fetch->tries);
    atomic_store(&fetch->vain, false);
    atomic_store(&fetch->reader, NULL);
    fetch->module = NULL;
    fetch->event[0] = fetch->event[1] = NULL;
    fetch->place = NULL;
}

/* -- Read-backs, one at a time ----------------------------------------------------- */

bool ag_fetch_rests(struct ag_fetch *fetch)
{
    uint32_t rest = atomic_load(&fetch->rest);
    if (__builtin_expect(rest != 0, 0))
        atomic_store(&fetch->rest, rest - 1); /* of two threads one may be lost */
    return rest != 0;
}

void ag_fetch_give_up(void)
{
    struct ag_fetch *fetch = ag_self.reading;
    if (__builtin_expect(fetch != NULL, 0))
        ag_fetch_end(fetch, ag_self.read);
}

bool ag_fetch_begin(struct ag_fetch *fetch, const struct ag_stream *stream, uint32_t *number)
{
    const struct ag_stream *none = NULL;
    ag_fetch_give_up();
    if (!atomic_compare_exchange_strong(&fetch->reader, &none, stream))
        return false;
    *number = ag_self.read = atomic_load(&fetch->number) + 1; /* nobody else reads back */
    atomic_store(&fetch->number, *number);
    ag_self.reading = fetch;
    return true;
}

void ag_fetch_end(struct ag_fetch *fetch, uint32_t number)
{
    if (!ag_fetch_is_mine(fetch, number))
        return;
    ag_self.reading = NULL;
    atomic_store(&fetch->marked, false);
    atomic_store(&fetch->vain, false);
    atomic_store(&fetch->reader, NULL);
}

CUevent ag_fetch_mark(struct ag_fetch *fetch, CUstream handle, CUresult *result)
{
    CUevent event = fetch->event[sleeps()];
    *result = ag_real.cuEventRecord(event, handle);
    if (*result != CUDA_SUCCESS)
        return NULL;
    atomic_store(&fetch->marked, true);
    return event;
}

/* A thread has waited in vain: it goes on, and there are none for a while. */
static void rest(struct ag_fetch *fetch)
{
    atomic_store(&fetch->rest, ag_backoff_next(&fetch->rests, AG_FETCH_REST));
    atomic_store(&fetch->vain, true);
}

void ag_fetch_wait(struct ag_fetch *fetch, const struct ag_stream *stream)
{
    const struct ag_stream *reader;
    uint64_t slept = 0;
    ag_fetch_give_up();
    if (AG_MUTANT(nobody_waits_for_read_backs))
        return;
    while ((reader = atomic_load(&fetch->reader)) != NULL &&
           !(reader == stream && atomic_load(&fetch->marked)) && !atomic_load(&fetch->vain) &&
           atomic_load(&ag_hold_bans) == 0)
        if (!ag_patience_lasts(&slept, AG_PATIENCE_NS))
            rest(fetch);
}
