/* SPDX-License-Identifier: MIT */
/*
 * The doors of the ops: kernel launches, memsets, copies. This is the hot path.
 */
#include "preload/preload.h"

#include <cuda.h>
#include <stdatomic.h>

#include "engine/engine.h"

#define DOOR(name) __attribute__((used, visibility("hidden"))) CUresult ag_door_##name
/* A door that tools may patch (arch.h). */
#define MEMORY_DOOR(name)                                                                          \
    AG_ENTRY(ag_door_##name, ag_memory_op_##name);                                                 \
    __attribute__((used, visibility("hidden"))) CUresult ag_memory_op_##name

#define unlikely(condition) __builtin_expect(!!(condition), 0)

static inline bool passive(void)
{
    return unlikely(!atomic_load_explicit(&ag_engine_on, memory_order_relaxed) || ag_depth);
}

static inline CUresult checked(CUresult result)
{
    AG_TRACE(ag_note_return(result));
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
    return atomic_load(&ag_listeners) == 0 && !ag_shortcut.call &&
           ag_engine_passes(stream, ptsz, kind, func, grid);
}

/*
 * The door of an op: what passes as the one before did is a jump to the driver, all else is decided
 * by the body that follows. `stream` and `op` (kind, function, grid) are expressions of the
 * parameters. (Two functions do not pay where arguments are on the stack: the compiler takes them
 * from there and puts them back.)
 */
#define OP_DOOR(name, type, stream, op, per_thread, parameters, arguments)                         \
    static __attribute__((noinline)) CUresult decide_##name parameters;                            \
    DOOR(name) parameters                                                                          \
    {                                                                                              \
        __typeof__(type) *real = ag_slots[AG_SLOT_##name].real;                                    \
        if (still_passes(stream, per_thread, op))                                                  \
            return real arguments;                                                                 \
        return decide_##name arguments;                                                            \
    }                                                                                              \
    static CUresult decide_##name parameters

/* -- Kernels -------------------------------------------------------------- */

/* Parameters and arguments that all launches without a configuration have. */
#define LAUNCH_PARAMETERS                                                                          \
    CUfunction func, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, \
        unsigned shared, CUstream stream, void **params
#define OP               AG_OP_KERNEL, func, gx
#define LAUNCH_ARGUMENTS func, gx, gy, gz, bx, by, bz, shared, stream, params

#define LAUNCH_CALL(per_thread, more, nattrs, attributes)                                          \
    (&(const struct ag_kernel_call){                                                               \
        .shape = {{gx, gy, gz}, {bx, by, bz}, shared, nattrs},                                     \
        .func = func,                                                                              \
        .stream = stream,                                                                          \
        .ptsz = per_thread,                                                                        \
        .params = params,                                                                          \
        .extra = more,                                                                             \
        .attrs = attributes,                                                                       \
    })

#define LAUNCH_KERNEL(name, per_thread)                                                            \
    DOOR(name)(LAUNCH_PARAMETERS, void **extra)                                                    \
    {                                                                                              \
        __typeof__(cuLaunchKernel) *real = ag_slots[AG_SLOT_##name].real;                          \
        if (still_passes(stream, per_thread, OP) || passive() || passes(stream, per_thread, OP))   \
            return real(LAUNCH_ARGUMENTS, extra);                                                  \
        const struct ag_kernel_call *call = LAUNCH_CALL(per_thread, extra, 0, NULL);               \
        bool asked = unlikely(ag_shortcut.call) && ag_shortcut_asked(call);                        \
        if (!asked && ag_engine_kernel(call))                                                      \
            return CUDA_SUCCESS;                                                                   \
        return checked(real(LAUNCH_ARGUMENTS, extra));                                             \
    }

LAUNCH_KERNEL(cuLaunchKernel, false)
LAUNCH_KERNEL(cuLaunchKernel_ptsz, true)

static const CUlaunchAttribute cooperative = {
    .id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
    .value = {.cooperative = 1},
};

#define LAUNCH_COOPERATIVE(name, per_thread)                                                       \
    DOOR(name)(LAUNCH_PARAMETERS)                                                                  \
    {                                                                                              \
        __typeof__(cuLaunchCooperativeKernel) *real = ag_slots[AG_SLOT_##name].real;               \
        if (still_passes(stream, per_thread, OP) || passive() || passes(stream, per_thread, OP))   \
            return real(LAUNCH_ARGUMENTS);                                                         \
        if (ag_engine_kernel(LAUNCH_CALL(per_thread, NULL, 1, &cooperative)))                      \
            return CUDA_SUCCESS;                                                                   \
        return checked(real(LAUNCH_ARGUMENTS));                                                    \
    }

LAUNCH_COOPERATIVE(cuLaunchCooperativeKernel, false)
LAUNCH_COOPERATIVE(cuLaunchCooperativeKernel_ptsz, true)

#define OP_EX AG_OP_KERNEL, func, config ? config->gridDimX : 0

#define LAUNCH_KERNEL_EX(name, per_thread)                                                         \
    OP_DOOR(name, cuLaunchKernelEx, config ? config->hStream : NULL, OP_EX, per_thread,            \
            (const CUlaunchConfig *config, CUfunction func, void **params, void **extra),          \
            (config, func, params, extra))                                                         \
    {                                                                                              \
        __typeof__(cuLaunchKernelEx) *real = ag_slots[AG_SLOT_##name].real;                        \
        if (passive() || unlikely(!config) || passes(config->hStream, per_thread, OP_EX))          \
            return real(config, func, params, extra);                                              \
        const struct ag_kernel_call call = {                                                       \
            .shape = {{config->gridDimX, config->gridDimY, config->gridDimZ},                      \
                      {config->blockDimX, config->blockDimY, config->blockDimZ},                   \
                      config->sharedMemBytes,                                                      \
                      config->numAttrs},                                                           \
            .func = func,                                                                          \
            .stream = config->hStream,                                                             \
            .ptsz = per_thread,                                                                    \
            .params = params,                                                                      \
            .extra = extra,                                                                        \
            .attrs = config->attrs,                                                                \
        };                                                                                         \
        if (ag_engine_kernel(&call))                                                               \
            return CUDA_SUCCESS;                                                                   \
        return checked(real(config, func, params, extra));                                         \
    }

LAUNCH_KERNEL_EX(cuLaunchKernelEx, false)
LAUNCH_KERNEL_EX(cuLaunchKernelEx_ptsz, true)

/*
 * Doors of ops that have a form without a stream: it goes to the default stream, and the host waits
 * unless all memory is the device's ("API synchronization behavior"). What waits is never held, and
 * what it may wait for goes before.
 */
#define NO_STREAM ((CUstream)NULL)

/* -- Memsets -------------------------------------------------------------- */

#define MEMSET_OP AG_OP_MEMSET, NULL, 0
#define MEMSET_DOOR(name, type, element, per_thread, parameters, arguments, rows, distance, to,    \
                    may_block)                                                                     \
    OP_DOOR(name, type, to, MEMSET_OP, per_thread, parameters, arguments)                          \
    {                                                                                              \
        __typeof__(type) *real = ag_slots[AG_SLOT_##name].real;                                    \
        if (passive() || passes(to, per_thread, MEMSET_OP))                                        \
            return real arguments;                                                                 \
        ag_cause = #name;                                                                          \
        const struct ag_memset_call call = {                                                       \
            .dst = dst,                                                                            \
            .count = count,                                                                        \
            .height = rows,                                                                        \
            .pitch = distance,                                                                     \
            .value = value,                                                                        \
            .width = sizeof(element),                                                              \
            .stream = to,                                                                          \
            .ptsz = per_thread,                                                                    \
            .blocks = may_block,                                                                   \
        };                                                                                         \
        if ((!(may_block) || ag_engine_follows_default(per_thread)) && ag_engine_memset(&call))    \
            return CUDA_SUCCESS;                                                                   \
        if (may_block)                                                                             \
            ag_engine_barrier_wait(NULL, per_thread, AG_REASON_HOST_WAIT);                         \
        return checked(real arguments);                                                            \
    }

#define MEMSET(name, type, element, per_thread)                                                    \
    MEMSET_DOOR(name, type, element, per_thread,                                                   \
                (CUdeviceptr dst, element value, size_t count, CUstream stream),                   \
                (dst, value, count, stream), 1, 0, stream, false)
#define MEMSET_2D(name, type, element, per_thread)                                                 \
    MEMSET_DOOR(name, type, element, per_thread,                                                   \
                (CUdeviceptr dst, size_t pitch, element value, size_t count, size_t height,        \
                 CUstream stream),                                                                 \
                (dst, pitch, value, count, height, stream), height, pitch, stream, false)
#define MEMSET_WAITS(name, type, element, per_thread)                                              \
    MEMSET_DOOR(name, type, element, per_thread, (CUdeviceptr dst, element value, size_t count),   \
                (dst, value, count), 1, 0, NO_STREAM, true)
#define MEMSET_2D_WAITS(name, type, element, per_thread)                                           \
    MEMSET_DOOR(name, type, element, per_thread,                                                   \
                (CUdeviceptr dst, size_t pitch, element value, size_t count, size_t height),       \
                (dst, pitch, value, count, height), height, pitch, NO_STREAM, true)

#define BOTH(door, name, ...)                                                                      \
    door(name, name, __VA_ARGS__, false) door(name##_ptsz, name, __VA_ARGS__, true)
BOTH(MEMSET, cuMemsetD8Async, unsigned char)
BOTH(MEMSET, cuMemsetD16Async, unsigned short)
BOTH(MEMSET, cuMemsetD32Async, unsigned int)
BOTH(MEMSET_2D, cuMemsetD2D8Async, unsigned char)
BOTH(MEMSET_2D, cuMemsetD2D16Async, unsigned short)
BOTH(MEMSET_2D, cuMemsetD2D32Async, unsigned int)

#define BOTH_WAIT(door, name, ...)                                                                 \
    door(name, name, __VA_ARGS__, false) door(name##_ptds, name, __VA_ARGS__, true)
BOTH_WAIT(MEMSET_WAITS, cuMemsetD8_v2, unsigned char)
BOTH_WAIT(MEMSET_WAITS, cuMemsetD16_v2, unsigned short)
BOTH_WAIT(MEMSET_WAITS, cuMemsetD32_v2, unsigned int)
BOTH_WAIT(MEMSET_2D_WAITS, cuMemsetD2D8_v2, unsigned char)
BOTH_WAIT(MEMSET_2D_WAITS, cuMemsetD2D16_v2, unsigned short)
BOTH_WAIT(MEMSET_2D_WAITS, cuMemsetD2D32_v2, unsigned int)

/* -- Copies --------------------------------------------------------------- */

#define COPY_OP AG_OP_COPY, NULL, 0

/* `row` makes the CUDA_MEMCPY3D of the call. */
#define COPY_DOOR(name, type, per_thread, parameters, arguments, valid, row, to, may_block)        \
    OP_DOOR(name, type, to, COPY_OP, per_thread, parameters, arguments)                            \
    {                                                                                              \
        __typeof__(type) *real = ag_slots[AG_SLOT_##name].real;                                    \
        if (passive() || unlikely(!(valid)) || passes(to, per_thread, COPY_OP))                    \
            return real arguments;                                                                 \
        ag_cause = #name;                                                                          \
        const struct ag_copy_call call = {                                                         \
            .params = row, .stream = to, .ptsz = per_thread, .blocks = may_block};                 \
        if ((!(may_block) || ag_engine_follows_default(per_thread)) && ag_engine_copy(&call))      \
            return CUDA_SUCCESS;                                                                   \
        if (may_block)                                                                             \
            ag_engine_barrier_copy(per_thread, AG_REASON_HOST_WAIT);                               \
        return checked(real arguments);                                                            \
    }

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

/* What lies at an address is asked of the driver in any case: programs pass device addresses as
   sources of host-to-device copies. */
#define ANY CU_MEMORYTYPE_UNIFIED

#define COPY_ANY(name, type, per_thread)                                                           \
    COPY_DOOR(name, type, per_thread,                                                              \
              (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream),                   \
              (dst, src, bytes, stream), true, range(ANY, dst, ANY, src, bytes), stream, false)
#define COPY_HTOD(name, type, per_thread)                                                          \
    COPY_DOOR(name, type, per_thread,                                                              \
              (CUdeviceptr dst, const void *src, size_t bytes, CUstream stream),                   \
              (dst, src, bytes, stream), true, range(ANY, dst, ANY, (CUdeviceptr)src, bytes),      \
              stream, false)
#define COPY_2D(name, type, per_thread)                                                            \
    COPY_DOOR(name, type, per_thread, (const CUDA_MEMCPY2D *copy, CUstream stream),                \
              (copy, stream), copy, rows(copy), stream, false)
#define COPY_3D(name, type, per_thread)                                                            \
    COPY_DOOR(name, type, per_thread, (const CUDA_MEMCPY3D *copy, CUstream stream),                \
              (copy, stream), copy, *copy, stream, false)
#define COPY_ANY_WAITS(name, type, per_thread)                                                     \
    COPY_DOOR(name, type, per_thread, (CUdeviceptr dst, CUdeviceptr src, size_t bytes),            \
              (dst, src, bytes), true, range(ANY, dst, ANY, src, bytes), NO_STREAM, true)
#define COPY_2D_WAITS(name, type, per_thread)                                                      \
    COPY_DOOR(name, type, per_thread, (const CUDA_MEMCPY2D *copy), (copy), copy, rows(copy),       \
              NO_STREAM, true)
#define COPY_3D_WAITS(name, type, per_thread)                                                      \
    COPY_DOOR(name, type, per_thread, (const CUDA_MEMCPY3D *copy), (copy), copy, *copy, NO_STREAM, \
              true)

COPY_ANY(cuMemcpyAsync, cuMemcpyAsync, false)
COPY_ANY(cuMemcpyAsync_ptsz, cuMemcpyAsync, true)
COPY_ANY(cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync, false)
COPY_ANY(cuMemcpyDtoDAsync_v2_ptsz, cuMemcpyDtoDAsync, true)
COPY_HTOD(cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync, false)
COPY_HTOD(cuMemcpyHtoDAsync_v2_ptsz, cuMemcpyHtoDAsync, true)
COPY_2D(cuMemcpy2DAsync_v2, cuMemcpy2DAsync, false)
COPY_2D(cuMemcpy2DAsync_v2_ptsz, cuMemcpy2DAsync, true)
COPY_3D(cuMemcpy3DAsync_v2, cuMemcpy3DAsync, false)
COPY_3D(cuMemcpy3DAsync_v2_ptsz, cuMemcpy3DAsync, true)
COPY_ANY_WAITS(cuMemcpy, cuMemcpy, false)
COPY_ANY_WAITS(cuMemcpy_ptds, cuMemcpy, true)
COPY_ANY_WAITS(cuMemcpyDtoD_v2, cuMemcpyDtoD, false)
COPY_ANY_WAITS(cuMemcpyDtoD_v2_ptds, cuMemcpyDtoD, true)
COPY_2D_WAITS(cuMemcpy2D_v2, cuMemcpy2D, false)
COPY_2D_WAITS(cuMemcpy2D_v2_ptds, cuMemcpy2D, true)
COPY_3D_WAITS(cuMemcpy3D_v2, cuMemcpy3D, false)
COPY_3D_WAITS(cuMemcpy3D_v2_ptds, cuMemcpy3D, true)

/* -- Events --------------------------------------------------------------- */

#define EVENT_OP(waits) (waits) ? AG_OP_WAIT : AG_OP_RECORD, NULL, 0
#define EVENT_DOOR(name, type, per_thread, parameters, arguments, waits, plain)                    \
    OP_DOOR(name, type, stream, EVENT_OP(waits), per_thread, parameters, arguments)                \
    {                                                                                              \
        __typeof__(type) *real = ag_slots[AG_SLOT_##name].real;                                    \
        if (passive())                                                                             \
            return real arguments;                                                                 \
        ag_cause = #name;                                                                          \
        if (unlikely(!(plain))) {                                                                  \
            AG_TRACE(ag_note_barrier(#name, 0));                                                   \
            ag_engine_barrier_all(AG_REASON_BARRIER);                                              \
            return real arguments;                                                                 \
        }                                                                                          \
        if (passes(stream, per_thread, EVENT_OP(waits)))                                           \
            return real arguments;                                                                 \
        const struct ag_event_call call = {                                                        \
            .event = event, .stream = stream, .wait = waits, .ptsz = per_thread};                  \
        if (ag_engine_event(&call))                                                                \
            return CUDA_SUCCESS;                                                                   \
        CUresult result = real arguments;                                                          \
        if (unlikely(result != CUDA_SUCCESS) && !(waits))                                          \
            ag_engine_event_failed(event);                                                         \
        return checked(result);                                                                    \
    }

#define RECORD(name, type, per_thread)                                                             \
    EVENT_DOOR(name, type, per_thread, (CUevent event, CUstream stream), (event, stream), false,   \
               true)
#define RECORD_FLAGS(name, type, per_thread)                                                       \
    EVENT_DOOR(name, type, per_thread, (CUevent event, CUstream stream, unsigned flags),           \
               (event, stream, flags), false, flags == CU_EVENT_RECORD_DEFAULT)
#define WAIT_EVENT(name, type, per_thread)                                                         \
    EVENT_DOOR(name, type, per_thread, (CUstream stream, CUevent event, unsigned flags),           \
               (stream, event, flags), true, flags == CU_EVENT_WAIT_DEFAULT)

RECORD(cuEventRecord, cuEventRecord, false)
RECORD(cuEventRecord_ptsz, cuEventRecord, true)
RECORD_FLAGS(cuEventRecordWithFlags, cuEventRecordWithFlags, false)
RECORD_FLAGS(cuEventRecordWithFlags_ptsz, cuEventRecordWithFlags, true)
WAIT_EVENT(cuStreamWaitEvent, cuStreamWaitEvent, false)
WAIT_EVENT(cuStreamWaitEvent_ptsz, cuStreamWaitEvent, true)

/* -- Values in memory ------------------------------------------------------ */

#define VALUE_OP AG_OP_VALUE, NULL, 0
#define VALUE_DOOR(name, type, width, per_thread, kind)                                            \
    OP_DOOR(name, type, stream, VALUE_OP, per_thread,                                              \
            (CUstream stream, CUdeviceptr address, cuuint##width##_t value, unsigned flags),       \
            (stream, address, value, flags))                                                       \
    {                                                                                              \
        __typeof__(type) *real = ag_slots[AG_SLOT_##name].real;                                    \
        if (passive() || passes(stream, per_thread, VALUE_OP))                                     \
            return real(stream, address, value, flags);                                            \
        ag_cause = #name;                                                                          \
        const struct ag_value_call call = {                                                        \
            .operation = CU_STREAM_MEM_OP_##kind##_VALUE_##width,                                  \
            .address = address,                                                                    \
            .value = value,                                                                        \
            .flags = flags,                                                                        \
            .stream = stream,                                                                      \
            .ptsz = per_thread,                                                                    \
        };                                                                                         \
        if (ag_engine_value(&call))                                                                \
            return CUDA_SUCCESS;                                                                   \
        return checked(real(stream, address, value, flags));                                       \
    }

VALUE_DOOR(cuStreamWriteValue32_v2, cuStreamWriteValue32, 32, false, WRITE)
VALUE_DOOR(cuStreamWriteValue32_v2_ptsz, cuStreamWriteValue32, 32, true, WRITE)
VALUE_DOOR(cuStreamWriteValue64_v2, cuStreamWriteValue64, 64, false, WRITE)
VALUE_DOOR(cuStreamWriteValue64_v2_ptsz, cuStreamWriteValue64, 64, true, WRITE)
VALUE_DOOR(cuStreamWaitValue32_v2, cuStreamWaitValue32, 32, false, WAIT)
VALUE_DOOR(cuStreamWaitValue32_v2_ptsz, cuStreamWaitValue32, 32, true, WAIT)
VALUE_DOOR(cuStreamWaitValue64_v2, cuStreamWaitValue64, 64, false, WAIT)
VALUE_DOOR(cuStreamWaitValue64_v2_ptsz, cuStreamWaitValue64, 64, true, WAIT)

/* -- Stream-ordered memory --------------------------------------------------- */

#define FREE(name, per_thread)                                                                     \
    MEMORY_DOOR(name)(CUdeviceptr address, CUstream stream)                                        \
    {                                                                                              \
        __typeof__(cuMemFreeAsync) *real = ag_slots[AG_SLOT_##name].real;                          \
        ag_cause = #name;                                                                          \
        ag_memory_changed();                                                                       \
        AG_TRACE(ag_note_memory(false, AG_MEMORY_ASYNC, address, 0));                              \
        if (passive())                                                                             \
            return real(address, stream);                                                          \
        ag_engine_frees(stream, per_thread);                                                       \
        if (ag_engine_free(address, stream, per_thread))                                           \
            return CUDA_SUCCESS;                                                                   \
        return real(address, stream);                                                              \
    }

FREE(cuMemFreeAsync, false)
FREE(cuMemFreeAsync_ptsz, true)

/* There may be enough memory once what is held, and what is to be freed behind it, is submitted. */
#define ALLOCATE(name, type, per_thread, parameters, arguments)                                    \
    MEMORY_DOOR(name) parameters                                                                   \
    {                                                                                              \
        __typeof__(type) *real = ag_slots[AG_SLOT_##name].real;                                    \
        ag_cause = #name;                                                                          \
        if (!passive())                                                                            \
            ag_engine_allocates(stream, per_thread);                                               \
        CUresult result = real arguments;                                                          \
        if (unlikely(result == CUDA_ERROR_OUT_OF_MEMORY) && !passive() &&                          \
            atomic_load(&ag_listeners) != 0) {                                                     \
            ag_engine_barrier_all(AG_REASON_BARRIER);                                              \
            result = real arguments;                                                               \
        }                                                                                          \
        if (result == CUDA_SUCCESS && !passive())                                                  \
            ag_engine_allocated(stream, per_thread);                                               \
        if (result == CUDA_SUCCESS)                                                                \
            AG_TRACE(ag_note_memory(true, AG_MEMORY_ASYNC, *address, size));                       \
        return result;                                                                             \
    }

#define ALLOC_PARAMETERS (CUdeviceptr * address, size_t size, CUstream stream)
#define POOL_PARAMETERS  (CUdeviceptr * address, size_t size, CUmemoryPool pool, CUstream stream)
ALLOCATE(cuMemAllocAsync, cuMemAllocAsync, false, ALLOC_PARAMETERS, (address, size, stream))
ALLOCATE(cuMemAllocAsync_ptsz, cuMemAllocAsync, true, ALLOC_PARAMETERS, (address, size, stream))
ALLOCATE(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, false, POOL_PARAMETERS,
         (address, size, pool, stream))
ALLOCATE(cuMemAllocFromPoolAsync_ptsz, cuMemAllocFromPoolAsync, true, POOL_PARAMETERS,
         (address, size, pool, stream))
