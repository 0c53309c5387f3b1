/* SPDX-License-Identifier: MIT */
/* What a door tells the engine of calls that several rooms look into: structs only. */
#ifndef AG_CALL_H
#define AG_CALL_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A kernel launch as the program made it. `params` and `extra` are the caller's own pointers, read
 * during the call only. `ptsz` says that stream 0 means the per-thread default stream.
 */
struct ag_kernel_call {
    struct ag_shape {
        uint32_t grid[3];
        uint32_t block[3];
        uint32_t shared; /* bytes of dynamic shared memory */
        uint32_t nattrs;
    } shape;
    CUfunction func; /* or a CUkernel cast to one */
    CUstream stream;
    bool ptsz;
    void **params;
    void **extra;
    const CUlaunchAttribute *attrs; /* shape.nattrs of them */
    CUcontext current;              /* the thread's context; NULL: the engine asks for it */
};

struct ag_memset_call {
    CUdeviceptr dst;
    size_t count;   /* elements of a row */
    size_t height;  /* rows */
    size_t pitch;   /* bytes from row to row; ignored if there is one row */
    uint32_t value; /* in the low `width` bytes */
    uint32_t width; /* bytes of an element: 1, 2, 4 */
    CUstream stream;
    bool ptsz;
    bool blocks; /* the call has no stream: the host waits unless all is memory of the device */
};

/*
 * A copy in a stream, described like a three-dimensional one. If the call does not say what kind of
 * memory an address is in, the address is in srcDevice or dstDevice, with CU_MEMORYTYPE_UNIFIED.
 */
struct ag_copy_call {
    CUDA_MEMCPY3D params;
    CUstream stream;
    bool ptsz;
    bool blocks; /* as of a memset */
};

/* A copy of one dimension to the host, for which the host waits: if it has no stream (`blocks`)
   always, else if `dst` is pageable memory. */
struct ag_read_call {
    void *dst;
    CUdeviceptr src;
    size_t bytes;
    CUstream stream;
    bool ptsz;
    bool blocks;
};

/* A wait for a stream, which may bring a read-back. */
struct ag_wait_call {
    struct ag_fetch *fetch; /* NULL: none */
    uint32_t number;        /* of the read-back */
};

/* A record of an event in a stream, or a stream's wait for it; both without flags. */
struct ag_event_call {
    CUevent event;
    CUstream stream;
    bool wait;
    bool ptsz;
};

/* Memory that is allocated or freed. */
enum ag_memory { AG_MEMORY_DEVICE, AG_MEMORY_HOST, AG_MEMORY_MANAGED, AG_MEMORY_ASYNC };

#endif
