/* SPDX-License-Identifier: MIT */
/* The stream that a thread has created last, and questions about others. */
#include "engine/base/handle.h"

#include <stdint.h>

#include "driver/driver.h"
#include "engine/hot.h"

enum { COUNTERS_LOG2 = 8 };

/* Streams that have been destroyed, or were about to be, by their names. */
static _Alignas(64) _Atomic unsigned destroyed[1 << COUNTERS_LOG2];

static _Thread_local struct {
    CUstream handle; /* NULL: none */
    CUcontext context;
    unsigned flags;
    unsigned changes, destroyed; /* ag_changes and the counter, then */
} created __attribute__((tls_model("initial-exec")));

static _Atomic unsigned *destroyed_like(CUstream handle)
{
    return &destroyed[(uintptr_t)handle * 0x9e3779b97f4a7c15u >> (64 - COUNTERS_LOG2)];
}

void ag_handle_created(CUstream handle, CUcontext current, unsigned flags)
{
    created.handle = handle;
    created.context = current;
    created.flags = flags;
    created.changes = ag_current.changes;
    created.destroyed = atomic_load_explicit(destroyed_like(handle), memory_order_relaxed);
}

void ag_handle_destroyed(CUstream handle)
{
    atomic_fetch_add_explicit(destroyed_like(handle), 1, memory_order_relaxed);
}

/* Nothing is said of a stream that captures. */
static bool is_remembered(CUstream handle)
{
    return created.handle == handle && created.context != NULL && !ag_captures_about() &&
           created.changes == atomic_load(&ag_changes) &&
           created.destroyed == atomic_load_explicit(destroyed_like(handle), memory_order_relaxed);
}

bool ag_handle_learn(CUstream handle, CUcontext *ctx, unsigned *flags)
{
    if (is_remembered(handle)) {
        *ctx = created.context;
        *flags = created.flags;
        return true;
    }
    /* Asking for the flags of a stream that captures ends its capture (driver 580). */
    CUstreamCaptureStatus status;
    return ag_real.cuStreamIsCapturing(handle, &status) == CUDA_SUCCESS &&
           status == CU_STREAM_CAPTURE_STATUS_NONE &&
           ag_real.cuStreamGetCtx(handle, ctx) == CUDA_SUCCESS &&
           ag_real.cuStreamGetFlags(handle, flags) == CUDA_SUCCESS;
}
