/* SPDX-License-Identifier: MIT */
/* copy.c: memsets and copies. Pageable sources are read during the call, larger
 * ones behind what the stream has been given; pageable destinations are written
 * before the call returns, pinned memory is touched when the operation executes. */
#include "sim.h"

/* -- Memsets -- */

/* The device that memory belongs to; -1: none. */
static int owner_of(CUdeviceptr p)
{
    struct alloc *a = alloc_find(p, 1);
    return a ? a->device : -1;
}

/* The context that memory was allocated in; a pool's belongs to none. */
static struct ctx *context_of(CUdeviceptr p)
{
    struct alloc *a = alloc_find(p, 1);
    return a && !a->pool ? a->ctx : NULL;
}

/* Memory of a pool and other memory cannot take each other's place in a copy node (driver 580). */
static bool pooled(CUdeviceptr p)
{
    struct alloc *a = alloc_find(p, 1);
    return a && a->pool;
}

CUresult memset_prepare(struct work *w, CUdeviceptr dst, size_t pitch, unsigned value,
                        unsigned elem, size_t width, size_t height)
{
    if ((elem != 1 && elem != 2 && elem != 4) || dst % elem ||
        (height > 1 && (pitch % elem || pitch < width * elem)))
        return CUDA_ERROR_INVALID_VALUE;
    if (width && height && !range_is_device(dst, (height - 1) * pitch + width * elem))
        return CUDA_ERROR_INVALID_VALUE;
    *w = (struct work){.kind = WORK_MEMSET,
                       .memset = {.dst = dst,
                                  .pitch = pitch,
                                  .value = elem == 1   ? value & 0xff
                                           : elem == 2 ? value & 0xffff
                                                       : value,
                                  .elem = elem,
                                  .device = owner_of(dst),
                                  .owner = context_of(dst),
                                  .width = width,
                                  .height = height}};
    return CUDA_SUCCESS;
}

/* Whether the memory, or the context of the stream, has synchronous calls wait in any case. */
static bool synchronizes(const struct stream *s, uintptr_t at)
{
    const struct alloc *a = alloc_find(at, 1);
    return s->ctx->flags & CU_CTX_SYNC_MEMOPS || (a && a->synchronizes);
}

/* A memset of host memory is complete when the call returns. */
static CUresult do_memset(CUdeviceptr dst, size_t pitch, unsigned value, unsigned elem,
                          size_t width, size_t height, CUstream stream, bool sync)
{
    struct stream *s;
    struct work w;
    sim_lock();
    CUresult r = stream_get(stream, &s);
    if (r == CUDA_SUCCESS)
        r = memset_prepare(&w, dst, pitch, value, elem, width, height);
    if (r == CUDA_SUCCESS && !work_is_open(&w, s->ctx->device))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS && width && height) {
        w.memset.ctx = s->ctx;
        bool wait = sync && (alloc_find(dst, 1)->kind != ALLOC_DEVICE || synchronizes(s, dst));
        r = stream_submit(s, &w);
        if (r == CUDA_SUCCESS && wait)
            stream_synchronize(s);
    }
    sim_unlock();
    return r;
}

#define MEMSET(bits, type)                                                                         \
    CUresult sim_cuMemsetD##bits##_v2(CUdeviceptr dst, type v, size_t n)                           \
    {                                                                                              \
        return do_memset(dst, n * (bits / 8), v, bits / 8, n, 1, NULL, true);                      \
    }                                                                                              \
    CUresult sim_cuMemsetD##bits##Async(CUdeviceptr dst, type v, size_t n, CUstream s)             \
    {                                                                                              \
        return do_memset(dst, n * (bits / 8), v, bits / 8, n, 1, s, false);                        \
    }                                                                                              \
    CUresult sim_cuMemsetD2D##bits##_v2(CUdeviceptr dst, size_t pitch, type v, size_t w, size_t h) \
    {                                                                                              \
        return do_memset(dst, pitch, v, bits / 8, w, h, NULL, true);                               \
    }                                                                                              \
    CUresult sim_cuMemsetD2D##bits##Async(CUdeviceptr dst, size_t pitch, type v, size_t w,         \
                                          size_t h, CUstream s)                                    \
    {                                                                                              \
        return do_memset(dst, pitch, v, bits / 8, w, h, s, false);                                 \
    }
MEMSET(8, unsigned char)
MEMSET(16, unsigned short)
MEMSET(32, unsigned)

/* -- Copies -- */

