/* SPDX-License-Identifier: MIT */
/*
 * The doors of functions that allocate and free memory, which the trace file tells of: without one
 * they are barriers like others, and the program gets their thunks.
 */
#include "preload/preload.h"

#include <cuda.h>
#include <stdatomic.h>

#include "engine/engine.h"

/* Here each name means the function of that name, not what cuda.h makes of it. */
#undef cuMemHostRegister

static void barrier(const struct ag_slot *slot, const char *name)
{
    if (ag_depth || !atomic_load_explicit(&ag_engine_on, memory_order_relaxed))
        return;
    ag_memory_changed();
    AG_TRACE(ag_note_barrier(name, 0));
    ag_cause = name;
    if (ag_anything_held() && slot->class == AG_CLASS_ALLOCATION)
        ag_engine_barrier_most(AG_REASON_BARRIER);
    else if (ag_anything_held())
        ag_engine_barrier_all(AG_REASON_BARRIER);
}

/* What the program gets is the entry, which tools may patch (arch.h). */
#define DOOR(name, parameters)                                                                     \
    CUresult ag_memory_entry_##name parameters;                                                    \
    AG_ENTRY(ag_memory_entry_##name, ag_memory_door_##name);                                       \
    __attribute__((used, visibility("hidden"))) CUresult ag_memory_door_##name parameters
#define REAL(name, parameters) ((CUresult(*) parameters)ag_slots[AG_SLOT_##name].real)

#define ALLOCATES(name, kind, parameters, arguments, address, bytes)                               \
    DOOR(name, parameters)                                                                         \
    {                                                                                              \
        barrier(&ag_slots[AG_SLOT_##name], #name);                                                 \
        CUresult result = REAL(name, parameters) arguments;                                        \
        if (result == CUDA_SUCCESS && !ag_depth)                                                   \
            AG_TRACE(ag_note_memory(true, AG_MEMORY_##kind, (CUdeviceptr)(address), bytes));       \
        return result;                                                                             \
    }

/* Before the call: another thread may be given the same memory at once. */
#define FREES(name, kind, parameters, arguments, address)                                          \
    DOOR(name, parameters)                                                                         \
    {                                                                                              \
        barrier(&ag_slots[AG_SLOT_##name], #name);                                                 \
        if (!ag_depth)                                                                             \
            AG_TRACE(ag_note_memory(false, AG_MEMORY_##kind, (CUdeviceptr)(address), 0));          \
        return REAL(name, parameters) arguments;                                                   \
    }

/* The rows below are a table of macros, which the formatter does not understand. */
/* clang-format off */

ALLOCATES(cuMemAlloc_v2, DEVICE, (CUdeviceptr *to, size_t size), (to, size), *to, size)
ALLOCATES(cuMemAllocPitch_v2, DEVICE,
          (CUdeviceptr *to, size_t *pitch, size_t width, size_t height, unsigned element),
          (to, pitch, width, height, element), *to, *pitch * height)
ALLOCATES(cuMemMap, DEVICE,
          (CUdeviceptr to, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
           unsigned long long flags),
          (to, size, offset, handle, flags), to, size)
ALLOCATES(cuMemAllocManaged, MANAGED, (CUdeviceptr *to, size_t size, unsigned flags),
          (to, size, flags), *to, size)
ALLOCATES(cuMemAllocHost_v2, HOST, (void **to, size_t size), (to, size), *to, size)
ALLOCATES(cuMemHostAlloc, HOST, (void **to, size_t size, unsigned flags), (to, size, flags), *to,
          size)
ALLOCATES(cuMemHostRegister_v2, HOST, (void *to, size_t size, unsigned flags), (to, size, flags),
          to, size)
FREES(cuMemFree_v2, DEVICE, (CUdeviceptr address), (address), address)
FREES(cuMemUnmap, DEVICE, (CUdeviceptr address, size_t size), (address, size), address)
FREES(cuMemFreeHost, HOST, (void *address), (address), address)
FREES(cuMemHostUnregister, HOST, (void *address), (address), address)

/* clang-format on */

void *ag_memory_door(unsigned slot)
{
    switch (slot) {
#define ROW(name)                                                                                  \
    case AG_SLOT_##name:                                                                           \
        return (void *)ag_memory_entry_##name;
        ROW(cuMemAlloc_v2)
        ROW(cuMemAllocPitch_v2)
        ROW(cuMemMap)
        ROW(cuMemAllocManaged)
        ROW(cuMemAllocHost_v2)
        ROW(cuMemHostAlloc)
        ROW(cuMemHostRegister_v2)
        ROW(cuMemFree_v2)
        ROW(cuMemUnmap)
        ROW(cuMemFreeHost)
        ROW(cuMemHostUnregister)
#undef ROW
    default:
        return NULL;
    }
}
