/* SPDX-License-Identifier: MIT */
/*
 * The doors of life-cycle calls: what the engine knows of streams, captures, contexts, functions
 * and execs changes here. The engine hears of an end before the call and of a beginning after it.
 * life.doors has the doors that are alike, and here is what these tell the engine.
 */
#include "preload/door.h"

#include "graph/setting.h"

static void context_destroy(CUcontext context)
{
    ag_memory_changed();
    ag_engine_changed();
    ag_engine_context_destroy(context);
}

static void device_reset(CUdevice device)
{
    ag_memory_changed();
    ag_engine_changed();
    ag_engine_device_reset(device);
}

/* As a call that is not known of. */
static void barrier(void)
{
    ag_memory_changed();
    if (ag_engine_listens())
        ag_engine_barrier_all(AG_REASON_BARRIER);
}

static void gone(CUmodule module, CUlibrary library)
{
    ag_engine_changed();
    ag_engine_code_gone(module, library);
}

/* A module's variables are memory, and what is held of its functions goes first. In a host function
   the driver refuses the call. */
static void unloads(CUmodule module, CUlibrary library)
{
    if (ag_engine_refused())
        return;
    barrier();
    gone(module, library);
}

/* -- Primary contexts: they live as long as somebody retains them ------------ */

enum { MOST_DEVICES = 64 };

static struct {
    _Atomic(CUcontext) context; /* NULL: not known */
    _Atomic int references;     /* that have been seen, since the last reset */
} primary[MOST_DEVICES];

static bool is_counted(CUdevice device)
{
    return device >= 0 && device < MOST_DEVICES;
}

static void retained(CUdevice device, CUcontext context)
{
    ag_engine_context_begins();
    ag_engine_device(device);
    if (!is_counted(device))
        return;
    atomic_store(&primary[device].context, context);
    atomic_fetch_add(&primary[device].references, 1);
}

static void primary_ends(CUdevice device)
{
    CUcontext context = is_counted(device) ? atomic_load(&primary[device].context) : NULL;
    if (context)
        context_destroy(context);
    else
        device_reset(device);
}

/* Others may go on in it, and what they have under way must not be lost. */
static void released(CUdevice device)
{
    int before = is_counted(device) ? atomic_fetch_sub(&primary[device].references, 1) : 0;
    if (before < 1 && is_counted(device)) /* nobody was seen to retain it */
        atomic_fetch_add(&primary[device].references, 1);
    if (before > 1)
        barrier();
    else
        primary_ends(device);
}

/* The references stay (CUDA driver API, cuDevicePrimaryCtxReset), but are not relied on. */
static void reset(CUdevice device)
{
    if (is_counted(device))
        atomic_store(&primary[device].references, 0);
    primary_ends(device);
}

static void retains(void)
{
    ag_driver_reads_variables(true);
    barrier();
}

/* -- Events ---------------------------------------------------------------- */

/* Another process may look at it from now on; a barrier, as what is not known of. */
static void event_shared(CUevent event)
{
    ag_memory_changed();
    ag_engine_event_shared(event);
    ag_engine_barrier_all(AG_REASON_BARRIER);
}

/* -- Green contexts ---------------------------------------------------------- */

/* The engine knows a green context by the context that the program made of it. */
static void green_context_destroy(CUgreenCtx green)
{
    CUcontext context = NULL;
    __typeof__(cuCtxFromGreenCtx) *convert = ag_slots[AG_SLOT_cuCtxFromGreenCtx].real;
    if (!ag_engine_refused() && convert && convert(&context, green) == CUDA_SUCCESS && context)
        context_destroy(context);
    else
        barrier();
}

/* -- Waits ------------------------------------------------------------------ */

/* What is not done yet in a stream, or in a context, if somebody wants to know; else 0. */
static inline uint64_t stream_mark(CUstream stream, bool ptsz)
{
    return atomic_load(&ag_streams_go) ? ag_engine_issued(stream, ptsz) : 0;
}