/* Checks one side: everything that it touches must be what its type says. */
static CUresult side_check(struct copy_side *s, const struct work *w, bool *pageable)
{
    if (s->type == CU_MEMORYTYPE_UNIFIED)
        s->type = range_is_device(s->base, 1) ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
    if (s->type != CU_MEMORYTYPE_DEVICE && s->type != CU_MEMORYTYPE_HOST)
        return s->type == CU_MEMORYTYPE_ARRAY ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
    if (!s->pitch)
        s->pitch = w->copy.width + s->x;
    if (!s->rows)
        s->rows = w->copy.height + s->y;
    if (s->pitch < w->copy.width + s->x || (w->copy.depth > 1 && s->rows < w->copy.height + s->y))
        return CUDA_ERROR_INVALID_VALUE;
    char *first = copy_row(s, 0, 0), *last = copy_row(s, w->copy.height - 1, w->copy.depth - 1);
    size_t span = (size_t)(last - first) + w->copy.width;
    *pageable = s->type == CU_MEMORYTYPE_HOST && !range_is_device((uintptr_t)first, span);
    if (s->type == CU_MEMORYTYPE_DEVICE && !range_is_device((uintptr_t)first, span))
        return CUDA_ERROR_INVALID_VALUE;
    s->device = owner_of(s->base);
    s->owner = context_of(s->base);
    s->pooled = pooled(s->base);
    return s->base ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static uintptr_t side_base(CUmemorytype type, const void *host, CUdeviceptr device)
{
    return type == CU_MEMORYTYPE_HOST ? (uintptr_t)host : (uintptr_t)device;
}

CUresult copy_prepare(struct work *w, const CUDA_MEMCPY3D *c)
{
    *w = (struct work){
        .kind = WORK_COPY,
        .copy = {.src = {.type = c->srcMemoryType,
                         .base = side_base(c->srcMemoryType, c->srcHost, c->srcDevice),
                         .x = c->srcXInBytes,
                         .y = c->srcY,
                         .z = c->srcZ,
                         .pitch = c->srcPitch,
                         .rows = c->srcHeight},
                 .dst = {.type = c->dstMemoryType,
                         .base = side_base(c->dstMemoryType, c->dstHost, c->dstDevice),
                         .x = c->dstXInBytes,
                         .y = c->dstY,
                         .z = c->dstZ,
                         .pitch = c->dstPitch,
                         .rows = c->dstHeight},
                 .width = c->WidthInBytes,
                 .height = c->Height,
                 .depth = c->Depth}};
    if (c->srcLOD || c->dstLOD)
        return CUDA_ERROR_INVALID_VALUE;
    if (!w->copy.width || !w->copy.height || !w->copy.depth)
        return CUDA_SUCCESS;
    CUresult r = side_check(&w->copy.src, w, &w->copy.pageable_src);
    if (r == CUDA_SUCCESS)
        r = side_check(&w->copy.dst, w, &w->copy.pageable_dst);
    bool host = w->copy.src.type == CU_MEMORYTYPE_HOST || w->copy.dst.type == CU_MEMORYTYPE_HOST;
    if (r == CUDA_SUCCESS && host && !w->copy.pageable_src && !w->copy.pageable_dst) {
        w->copy.src_id = alloc_find((uintptr_t)copy_row(&w->copy.src, 0, 0), 1)->id;
        w->copy.dst_id = alloc_find((uintptr_t)copy_row(&w->copy.dst, 0, 0), 1)->id;
    }
    return r;
}

static bool side_is_stale(const struct copy_side *s, uint64_t id)
{
    const struct alloc *a = alloc_find((uintptr_t)copy_row(s, 0, 0), 1);
    bool pool = a && a->pool; /* its memory stays mapped */
    return id && !pool && (!a || a->id != id);
}

bool copy_is_stale(const struct work *w)
{
    return side_is_stale(&w->copy.src, w->copy.src_id) ||
           side_is_stale(&w->copy.dst, w->copy.dst_id);
}

enum { AT_ONCE = 64 << 10 }; /* bytes: the call does not wait for its stream (driver 580) */

static CUresult read_now(struct work *w)
{
    size_t row = w->copy.width;
    unsigned char *to = malloc(row * w->copy.height * w->copy.depth);
    if (!to)
        return CUDA_ERROR_OUT_OF_MEMORY;
    w->copy.staging = to;
    for (size_t z = 0; z < w->copy.depth; z++)
        for (size_t y = 0; y < w->copy.height; y++, to += row)
            memcpy(to, copy_row(&w->copy.src, y, z), row);
    return CUDA_SUCCESS;
}

/* A copy between two devices in the default stream comes behind all work of both (CUDA Programming
   Guide, "Peer-to-Peer Memory Copy"). */
static bool waits_for_both(const struct stream *s, const struct work *w)
{
    const struct copy_side *src = &w->copy.src, *dst = &w->copy.dst;
    return !s->capture && s == s->ctx->legacy && src->type == CU_MEMORYTYPE_DEVICE &&
           dst->type == CU_MEMORYTYPE_DEVICE && src->device != dst->device;
}

static CUresult submit_behind_both(struct stream *s, struct work *w)
{
    enum { MOST = 256 }; /* no test has more streams */
    struct dep deps[MOST];
    unsigned n = 0;
    for (struct ctx *ctx = NULL; (ctx = obj_next(OBJ_CTX, ctx));)
        if (ctx->device == w->copy.src.device || ctx->device == w->copy.dst.device)
            for (struct stream *t = ctx->streams; t && n < MOST; t = t->next_in_ctx)
                if (t != s)
                    deps[n++] = (struct dep){.stream = t, .seq = t->submitted};
    return stream_enqueue(s, w, deps, n);
}

/* Whether a side is memory of the host, also where the call says only that it is some memory. */
static bool is_of_host(const struct copy_side *s)
{
    const struct alloc *a = alloc_find(s->base, 1);
    return s->type == CU_MEMORYTYPE_HOST ||
           (a && (a->kind == ALLOC_HOST || a->kind == ALLOC_REGISTERED));
}

/* Pageable memory is read and written by the calling thread, which has no lock then: a fault is the
   program's, whose handler may jump away or call the driver. What follows finds the memory good. */
static void touch_pageable(const struct work *w)
{
    enum { PAGE = 4096 };
    const struct copy_side *side = w->copy.pageable_src ? &w->copy.src : &w->copy.dst;
    if ((!w->copy.pageable_src && !w->copy.pageable_dst) || w->copy.height * w->copy.depth != 1)
        return;
    sim_unlock();
    for (size_t i = 0; i < w->copy.width;
         i += i + PAGE < w->copy.width ? PAGE : w->copy.width - i) {
        unsigned char *at = (unsigned char *)side->base + side->x + i;
        unsigned char is = *(volatile unsigned char *)at;
        if (w->copy.pageable_dst)
            (void)__atomic_compare_exchange_n(at, &is, is, false, __ATOMIC_RELAXED,
                                              __ATOMIC_RELAXED);
    }
    sim_lock();
}

static CUresult do_copy(const CUDA_MEMCPY3D *c, CUstream stream, bool sync)
{
    struct stream *s;
    struct work w;
    sim_lock();
    CUresult r = stream_get(stream, &s);
    if (r == CUDA_SUCCESS)
        r = copy_prepare(&w, c);
    bool some = r == CUDA_SUCCESS && w.copy.width && w.copy.height && w.copy.depth;
    if (some && !work_is_open(&w, s->ctx->device))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS && sync && s->capture)
        r = stream_check_sync(s);
    if (r != CUDA_SUCCESS || !some) {
        sim_unlock();
        return r;
    }
    w.copy.ctx = ctx_handle(s->ctx);
    if (s->capture && (w.copy.pageable_src || w.copy.pageable_dst)) {
        /* Legal: the node reads or writes the memory when the graph executes. */
        r = capture_add(s, &w);
        sim_unlock();
        return r;
    }
    touch_pageable(&w);
    bool touches_host = is_of_host(&w.copy.src) || is_of_host(&w.copy.dst);
    bool waits = synchronizes(s, w.copy.src.base) || synchronizes(s, w.copy.dst.base);
    bool wait = w.copy.pageable_dst || (sync && (touches_host || waits));
    if (w.copy.pageable_src && w.copy.width * w.copy.height * w.copy.depth > AT_ONCE)
        stream_synchronize(s);
    if (w.copy.pageable_src)
        r = read_now(&w);
    if (r == CUDA_SUCCESS)
        r = waits_for_both(s, &w) ? submit_behind_both(s, &w) : stream_submit(s, &w);
    if (r == CUDA_SUCCESS && wait)
        stream_synchronize(s);
    sim_unlock();
    return r;
}

