/* SPDX-License-Identifier: MIT */
/*
 * What kind of memory the addresses of copies and memsets are in: asked of the driver, remembered.
 *
 * An answer holds until some thread calls a driver function that could free, unmap or unregister
 * memory, or could give memory at an address that was pageable. These are all functions without a
 * row in preload/classes.def or with a row ALLOCATION, and those with a door of their own that may.
 * Their doors call ag_memory_changed(): before a call that may free, behind one that has given. A
 * program that frees memory in one thread and copies from it in another at the same time has no
 * order between the two. So an answer may be as old as the last such call before the copy.
 *
 * An answer is remembered for an address, not for the allocation around it. Answers about memory
 * with which no op can be held are not remembered.
 *
 * Answers belong to a stream, whose lock guards them, and whose context was current.
 */
#ifndef AG_MEMORY_H
#define AG_MEMORY_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ag_answers;

/* The driver knows nothing of memory at the address: it is the program's own, or there is none. */
#define AG_MEMORY_PAGEABLE ((CUmemorytype)0x50)

/*
 * CU_MEMORYTYPE_DEVICE or _HOST if the `bytes` from an address on are in one allocation of the
 * current context's device, or of pinned host memory; AG_MEMORY_PAGEABLE if the first of them is in
 * none. 0 for all else: memory of another device, managed memory. *buffer becomes the driver's
 * number of the allocation, which no other allocation ever gets, or 0. *answers is NULL at first.
 */
CUmemorytype ag_memory_at(struct ag_answers **answers, CUdeviceptr address, size_t bytes,
                          uint64_t *buffer);

/* Whether the `bytes` from an address on are in one allocation of device memory, of any device, or
   of managed memory: what a memset needs. */
bool ag_memory_holds(struct ag_answers **answers, CUdeviceptr address, size_t bytes);

/* Forgets all answers (NULL: there are none), and keeps their memory for the next stream. */
void ag_memory_forget(struct ag_answers *answers);

#endif
