/* SPDX-License-Identifier: MIT */
/* What the driver has, and its answers to questions. */
#include "policy/driver.h"

#include <stdlib.h>
#include <string.h>

#include "driver/driver.h"
#include "policy/costs.h"
#include "policy/threads.h"

enum { BLOCKING, NON_BLOCKING, LEGACY, PER_THREAD }; /* kinds of streams */

static const struct play_program *program;
static struct play_gpu *streams; /* of the program, by number */
static struct play_event *events;
static struct play_context *contexts;

struct CUfunc_st {
    uint32_t number; /* 0: fetch */
};
static struct CUfunc_st *functions;

/* Never dereferenced by anybody else: fetch.h. Not 0, so that read-backs are made. */
const uint32_t ag_fetch_image[] = {1};

static void *array(size_t count, size_t size)
{
    return play_place((count + 1) * size);
}

/* -- Objects -------------------------------------------------------------------------- */

struct play_gpu *play_stream(uint32_t number)
{
    return &streams[number];
}

struct play_event *play_event(uint32_t number)
{
    return &events[number];
}

struct play_context *play_context(uint32_t number)
{
    return number != 0 ? &contexts[number] : NULL;
}

CUfunction play_function(uint32_t number)
{
    return &functions[number];
}

bool play_is_fetch(CUfunction func)
{
    return func == functions;
}

struct play_context *play_current(void)
{
    const struct play_owner *owner = play_owner();
    return owner->stack[owner->depth];
}

void play_make_current(struct play_context *context)
{
    struct play_owner *owner = play_owner();
    owner->stack[owner->depth] = context;
}

/* A context that no stream has is none: the program had no context then. */
static bool has_streams(const struct play_context *context)
{
    for (uint32_t s = 1; s <= program->streams; s++)
        if (streams[s].context == context)
            return true;
    return false;
}

void play_follow_context(const struct play_gpu *stream)
{
    bool is_default = stream->kind == LEGACY || stream->kind == PER_THREAD;
    struct play_context *current = play_current();
    if (current != stream->context && (is_default || current == NULL || !current->has_streams))
        play_make_current(stream->context);
}

CUstream play_handle(const struct play_gpu *stream, bool *ptsz)
{
    *ptsz = stream->kind == PER_THREAD;
    return stream->kind == LEGACY || stream->kind == PER_THREAD ? NULL : (CUstream)stream;
}

/* The default stream of the context that has no number in the program, or has one. */
static struct play_gpu *default_stream(struct play_context *context, uint32_t kind, uint32_t thread)
{
    static struct play_gpu none;
    for (uint32_t s = 1; s <= program->streams; s++)
        if (streams[s].context == context && streams[s].kind == kind &&
            (kind == LEGACY || program->stream[s].thread == thread))
            return &streams[s];
    none.context = context;
    none.kind = kind;
    return &none;
}

struct play_gpu *play_resolve(CUstream handle)
{
    if (handle == NULL || handle == CU_STREAM_LEGACY)
        return default_stream(play_current(), LEGACY, 0);
    if (handle == CU_STREAM_PER_THREAD)
        return default_stream(play_current(), PER_THREAD, play_owner()->thread);
    return (struct play_gpu *)handle;
}

struct play_gpu *play_issues(struct play_gpu *stream)
{
    for (uint32_t s = 1; s <= program->streams && stream->number == 0; s++)
        if (streams[s].kind == PER_THREAD && streams[s].context == stream->context &&
            streams[s].count != 0)
            return &streams[s];
    return stream;
}

uint64_t play_context_end(const struct play_context *context)
{
    uint64_t end = context != NULL ? context->blocking_end : 0;
    for (uint32_t s = 1; s <= program->streams; s++)
        if (streams[s].context == context && streams[s].end > end)
            end = streams[s].end;
    return end;
}

/* -- Contexts --------------------------------------------------------------------------- */

