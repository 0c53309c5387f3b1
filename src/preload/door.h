/* SPDX-License-Identifier: MIT */
/* What the doors of life-cycle calls are made of. */
#ifndef AG_DOOR_H
#define AG_DOOR_H

#include <cuda.h>
#include <stdatomic.h>

#include "engine/engine.h"
#include "preload/preload.h"

/* Begins a door. REAL() in it is the real function; the types are those of the CUDA reference. */
#define DOOR(name, parameters)                                                                     \
    typedef CUresult(*type_##name) parameters;                                                     \
    __attribute__((used, visibility("hidden"))) CUresult ag_door_##name parameters
#define REAL(name) ((type_##name)ag_slots[AG_SLOT_##name].real)

static inline bool passive(void)
{
    return ag_depth || !atomic_load_explicit(&ag_engine_on, memory_order_relaxed);
}

static inline bool active(const char *name)
{
    if (passive())
        return false;
    AG_TRACE(ag_note_barrier(name, 0));
    ag_cause = name;
    return true;
}

#endif
