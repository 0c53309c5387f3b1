/* SPDX-License-Identifier: MIT */
/* Launch attributes as nodes of a graph take them. */
#include "graph/attribute.h"

#include <stdatomic.h>

#include "config/cuda.h"
#include "driver/driver.h"

/* Those of CUDA 12.8, 13.0 and 13.2, by their numbers: the headers of the build may lack the names.
   Each value is unsigned words. */
enum {
    PREFERRED_CLUSTER_DIMENSION = 11,
    NVLINK_UTIL_CENTRIC_SCHEDULING = 16,
    PORTABLE_CLUSTER_SIZE_MODE = 17,
    SHARED_MEMORY_MODE = 18,
    NUMBERS = 32,
};

/* A bit for each that a node did not take: some drivers may know one for launches alone. */
static _Atomic uint32_t refused;

static size_t newer_size(unsigned id)
{
    if (id >= NUMBERS || (atomic_load_explicit(&refused, memory_order_relaxed) & 1u << id) != 0)
        return 0;
    switch (id) {
    case PREFERRED_CLUSTER_DIMENSION:
        return 3 * sizeof(unsigned);
    case NVLINK_UTIL_CENTRIC_SCHEDULING:
    case PORTABLE_CLUSTER_SIZE_MODE:
    case SHARED_MEMORY_MODE:
        return sizeof(unsigned);
    default:
        return 0;
    }
}

size_t ag_attribute_size(CUlaunchAttributeID id)
{
    CUlaunchAttributeValue *value;
    switch (id) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
        return sizeof value->accessPolicyWindow;
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        return sizeof value->cooperative;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
        return sizeof value->clusterDim;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        return sizeof value->clusterSchedulingPolicyPreference;
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
        return sizeof value->programmaticStreamSerializationAllowed;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        return ag_cuda.stream_priorities ? 0 : sizeof value->priority;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
        return sizeof value->memSyncDomainMap;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
        return sizeof value->memSyncDomain;
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        return sizeof value->sharedMemCarveout;
    default:
        return newer_size((unsigned)id);
    }
}

bool ag_attributes_have_limit(const CUlaunchAttribute *attrs, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if ((unsigned)attrs[i].id == SHARED_MEMORY_MODE)
            return true;
    return false;
}

bool ag_attributes_allow_shapes(const CUlaunchAttribute *attrs, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (attrs[i].id != CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
            return false;
    return true;
}

/* -- Nodes ------------------------------------------------------------------- */

/*
 * A driver may compare what it is given with what the node has. So what allows more comes first,
 * then the cluster, of which the preferred one is a multiple, and then the rest.
 */
enum { RANKS = 3 };

static unsigned rank(CUlaunchAttributeID id)
{
    if ((unsigned)id == PORTABLE_CLUSTER_SIZE_MODE || (unsigned)id == SHARED_MEMORY_MODE)
        return 0;
    return id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION ? 1 : 2;
}

static CUresult note_refusal(CUlaunchAttributeID id, CUresult result)
{
    bool unknown = result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_NOT_SUPPORTED;
    if (unknown && newer_size((unsigned)id) != 0)
        atomic_fetch_or(&refused, 1u << id);
    return result;
}

static CUresult set(CUgraphNode node, const CUlaunchAttribute *attrs, uint32_t count)
{
    CUresult result = CUDA_SUCCESS;
    for (unsigned now = 0; now < RANKS; now++)
        for (uint32_t i = 0; result == CUDA_SUCCESS && i < count; i++)
            if (attrs[i].id != CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION &&
                rank(attrs[i].id) == now)
                result = note_refusal(attrs[i].id, ag_real.cuGraphKernelNodeSetAttribute(
                                                       node, attrs[i].id, &attrs[i].value));
    return result;
}

CUresult ag_attribute_add_kernel(CUgraphNode *made, CUgraph graph, const CUgraphNode *after,
                                 size_t after_count, CUDA_KERNEL_NODE_PARAMS params,
                                 const CUlaunchAttribute *attrs, uint32_t count)
{
    /* The node may have as much shared memory as the kernel asks for once it has the attribute. */
    uint32_t shared = params.sharedMemBytes, mode = 0;
    while (mode < count && (unsigned)attrs[mode].id != SHARED_MEMORY_MODE)
        mode++;
    if (mode < count)
        params.sharedMemBytes = 0;
    CUresult result = ag_real.cuGraphAddKernelNode_v2(made, graph, after, after_count, &params);
    if (result == CUDA_SUCCESS)
        result = set(*made, attrs, count);
    params.sharedMemBytes = shared;
    if (result == CUDA_SUCCESS && mode < count)
        result =
            note_refusal(attrs[mode].id, ag_real.cuGraphKernelNodeSetParams_v2(*made, &params));
    return result;
}