static CUresult get_current(CUcontext *to)
{
    play_spend(NS_CURRENT);
    *to = (CUcontext)play_current();
    return CUDA_SUCCESS;
}

static CUresult push_current(CUcontext context)
{
    struct play_owner *owner = play_owner();
    if (owner->depth + 1 == PLAY_CONTEXTS)
        return CUDA_ERROR_OUT_OF_MEMORY;
    owner->stack[++owner->depth] = (struct play_context *)context;
    return CUDA_SUCCESS;
}

static CUresult pop_current(CUcontext *to)
{
    struct play_owner *owner = play_owner();
    *to = (CUcontext)play_current();
    owner->stack[owner->depth] = NULL;
    owner->depth -= owner->depth != 0;
    return CUDA_SUCCESS;
}

/* Each context is another device's. */
static CUresult get_device(CUdevice *to)
{
    if (play_current() == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    *to = (CUdevice)play_current()->number - 1;
    return CUDA_SUCCESS;
}

static CUresult count_devices(int *to)
{
    *to = 0;
    for (uint32_t c = 1; c <= program->contexts; c++)
        *to += contexts[c].has_streams;
    return CUDA_SUCCESS;
}

static CUresult device_attribute(int *to, CUdevice_attribute attribute, CUdevice device)
{
    (void)device;
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MPS_ENABLED:
        *to = 0;
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
        *to = INT32_MAX;
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
        *to = UINT16_MAX;
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
        *to = 1024;
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
        *to = 64;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult exchange_mode(CUstreamCaptureMode *mode)
{
    static CUstreamCaptureMode now; /* nobody captures by it */
    CUstreamCaptureMode before = now;
    now = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}

static CUresult cache_config(CUfunc_cache *to)
{
    *to = CU_FUNC_CACHE_PREFER_NONE;
    return CUDA_SUCCESS;
}

static CUresult get_limit(size_t *to, CUlimit limit)
{
    (void)limit;
    *to = 1024;
    return CUDA_SUCCESS;
}

static CUresult get_flags(unsigned *to)
{
    *to = 0;
    return CUDA_SUCCESS;
}

/* -- Streams ----------------------------------------------------------------------------- */

static CUresult stream_context(CUstream stream, CUcontext *to)
{
    *to = (CUcontext)play_resolve(stream)->context;
    return CUDA_SUCCESS;
}

static CUresult stream_flags(CUstream stream, unsigned *to)
{
    *to = play_resolve(stream)->kind == NON_BLOCKING ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT;
    return CUDA_SUCCESS;
}

static CUresult stream_priority(CUstream stream, int *to)
{
    (void)stream;
    *to = 0;
    return CUDA_SUCCESS;
}

static CUresult is_capturing(CUstream stream, CUstreamCaptureStatus *to)
{
    *to = play_resolve(stream)->captures ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                                         : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}

/* -- Functions ---------------------------------------------------------------------------- */

static CUresult kernel_function(CUfunction *to, CUkernel kernel)
{
    (void)to;
    (void)kernel;
    return CUDA_ERROR_INVALID_HANDLE; /* each handle is a CUfunction */
}

static const uint32_t fetch_sizes[] = {8, 8, 4, 8};

static CUresult parameter(CUfunction func, size_t index, size_t *offset, size_t *size)
{
    const struct play_function *function = &program->function[func->number];
    bool is_fetch = play_is_fetch(func);
    const uint32_t *sizes = is_fetch ? fetch_sizes : &program->sizes[function->first];
    uint32_t count = is_fetch ? 4 : function->params;
    if (!is_fetch && !function->known)
        return CUDA_ERROR_NOT_FOUND;
    if (index >= count)
        return CUDA_ERROR_INVALID_VALUE;
    *offset = 0;
    for (size_t i = 0; i <= index; i++) {
        size_t align = sizes[i] >= 8 ? 8 : sizes[i] >= 4 ? 4 : 1;
        *offset = (*offset + align - 1) / align * align + (i < index ? sizes[i] : 0);
    }
    *size = sizes[index];
    return CUDA_SUCCESS;
}

static CUresult function_attribute(int *to, CUfunction_attribute attribute, CUfunction func)
{
    (void)func;
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *to = 1024;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *to = 232448; /* that most programs ask for more has no part in what is decided */
        return CUDA_SUCCESS;
    default:
        *to = 0;
        return CUDA_SUCCESS;
    }
}

static CUresult function_name(const char **to, CUfunction func)
{
    *to = play_is_fetch(func) ? "autograph_fetch" : program->function[func->number].name;
    return CUDA_SUCCESS;
}

static CUresult function_module(CUmodule *to, CUfunction func)
{
    *to = (CUmodule)func;
    return CUDA_SUCCESS;
}

static CUresult load_module(CUmodule *to, const void *image)
{
    (void)image;
    play_spend(NS_LOAD);
    *to = (CUmodule)functions;
    return CUDA_SUCCESS;
}

static CUresult find_function(CUfunction *to, CUmodule module, const char *name)
{
    (void)module;
    (void)name;
    *to = functions;
    return CUDA_SUCCESS;
}

/* -- The table ----------------------------------------------------------------------------- */

static CUresult not_there(void)
{
    return CUDA_ERROR_NOT_SUPPORTED;
}

void play_driver_make(const struct play_program *played)
{
    program = played;
    streams = array(program->streams, sizeof *streams);
    events = array(program->events, sizeof *events);
    contexts = array(program->contexts, sizeof *contexts);
    functions = array(program->functions, sizeof *functions);
    for (uint32_t f = 1; f <= program->functions; f++)
        functions[f].number = f;
    for (uint32_t c = 1; c <= program->contexts; c++)
        contexts[c].number = c;
    for (uint32_t s = 1; s <= program->streams; s++) {
        const struct play_stream *stream = &program->stream[s];
        streams[s].number = s;
        streams[s].kind = stream->kind;
        streams[s].flags = stream->flags;
        streams[s].context = play_context(stream->context);
        if (stream->kind == LEGACY && stream->context != 0)
            contexts[stream->context].legacy = &streams[s];
    }
    for (uint32_t c = 1; c <= program->contexts; c++)
        contexts[c].has_streams = has_streams(&contexts[c]);
    for (size_t i = 0; i < program->lines; i++)
        if (program->line[i].verb == PLAY_FREE)
            play_memory_is_pooled(program->line[i].word[1]);
#define X(name) ag_real.name = (__typeof__(ag_real.name))(void *)not_there;
    AG_DRIVER_FUNCTIONS(X)
#undef X
    ag_real.cuCtxGetCurrent = get_current;
    ag_real.cuCtxPushCurrent_v2 = push_current;
    ag_real.cuCtxPopCurrent_v2 = pop_current;
    ag_real.cuCtxGetDevice = get_device;
    ag_real.cuDeviceGetCount = count_devices;
    ag_real.cuDeviceGetAttribute = device_attribute;
    ag_real.cuThreadExchangeStreamCaptureMode = exchange_mode;
    ag_real.cuCtxGetCacheConfig = cache_config;
    ag_real.cuCtxGetLimit = get_limit;
    ag_real.cuCtxGetFlags = get_flags;
    ag_real.cuStreamGetCtx = stream_context;
    ag_real.cuStreamGetFlags = stream_flags;
    ag_real.cuStreamGetPriority = stream_priority;
    ag_real.cuStreamIsCapturing = is_capturing;
    ag_real.cuKernelGetFunction = kernel_function;
    ag_real.cuFuncGetParamInfo = parameter;
    ag_real.cuFuncGetAttribute = function_attribute;
    ag_real.cuFuncGetName = function_name;
    ag_real.cuFuncGetModule = function_module;
    ag_real.cuModuleLoadData = load_module;
    ag_real.cuModuleGetFunction = find_function;
    play_driver_ask(&ag_real);
    play_driver_work(&ag_real);
    play_driver_graphs(&ag_real);
}
