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

/* The bytes of an attribute's value that mean something, for those that a node takes with the same
   effect; 0 for all others, and for those that this driver has refused. */
size_t ag_attribute_size(CUlaunchAttributeID id);

/* Whether they say how much dynamic shared memory the launch may have, instead of its function. */
bool ag_attributes_have_limit(const CUlaunchAttribute *attrs, uint32_t count);

/* Adds a kernel's node that has these attributes, but for programmatic stream serialization, which
   is one of its edges. */
CUresult ag_attribute_add_kernel(CUgraphNode *made, CUgraph graph, const CUgraphNode *after,
                                 size_t after_count, CUDA_KERNEL_NODE_PARAMS params,
                                 const CUlaunchAttribute *attrs, uint32_t count);

#endif