static CUresult copy_1d(CUmemorytype dst_type, uintptr_t dst, CUmemorytype src_type, uintptr_t src,
                        size_t n, CUstream stream, bool sync)
{
    CUDA_MEMCPY3D c = {.srcMemoryType = src_type,
                       .srcHost = (const void *)src,
                       .srcDevice = src,
                       .dstMemoryType = dst_type,
                       .dstHost = (void *)dst,
                       .dstDevice = dst,
                       .WidthInBytes = n,
                       .Height = 1,
                       .Depth = 1};
    return do_copy(&c, stream, sync);
}

#define HOST    CU_MEMORYTYPE_HOST
#define DEVICE  CU_MEMORYTYPE_DEVICE
#define UNIFIED CU_MEMORYTYPE_UNIFIED

CUresult sim_cuMemcpyHtoD_v2(CUdeviceptr dst, const void *src, size_t n)
{
    return copy_1d(DEVICE, dst, HOST, (uintptr_t)src, n, NULL, true);
}

CUresult sim_cuMemcpyDtoH_v2(void *dst, CUdeviceptr src, size_t n)
{
    return copy_1d(HOST, (uintptr_t)dst, DEVICE, src, n, NULL, true);
}

CUresult sim_cuMemcpyDtoD_v2(CUdeviceptr dst, CUdeviceptr src, size_t n)
{
    return copy_1d(DEVICE, dst, DEVICE, src, n, NULL, true);
}