static inline uint64_t context_mark(CUcontext context)
{
    return atomic_load(&ag_any_orphans) != 0 ? ag_engine_orphans(context) : 0;
}

/* -- Copies between contexts ------------------------------------------------ */

/* In the default stream they come behind all work of both devices (CUDA Programming Guide,
   "Peer-to-Peer Memory Copy"). */
static void peers(CUstream stream, bool ptsz)
{
    ag_engine_stream_works(stream, ptsz);
    if (!ag_engine_listens())
        return;
    if (stream == CU_STREAM_LEGACY || (stream == NULL && !ptsz))
        ag_engine_barrier_all(AG_REASON_STREAM_BARRIER);
    else
        ag_engine_barrier_stream(stream, ptsz, AG_REASON_STREAM_BARRIER);
}

/* -- The program's own graphs: they may hold kernels, and wait for any event ---- */

static inline void graph_launched(CUstream stream, bool ptsz)
{
    if (atomic_load(&ag_graphs_free))
        ag_memory_changed();
    ag_done.graphs += ag_engine_listens();
    if (atomic_load(&ag_event_streams) != 0 || (atomic_load(&ag_graphs_wait) && ag_anything_held()))
        ag_engine_barrier_all(AG_REASON_BARRIER);
    else if (atomic_load(&ag_subscribers) != 0)
        ag_engine_barrier_stream(stream, ptsz, AG_REASON_STREAM_BARRIER);
    ag_engine_stream_used(stream, ptsz);
}

/* A graph may get a node that allocates memory, or frees some. */
static void may_free_in_graph(void)
{
    barrier();
    atomic_store(&ag_graphs_free, true);
}

/* A graph may get a node of any kind. */
static void may_be_anything(void)
{
    may_free_in_graph();
    atomic_store(&ag_graphs_wait, true);
}

/* A graph may get a node that waits for a word; or a wait that is captured, or would be. */
static void may_wait_in_graph(void)
{
    barrier();
    atomic_store(&ag_graphs_wait, true);
}

/* -- What may wait for running kernels --------------------------------------- */

static void launch_unseen(void)
{
    barrier();
    ag_engine_launch_unseen();
}

/* A running kernel may wait for what is held, and the launches of other threads for this call. */
static void submit_all(void)
{
    if (ag_engine_listens())
        ag_engine_barrier_most(AG_REASON_BARRIER);
}

/* -- Memory of the program's own --------------------------------------------- */

/* As other calls that give memory. */
static void registers(void)
{
    ag_memory_changed();
    submit_all();
}

/* Another thread may have copied from it meanwhile, as pageable memory. */
static void registered(void *to, size_t size)
{
    ag_memory_changed();
    AG_NOTE(ag_note_memory(true, AG_MEMORY_HOST, (CUdeviceptr)to, size));
}

/* -- Doors ------------------------------------------------------------------ */

#include "preload/life_doors.inc"

/* An exec keeps the stack size of its context; other limits it does not (H200). */
AG_DOOR CUresult ag_door_cuCtxSetLimit(CUlimit limit, size_t value)
{
    if (!active("cuCtxSetLimit") || ag_engine_limit_repeats(limit, value))
        return AG_REAL(cuCtxSetLimit)(limit, value);
    barrier();
    if (limit != CU_LIMIT_STACK_SIZE)
        return AG_REAL(cuCtxSetLimit)(limit, value);
    ag_engine_stack_begins();
    CUresult result = AG_REAL(cuCtxSetLimit)(limit, value);
    ag_engine_stack_ends(result == CUDA_SUCCESS);
    return result;
}

AG_DOOR CUresult ag_door_cuGraphExecDestroy(CUgraphExec exec)
{
    ag_memory_changed();
    CUresult result = AG_REAL(cuGraphExecDestroy)(exec);
    if (active("cuGraphExecDestroy") && result == CUDA_SUCCESS)
        ag_engine_program_destroyed_exec();
    return result;
}
