/* SPDX-License-Identifier: MIT */
/*
 * What memory the addresses of copies and memsets are, asked of the driver and remembered.
 *
 * An answer holds until memory may have changed: until some thread calls a driver function that
 * could free, unmap or unregister memory, that is every one that has no row in preload/classes.def,
 * and those with a door of their own that do. Such calls tell by ag_memory_changed() before they
 * are made. Who copies from memory that another thread frees at the same time has no order between
 * the two, so an answer need not be newer than the last such call that precedes the copy. What is
 * remembered is the answer for an address, not for the allocation around it, and only for memory
 * with which an op can be held.
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

/*
 * What memory of the current context's device, or pinned host memory, an address is in, if the
 * `bytes` from it on are in one allocation; else 0: of another device, pageable, managed, unknown.
 * *buffer becomes the driver's number of the allocation, which is never used again. *answers is
 * NULL at first.
 */
CUmemorytype ag_memory_at(struct ag_answers **answers, CUdeviceptr address, size_t bytes,
                          uint64_t *buffer);

/* Whether the `bytes` from an address on are in one allocation of the device's memory, as a memset
   needs it: of any device, also managed. */
bool ag_memory_holds(struct ag_answers **answers, CUdeviceptr address, size_t bytes);

/* Forgets all answers (NULL: there are none), and keeps their memory for the next stream. */
void ag_memory_forget(struct ag_answers *answers);

#endif
