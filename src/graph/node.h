/* SPDX-License-Identifier: MIT */
/*
 * Each kind of op as CUDA sees it: the call that submits it, the graph node that stands for it, and
 * how the node's arguments are changed. What an op's shape, extra bytes and arguments mean is
 * written down here, for describing and for submitting alike.
 *
 *   kind     shape                      extra                            arguments
 *   kernel   enum ag_kernel_word        CUlaunchAttribute[], normalised  the kernel's parameters
 *   memset   enum ag_memset_word        -                                struct ag_memset_arguments
 *   copy     enum ag_copy_word          CUDA_MEMCPY3D                    struct ag_copy_arguments
 *   record   -                          -                                struct ag_event_arguments
 *   wait     -                          -                                struct ag_event_arguments
 *   value    enum ag_value_word         -                                the value
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

#include "trace/tree.h"

enum ag_kernel_word {
    AG_KERNEL_GRID = 0, /* three words */
    AG_KERNEL_BLOCK = 3,
    AG_KERNEL_SHARED = 6,
    AG_KERNEL_FLAGS = 7, /* number of attributes in the call, and: */
};

/*
 * The parameter layout is not known: the arguments are kept by the driver, params[0] of the node is
 * the pointer to them (graph/keep.h). No call has such flags, so that none is compared with them
 * where arguments are compared.
 */
enum { AG_KERNEL_KEPT = 1 << 30, AG_KERNEL_WITHOUT_ARGUMENTS = 1 << 29 };

/* From this bit on: the number of the function's settings (graph/setting.h), 0 if it has none of
   its own. No call has such a number either. */
enum { AG_KERNEL_SETTING = 16, AG_MOST_SETTINGS = 15 };

static inline uint32_t ag_kernel_setting(const struct ag_op *op)
{
    return op->shape[AG_KERNEL_FLAGS] >> AG_KERNEL_SETTING & AG_MOST_SETTINGS;
}

enum ag_memset_word {
    AG_MEMSET_COUNT_LOW, /* elements of a row */
    AG_MEMSET_COUNT_HIGH,
    AG_MEMSET_WIDTH,  /* bytes of an element */
    AG_MEMSET_HEIGHT, /* rows */
    AG_MEMSET_PITCH_LOW,
    AG_MEMSET_PITCH_HIGH,
    AG_MEMSET_VALUE, /* of more than one row; else it is an argument */
};

struct ag_memset_arguments {
    uint64_t dst;
    uint32_t value;
};

struct ag_copy_arguments {
    uint64_t dst;
    uint64_t src;
    uint64_t dst_buffer; /* CU_POINTER_ATTRIBUTE_BUFFER_ID */
    uint64_t src_buffer;
};

enum ag_copy_word { /* of more than one dimension; else they are arguments */
                    AG_COPY_DST_BUFFER_LOW,
                    AG_COPY_DST_BUFFER_HIGH,
                    AG_COPY_SRC_BUFFER_LOW,
                    AG_COPY_SRC_BUFFER_HIGH,
};

enum ag_value_word { AG_VALUE_OPERATION /* CUstreamBatchMemOpType */, AG_VALUE_FLAGS };

struct ag_event_arguments {
    CUevent event;
    uint64_t serial; /* which event of that handle: a node must be given it anew */
};

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

/* The graph nodes that the next op comes behind: the last node. If that is a kernel which need not
   wait for the node before it (programmatic serialization), also the node before. */
struct ag_after {
    CUgraphNode node[2];
    uint32_t count;
    const struct ag_node *last; /* the op of the last node */
};

/* Adds the graph node of an op behind those; it becomes the last one. */
CUresult ag_node_add(const struct ag_node *node, CUfunction func, CUgraph graph, CUcontext ctx,
                     CUgraphNode *made, struct ag_after *after);

/* Gives the node of an exec the op's arguments. The context must be current. */
CUresult ag_node_patch(const struct ag_node *node, CUfunction func, CUgraphExec exec,
                       CUgraphNode graph_node, CUcontext ctx);

/* Gives the node of an exec, of a record or a wait, another event than the op's. */
CUresult ag_node_patch_event(const struct ag_node *node, CUgraphExec exec, CUgraphNode graph_node,
                             CUevent event);

/* The same for the source graph, whose exec is then updated as a whole. */
CUresult ag_node_patch_source(const struct ag_node *node, CUfunction func, CUgraphNode graph_node,
                              CUcontext ctx);

/* Submits the op by itself. */
CUresult ag_node_submit(const struct ag_node *node, CUstream stream);

/* The function of a kernel's node; NULL for other kinds. */
CUfunction ag_node_function(const struct ag_node *node);

/* A kernel as a graph node takes it, with these arguments. */
CUDA_KERNEL_NODE_PARAMS ag_node_kernel(const struct ag_node *node, CUfunction func, void **params);

static inline uint64_t ag_words(const uint32_t *low)
{
    return (uint64_t)low[1] << 32 | low[0];
}

static inline bool ag_node_is_kept(const struct ag_node *node)
{
    return node->op.shape[AG_KERNEL_FLAGS] & AG_KERNEL_KEPT; /* no other kind uses that word */
}

static inline bool ag_node_is_event(const struct ag_node *node)
{
    return node->op.kind == AG_OP_RECORD || node->op.kind == AG_OP_WAIT;
}

/* Bytes of a memset's row. */
static inline size_t ag_memset_row(const struct ag_op *op)
{
    return ag_words(&op->shape[AG_MEMSET_COUNT_LOW]) * op->shape[AG_MEMSET_WIDTH];
}

#endif
