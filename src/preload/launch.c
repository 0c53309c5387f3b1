/* SPDX-License-Identifier: MIT */
/*
 * The doors of the runtime's launch functions, for programs that link libcudart.so: launch.doors.
 *
 * They call what the program would have been bound to without this library; that function's own
 * driver call comes through the driver's doors.
 */
#include "preload/runtime.h"

#include "preload/preload.h"

typedef int error; /* cudaError_t */

/* Whether the library has nothing to do before the driver's door. */
static inline bool unconcerned(CUstream stream)
{
    return !atomic_load_explicit(&ag_engine_on, memory_order_relaxed) || ag_engine_rests(stream) ||
           ag_depth != 0;
}

#include "preload/launch_doors.inc"
