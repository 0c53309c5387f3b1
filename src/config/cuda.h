/* SPDX-License-Identifier: MIT */
/*
 * What environment variables of CUDA ask for (CUDA Programming Guide, "CUDA Environment
 * Variables"), where that changes what the library may do. NVIDIA's driver reads them in cuInit(), or
 * when it makes a context, and a program may set them until then.
 */
#ifndef AG_CUDA_H
#define AG_CUDA_H

#include <stdbool.h>

struct ag_cuda {
    const char *forbids; /* "NAME is set: why", a constant: nothing may be held; NULL: it may */

    /* CUDA_GRAPHS_USE_NODE_PRIORITY is above what a graph is instantiated with. */
    bool node_priorities;   /* each kernel of a graph has its node's priority */
    bool stream_priorities; /* it has that of the stream, whatever priority it was launched with */
};

/* Constant from the time when the first context is made. */
extern struct ag_cuda ag_cuda;

/* Before cuInit() and before a context is made; what was asked for once stays. Not in two threads at a
   time. Returns `forbids`. */
const char *ag_cuda_load(void);

#endif
