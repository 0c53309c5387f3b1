/* SPDX-License-Identifier: MIT */
/* Statements that are one op of a lane, or fail to be one. */
#include "world.h"

#include <stdlib.h>
#include <string.h>

static int clamp(int value, int least, int most)
{
    return value < least ? least : value > most ? most : value;
}

/* -- Values --------------------------------------------------------------- */

uint32_t op_value(struct thread *t, struct lane *l, const struct statement *s)
{
    int trip = t->depth > 0 ? t->trip[t->depth - 1] : 0;
    uint32_t k = (uint32_t)s->k;
    l->ops++;
    switch (s->vary) {
    case VARY_TRIP:
        return k + (uint32_t)trip;
    case VARY_ALTERNATE:
        return k + (trip & 1);
    case VARY_OUTER:
        return k + (t->depth > 1 ? (uint32_t)t->trip[t->depth - 2] : 0);
    case VARY_ALWAYS:
        return k + l->ops;
    case VARY_RARELY:
        return k + (uint32_t)trip / 5;
    default:
        return k;
    }
}

CUdeviceptr lane_buffer(const struct lane *l, int buffer)
{
    switch (buffer) {
    case BUFFER_STATE:
        return l->state;
    case BUFFER_B:
        return l->b;
    case BUFFER_SPARE: /* a graph may outlive it, and BUFFER_TEMP */
        return l->capturing ? l->b : l->spare;
    case BUFFER_HOST:
        return l->mapped + PINNED_MAPPED * BUFFER_WORDS * sizeof(uint32_t);
    case BUFFER_TEMP:
        return l->temp != 0 && !l->capturing ? l->temp : l->a;
    default:
        return l->a;
    }
}

/* For ops that are no kernels. */
static CUdeviceptr memory(const struct lane *l, int buffer)
{
    return buffer == BUFFER_MAPPED ? access_memory(l) : lane_buffer(l, buffer);
}

/* A call without a stream is about to work on the lane's memory. */
static const struct api *synchronous(struct lane *l)
{
    l->stray = l->kind == LANE_BLOCKING || (l->kind == LANE_PER_THREAD && l->turned);
    return l->sync;
}

/* Words [at, at + size) of a buffer, none of those that only kernels may write. */
static void range(const struct statement *s, int *at, int *size)
{
    int least = s->dst == BUFFER_STATE ? KEPT_WORDS : 0;
    *at = clamp(s->at, least, BUFFER_WORDS - 1);
    *size = clamp(s->size == 0 ? BUFFER_WORDS : s->size, 1, BUFFER_WORDS - *at);
}

static CUdeviceptr word(CUdeviceptr buffer, int at)
{
    return buffer + (CUdeviceptr)at * sizeof(uint32_t);
}

/* -- Kernels -------------------------------------------------------------- */

struct arguments {
    size_t size;
    unsigned count;
    void *params[8];
    _Alignas(16) unsigned char bytes[KERNEL_HUGE_WORDS * 4 + 64];
};

static void argument(struct arguments *a, const void *value, size_t size, size_t align)
{
    a->size = (a->size + align - 1) / align * align;
    a->params[a->count++] = memcpy(a->bytes + a->size, value, size);
    a->size += size;
}

