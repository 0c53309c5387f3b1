/* SPDX-License-Identifier: MIT */
/*
 * Environment variables of CUDA that change what the library may do (CUDA Programming Guide, "CUDA
 * Environment Variables"). NVIDIA's driver reads them in cuInit(), or when it makes a context, and
 * a program may set them until then.
 */
#ifndef AG_CUDA_H
#define AG_CUDA_H

#include <stdbool.h>

struct ag_cuda {
    const char *forbids; /* NULL: ops may be held; else why not, a constant: "NAME is set: why" */

    /* CUDA_GRAPHS_USE_NODE_PRIORITY is above what a graph is instantiated with. */
    bool node_priorities;   /* a graph's kernels run with the priorities of their nodes */
    bool stream_priorities; /* they run with the priority of the stream that the graph is launched
                               in */
};

/* Constant from the time when the first context is made. */
extern struct ag_cuda ag_cuda;

/* Reads the variables, before cuInit() and before a context is made. What was set once stays in
   force. Not in two threads at a time. Returns `forbids`. */
const char *ag_cuda_load(void);

#endif
