/* SPDX-License-Identifier: MIT */
/*
 * The doors of the functions by which a shared runtime launches kernels: launch.doors.
 *
 * They call the runtime's own function; that function's driver call comes through the driver's
 * doors.
 */
#include "preload/launch.h"

#include "preload/configuration.h"
#include "preload/preload.h"

typedef int error; /* cudaError_t */

/* Whether the library has nothing to do before the driver's door. */
static inline bool unconcerned(CUstream stream)
{
    return !atomic_load_explicit(&ag_engine_on, memory_order_relaxed) || ag_engine_rests(stream) ||
           ag_depth != 0;
}

#define LAUNCH_PARAMETERS                                                                          \
    const void *kernel, struct dim3 grid, struct dim3 block, void **params, size_t shared,         \
        void *stream
#define LAUNCH_ARGUMENTS kernel, &grid, &block, params, shared, stream

/* In each door what it calls is a constant. The dimensions are the door's own: no copies. */
static inline __attribute__((always_inline)) error
launch(struct ag_runtime *runtime, enum ag_runtime_function which, const void *kernel,
       const struct dim3 *grid, const struct dim3 *block, void **params, size_t shared,
       void *stream)
{
    error (*real)(LAUNCH_PARAMETERS) = (error(*)(LAUNCH_PARAMETERS))runtime->real[which];
    if (unconcerned(stream))
        return real(kernel, *grid, *block, params, shared, stream);
    struct ag_kernel_call call = {
        .shape = {{grid->x, grid->y, grid->z}, {block->x, block->y, block->z}, (uint32_t)shared, 0},
        .stream = stream,
        .params = params,
    };
    if (shared <= UINT32_MAX && ag_shortcut_taken((void *)real, kernel, &call))
        return AG_RUNTIME_SUCCESS;
    error result = real(kernel, *grid, *block, params, shared, stream);
    if (ag_shortcut.call == &call)
        ag_shortcut_learn(runtime, (void *)real, kernel, result == AG_RUNTIME_SUCCESS);
    return result;
}

#include "preload/launch_doors.inc"

#define DOORS(number)                                                                              \
    {                                                                                              \
        (void *)launch_##number, (void *)launch_ptsz_##number, (void *)launch_handle_##number,     \
            (void *)launch_handle_ptsz_##number, (void *)push_##number, (void *)pop_##number,      \
    }

void *const ag_runtime_doors[AG_RUNTIMES][AG_RUNTIME_FUNCTIONS] = {DOORS(0), DOORS(1), DOORS(2),
                                                                   DOORS(3)};