static void arguments_make(struct arguments *a, enum kernel_layout layout, uint64_t dst,
                           uint64_t src, uint32_t n, uint32_t k)
{
    a->size = a->count = 0;
    uint32_t words[KERNEL_HUGE_WORDS];
    size_t count = layout == KERNEL_BIG ? KERNEL_BIG_WORDS : KERNEL_HUGE_WORDS;
    switch (layout) {
    case KERNEL_PLAIN:
        argument(a, &dst, 8, 8);
        argument(a, &src, 8, 8);
        argument(a, &n, 4, 4);
        argument(a, &k, 4, 4);
        break;
    case KERNEL_TURNED:
        argument(a, &k, 4, 4);
        argument(a, &src, 8, 8);
        argument(a, &n, 4, 4);
        argument(a, &dst, 8, 8);
        break;
    case KERNEL_MIXED:
        argument(a, &(uint8_t){(uint8_t)k}, 1, 1);
        argument(a, &dst, 8, 8);
        argument(a, &(uint16_t){(uint16_t)(k >> 8)}, 2, 2);
        argument(a, &src, 8, 8);
        argument(a, &n, 4, 4);
        argument(a, &(uint8_t){(uint8_t)(k >> 24)}, 1, 1);
        break;
    case KERNEL_BIG:
    case KERNEL_HUGE:
        for (uint32_t i = 0; i < count; i++)
            words[i] = i * 2654435761u;
        words[k * 7 % count] = k; /* two launches may differ anywhere */
        argument(a, &dst, 8, 8);
        argument(a, &src, 8, 8);
        argument(a, &n, 4, 4);
        argument(a, words, count * 4, 4);
        argument(a, &k, 4, 4);
        break;
    default:
        break;
    }
}

/* By its number, for headers may lack the name. */
static void numbered(CUlaunchAttribute *to, unsigned id, unsigned value)
{
    to->id = (CUlaunchAttributeID)id;
    memcpy(&to->value, &value, sizeof value);
}

static unsigned attributes(CUlaunchAttribute *to, int which)
{
    unsigned n = 0;
    memset(to, 0x5a, ATTR_MOST * sizeof *to); /* what is no part of a value must not matter */
    if (which & ATTR_PRIORITY) {
        to[n].id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
        to[n++].value.priority = -1;
    }
    if (which & ATTR_COOPERATIVE) {
        to[n].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
        to[n++].value.cooperative = 1;
    }
    if (which & ATTR_DOMAIN) {
        to[n].id = CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN;
        to[n++].value.memSyncDomain = CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE;
    }
    if (which & ATTR_IGNORE)
        to[n++].id = CU_LAUNCH_ATTRIBUTE_IGNORE;
    if (which & ATTR_CLUSTER) {
        to[n].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        to[n].value.clusterDim.x = to[n].value.clusterDim.y = to[n].value.clusterDim.z = 1;
        n++;
    }
    if (which & ATTR_PROGRAMMATIC) {
        to[n].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        to[n++].value.programmaticStreamSerializationAllowed = 1;
    }
    if (which & ATTR_NVLINK)
        numbered(&to[n++], 16, 1);
    if (which & ATTR_PREFERRED) {
        const unsigned size[] = {1, 1, 1};
        memcpy(&to[n].value, size, sizeof size);
        to[n++].id = (CUlaunchAttributeID)11;
    }
    if (which & ATTR_CLUSTER_MODE)
        numbered(&to[n++], 17, 2);
    if (which & ATTR_SHARED_MODE)
        numbered(&to[n++], 18, 2);
    return n;
}

