/* SPDX-License-Identifier: MIT */
/*
 * Each kind of op as CUDA sees it: the call that submits it, the graph node that stands for it, and
 * how the node's arguments are changed. What an op's shape, extra bytes and arguments mean is in
 * words.h.
 *
 * Nodes of more than one dimension cannot be given other addresses (CUDA driver API,
 * cuGraphExecMemcpyNodeSetParams, cuGraphExecMemsetNodeSetParams): there the addresses belong to
 * the structure, a memset's in ag_op.func, and there are no arguments. A copy of one dimension has
 * zeros for them in its CUDA_MEMCPY3D. A value's address is in ag_op.func.
 *
 * The node of a copy between host and device refers to the allocations themselves: once one is
 * freed, launching it crashes driver 580, also when the same address is in use again, until its
 * parameters are set anew. So the allocations' numbers belong to what such a copy is given: where
 * one changes, the node is patched, or with more than one dimension it is another op. Copies within
 * the device and memsets were seen to need nothing, and have zeros there.
 */
#ifndef AG_GRAPH_NODE_H
#define AG_GRAPH_NODE_H

#include <cuda.h>

#include "config/config.h"
#include "graph/words.h"
#include "trace/tree.h"

/*
 * Memory of the device that a memset or a copy names, and how much from there on. `argument`: where
 * the address is among the node's arguments; NULL: it belongs to the structure.
 */
struct ag_place {
    CUdeviceptr at;
    size_t bytes;
    unsigned char *argument;
};

/* The places that an op names; returns how many they are. */
enum { AG_PLACES = 2 };
unsigned ag_node_places(const struct ag_node *node, struct ag_place place[AG_PLACES]);

/* Whether the op is a copy from pinned memory, or from pageable memory. */
bool ag_op_is_from_host(const struct ag_op *op);

/* The graph nodes that an op comes behind. One that is early comes behind that of the kernel before
   it alone. */
struct ag_after {
    CUgraphNode node[AG_MOST_LENGTH];
    uint32_t count;
    const struct ag_node *last; /* the op before; NULL: it has no node */
};

/* Whether the op need not wait for the end of the kernel right before it (programmatic
   serialization). What comes behind it, and is not early, waits for both. */
bool ag_node_is_early(const struct ag_node *node, const struct ag_node *last);

/* Adds the graph node of an op behind those. */
CUresult ag_node_add(const struct ag_node *node, CUfunction func, CUgraph graph, CUcontext ctx,
                     CUgraphNode *made, const struct ag_after *after);

/* Gives the node of an exec the op's arguments. The context must be current. */
CUresult ag_node_patch(const struct ag_node *node, CUfunction func, CUgraphExec exec,
                       CUgraphNode graph_node, CUcontext ctx);

/* Gives the node of an exec, of a record or a wait, another event than the op's. */
CUresult ag_node_patch_event(const struct ag_node *node, CUgraphExec exec, CUgraphNode graph_node,
                             CUevent event);

/* Gives the node of a source graph, whose exec is then updated as a whole, the op's arguments. Not
   for records and waits: the program may destroy their events. */
CUresult ag_node_patch_source(const struct ag_node *node, CUfunction func, CUgraphNode graph_node,
                              CUcontext ctx);

/* Submits the op by itself. */
CUresult ag_node_submit(const struct ag_node *node, CUstream stream);

/* The function of a kernel's node; NULL for other kinds. */
CUfunction ag_node_function(const struct ag_node *node);

/* A kernel as a graph node takes it, with these arguments. */
CUDA_KERNEL_NODE_PARAMS ag_node_kernel(const struct ag_node *node, CUfunction func, void **params);

/* The number of 64 bits that two words of a shape make. */
static inline uint64_t ag_words(const uint32_t *low)
{
    return (uint64_t)low[1] << 32 | low[0];
}

/* Whether the op is a record of an event or a wait for one. */
static inline bool ag_node_is_event(const struct ag_node *node)
{
    return node->op.kind == AG_OP_RECORD || node->op.kind == AG_OP_WAIT;
}

/* The arguments of such an op. */
static inline struct ag_event_arguments ag_node_event_arguments(const struct ag_node *node)
{
    struct ag_event_arguments arguments;
    memcpy(&arguments, node->args, sizeof arguments);
    return arguments;
}

/* The event that a record or a wait names. */
static inline CUevent ag_node_event(const struct ag_node *node)
{
    return ag_node_event_arguments(node).event;
}

/* Whether the op is a wait for a record of its sequence. */
static inline bool ag_node_is_linked(const struct ag_node *node)
{
    return node->op.kind == AG_OP_WAIT && node->op.shape[AG_EVENT_LINK] != 0;
}

/* Whether it is a copy of pageable memory, of which the bytes are taken at the call. */
static inline bool ag_node_is_upload(const struct ag_node *node)
{
    return node->op.kind == AG_OP_COPY && node->op.shape[AG_COPY_UPLOAD] != 0;
}

/* Bytes of a memset's row. */
static inline size_t ag_memset_row(const struct ag_op *op)
{
    return ag_words(&op->shape[AG_MEMSET_COUNT_LOW]) * op->shape[AG_MEMSET_WIDTH];
}

#endif
