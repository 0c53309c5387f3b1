/* SPDX-License-Identifier: MIT */
/*
 * What kind of memory the addresses of copies and memsets are in, and what the device may do there:
 * asked of the driver, remembered.
 *
 * An answer holds until some thread calls a driver function that could free, unmap or unregister
 * memory, or take or give access to it, or could give memory at an address that was pageable. These
 * are all functions without a row in preload/classes.def or with a row ALLOCATION, and those with a
 * door of their own that may. Their doors call ag_memory_changed(): before a call that may free,
 * behind one that has given. A program that frees memory in one thread and copies from it in
 * another at the same time has no order between the two. So an answer may be as old as the last
 * such call before the copy.
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

/* Memory of another device, or managed memory. */
#define AG_MEMORY_ELSEWHERE ((CUmemorytype)0x51)

/* What an op needs: the driver's own bits (CU_POINTER_ATTRIBUTE_ACCESS_FLAGS), and two more. */
enum {
    AG_ACCESS_READ = 1,
    AG_ACCESS_BOTH = 3,   /* whoever may write may read */
    AG_ACCESS_DIRECT = 4, /* not by copies alone: kernels of the current context reach the device's
                             memory; or the host's own, which nobody has mapped, by that address */
    AG_ACCESS_ALL = 7,
    AG_ACCESS_OWN = 8 /* by words: allocated in the current context, by no pool, not mapped */
};

/*
 * CU_MEMORYTYPE_DEVICE or _HOST if the `bytes` from an address on are in one allocation or mapping
 * of the current context's device, or of pinned host memory, and allow that access; as long
 * AG_MEMORY_ELSEWHERE. AG_MEMORY_PAGEABLE if the first of them is in none. 0: neither, and no op
 * can be held. *buffer becomes the driver's number of the allocation, which no other allocation
 * ever gets, or 0. *answers is NULL at first.
 */
CUmemorytype ag_memory_at(struct ag_answers **answers, CUdeviceptr address, size_t bytes,
                          unsigned access, uint64_t *buffer);

/* The same asked now, and not remembered. */
CUmemorytype ag_memory_now(CUdeviceptr address, size_t bytes, unsigned access);

/* Whether a memset may write the `bytes` from an address on: one allocation or mapping of any kind
   but pageable memory. */
bool ag_memory_holds(struct ag_answers **answers, CUdeviceptr address, size_t bytes);

/* Forgets all answers (NULL: there are none), and keeps their memory for the next stream. */
void ag_memory_forget(struct ag_answers *answers);

#endif