CUresult sim_cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t n)
{
    return copy_1d(UNIFIED, dst, UNIFIED, src, n, NULL, true);
}

CUresult sim_cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t n, CUstream s)
{
    return copy_1d(DEVICE, dst, HOST, (uintptr_t)src, n, s, false);
}

CUresult sim_cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t n, CUstream s)
{
    return copy_1d(HOST, (uintptr_t)dst, DEVICE, src, n, s, false);
}

CUresult sim_cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream s)
{
    return copy_1d(DEVICE, dst, DEVICE, src, n, s, false);
}

CUresult sim_cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream s)
{
    return copy_1d(UNIFIED, dst, UNIFIED, src, n, s, false);
}

/* The hints change nothing here. */
CUresult sim_cuMemcpyWithAttributesAsync(CUdeviceptr dst, CUdeviceptr src, size_t n,
                                         CUmemcpyAttributes *attributes, CUstream s)
{
    return attributes ? sim_cuMemcpyAsync(dst, src, n, s) : CUDA_ERROR_INVALID_VALUE;
}

static CUresult copy_peer(CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx,
                          size_t n, CUstream stream, bool sync)
{
    struct ctx *c;
    sim_lock();
    CUresult r = ctx_get(dst_ctx, &c);
    if (r == CUDA_SUCCESS)
        r = ctx_get(src_ctx, &c);
    sim_unlock();
    return r == CUDA_SUCCESS ? copy_1d(DEVICE, dst, DEVICE, src, n, stream, sync) : r;
}

CUresult sim_cuMemcpyPeer(CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx,
                          size_t n)
{
    return copy_peer(dst, dst_ctx, src, src_ctx, n, NULL, true);
}

CUresult sim_cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src,
                               CUcontext src_ctx, size_t n, CUstream s)
{
    return copy_peer(dst, dst_ctx, src, src_ctx, n, s, false);
}

static CUresult copy_2d(const CUDA_MEMCPY2D *c, CUstream stream, bool sync)
{
    if (!c)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_MEMCPY3D d = {.srcXInBytes = c->srcXInBytes,
                       .srcY = c->srcY,
                       .srcMemoryType = c->srcMemoryType,
                       .srcHost = c->srcHost,
                       .srcDevice = c->srcDevice,
                       .srcPitch = c->srcPitch,
                       .dstXInBytes = c->dstXInBytes,
                       .dstY = c->dstY,
                       .dstMemoryType = c->dstMemoryType,
                       .dstHost = c->dstHost,
                       .dstDevice = c->dstDevice,
                       .dstPitch = c->dstPitch,
                       .WidthInBytes = c->WidthInBytes,
                       .Height = c->Height,
                       .Depth = 1};
    return do_copy(&d, stream, sync);
}

CUresult sim_cuMemcpy2D_v2(const CUDA_MEMCPY2D *c)
{
    return copy_2d(c, NULL, true);
}

CUresult sim_cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *c)
{
    return copy_2d(c, NULL, true);
}

CUresult sim_cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *c, CUstream s)
{
    return copy_2d(c, s, false);
}

CUresult sim_cuMemcpy3D_v2(const CUDA_MEMCPY3D *c)
{
    return c ? do_copy(c, NULL, true) : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *c, CUstream s)
{
    return c ? do_copy(c, s, false) : CUDA_ERROR_INVALID_VALUE;
}
