/* SPDX-License-Identifier: MIT */
/* What the doors of life-cycle calls have in common. */
#ifndef AG_DOOR_H
#define AG_DOOR_H

#include <cuda.h>
#include <stdatomic.h>

#include "engine/engine.h"
#include "preload/preload.h"

/* In the door of `name`: the real function. */
#define AG_REAL(name) ((__typeof__(ag_door_##name) *)ag_slots[AG_SLOT_##name].real)

static inline bool passive(void)
{
    return ag_depth || !atomic_load_explicit(&ag_engine_on, memory_order_relaxed);
}

static inline bool active(const char *name)
{
    if (passive())
        return false;
    AG_NOTE(ag_note_barrier(name, 0));
    ag_cause = name;
    return true;
}

#endif