CUresult op_launch(struct thread *t, struct lane *l, const struct statement *s, CUdeviceptr dst,
                   CUdeviceptr src, uint32_t k)
{
    const struct world *w = t->world;
    struct arguments a;
    bool own = s->n == KERNEL_LAYOUTS && !l->capturing; /* a graph may outlive the module */
    enum kernel_layout layout = own                     ? kernel_variant_layout[l->variant]
                                : s->n < KERNEL_LAYOUTS ? (enum kernel_layout)s->n
                                                        : KERNEL_PLAIN;
    uint32_t n = (uint32_t)clamp(s->size == 0 ? BUFFER_WORDS : s->size, 0, BUFFER_WORDS);
    arguments_make(&a, layout, dst, src, n, k);
    unsigned grid = s->grid == 0 ? 1 : (unsigned)s->grid % 1000,
             grid_y = s->grid == 0 ? 1 : (unsigned)s->grid / 1000 + 1,
             block = s->block == 0 ? 32 : (unsigned)s->block;
    CUfunction f = own ? l->own : l->context->function[layout];
    if (!own && (s->how == LAUNCH_HANDLE || s->how == LAUNCH_HANDLE_EX))
        f = (CUfunction)w->kernel[layout];
    t->world->ops++;
    CUresult result;
    if (s->how == LAUNCH_EX || s->how == LAUNCH_HANDLE_EX) {
        CUlaunchAttribute attrs[ATTR_MOST];
        CUlaunchConfig config = {
            .gridDimX = grid,
            .gridDimY = grid_y,
            .gridDimZ = 1,
            .blockDimX = block,
            .blockDimY = 1,
            .blockDimZ = 1,
            .sharedMemBytes = (unsigned)s->shared,
            .hStream = l->stream,
            .attrs = attrs,
            .numAttrs = attributes(attrs, s->attrs),
        };
        result = l->api->cuLaunchKernelEx(&config, f, a.params, NULL);
        memset(attrs, 0xee, sizeof attrs);
    } else if (s->how == LAUNCH_COOPERATIVE) {
        result = l->api->cuLaunchCooperativeKernel(f, grid, grid_y, 1, block, 1, 1,
                                                   (unsigned)s->shared, l->stream, a.params);
    } else if (s->how == LAUNCH_EXTRA && a.count != 0) {
        void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, a.bytes, CU_LAUNCH_PARAM_BUFFER_SIZE,
                         &a.size, CU_LAUNCH_PARAM_END};
        result = l->api->cuLaunchKernel(f, grid, grid_y, 1, block, 1, 1, (unsigned)s->shared,
                                        l->stream, NULL, extra);
    } else {
        result = l->api->cuLaunchKernel(f, grid, grid_y, 1, block, 1, 1, (unsigned)s->shared,
                                        l->stream, a.params, NULL);
    }
    memset(a.bytes, 0xee, sizeof a.bytes); /* arguments are those at the time of the call */
    memset(a.params, 0xee, sizeof a.params);
    return result;
}

static void kernel(struct thread *t, struct lane *l, const struct statement *s)
{
    struct statement now = shape_now(t, l, s);
    int dst = s->dst, src = s->src;
    bool odd = t->depth > 0 && t->trip[t->depth - 1] & 1;
    if (s->more & 1 && odd) {
        dst = s->src;
        src = s->dst;
    }
    if (s->more & 2 && odd)
        now.attrs = s->attrs == ATTR_COOPERATIVE ? ATTR_DOMAIN : ATTR_COOPERATIVE;
    CUresult result =
        op_launch(t, l, &now, lane_buffer(l, dst), lane_buffer(l, src), op_value(t, l, s));
    if (s->attrs != 0 || (s->n == KERNEL_LAYOUTS && now.shared != 0))
        note(t, result, "kernel"); /* may fail, for the lane's limit or what the device can do */
    else
        must_succeed(t, result, "kernel");
}

/* -- Memsets -------------------------------------------------------------- */

static void memset_op(struct thread *t, struct lane *l, const struct statement *said)
{
    const struct statement now = shape_now(t, l, said), *s = &now;
    int at, size;
    range(s, &at, &size);
    uint32_t k = op_value(t, l, s) * 2654435761u;
    CUdeviceptr to = word(memory(l, s->dst), at);
    const struct api *call = l->api;
    t->world->ops++;
    if (s->how == 2 && l->kind != LANE_NONBLOCKING && !l->capturing) {
        if (s->n == 1)
            MUST(t, synchronous(l)->cuMemsetD8(to, (unsigned char)k, (size_t)size * 4));
        else
            MUST(t, synchronous(l)->cuMemsetD32(to, k, (size_t)size));
    } else if (s->how == 1 && size > 4) {
        size_t rows = (size_t)size / 4; /* of 16 bytes, half of which is written */
        if (s->n == 1)
            MUST(t, call->cuMemsetD2D8Async(to, 16, (unsigned char)k, 8, rows, l->stream));
        else if (s->n == 2)
            MUST(t, call->cuMemsetD2D16Async(to, 16, (unsigned short)k, 4, rows, l->stream));
        else
            MUST(t, call->cuMemsetD2D32Async(to, 16, k, 2, rows, l->stream));
    } else if (s->n == 1) {
        MUST(t, call->cuMemsetD8Async(to, (unsigned char)k, (size_t)size * 4, l->stream));
    } else if (s->n == 2) {
        MUST(t, call->cuMemsetD16Async(to, (unsigned short)k, (size_t)size * 2, l->stream));
    } else {
        MUST(t, call->cuMemsetD32Async(to, k, (size_t)size, l->stream));
    }
}

