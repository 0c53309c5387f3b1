/* SPDX-License-Identifier: MIT */
/* Describing calls: attributes in a normal form, argument pointers, layouts. */
#include "engine/describe.h"

#include "driver/driver.h"
#include "graph/function.h"
#include "graph/node.h"

_Static_assert(sizeof(struct ag_shape) == AG_SHAPE_WORDS * sizeof(uint32_t),
               "a kernel's shape is an op's shape");

/* -- Attributes ------------------------------------------------------------ */

/*
 * The bytes of an attribute's value that mean something, for those that a graph's kernel node takes
 * with the same effect; 0 for all others. CUDA driver API, "CUlaunchAttributeID".
 */
static size_t value_size(CUlaunchAttributeID id)
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
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        return sizeof value->priority;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
        return sizeof value->memSyncDomainMap;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
        return sizeof value->memSyncDomain;
    default:
        return 0;
    }
}

/* Copies the attributes with unused bytes zero; returns how many there are, or -1. */
static int normalise(CUlaunchAttribute *to, const CUlaunchAttribute *from, uint32_t count)
{
    int kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (from[i].id == CU_LAUNCH_ATTRIBUTE_IGNORE)
            continue;
        if (from[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION &&
            from[i].value.programmaticStreamSerializationAllowed == 0)
            continue;
        size_t size = value_size(from[i].id);
        if (size == 0 || kept == AG_MOST_ATTRIBUTES)
            return -1;
        memset(&to[kept], 0, sizeof to[kept]);
        to[kept].id = from[i].id;
        memcpy(&to[kept].value, &from[i].value, size);
        kept++;
    }
    return kept;
}

/* -- Kernels --------------------------------------------------------------- */

/* Pointers to the arguments in a launch's `extra` buffer. CUDA driver API, cuLaunchKernel. */
static bool fields_of(struct ag_described *to, void **extra, const struct ag_layout *layout)
{
    const char *buffer = NULL;
    const size_t *size = NULL;
    for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
        if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[1];
        else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
            size = extra[1];
        else
            return false;
    }
    if (buffer == NULL || size == NULL || *size < layout->size ||
        layout->count > AG_MOST_EXTRA_FIELDS)
        return false;
    for (uint32_t i = 0; i < layout->count; i++)
        to->fields[i] = (void *)(buffer + layout->field[i].offset);
    to->from = to->fields;
    return true;
}

bool ag_describe_kernel(struct ag_described *to, const struct ag_kernel_call *call, CUcontext ctx)
{
    const struct ag_function *function = ag_function_find(call->func, ctx);
    if (function == NULL)
        return false;
    to->op = (struct ag_op){
        .func = call->func,
        .layout = &function->layout,
        .kind = AG_OP_KERNEL,
    };
    memcpy(to->op.shape, &call->shape, sizeof to->op.shape);
    if (call->shape.nattrs != 0) {
        int kept = normalise(to->attrs, call->attrs, call->shape.nattrs);
        if (kept < 0)
            return false;
        to->op.extra = to->attrs;
        to->op.extra_size = kept * sizeof to->attrs[0];
    }
    to->from = call->params;
    if (function->layout.count != 0 && call->params == NULL &&
        (call->extra == NULL || !fields_of(to, call->extra, &function->layout)))
        return false;
    ag_op_hash(&to->op);
    return true;
}

/* -- Memsets --------------------------------------------------------------- */

static const struct {
    struct ag_layout layout;
    struct ag_field field[2];
} memset_layout = {
    {sizeof(struct ag_memset_arguments), 2},
    {{offsetof(struct ag_memset_arguments, dst), 8},
     {offsetof(struct ag_memset_arguments, value), 4}},
};

bool ag_describe_memset(struct ag_described *to, const struct ag_memset_call *call)
{
    if (call->count == 0)
        return false;
    to->dst = call->dst;
    to->value = call->value;
    to->fields[0] = &to->dst;
    to->fields[1] = &to->value;
    to->from = to->fields;
    to->op = (struct ag_op){
        .layout = &memset_layout.layout,
        .kind = AG_OP_MEMSET,
    };
    to->op.shape[AG_MEMSET_COUNT_LOW] = (uint32_t)call->count;
    to->op.shape[AG_MEMSET_COUNT_HIGH] = (uint32_t)((uint64_t)call->count >> 32);
    to->op.shape[AG_MEMSET_WIDTH] = call->width;
    ag_op_hash(&to->op);
    return true;
}

bool ag_memset_valid(CUdeviceptr dst, size_t bytes)
{
    CUdeviceptr base;
    size_t size;
    return ag_real.cuMemGetAddressRange_v2(&base, &size, dst) == CUDA_SUCCESS && bytes <= size &&
           dst - base <= size - bytes;
}
