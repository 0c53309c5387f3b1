/* SPDX-License-Identifier: MIT */
/* agsim.h: what a test program tells the simulated driver about its kernels.
 *
 * A PTX text, or agsim_register_kernel(), gives a kernel its name and the
 * layout of its parameters. Its body is C: the function agsim_kernel_NAME that
 * the program exports (link with -rdynamic). The simulator brings a few kernels
 * of its own (kernels.h).
 *
 * The environment of a program tells the simulator:
 *   AGSIM_DEVICES=N         devices (1)
 *   AGSIM_SEED=N            of the random pauses and of the order of a graph's nodes (1)
 *   AGSIM_GPU=NAME          the device's name ("Simulated GPU")
 *   AGSIM_DELAY_US=N        longest pause before an operation (2); 0: none
 *   AGSIM_DRIVER_VERSION=N  an older driver, 12030 for 12.3: newer functions are not there
 *   AGSIM_GRAPH_FREE=N      paths of execs that a context has memory for (no limit). One more
 *                           waits, with the driver locked, until all running kernels have ended
 *   AGSIM_LAZY=1            a library's kernel is loaded when it is first launched or asked for,
 *                           which waits in the same way. So does an exec's node that is given a
 *                           function with local memory, before its first launch
 *   AGSIM_STREAMS_FREE=N    creating more streams than so many in a context waits likewise
 *                           (no limit)
 *   AGSIM_EARLY=1           in a graph, kernels behind a programmatic edge do not wait for the
 *                           kernel before, which triggers at once and may end after them
 *   AGSIM_HANDLES=1         graphs take an event for a destroyed one that had its handle (0: their
 *                           nodes have no event then)
 *   AGSIM_LAUNCH_ONLY=N     launch attribute N is one of launches: a node does not take it
 *   AGSIM_REUSE=1           memory that a stream is about to give back goes to allocations in other
 *                           streams, which wait for that (a real driver: when it has no more)
 *   AGSIM_SETTERS_PASS=1    setters of functions do not wait while a launch waits for room (0)
 *   AGSIM_LAUNCH_US=N       the launch of a kernel keeps its thread busy for so long (0),
 *   AGSIM_GRAPH_LAUNCH_US=N and that of a graph,
 *   AGSIM_SWITCH_US=N       in addition that of a graph of eight nodes or more, behind another one,
 *   AGSIM_INSTANTIATE_US=N  its instantiation,
 *   AGSIM_POINTER_US=N      and questions about what lies at an address
 *   AGSIM_SYNC_US=N         cuStreamSynchronize and cuEventSynchronize begin so much later (0)
 *   AGSIM_LATE=N            an operation begins when a thread waits or asks for it, or for what
 *                           comes behind it, or a time is recorded there; else N us after its
 *                           call (0)
 *   AGSIM_ROOM=N            operations that a stream takes before a launch blocks (1024)
 *   CUDA_DEVICE_MAX_CONNECTIONS=N  the queues that a context's streams share (8, at most 32). In
 *                           each the operations begin in the order of submission. So many
 *                           nodes of a graph run at once
 *   AGSIM_QUEUES=N          streams that share queues do so at random, by this seed, and not in
 *                           turn (0). One that has once had work keeps its queue from graphs
 *   AGSIM_STACK=1           a call uses as much of its caller's stack as on a GPU (stack.c)
 *   AGSIM_IPC=1             other processes may open the device's memory (cuIpcGetMemHandle)
 *   AGSIM_MPS=1             the device says that it is shared by MPS
 *   AGSIM_LOG=FILE          what the device executed, a line per operation (log.c)
 *   AGSIM_CALLS=FILE        how often each function was called, how many calls have failed, and how
 *                           many waits for events have spun in a context that asks for other waits
 *   AGSIM_FAIL=..., AGSIM_CALLER=...  calls that fail, and whose (proc.c)
 *   AGSIM_STRICT=FILE       what AGSIM_LIBRARY does that may wait for the program's work (strict.c)
 *   AGSIM_LIBRARY=...       that library: the log tells which events' records are its own
 *
 * NVIDIA's driver reads two, too (CUDA Programming Guide, "CUDA Environment Variables"):
 *   CUDA_LAUNCH_BLOCKING=1           a kernel's launch returns when the kernel has ended
 *   CUDA_GRAPHS_USE_NODE_PRIORITY=N  all graphs' kernels have their nodes' priorities (1), or those
 *                                    of the stream that the graph is launched in (0)
 */
#ifndef AGSIM_H
#define AGSIM_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct agsim_launch {
    const char *name;
    unsigned grid[3], block[3];
    unsigned shared; /* dynamic shared memory, bytes */
    unsigned nparams;
    int cooperative, mem_sync_domain; /* launch attributes */
    unsigned cluster[3];              /* 0: none given */
};

/* Called once per launch, on a thread of the driver, for all threads of the
 * grid; params[i] points at the i-th parameter's value. */
typedef void agsim_kernel_fn(const struct agsim_launch *launch, void **params);

/* Makes an image that cuModuleLoadData and cuLibraryLoadData take, with the one
 * kernel NAME. Each parameter is aligned to the largest power of two, at most
 * 16, that divides its size. The image lives as long as the process, and the
 * same arguments give the same image. NULL: out of memory or too many
 * parameters. May be called before cuInit. */
const void *agsim_register_kernel(const char *name, unsigned nparams, const size_t *sizes,
                                  agsim_kernel_fn *body);

/* Called by a kernel's body: the kernel fails with this CUresult. Every later call returns it, as
 * after an access to an illegal address (CUDA driver API, CUDA_ERROR_ILLEGAL_ADDRESS). */
void agsim_fail(int error);

#ifdef __cplusplus
}
#endif
#endif
