/* SPDX-License-Identifier: MIT */
/*
 * Launch attributes as nodes of a graph take them (CUDA driver API, "CUlaunchAttributeID"). A
 * launch with another attribute is not held.
 */
#ifndef AG_ATTRIBUTE_H
#define AG_ATTRIBUTE_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The bytes of an attribute's value that mean something. 0: a node does not take the attribute with
   the effect that it has in a launch, or this driver has refused it. */
size_t ag_attribute_size(CUlaunchAttributeID id);

/* Whether the attributes say how much dynamic shared memory the launch may have, in place of the
   function's limit. */
bool ag_attributes_have_limit(const CUlaunchAttribute *attrs, uint32_t count);

/* Whether the launch may have any shape that it may have without the attributes. */
bool ag_attributes_allow_shapes(const CUlaunchAttribute *attrs, uint32_t count);

/* Adds a kernel's node with these attributes. Programmatic stream serialization becomes an edge of
   the node instead. */
CUresult ag_attribute_add_kernel(CUgraphNode *made, CUgraph graph, const CUgraphNode *after,
                                 size_t after_count, CUDA_KERNEL_NODE_PARAMS params,
                                 const CUlaunchAttribute *attrs, uint32_t count);

#endif