/* -- Copies --------------------------------------------------------------- */

static void fill(uint32_t *words, uint32_t k)
{
    for (uint32_t i = 0; i < BUFFER_WORDS; i++)
        words[i] = (k + i) * 2654435761u;
}

/* Pageable memory, which the call has read when it returns: some words or, with mode 1, so many
   that they may be too many to be held; then some of these go on to where the statement says. */
static void upload(struct thread *t, struct lane *l, const struct statement *s, uint32_t k,
                   CUdeviceptr to, int at, size_t bytes)
{
    static const uint32_t sizes[] = {LARGE_WORDS, 1 << 8, (1 << 8) - 1, 1 << 6};
    const struct api *call = l->api;
    if (s->mode != 1) {
        fill(l->pageable, k);
        MUST(t, call->cuMemcpyHtoDAsync(to, l->pageable + at, bytes, l->stream));
        fill(l->pageable, ~k);
        return;
    }
    uint32_t size = sizes[k % 4], from = k / 4 % (size - BUFFER_WORDS);
    fill(l->heap + from, k);
    MUST(t, call->cuMemcpyHtoDAsync(l->large, l->heap, size * sizeof *l->heap, l->stream));
    fill(l->heap + from, ~k);
    MUST(t, call->cuMemcpyDtoDAsync(to, word(l->large, (int)from), bytes, l->stream));
}

static void copy(struct thread *t, struct lane *l, const struct statement *said)
{
    const struct statement now = shape_now(t, l, said), *s = &now;
    int at, size, how = s->how;
    range(s, &at, &size);
    size_t bytes = (size_t)size * 4;
    CUdeviceptr to = memory(l, s->dst), from = memory(l, s->src);
    if (to == from)
        from = to == l->a ? l->b : l->a;
    to = word(to, at);
    from = word(from, at);
    uint32_t k = op_value(t, l, s);
    const struct api *call = l->api;
    if ((how == COPY_DTOD_SYNC || how == COPY_HTOD_SYNC) &&
        (l->kind == LANE_NONBLOCKING || l->capturing))
        how = COPY_DTOD;
    if (how == COPY_HTOD_PAGEABLE && l->capturing)
        how = COPY_HTOD_PINNED;
    t->world->ops++;
    switch (how) {
    case COPY_HTOD_PINNED:
        MUST(t, call->cuMemcpyHtoDAsync(to, l->pinned + PINNED_SOURCE * BUFFER_WORDS + at, bytes,
                                        l->stream));
        break;
    case COPY_HTOD_PAGEABLE:
        upload(t, l, s, k, to, at, bytes);
        break;
    case COPY_DTOH:
        MUST(t, call->cuMemcpyDtoHAsync(l->pinned + PINNED_TARGET * BUFFER_WORDS + at, from, bytes,
                                        l->stream));
        break;
    case COPY_UNIFIED:
        MUST(t, call->cuMemcpyAsync(to, from, bytes, l->stream));
        break;
    case COPY_2D: {
        CUDA_MEMCPY2D c = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                           .srcDevice = from,
                           .srcPitch = 16,
                           .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = to,
                           .dstPitch = 16,
                           .WidthInBytes = size < 4 ? bytes : 12,
                           .Height = size < 4 ? 1 : (size_t)size / 4};
        MUST(t, call->cuMemcpy2DAsync(&c, l->stream));
        memset(&c, 0xee, sizeof c);
        break;
    }
    case COPY_3D: {
        CUDA_MEMCPY3D c = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                           .srcDevice = from,
                           .srcPitch = 8,
                           .srcHeight = 2,
                           .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = to,
                           .dstPitch = 8,
                           .dstHeight = 2,
                           .WidthInBytes = 4,
                           .Height = size < 4 ? 1 : 2,
                           .Depth = size < 4 ? 1 : (size_t)size / 4};
        MUST(t, call->cuMemcpy3DAsync(&c, l->stream));
        memset(&c, 0xee, sizeof c);
        break;
    }
    case COPY_DTOD_SYNC:
        MUST(t, synchronous(l)->cuMemcpyDtoD(to, from, bytes));
        break;
    case COPY_HTOD_SYNC:
        fill(l->pageable, k);
        MUST(t, synchronous(l)->cuMemcpyHtoD(to, l->pageable + at, bytes));
        fill(l->pageable, ~k);
        break;
    default:
        MUST(t, call->cuMemcpyDtoDAsync(to, from, bytes, l->stream));
        break;
    }
}

