/* SPDX-License-Identifier: MIT */
/*
 * The doors of life-cycle calls: what the engine knows of streams, captures, contexts, functions
 * and execs changes here. The engine hears of an end before the call and of a beginning after it.
 */
#include "preload/door.h"

#include "driver/driver.h"
#include "graph/setting.h"

/* Here each name means the function of that name, not what cuda.h makes of it. */
#undef cuCtxCreate
#undef cuCtxDestroy
#undef cuDevicePrimaryCtxRelease
#undef cuDevicePrimaryCtxReset
#undef cuDevicePrimaryCtxRetain
#undef cuGetProcAddress
#undef cuCtxPopCurrent
#undef cuCtxPushCurrent
#undef cuCtxSynchronize
#undef cuEventDestroy
#undef cuGLCtxCreate
#undef cuGraphAddKernelNode
#undef cuGraphAddNode
#undef cuGraphInstantiate
#undef cuGraphKernelNodeSetParams
#undef cuStreamBatchMemOp
#undef cuStreamDestroy
#undef cuStreamWaitValue32
#undef cuStreamWaitValue64
#undef cuVDPAUCtxCreate

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

/* A module's variables are memory, and what is held of its functions goes first. */
static void unloads(CUmodule module, CUlibrary library)
{
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

/* A door that tells the engine something before the call. */
#define BEFORE(name, parameters, arguments, tell)                                                  \
    DOOR(name, parameters)                                                                         \
    {                                                                                              \
        if (active(#name))                                                                         \
            tell;                                                                                  \
        return REAL(name) arguments;                                                               \
    }

/* A door that tells the engine something before the call, and something else after its success. */
#define AROUND(name, parameters, arguments, before, after)                                         \
    DOOR(name, parameters)                                                                         \
    {                                                                                              \
        if (!active(#name))                                                                        \
            return REAL(name) arguments;                                                           \
        before;                                                                                    \
        CUresult result = REAL(name) arguments;                                                    \
        if (result == CUDA_SUCCESS)                                                                \
            after;                                                                                 \
        return result;                                                                             \
    }

/* The rows below are tables of macros, which the formatter does not understand. */
/* clang-format off */

/* -- Driver --------------------------------------------------------------- */

static CUresult initialise(unsigned driver, unsigned flags)
{
    ag_driver_reads_variables(false);
    CUresult result = ag_entries[driver].init(flags);
    ag_driver_initialised(result == CUDA_SUCCESS);
    return result;
}

static CUresult route(CUresult result, void **found)
{
    if (result == CUDA_SUCCESS && found && *found)
        *found = ag_route_driver(*found);
    return result;
}

#define GET_PARAMETERS (const char *symbol, void **found, int version, cuuint64_t flags)
#define GET_V2_PARAMETERS                                                                          \
    (const char *symbol, void **found, int version, cuuint64_t flags,                              \
     CUdriverProcAddressQueryResult *status)
#define ENTRIES(n)                                                                                 \
    static CUresult init_##n(unsigned flags)                                                       \
    {                                                                                              \
        return initialise(n, flags);                                                               \
    }                                                                                              \
    static CUresult get_##n GET_PARAMETERS                                                         \
    {                                                                                              \
        return route(ag_entries[n].get(symbol, found, version, flags), found);                     \
    }                                                                                              \
    static CUresult get_v2_##n GET_V2_PARAMETERS                                                   \
    {                                                                                              \
        return route(ag_entries[n].get_v2(symbol, found, version, flags, status), found);          \
    }
ENTRIES(0)
ENTRIES(1)
ENTRIES(2)
ENTRIES(3)
ENTRIES(4)
ENTRIES(5)
ENTRIES(6)
ENTRIES(7)

static const struct ag_entries entry_doors[AG_DRIVERS] = {
#define ENTRY_DOORS(n) {init_##n, get_##n, get_v2_##n}
    ENTRY_DOORS(0), ENTRY_DOORS(1), ENTRY_DOORS(2), ENTRY_DOORS(3),
    ENTRY_DOORS(4), ENTRY_DOORS(5), ENTRY_DOORS(6), ENTRY_DOORS(7),
};

void *ag_entry_door(unsigned driver, const void *function)
{
    const struct ag_entries *real = &ag_entries[driver], *door = &entry_doors[driver];
    return function == (void *)real->init     ? (void *)door->init
           : function == (void *)real->get    ? (void *)door->get
           : function == (void *)real->get_v2 ? (void *)door->get_v2
                                              : NULL;
}

/* Each driver has its own: these stand in the table of doors only. */
DOOR(cuInit, (unsigned flags))
{
    return initialise(0, flags);
}

DOOR(cuGetProcAddress, GET_PARAMETERS)
{
    return get_0(symbol, found, version, flags);
}

DOOR(cuGetProcAddress_v2, GET_V2_PARAMETERS)
{
    return get_v2_0(symbol, found, version, flags, status);
}

/* -- Streams -------------------------------------------------------------- */

BEFORE(cuStreamDestroy, (CUstream stream), (stream), ag_engine_stream_destroy(stream))
BEFORE(cuStreamDestroy_v2, (CUstream stream), (stream), ag_engine_stream_destroy(stream))

/* What is held was launched with the old attributes. */
#define STREAM_SET(name, ptsz, parameters, arguments)                                              \
    AROUND(name, parameters, arguments,                                                            \
           ag_engine_barrier_stream(stream, ptsz, AG_REASON_ATTRIBUTES),                           \
           ag_engine_stream_attributes(stream, ptsz))

#define SET_PARAMETERS (CUstream stream, CUstreamAttrID id, const CUstreamAttrValue *value)
STREAM_SET(cuStreamSetAttribute, false, SET_PARAMETERS, (stream, id, value))
STREAM_SET(cuStreamSetAttribute_ptsz, true, SET_PARAMETERS, (stream, id, value))
STREAM_SET(cuStreamCopyAttributes, false, (CUstream stream, CUstream source), (stream, source))
STREAM_SET(cuStreamCopyAttributes_ptsz, true, (CUstream stream, CUstream source), (stream, source))

/* -- Events ---------------------------------------------------------------- */

BEFORE(cuEventDestroy, (CUevent event), (event), ag_engine_event_destroy(event))
BEFORE(cuEventDestroy_v2, (CUevent event), (event), ag_engine_event_destroy(event))

/* Another process may look at it from now on; a barrier, as what is not known of. */
static void event_shared(CUevent event)
{
    ag_memory_changed();
    ag_engine_event_shared(event);
    ag_engine_barrier_all(AG_REASON_BARRIER);
}

BEFORE(cuIpcGetEventHandle, (CUipcEventHandle *handle, CUevent event), (handle, event),
       event_shared(event))
AROUND(cuIpcOpenEventHandle, (CUevent *event, CUipcEventHandle handle), (event, handle), (void)0,
       event_shared(*event))

/* -- Contexts ------------------------------------------------------------- */

/* What is held carries its context; which one is current is the calling thread's own affair. */
#define CURRENT(name, parameters, arguments)                                                       \
    DOOR(name, parameters)                                                                         \
    {                                                                                              \
        CUresult result = REAL(name) arguments;                                                    \
        ag_engine_forget_current();                                                                \
        return result;                                                                             \
    }

CURRENT(cuCtxSetCurrent, (CUcontext context), (context))
CURRENT(cuCtxPushCurrent, (CUcontext context), (context))
CURRENT(cuCtxPushCurrent_v2, (CUcontext context), (context))
CURRENT(cuCtxPopCurrent, (CUcontext *context), (context))
CURRENT(cuCtxPopCurrent_v2, (CUcontext *context), (context))

/* A new one is current at once, and a barrier as what is not known of. */
#define CREATES(name, parameters, arguments)                                                       \
    DOOR(name, parameters)                                                                         \
    {                                                                                              \
        ag_driver_reads_variables(true);                                                           \
        if (active(#name))                                                                         \
            barrier();                                                                             \
        CUresult result = REAL(name) arguments;                                                    \
        ag_engine_forget_current();                                                                \
        if (result == CUDA_SUCCESS && !passive())                                                  \
            ag_engine_context_begins();                                                            \
        return result;                                                                             \
    }

#define CREATE_PARAMETERS (CUcontext *context, unsigned flags, CUdevice device)
CREATES(cuCtxCreate, CREATE_PARAMETERS, (context, flags, device))
CREATES(cuCtxCreate_v2, CREATE_PARAMETERS, (context, flags, device))
CREATES(cuCtxCreate_v3, (CUcontext *context, void *affinities, int count, unsigned flags, CUdevice device),
        (context, affinities, count, flags, device))
CREATES(cuCtxCreate_v4, (CUcontext *context, void *parameters, unsigned flags, CUdevice device),
        (context, parameters, flags, device))
CREATES(cuGLCtxCreate, CREATE_PARAMETERS, (context, flags, device))
CREATES(cuGLCtxCreate_v2, CREATE_PARAMETERS, (context, flags, device))
#define VDPAU_PARAMETERS                                                                           \
    (CUcontext *context, unsigned flags, CUdevice device, uint32_t vdpau, void *get)
CREATES(cuVDPAUCtxCreate, VDPAU_PARAMETERS, (context, flags, device, vdpau, get))
CREATES(cuVDPAUCtxCreate_v2, VDPAU_PARAMETERS, (context, flags, device, vdpau, get))

BEFORE(cuCtxDestroy, (CUcontext context), (context), context_destroy(context))
BEFORE(cuCtxDestroy_v2, (CUcontext context), (context), context_destroy(context))
BEFORE(cuCtxDetach, (CUcontext context), (context), context_destroy(context))
static void retains(void)
{
    ag_driver_reads_variables(true);
    barrier();
}

AROUND(cuDevicePrimaryCtxRetain, (CUcontext *context, CUdevice device), (context, device), retains(),
       retained(device, *context))
BEFORE(cuDevicePrimaryCtxRelease, (CUdevice device), (device), released(device))
BEFORE(cuDevicePrimaryCtxRelease_v2, (CUdevice device), (device), released(device))
BEFORE(cuDevicePrimaryCtxReset, (CUdevice device), (device), reset(device))
BEFORE(cuDevicePrimaryCtxReset_v2, (CUdevice device), (device), reset(device))

AROUND(cuCtxFromGreenCtx, (CUcontext *context, CUgreenCtx green), (context, green), (void)0,
       ag_engine_context_green(*context))

/* The engine knows a green context by the context that the program made of it. */
static void green_context_destroy(CUgreenCtx green)
{
    CUcontext context = NULL;
    __typeof__(cuCtxFromGreenCtx) *convert = ag_slots[AG_SLOT_cuCtxFromGreenCtx].real;
    if (convert && convert(&context, green) == CUDA_SUCCESS && context)
        context_destroy(context);
    else
        barrier();
}

BEFORE(cuGreenCtxDestroy, (CUgreenCtx green), (green), green_context_destroy(green))

/* -- Waits ------------------------------------------------------------------ */

/* A safe point for making graphs may follow. What is not done yet before the call has a `mark`, 0 if
   nobody wants to know, and is done behind it. */
#define WAITS(name, parameters, arguments, barrier, before, behind)                                \
    DOOR(name, parameters)                                                                         \
    {                                                                                              \
        if (passive())                                                                             \
            return REAL(name) arguments;                                                           \
        ag_cause = #name;                                                                          \
        uint64_t began = ag_trace_now();                                                           \
        if (ag_engine_listens())                                                                   \
            barrier;                                                                               \
        uint64_t mark = (before);                                                                  \
        CUresult result = REAL(name) arguments;                                                    \
        AG_TRACE(ag_note_barrier(#name, began));                                                   \
        if (result == CUDA_SUCCESS && mark != 0)                                                   \
            behind;                                                                                \
        if (result == CUDA_SUCCESS && atomic_load(&ag_wanted_traces) != 0)                         \
            ag_engine_waited();                                                                    \
        if (result == CUDA_SUCCESS && atomic_load(&ag_refused) != 0)                               \
            return ag_engine_refusal();                                                            \
        return result;                                                                             \
    }

/* One stream; the whole context. */
#define WAITS_FOR_STREAM(name, ptsz)                                                               \
    WAITS(name, (CUstream stream), (stream),                                                       \
          ag_engine_barrier_wait(stream, ptsz, AG_REASON_HOST_WAIT),                               \
          atomic_load(&ag_streams_go) ? ag_engine_issued(stream) : 0,                              \
          ag_engine_waited_for(stream, mark))
#define WAITS_FOR_ALL(name, parameters, arguments, context)                                        \
    WAITS(name, parameters, arguments, ag_engine_barrier_all(AG_REASON_HOST_WAIT),                 \
          atomic_load(&ag_wanted_traces) != 0 || atomic_load(&ag_unsettled) != 0                   \
              ? ag_engine_left(context)                                                            \
              : 0,                                                                                 \
          ag_engine_settled(context, (unsigned)mark))

WAITS_FOR_STREAM(cuStreamSynchronize, false)
WAITS_FOR_STREAM(cuStreamSynchronize_ptsz, true)
WAITS(cuEventSynchronize, (CUevent event), (event),
      ag_engine_barrier_event(event, AG_REASON_HOST_WAIT), 0, (void)0)
WAITS_FOR_ALL(cuCtxSynchronize, (void), (), NULL)
WAITS_FOR_ALL(cuCtxSynchronize_v2, (CUcontext context), (context), context)

/* -- Copies between contexts ------------------------------------------------ */

/* In the default stream they come behind all work of both devices (CUDA Programming Guide,
   "Peer-to-Peer Memory Copy"). */
static void peers(CUstream stream, bool ptsz)
{
    if (!ag_engine_listens())
        return;
    if (stream == CU_STREAM_LEGACY || (stream == NULL && !ptsz))
        ag_engine_barrier_all(AG_REASON_STREAM_BARRIER);
    else
        ag_engine_barrier_stream(stream, ptsz, AG_REASON_STREAM_BARRIER);
}

#define PEER_PARAMETERS                                                                            \
    (CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t bytes, CUstream stream)
#define PEER_ARGUMENTS (dst, to, src, from, bytes, stream)
BEFORE(cuMemcpyPeerAsync, PEER_PARAMETERS, PEER_ARGUMENTS, peers(stream, false))
BEFORE(cuMemcpyPeerAsync_ptsz, PEER_PARAMETERS, PEER_ARGUMENTS, peers(stream, true))
#define PEER_3D_PARAMETERS (const CUDA_MEMCPY3D_PEER *copy, CUstream stream)
BEFORE(cuMemcpy3DPeerAsync, PEER_3D_PARAMETERS, (copy, stream), peers(stream, false))
BEFORE(cuMemcpy3DPeerAsync_ptsz, PEER_3D_PARAMETERS, (copy, stream), peers(stream, true))

/* -- Managed memory of one stream --------------------------------------------- */

#define ATTACH_PARAMETERS (CUstream stream, CUdeviceptr address, size_t bytes, unsigned flags)
#define ATTACH_ARGUMENTS (stream, address, bytes, flags)
BEFORE(cuStreamAttachMemAsync, ATTACH_PARAMETERS, ATTACH_ARGUMENTS,
       ag_engine_barrier_attach(stream, false))
BEFORE(cuStreamAttachMemAsync_ptsz, ATTACH_PARAMETERS, ATTACH_ARGUMENTS,
       ag_engine_barrier_attach(stream, true))

/* -- The program's own graphs: they may hold kernels, and wait for any event ---- */

#define GRAPH_LAUNCH(name, ptsz)                                                                   \
    DOOR(name, (CUgraphExec exec, CUstream stream))                                                \
    {                                                                                              \
        if (active(#name)) {                                                                            \
            ag_memory_changed(); /* it may free some */                                            \
            if (atomic_load(&ag_event_streams) != 0 ||                                               \
                (atomic_load(&ag_graphs_wait) && ag_anything_held()))                              \
                ag_engine_barrier_all(AG_REASON_BARRIER);                                          \
            else if (atomic_load(&ag_listeners) != 0)                                           \
                ag_engine_barrier_stream(stream, ptsz, AG_REASON_STREAM_BARRIER);                  \
            ag_engine_stream_used(stream, ptsz);                                                   \
        }                                                                                          \
        return REAL(name)(exec, stream);                                                           \
    }

GRAPH_LAUNCH(cuGraphLaunch, false)
GRAPH_LAUNCH(cuGraphLaunch_ptsz, true)

/* A graph may get a node that waits for a word; or a wait that is captured, or would be. */
static void may_wait_in_graph(void)
{
    barrier();
    atomic_store(&ag_graphs_wait, true);
}

#define WAITS_IN_GRAPH(name, parameters, arguments)                                                \
    BEFORE(name, parameters, arguments, may_wait_in_graph())
WAITS_IN_GRAPH(cuGraphAddNode,
               (CUgraphNode *node, CUgraph graph, const CUgraphNode *nodes, size_t count,
                CUgraphNodeParams *params),
               (node, graph, nodes, count, params))
#define ANY_PARAMETERS                                                                             \
    (CUgraphNode *node, CUgraph graph, const CUgraphNode *nodes, const CUgraphEdgeData *edges,     \
     size_t count, CUgraphNodeParams *params)
#define ANY_ARGUMENTS (node, graph, nodes, edges, count, params)
WAITS_IN_GRAPH(cuGraphAddNode_v2, ANY_PARAMETERS, ANY_ARGUMENTS)
WAITS_IN_GRAPH(cuGraphAddNode_v3, ANY_PARAMETERS, ANY_ARGUMENTS)
WAITS_IN_GRAPH(cuGraphAddBatchMemOpNode,
               (CUgraphNode *node, CUgraph graph, const CUgraphNode *nodes, size_t count,
                const CUDA_BATCH_MEM_OP_NODE_PARAMS *params),
               (node, graph, nodes, count, params))
#define BATCH(name)                                                                                \
    WAITS_IN_GRAPH(name,                                                                           \
                   (CUstream stream, unsigned count, CUstreamBatchMemOpParams *ops,                \
                    unsigned flags),                                                               \
                   (stream, count, ops, flags))
BATCH(cuStreamBatchMemOp)
BATCH(cuStreamBatchMemOp_ptsz)
BATCH(cuStreamBatchMemOp_v2)
BATCH(cuStreamBatchMemOp_v2_ptsz)
#define WAIT_VALUE(name, width)                                                                    \
    WAITS_IN_GRAPH(name,                                                                           \
                   (CUstream stream, CUdeviceptr address, cuuint##width##_t value,                 \
                    unsigned flags),                                                               \
                   (stream, address, value, flags))
WAIT_VALUE(cuStreamWaitValue32, 32)
WAIT_VALUE(cuStreamWaitValue32_ptsz, 32)
WAIT_VALUE(cuStreamWaitValue64, 64)
WAIT_VALUE(cuStreamWaitValue64_ptsz, 64)

/* -- Old ways to launch: kernels in streams that nobody knows to have any -------- */

static void launch_unseen(void)
{
    barrier();
    ag_engine_launch_unseen();
}

BEFORE(cuLaunch, (CUfunction func), (func), launch_unseen())
BEFORE(cuLaunchGrid, (CUfunction func, int width, int height), (func, width, height), launch_unseen())
BEFORE(cuLaunchGridAsync, (CUfunction func, int width, int height, CUstream stream),
       (func, width, height, stream), launch_unseen())
BEFORE(cuLaunchCooperativeKernelMultiDevice,
       (CUDA_LAUNCH_PARAMS *launches, unsigned count, unsigned flags), (launches, count, flags),
       launch_unseen())

/* -- Modules and functions ------------------------------------------------ */

/* Before: no trace may refer to it. After: another thread may have asked for a handle meanwhile. */
#define UNLOADS(name, parameters, arguments, ...)                                                  \
    AROUND(name, parameters, arguments, unloads(__VA_ARGS__), gone(__VA_ARGS__))
UNLOADS(cuModuleUnload, (CUmodule module), (module), module, NULL)
UNLOADS(cuLibraryUnload, (CUlibrary library), (library), NULL, library)

/* What is set again changes nothing: frameworks set the same value before each launch. */
#define SETS(name, parameters, arguments, ...)                                                     \
    DOOR(name, parameters)                                                                         \
    {                                                                                              \
        struct ag_setter setter = {__VA_ARGS__};                                                   \
        if (!active(#name) || !ag_engine_setter_begins(&setter))                                   \
            return REAL(name) arguments;                                                           \
        CUresult result = REAL(name) arguments;                                                    \
        ag_engine_setter_ends(&setter, result);                                                    \
        return result;                                                                             \
    }
SETS(cuCtxSetCacheConfig, (CUfunc_cache config), (config), .attribute = AG_SETTING_CACHE,
     .value = (int)config)
SETS(cuFuncSetCacheConfig, (CUfunction func, CUfunc_cache config), (func, config), .handle = func,
     .attribute = AG_SETTING_CACHE, .value = (int)config)
SETS(cuKernelSetCacheConfig, (CUkernel kernel, CUfunc_cache config, CUdevice device),
     (kernel, config, device), .handle = (CUfunction)kernel, .kernel = true, .device = device,
     .attribute = AG_SETTING_CACHE, .value = (int)config)
SETS(cuFuncSetAttribute, (CUfunction func, CUfunction_attribute attribute, int value),
     (func, attribute, value), .handle = func, .attribute = (int)attribute, .value = value)
SETS(cuKernelSetAttribute,
     (CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device),
     (attribute, value, kernel, device), .handle = (CUfunction)kernel, .kernel = true, .device = device,
     .attribute = (int)attribute, .value = value)

/* An exec keeps the stack size of its context; other limits it does not (H200). */
DOOR(cuCtxSetLimit, (CUlimit limit, size_t value))
{
    if (!active("cuCtxSetLimit") || ag_engine_limit_repeats(limit, value))
        return REAL(cuCtxSetLimit)(limit, value);
    barrier();
    if (limit != CU_LIMIT_STACK_SIZE)
        return REAL(cuCtxSetLimit)(limit, value);
    ag_engine_stack_begins();
    CUresult result = REAL(cuCtxSetLimit)(limit, value);
    ag_engine_stack_ends(result == CUDA_SUCCESS);
    return result;
}

/* -- What may wait for running kernels --------------------------------------- */

/* A running kernel may wait for what is held, and the launches of other threads for this call. */
#define MAY_WAIT(name, parameters, arguments)                                                      \
    BEFORE(name, parameters, arguments, submit_all())

static void submit_all(void)
{
    if (ag_engine_listens())
        ag_engine_barrier_most(AG_REASON_BARRIER);
}

/* Creating one more than some dozens (driver 580). */
AROUND(cuStreamCreate, (CUstream *stream, unsigned flags), (stream, flags), submit_all(),
       ag_engine_stream_created(*stream, flags))
AROUND(cuStreamCreateWithPriority, (CUstream *stream, unsigned flags, int priority),
       (stream, flags, priority), submit_all(), ag_engine_stream_created(*stream, flags))

/* The kernel may have to be loaded. */
#define ADD_PARAMETERS                                                                             \
    (CUgraphNode *node, CUgraph graph, const CUgraphNode *nodes, size_t count, const void *kernel)
#define ADD_ARGUMENTS (node, graph, nodes, count, kernel)
MAY_WAIT(cuGraphAddKernelNode, ADD_PARAMETERS, ADD_ARGUMENTS)
MAY_WAIT(cuGraphAddKernelNode_v2, ADD_PARAMETERS, ADD_ARGUMENTS)
MAY_WAIT(cuGraphKernelNodeSetParams, (CUgraphNode node, const void *kernel), (node, kernel))
MAY_WAIT(cuGraphKernelNodeSetParams_v2, (CUgraphNode node, const void *kernel), (node, kernel))

/* -- The program's own execs ---------------------------------------------- */

/*
 * Instantiating can wait for running kernels while the launches of other threads wait for it, so
 * nothing that a running kernel may need can stay held.
 */
#define INSTANTIATE(name, parameters, arguments)                                                   \
    AROUND(name, parameters, arguments, ag_engine_barrier_most(AG_REASON_BARRIER),                 \
           ag_engine_program_execs(1))

#define LOG_PARAMETERS (CUgraphExec *exec, CUgraph graph, CUgraphNode *node, char *log, size_t size)
#define FLAGS_PARAMETERS (CUgraphExec *exec, CUgraph graph, unsigned long long flags)
#define PARAMS_PARAMETERS                                                                          \
    (CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params)
INSTANTIATE(cuGraphInstantiate, LOG_PARAMETERS, (exec, graph, node, log, size))
INSTANTIATE(cuGraphInstantiate_v2, LOG_PARAMETERS, (exec, graph, node, log, size))
INSTANTIATE(cuGraphInstantiateWithFlags, FLAGS_PARAMETERS, (exec, graph, flags))
INSTANTIATE(cuGraphInstantiateWithParams, PARAMS_PARAMETERS, (exec, graph, params))
INSTANTIATE(cuGraphInstantiateWithParams_ptsz, PARAMS_PARAMETERS, (exec, graph, params))

DOOR(cuGraphExecDestroy, (CUgraphExec exec))
{
    ag_memory_changed();
    CUresult result = REAL(cuGraphExecDestroy)(exec);
    if (active("cuGraphExecDestroy") && result == CUDA_SUCCESS)
        ag_engine_program_execs(-1);
    return result;
}
