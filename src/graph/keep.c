/* SPDX-License-Identifier: MIT */
/* Keeping arguments in graph nodes. */
#include "graph/keep.h"

#include "driver/driver.h"
#include "graph/node.h"

CUresult ag_keep_store(struct ag_keep *keep, struct ag_node *node, void *const *params)
{
    CUgraphNode *place = &keep->place[node->depth];
    CUDA_KERNEL_NODE_PARAMS kept = ag_node_kernel(node, ag_node_function(node), (void **)params);
    CUresult result = CUDA_SUCCESS;
    node->params[0] = NULL;
    node->version++; /* whether they are others cannot be told */
    if (keep->graph == NULL)
        result = ag_real.cuGraphCreate(&keep->graph, 0);
    if (result == CUDA_SUCCESS)
        result = *place != NULL
                     ? ag_real.cuGraphKernelNodeSetParams_v2(*place, &kept)
                     : ag_real.cuGraphAddKernelNode_v2(place, keep->graph, NULL, 0, &kept);
    if (result == CUDA_SUCCESS)
        result = ag_real.cuGraphKernelNodeGetParams_v2(*place, &kept);
    if (result == CUDA_SUCCESS && kept.extra != NULL)
        result = CUDA_ERROR_NOT_SUPPORTED; /* not pointers to each */
    if (result == CUDA_SUCCESS)
        node->params[0] = kept.kernelParams;
    return result;
}

CUresult ag_keep_free(struct ag_keep *keep)
{
    if (keep->graph == NULL) /* and so there are no places */
        return CUDA_SUCCESS;
    CUresult result = ag_real.cuGraphDestroy(keep->graph);
    *keep = (struct ag_keep){0};
    return result;
}