/* -- Host functions ------------------------------------------------------- */

struct record {
    struct record *next;
    uint32_t *words;
    uint32_t k;
};

static void CUDA_CB host_function(void *of)
{
    const struct record *record = of;
    for (uint32_t i = 0; i < BUFFER_WORDS; i++)
        record->words[i] = record->words[i] * 33 + record->k + i;
}

static void CUDA_CB host_callback(CUstream stream, CUresult result, void *of)
{
    (void)stream;
    if (result == CUDA_SUCCESS)
        host_function(of);
}

void lane_free_records(struct lane *l)
{
    while (l->records != NULL) {
        struct record *next = l->records->next;
        free(l->records);
        l->records = next;
    }
}

static void host(struct thread *t, struct lane *l, const struct statement *s)
{
    struct record *record = malloc(sizeof *record);
    if (record == NULL)
        abort();
    *record =
        (struct record){l->records, l->pinned + PINNED_SOURCE * BUFFER_WORDS, op_value(t, l, s)};
    l->records = record;
    t->world->ops++;
    if (s->how == 1 && !l->capturing)
        MUST(t, l->api->cuStreamAddCallback(l->stream, host_callback, record, 0));
    else
        MUST(t, l->api->cuLaunchHostFunc(l->stream, host_function, record));
}

/* -- Calls that fail -------------------------------------------------------- */

static void fail(struct thread *t, struct lane *l, const struct statement *s)
{
    struct arguments a;
    arguments_make(&a, KERNEL_PLAIN, l->state, l->a, BUFFER_WORDS, (uint32_t)s->k);
    CUfunction f = s->how == FAIL_FUNCTION ? NULL : l->context->function[KERNEL_PLAIN];
    unsigned grid = s->how == FAIL_GRID ? 0 : 1, block = s->how == FAIL_BLOCK ? 2048 : 32,
             shared = s->how == FAIL_SHARED ? 300000 : 0;
    CUstream stream = l->stream;
    CUresult result;
    switch (s->how) {
    case FAIL_MEMSET:
        result = l->api->cuMemsetD32Async(16, 1, BUFFER_WORDS, stream);
        break;
    case FAIL_COPY:
        result = l->api->cuMemcpyDtoDAsync(l->state, 16, 64, stream);
        break;
    case FAIL_STREAM: /* a real driver follows the pointer */
        if (t->world->gpu)
            return;
        stream = (CUstream)(uintptr_t)0x1230;
        /* fall through */
    default:
        result = l->api->cuLaunchKernel(f, grid, 1, 1, block, 1, 1, shared, stream, a.params, NULL);
    }
    note(t, result, "a call that must fail");
    if (result == CUDA_SUCCESS)
        must_succeed(t, CUDA_ERROR_UNKNOWN, "a call that must fail does not");
}

