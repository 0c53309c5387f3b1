/* SPDX-License-Identifier: MIT */
/*
 * The doors of the ops: kernel launches and memsets. This is the hot path.
 */
#include <cuda.h>
#include <stdatomic.h>

#include "engine/engine.h"
#include "preload/preload.h"

#define DOOR(name) __attribute__((used, visibility("hidden"))) CUresult ag_door_##name

#define unlikely(condition) __builtin_expect(!!(condition), 0)

static inline bool passive(void)
{
    return unlikely(!atomic_load_explicit(&ag_engine_on, memory_order_relaxed) || ag_depth);
}

static inline CUresult checked(CUresult result)
{
    if (unlikely(result != CUDA_SUCCESS))
        ag_engine_failed();
    return result;
}

/* -- Kernels -------------------------------------------------------------- */

/* Parameters and arguments that all launches without a configuration have. */
#define LAUNCH_PARAMETERS                                                                          \
    CUfunction func, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, \
        unsigned shared, CUstream stream, void **params
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
        if (passive())                                                                             \
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
        if (passive())                                                                             \
            return real(LAUNCH_ARGUMENTS);                                                         \
        if (ag_engine_kernel(LAUNCH_CALL(per_thread, NULL, 1, &cooperative)))                      \
            return CUDA_SUCCESS;                                                                   \
        return checked(real(LAUNCH_ARGUMENTS));                                                    \
    }

LAUNCH_COOPERATIVE(cuLaunchCooperativeKernel, false)
LAUNCH_COOPERATIVE(cuLaunchCooperativeKernel_ptsz, true)

#define LAUNCH_KERNEL_EX(name, per_thread)                                                         \
    DOOR(name)(const CUlaunchConfig *config, CUfunction func, void **params, void **extra)         \
    {                                                                                              \
        __typeof__(cuLaunchKernelEx) *real = ag_slots[AG_SLOT_##name].real;                        \
        if (passive() || unlikely(!config))                                                        \
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

/* -- Memsets -------------------------------------------------------------- */

#define MEMSET(name, type, element, per_thread)                                                    \
    DOOR(name)(CUdeviceptr dst, element value, size_t count, CUstream stream)                      \
    {                                                                                              \
        __typeof__(type) *real = ag_slots[AG_SLOT_##name].real;                                    \
        if (passive())                                                                             \
            return real(dst, value, count, stream);                                                \
        const struct ag_memset_call call = {                                                       \
            .dst = dst,                                                                            \
            .count = count,                                                                        \
            .value = value,                                                                        \
            .width = sizeof(element),                                                              \
            .stream = stream,                                                                      \
            .ptsz = per_thread,                                                                    \
        };                                                                                         \
        if (ag_engine_memset(&call))                                                               \
            return CUDA_SUCCESS;                                                                   \
        return checked(real(dst, value, count, stream));                                           \
    }

MEMSET(cuMemsetD8Async, cuMemsetD8Async, unsigned char, false)
MEMSET(cuMemsetD8Async_ptsz, cuMemsetD8Async, unsigned char, true)
MEMSET(cuMemsetD16Async, cuMemsetD16Async, unsigned short, false)
MEMSET(cuMemsetD16Async_ptsz, cuMemsetD16Async, unsigned short, true)
MEMSET(cuMemsetD32Async, cuMemsetD32Async, unsigned int, false)
MEMSET(cuMemsetD32Async_ptsz, cuMemsetD32Async, unsigned int, true)
