/* SPDX-License-Identifier: MIT */
/* Describing calls: attributes in a normal form, argument pointers, layouts. */
#include "engine/stream/describe.h"

#include "config/config.h"
#include "driver/driver.h"
#include "driver/limits.h"
#include "engine/stream/stream.h"
#include "graph/attribute.h"
#include "graph/setting.h"
#include "mutant.h"

_Static_assert(sizeof(struct ag_shape) == AG_SHAPE_WORDS * sizeof(uint32_t),
               "a kernel's shape is an op's shape");

/* -- Attributes ------------------------------------------------------------ */

/* Copies the attributes with unused bytes zero; returns how many there are, or -1. */
static int normalise(CUlaunchAttribute *to, const CUlaunchAttribute *from, uint32_t count)
{
    int kept = 0;
    if (from == NULL)
        return -1;
    for (uint32_t i = 0; i < count; i++) {
        if (from[i].id == CU_LAUNCH_ATTRIBUTE_IGNORE)
            continue;
        if (from[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION &&
            from[i].value.programmaticStreamSerializationAllowed == 0)
            continue;
        size_t size = ag_attribute_size(from[i].id);
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

/* Where the arguments of the launch are. */
static enum ag_why describe_arguments(struct ag_described *to, const struct ag_kernel_call *call,
                                      const struct ag_function *function)
{
    to->from = call->params;
    return function->layout.count == 0 || call->params != NULL ? AG_WHY_HELD : AG_WHY_ARGUMENTS;
}

/* What the attributes of a launch mean for what else it has. */
struct allowed {
    bool shapes;  /* any shape that its function may have */
    bool limited; /* the function's limit of dynamic shared memory counts */
};

/* The attributes of the launch that belong to its op; false: some cannot be held. */
static bool describe_attributes(struct ag_described *to, const struct ag_kernel_call *call,
                                struct allowed *allowed)
{
    *allowed = (struct allowed){true, true};
    if (call->shape.nattrs == 0)
        return true;
    int kept = normalise(to->attrs, call->attrs, call->shape.nattrs);
    if (kept < 0)
        return false;
    to->op.extra = to->attrs;
    to->op.extra_size = (uint32_t)((size_t)kept * sizeof to->attrs[0]);
    *allowed = (struct allowed){.shapes = ag_attributes_allow_shapes(to->attrs, (uint32_t)kept),
                                .limited = !ag_attributes_have_limit(to->attrs, (uint32_t)kept)};
    return true;
}

enum ag_why ag_describe_kernel(struct ag_described *to, const struct ag_kernel_call *call,
                               const struct ag_function *function)
{
    if (function == NULL)
        return AG_WHY_FUNCTION;
    to->op = (struct ag_op){
        .func = call->func,
        .layout = &function->layout,
        .kind = AG_OP_KERNEL,
    };
    memcpy(to->op.shape, &call->shape, sizeof to->op.shape);
    uint32_t number;
    struct allowed allowed;
    if (!describe_attributes(to, call, &allowed))
        return AG_WHY_LAUNCH_ATTRIBUTES;
    if (!ag_setting_number(function, call->shape.shared, allowed.limited, &number))
        return AG_WHY_SETTINGS;
    number = AG_MUTANT(settings_alike) ? 0 : number;
    to->op.shape[AG_KERNEL_FLAGS] |= number << AG_KERNEL_SETTING;
    bool free = ag_opt.graph_shapes && allowed.shapes;
    to->op.free = free ? AG_KERNEL_FREE : 0;
    return describe_arguments(to, call, function);
}

/* Pointers to the arguments in a launch's `extra` buffer. CUDA driver API, cuLaunchKernel. */
static bool fields_of(void **fields, void **extra, const struct ag_layout *layout)
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
    if (buffer == NULL || size == NULL || *size != layout->size || /* more is an error */
        layout->count > AG_MOST_FIELDS)
        return false;
    for (uint32_t i = 0; i < layout->count; i++)
        fields[i] = (void *)(buffer + layout->field[i].offset);
    return true;
}

/* Arguments of both kinds are an error, and so is a buffer where there are none. */
enum ag_why ag_describe_buffer(struct ag_described *to, const struct ag_kernel_call *call,
                               const struct ag_function *function, void **fields)
{
    struct ag_kernel_call listed = *call;
    listed.params = fields;
    if (function == NULL)
        return AG_WHY_FUNCTION;
    if (call->params != NULL || function->layout.count == 0 ||
        !fields_of(fields, call->extra, &function->layout))
        return AG_WHY_ARGUMENTS;
    return ag_describe_kernel(to, &listed, function);
}

/* -- Memsets --------------------------------------------------------------- */

static const struct ag_layout nothing;

static const struct ag_layout memset_layout = {
    sizeof(struct ag_memset_arguments),
    2,
    0,
    {{offsetof(struct ag_memset_arguments, dst), 8},
     {offsetof(struct ag_memset_arguments, value), 4}},
};

static void split(uint32_t *low, uint64_t words)
{
    low[0] = (uint32_t)words;
    low[1] = (uint32_t)(words >> 32);
}

/* Whether the host waits for calls without a stream on memory of the device: the context or the
   memory was asked to have them synchronize. The driver is asked each time, for even a question
   about tokens for RDMA makes memory such. */
static bool synchronizes(CUdeviceptr address)
{
    unsigned flags;
    uint64_t memory = 0; /* wide enough for whatever the driver takes for a truth value */
    CUpointer_attribute name = CU_POINTER_ATTRIBUTE_SYNC_MEMOPS;
    void *value = &memory;
    return ag_real.cuCtxGetFlags(&flags) != CUDA_SUCCESS || (flags & CU_CTX_SYNC_MEMOPS) != 0 ||
           ag_real.cuPointerGetAttributes(1, &name, &value, address) != CUDA_SUCCESS || memory != 0;
}

/* Whether the host does not wait for the memset, whatever its size. */
static bool is_asynchronous(const struct ag_memset_call *call, struct ag_answers **answers)
{
    uint64_t buffer;
    return !call->blocks ||
           (ag_memory_at(answers, call->dst, 1, AG_ACCESS_BOTH, &buffer) == CU_MEMORYTYPE_DEVICE &&
            !synchronizes(call->dst));
}

enum ag_why ag_describe_memset(struct ag_described *to, const struct ag_memset_call *call,
                               struct ag_answers **answers)
{
    if (call->count == 0 || call->height - 1 >= UINT32_MAX)
        return call->count == 0 || call->height == 0 ? AG_WHY_EMPTY : AG_WHY_REFUSABLE;
    if (!is_asynchronous(call, answers))
        return AG_WHY_BLOCKS;
    to->op = (struct ag_op){.kind = AG_OP_MEMSET};
    split(&to->op.shape[AG_MEMSET_COUNT_LOW], call->count);
    to->op.shape[AG_MEMSET_WIDTH] = call->width;
    to->op.shape[AG_MEMSET_HEIGHT] = (uint32_t)call->height;
    if (call->height == 1) {
        to->op.layout = &memset_layout;
        to->op.free = ag_opt.graph_shapes ? AG_MEMSET_FREE : 0;
        to->arguments.memset.dst = call->dst;
        to->arguments.memset.value = call->value;
        to->fields[0] = &to->arguments.memset.dst;
        to->fields[1] = &to->arguments.memset.value;
    } else {
        to->op.layout = &nothing;
        to->op.func = (const void *)call->dst;
        to->op.shape[AG_MEMSET_VALUE] = call->value;
        split(&to->op.shape[AG_MEMSET_PITCH_LOW], call->pitch);
    }
    to->from = to->fields;
    return AG_WHY_HELD;
}

/* -- Copies ---------------------------------------------------------------- */

static const struct ag_layout copy_layout = {
    sizeof(struct ag_copy_arguments),
    4,
    0,
    {{offsetof(struct ag_copy_arguments, dst), 8},
     {offsetof(struct ag_copy_arguments, src), 8},
     {offsetof(struct ag_copy_arguments, dst_buffer), 8},
     {offsetof(struct ag_copy_arguments, src_buffer), 8}},
};

/* One past the last byte that a copy touches, from the address it is given. What is not specified
   of pitch and height, that is 0, is as small as may be (CUDA driver API, cuMemcpy3D). */
static size_t extent(const CUDA_MEMCPY3D *p, size_t x, size_t y, size_t z, size_t pitch,
                     size_t height)
{
    pitch = pitch != 0 ? pitch : x + p->WidthInBytes;
    height = height != 0 ? height : y + p->Height;
    return ((z + p->Depth - 1) * height + y + p->Height - 1) * pitch + x + p->WidthInBytes;
}

/* Whether the call may be one from any memory to that of the device. A copy to the host is slower
   as a graph's node. */
static enum ag_why between_memory(const CUDA_MEMCPY3D *p)
{
    bool to_device =
        p->dstMemoryType == CU_MEMORYTYPE_DEVICE || p->dstMemoryType == CU_MEMORYTYPE_UNIFIED;
    bool from_memory = p->srcMemoryType == CU_MEMORYTYPE_HOST ||
                       p->srcMemoryType == CU_MEMORYTYPE_DEVICE ||
                       p->srcMemoryType == CU_MEMORYTYPE_UNIFIED;
    if (to_device && from_memory && p->reserved0 == NULL && p->reserved1 == NULL)
        return AG_WHY_HELD;
    return p->dstMemoryType == CU_MEMORYTYPE_HOST ? AG_WHY_TO_HOST : AG_WHY_ARRAY;
}

static enum ag_why goes_to_device(struct ag_answers **answers, CUdeviceptr dst, size_t bytes,
                                  uint64_t *buffer)
{
    CUmemorytype type = ag_memory_at(answers, dst, bytes, AG_ACCESS_BOTH, buffer);
    if (type == CU_MEMORYTYPE_DEVICE)
        return AG_WHY_HELD;
    return type == CU_MEMORYTYPE_HOST || type == AG_MEMORY_PAGEABLE ? AG_WHY_TO_HOST
                                                                    : AG_WHY_MEMORY;
}

/* Writes what is certain of the memory types into the parameters, and the allocations where they
   matter. */
static enum ag_why resolve(struct ag_described *to, struct ag_answers **answers)
{
    CUDA_MEMCPY3D *p = &to->params;
    struct ag_copy_arguments *arguments = &to->arguments.copy;
    enum ag_why why = between_memory(p);
    if (why != AG_WHY_HELD)
        return why;
    CUdeviceptr src =
        p->srcMemoryType == CU_MEMORYTYPE_HOST ? (CUdeviceptr)p->srcHost : p->srcDevice;
    size_t src_bytes = extent(p, p->srcXInBytes, p->srcY, p->srcZ, p->srcPitch, p->srcHeight);
    size_t dst_bytes = extent(p, p->dstXInBytes, p->dstY, p->dstZ, p->dstPitch, p->dstHeight);
    uint64_t dst_buffer, src_buffer;
    CUmemorytype type = ag_memory_at(answers, src, src_bytes, AG_ACCESS_READ, &src_buffer);
    if (type == 0 || type == AG_MEMORY_ELSEWHERE)
        return AG_WHY_MEMORY;
    why = goes_to_device(answers, p->dstDevice, dst_bytes, &dst_buffer);
    if (why != AG_WHY_HELD)
        return why;
    bool host = type != CU_MEMORYTYPE_DEVICE;
    to->upload = NULL;
    if (type == AG_MEMORY_PAGEABLE) {
        if (p->srcMemoryType == CU_MEMORYTYPE_DEVICE) /* an error */
            return AG_WHY_REFUSABLE;
        to->upload = (const void *)src;
    }
    bool named = host && !AG_MUTANT(allocations_alike);
    arguments->dst_buffer = named ? dst_buffer : 0;
    arguments->src_buffer = named ? src_buffer : 0;
    p->srcMemoryType = host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    p->dstMemoryType = CU_MEMORYTYPE_DEVICE;
    p->srcHost = host ? (const void *)src : NULL;
    p->srcDevice = host ? 0 : src;
    p->dstHost = NULL;
    p->srcArray = p->dstArray = NULL;
    p->reserved0 = p->reserved1 = NULL;
    return AG_WHY_HELD;
}

/* Whether the driver takes this pitch of a single row, where it means nothing: it is not part of
   the op then, of which another call has succeeded. */
static bool pitch_is_good(size_t pitch, size_t row)
{
    return pitch == 0 || (pitch >= row && pitch <= INT32_MAX); /* CU_DEVICE_ATTRIBUTE_MAX_PITCH */
}

/* Whether it is a copy of one dimension, from and to addresses as they are. */
static bool is_plain(const CUDA_MEMCPY3D *p)
{
    return p->Height == 1 && p->Depth == 1 &&
           (p->srcXInBytes | p->srcY | p->srcZ | p->dstXInBytes | p->dstY | p->dstZ) == 0;
}

/* Such a copy: its addresses and its size are arguments. */
static enum ag_why describe_plain(struct ag_described *to, CUDA_MEMCPY3D *p)
{
    if (!pitch_is_good(p->srcPitch, p->WidthInBytes) ||
        !pitch_is_good(p->dstPitch, p->WidthInBytes))
        return AG_WHY_REFUSABLE;
    p->srcPitch = p->dstPitch = p->srcHeight = p->dstHeight = 0;
    split(&to->op.shape[AG_COPY_BYTES_LOW], p->WidthInBytes);
    p->WidthInBytes = 0;
    to->op.layout = &copy_layout;
    to->op.free = ag_opt.graph_shapes ? AG_COPY_FREE : 0;
    to->arguments.copy.dst = p->dstDevice;
    to->arguments.copy.src =
        p->srcMemoryType == CU_MEMORYTYPE_HOST ? (uint64_t)p->srcHost : p->srcDevice;
    to->fields[0] = &to->arguments.copy.dst;
    to->fields[1] = &to->arguments.copy.src;
    to->fields[2] = &to->arguments.copy.dst_buffer;
    to->fields[3] = &to->arguments.copy.src_buffer;
    p->dstDevice = p->srcDevice = 0;
    p->srcHost = NULL;
    return AG_WHY_HELD;
}

/* A copy of pageable memory that takes all its bytes during the call, as it will when it is held.
 */
static enum ag_why describe_upload(struct ag_described *to, CUDA_MEMCPY3D *p)
{
    if (!is_plain(p) || p->WidthInBytes > (size_t)AG_UPLOAD_KB << 10)
        return AG_WHY_PAGEABLE;
    enum ag_why why = describe_plain(to, p);
    to->op.shape[AG_COPY_UPLOAD] = 1;
    to->arguments.copy.src = 0; /* until it is held */
    return why;
}

enum ag_why ag_describe_copy(struct ag_described *to, const struct ag_copy_call *call,
                             struct ag_answers **answers)
{
    CUDA_MEMCPY3D *p = &to->params;
    *p = call->params;
    if (p->WidthInBytes == 0 || p->Height == 0 || p->Depth == 0)
        return AG_WHY_EMPTY;
    if (p->srcLOD != 0 || p->dstLOD != 0)
        return AG_WHY_ARRAY;
    enum ag_why why = resolve(to, answers);
    if (why != AG_WHY_HELD)
        return why;
    if (call->blocks && (p->srcMemoryType == CU_MEMORYTYPE_HOST || synchronizes(p->dstDevice) ||
                         synchronizes(p->srcDevice)))
        return AG_WHY_BLOCKS;
    to->op = (struct ag_op){.kind = AG_OP_COPY, .extra = p, .extra_size = sizeof *p};
    to->from = to->fields;
    if (to->upload != NULL)
        return describe_upload(to, p);
    if (is_plain(p))
        return describe_plain(to, p);
    to->op.layout = &nothing;
    split(&to->op.shape[AG_COPY_DST_BUFFER_LOW], to->arguments.copy.dst_buffer);
    split(&to->op.shape[AG_COPY_SRC_BUFFER_LOW], to->arguments.copy.src_buffer);
    return AG_WHY_HELD;
}

/* -- Events ---------------------------------------------------------------- */

static const struct ag_layout event_layout = {
    sizeof(struct ag_event_arguments),
    2,
    0,
    {{offsetof(struct ag_event_arguments, event), 8},
     {offsetof(struct ag_event_arguments, serial), 8}},
};

enum ag_why ag_describe_event(struct ag_described *to, const struct ag_event_call *call,
                              uint64_t serial)
{
    if (serial == 0)
        return AG_WHY_EVENT_NEW;
    to->op = (struct ag_op){
        .kind = call->wait ? AG_OP_WAIT : AG_OP_RECORD,
        .layout = &event_layout,
    };
    to->arguments.event.event = call->event;
    to->arguments.event.serial = serial;
    to->fields[0] = &to->arguments.event.event;
    to->fields[1] = &to->arguments.event.serial;
    to->from = to->fields;
    return AG_WHY_HELD;
}

/* -- Certainty --------------------------------------------------------------- */

bool ag_memset_is_certain(const struct ag_described *call, struct ag_answers **answers)
{
    const struct ag_op *op = &call->op;
    CUdeviceptr dst = op->layout->count != 0 ? call->arguments.memset.dst : (CUdeviceptr)op->func;
    if ((dst & (op->shape[AG_MEMSET_WIDTH] - 1)) != 0) /* 1, 2 or 4 bytes */
        return false;
    size_t bytes = ag_memset_row(op);
    if (ag_words(&op->shape[AG_MEMSET_COUNT_LOW]) > bytes) /* more than there are addresses */
        return false;
    if (op->shape[AG_MEMSET_HEIGHT] > 1)
        bytes += (op->shape[AG_MEMSET_HEIGHT] - 1) * ag_words(&op->shape[AG_MEMSET_PITCH_LOW]);
    return ag_memory_holds(answers, dst, bytes);
}