/* -- The lane's own memory and module --------------------------------------- */

static void reload(struct thread *t, struct lane *l, const struct statement *s)
{
    if (s->more != 1 || t->world->gpu)
        MUST(t, l->api->cuStreamSynchronize(l->stream));
    MUST(t, l->api->cuModuleUnload(l->own_module));
    own_load(t, l, clamp(s->n, 0, KERNEL_VARIANTS - 1));
}

static void realloc_spare(struct thread *t, struct lane *l, const struct statement *s)
{
    MUST(t, l->api->cuMemFree(l->spare));
    MUST(t, l->api->cuMemAlloc(&l->spare, BUFFER_WORDS * 4));
    MUST(t, l->api->cuMemsetD32Async(l->spare, op_value(t, l, s), BUFFER_WORDS, l->stream));
}

/* None of them changes a result. A new size of stacks waits for running kernels, which may wait for
   other threads; behind a lesser one an exec of the program's own fails (H200). */
static void setting(struct thread *t, struct lane *l, const struct statement *s)
{
    const CUfunc_cache cache = (CUfunc_cache)s->n;
    switch (s->how) {
    case SETTING_CARVEOUT:
        NOTE(t, l->api->cuFuncSetAttribute(
                    l->own, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 25 * s->n));
        break;
    case SETTING_CACHE:
        NOTE(t, l->api->cuFuncSetCacheConfig(l->own, cache));
        break;
    case SETTING_NONPORTABLE:
        NOTE(t, l->api->cuFuncSetAttribute(
                    l->own, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, s->n % 2));
        break;
    case SETTING_CONTEXT_CACHE:
        NOTE(t, l->api->cuCtxSetCacheConfig(cache));
        break;
    case SETTING_STACK: {
        size_t now = 0;
        MUST(t, l->api->cuCtxGetLimit(&now, CU_LIMIT_STACK_SIZE));
        if (t->world->nthreads == 1 && 1024u << s->n > now)
            NOTE(t, l->api->cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024u << s->n));
        break;
    }
    default:
        break;
    }
}

void op_run(struct thread *t, struct lane *l, const struct statement *s)
{
    if (l->capturing && s->kind != S_KERNEL && s->kind != S_MEMSET && s->kind != S_COPY &&
        s->kind != S_HOST)
        return;
    bool copies = s->kind == S_COPY || s->kind == S_MEMSET;
    t->may_fail = copies && (access_is_in(l, s->dst) || access_is_in(l, s->src));
    switch (s->kind) {
    case S_KERNEL:
        kernel(t, l, s);
        break;
    case S_MEMSET:
        memset_op(t, l, s);
        break;
    case S_COPY:
        copy(t, l, s);
        break;
    case S_HOST:
        host(t, l, s);
        break;
    case S_VALUE: {
        int at, size;
        range(s, &at, &size);
        if (!access_takes_words(l, s->dst))
            break;
        t->world->ops++;
        CUresult result = l->api->cuStreamWriteValue32(l->stream, word(memory(l, s->dst), at),
                                                       op_value(t, l, s), 0);
        if (s->dst == BUFFER_TEMP ||
            s->dst == BUFFER_MAPPED) /* a driver may refuse stream-ordered memory */
            note(t, result, "cuStreamWriteValue32");
        else
            must_succeed(t, result, "cuStreamWriteValue32");
        break;
    }
    case S_FAIL:
        fail(t, l, s);
        break;
    case S_LIMIT:
        NOTE(t, l->api->cuFuncSetAttribute(l->own, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                           s->n));
        break;
    case S_SETTING:
        setting(t, l, s);
        break;
    case S_RELOAD:
        reload(t, l, s);
        break;
    case S_REALLOC:
        realloc_spare(t, l, s);
        break;
    case S_ACCESS:
        access_run(t, l, s);
        break;
    default:
        break;
    }
    t->may_fail = false;
}
