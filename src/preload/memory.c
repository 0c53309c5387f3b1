/* SPDX-License-Identifier: MIT */
/*
 * The doors of functions that allocate and free memory, which the trace file tells of: without one
 * they are barriers like others, and the program gets their thunks. All are alike: memory.doors.
 */
#include "preload/preload.h"

#include <cuda.h>
#include <stdatomic.h>

#include "engine/engine.h"

static void barrier(const struct ag_slot *slot, const char *name)
{
    if (ag_depth || !atomic_load_explicit(&ag_engine_on, memory_order_relaxed))
        return;
    ag_memory_changed();
    AG_NOTE(ag_note_barrier(name, 0));
    ag_cause = name;
    if (ag_anything_held() && slot->class == AG_CLASS_ALLOCATION)
        ag_engine_barrier_most(AG_REASON_BARRIER);
    else if (ag_anything_held())
        ag_engine_barrier_all(AG_REASON_BARRIER);
}

/* In the door of `name`: the real function. */
#define AG_REAL(name) ((__typeof__(ag_memory_door_##name) *)ag_slots[AG_SLOT_##name].real)

#include "preload/memory_doors.inc"

void *ag_memory_door(unsigned slot)
{
    switch (slot) {
    case AG_SLOT_cuMemAlloc_v2:
        return (void *)ag_memory_entry_cuMemAlloc_v2;
    case AG_SLOT_cuMemAllocPitch_v2:
        return (void *)ag_memory_entry_cuMemAllocPitch_v2;
    case AG_SLOT_cuMemMap:
        return (void *)ag_memory_entry_cuMemMap;
    case AG_SLOT_cuMemAllocManaged:
        return (void *)ag_memory_entry_cuMemAllocManaged;
    case AG_SLOT_cuMemAllocHost_v2:
        return (void *)ag_memory_entry_cuMemAllocHost_v2;
    case AG_SLOT_cuMemHostAlloc:
        return (void *)ag_memory_entry_cuMemHostAlloc;
    case AG_SLOT_cuMemFree_v2:
        return (void *)ag_memory_entry_cuMemFree_v2;
    case AG_SLOT_cuMemUnmap:
        return (void *)ag_memory_entry_cuMemUnmap;
    case AG_SLOT_cuMemFreeHost:
        return (void *)ag_memory_entry_cuMemFreeHost;
    case AG_SLOT_cuMemHostUnregister:
        return (void *)ag_memory_entry_cuMemHostUnregister;
    default:
        return NULL;
    }
}
