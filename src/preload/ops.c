/* SPDX-License-Identifier: MIT */
/*
 * The doors of the ops: kernel launches, memsets, copies. This is the hot path. ops.doors has the
 * doors themselves, and here is what they share.
 */
#include "preload/preload.h"

#include <cuda.h>
#include <stdatomic.h>

#include "engine/engine.h"

#define unlikely(condition) __builtin_expect(!!(condition), 0)

static inline bool passive(void)
{
    return unlikely(!atomic_load_explicit(&ag_engine_on, memory_order_relaxed) || ag_depth);
}

static inline CUresult checked(CUresult result)
{
    AG_NOTE(ag_note_return(result));
    if (unlikely(result != CUDA_SUCCESS))
        ag_engine_failed();
    else if (unlikely(atomic_load_explicit(&ag_refused, memory_order_relaxed) != 0))
        return ag_engine_refusal();
    return result;
}

/* Whether the op passes as the one before did. What the shortcut has asked about must not. */
static inline bool still_passes(CUstream stream, bool ptsz, enum ag_op_kind kind, CUfunction func,
                                unsigned grid)
{
    return !ag_shortcut.call && unlikely(ag_engine_still_passes(stream, ptsz, kind, func, grid));
}

/* Whether it passes. */
static inline bool passes(CUstream stream, bool ptsz, enum ag_op_kind kind, CUfunction func,
                          unsigned grid)
{
    return atomic_load(&ag_subscribers) == 0 && !ag_shortcut.call &&
           ag_engine_passes(stream, ptsz, kind, func, grid);
}

/* -- What calls say ------------------------------------------------------- */

static const CUlaunchAttribute cooperative = {
    .id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
    .value = {.cooperative = 1},
};

/* Where a memset or copy without a stream goes. */
#define NO_STREAM ((CUstream)NULL)

/* What lies at an address is asked of the driver in any case: programs pass device addresses as
   sources of host-to-device copies. */
#define ANY CU_MEMORYTYPE_UNIFIED

/* The driver refuses other addresses than its own. */
#define NOT_PAGEABLE CU_MEMORYTYPE_DEVICE

static CUDA_MEMCPY3D range(CUmemorytype dst_type, CUdeviceptr dst, CUmemorytype src_type,
                           CUdeviceptr src, size_t bytes)
{
    return (CUDA_MEMCPY3D){
        .srcMemoryType = src_type,
        .srcDevice = src,
        .dstMemoryType = dst_type,
        .dstDevice = dst,
        .WidthInBytes = bytes,
        .Height = 1,
        .Depth = 1,
    };
}

static CUDA_MEMCPY3D rows(const CUDA_MEMCPY2D *copy)
{
    return (CUDA_MEMCPY3D){
        .srcXInBytes = copy->srcXInBytes,
        .srcY = copy->srcY,
        .srcMemoryType = copy->srcMemoryType,
        .srcHost = copy->srcHost,
        .srcDevice = copy->srcDevice,
        .srcArray = copy->srcArray,
        .srcPitch = copy->srcPitch,
        .dstXInBytes = copy->dstXInBytes,
        .dstY = copy->dstY,
        .dstMemoryType = copy->dstMemoryType,
        .dstHost = copy->dstHost,
        .dstDevice = copy->dstDevice,
        .dstArray = copy->dstArray,
        .dstPitch = copy->dstPitch,
        .WidthInBytes = copy->WidthInBytes,
        .Height = copy->Height,
        .Depth = 1,
    };
}

/* Before a copy to the host that is no op. */
static void read_barrier(const struct ag_read_call *call)
{
    bool heard = ag_anything_held() || atomic_load(&ag_next_subscribers) != 0;
    if (heard && call->blocks)
        ag_engine_barrier_wait(call->stream, call->ptsz, AG_REASON_HOST_WAIT);
    else if (heard)
        ag_engine_barrier_stream(call->stream, call->ptsz, AG_REASON_STREAM_BARRIER);
    AG_NOTE(ag_note_read_call(call));
}

/* -- Stream-ordered memory -------------------------------------------------- */

/* Memory is about to be allocated or freed in a stream, which a graph does later if this is
 * captured. */
static void may_be_captured(void)
{
    if (unlikely(atomic_load(&ag_hold_bans) != 0))
        atomic_store(&ag_graphs_free, true);
}

/* -- The doors ------------------------------------------------------------ */

#include "preload/ops_doors.inc"
