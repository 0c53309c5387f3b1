/* SPDX-License-Identifier: MIT */
/* pool.c: stream-ordered allocation, memory pools, and what a pointer is. */
#include "sim.h"

#include "graph.h"

/* Memory that cuMemFreeAsync gave back is, until the free has executed, there
 * for allocations in the same stream (memory.c keeps the table), and with
 * AGSIM_REUSE in others of the context. */
static struct alloc *reuse(struct stream *s, size_t size)
{
    for (unsigned i = 0; i < alloc_count(); i++) {
        struct alloc *a = alloc_at(i);
        if (a->freed && a->pool && !a->graph && a->free_stream &&
            a->free_gen == a->free_stream->o.gen &&
            (a->free_stream == s || (sim.reuse && a->free_stream->ctx == s->ctx)) &&
            a->capacity >= size && a->capacity / 2 <= size + 512)
            return a;
    }
    return NULL;
}

/* *behind: what the allocation has to come behind, if that is in another stream. */
static CUresult alloc_stream_ordered(struct stream *s, size_t size, struct pool *pool,
                                     struct alloc **out, struct dep *behind)
{
    struct alloc *a = reuse(s, size);
    *behind = (struct dep){0};
    if (a && a->free_stream != s)
        *behind = (struct dep){.stream = a->free_stream, .seq = a->free_stream->submitted};
    if (!a) {
        CUresult r = alloc_new(s->ctx, ALLOC_DEVICE, size, &a);
        if (r != CUDA_SUCCESS)
            return r;
        a->pool = pool;
        pool->used += a->capacity;
        if (pool->used > pool->used_high)
            pool->used_high = pool->used;
    }
    alloc_reborn(a, size);
    *out = a;
    return CUDA_SUCCESS;
}

static struct pool *default_pool(int device)
{
    struct device *d = &sim.devices[device];
    if (!d->default_pool && (d->default_pool = obj_new(OBJ_POOL))) {
        d->default_pool->device = device;
        d->pool = d->default_pool;
    }
    return d->pool;
}

static struct pool *pool_current(int device)
{
    default_pool(device);
    return sim.devices[device].pool;
}

static CUresult alloc_async(CUdeviceptr *out, size_t size, CUmemoryPool handle, bool named,
                            CUstream stream)
{
    struct stream *s;
    struct alloc *a;
    struct dep behind;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!size) {
        *out = 0;
        return CUDA_SUCCESS;
    }
    sim_lock();
    CUresult r = stream_get(stream, &s);
    struct pool *pool = NULL;
    if (r == CUDA_SUCCESS) {
        pool = named ? obj_get(OBJ_POOL, handle) : pool_current(s->ctx->device);
        if (!pool)
            r = named ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (r == CUDA_SUCCESS && !s->capture)
        r = capture_check_legacy(s);
    if (r == CUDA_SUCCESS)
        r = alloc_stream_ordered(s, size, pool, &a, &behind);
    if (r == CUDA_SUCCESS) {
        struct work w = {.kind = WORK_ALLOC, .mem = {.ptr = a->base, .size = size, .id = a->id}};
        CUdeviceptr p = a->base;
        a->graph = w.mem.of_graph = s->capture != NULL;
        a->holders = a->graph;
        r = s->capture ? capture_add(s, &w) : stream_enqueue(s, &w, &behind, behind.stream != NULL);
        if (r == CUDA_SUCCESS)
            *out = p;
    }
    sim_unlock();
    return r;
}

CUresult sim_cuMemAllocAsync(CUdeviceptr *out, size_t size, CUstream stream)
{
    return alloc_async(out, size, NULL, false, stream);
}

CUresult sim_cuMemAllocFromPoolAsync(CUdeviceptr *out, size_t size, CUmemoryPool pool,
                                     CUstream stream)
{
    return alloc_async(out, size, pool, true, stream);
}

CUresult sim_cuMemFreeAsync(CUdeviceptr p, CUstream stream)
{
    struct stream *s;
    sim_lock();
    CUresult r = stream_get(stream, &s);
    struct alloc *a = r == CUDA_SUCCESS ? alloc_find(p, 0) : NULL;
    if (r == CUDA_SUCCESS && (!a || a->base != p || a->memory || a->kind != ALLOC_DEVICE))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS && !s->capture)
        r = capture_check_legacy(s);
    if (r == CUDA_SUCCESS) {
        /* A graph's allocation stays its own: the next launch has it again. */
        struct work w = {.kind = WORK_FREE, .mem = {.ptr = p, .id = a->graph ? 0 : a->id}};
        if (s->capture) {
            r = a->graph ? capture_add(s, &w) : CUDA_ERROR_INVALID_VALUE;
        } else {
            a->freed = !a->graph;
            a->free_stream = s;
            a->free_gen = s->o.gen;
            r = stream_enqueue(s, &w, NULL, 0);
        }
    }
    sim_unlock();
    return r;
}

/* -- Pools -- */

CUresult sim_cuDeviceGetDefaultMemPool(CUmemoryPool *out, CUdevice dev)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (dev < 0 || dev >= sim.ndevices)
        return CUDA_ERROR_INVALID_DEVICE;
    sim_lock();
    default_pool(dev);
    *out = (CUmemoryPool)sim.devices[dev].default_pool;
    sim_unlock();
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_cuDeviceGetMemPool(CUmemoryPool *out, CUdevice dev)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (dev < 0 || dev >= sim.ndevices)
        return CUDA_ERROR_INVALID_DEVICE;
    sim_lock();
    *out = (CUmemoryPool)pool_current(dev);
    sim_unlock();
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_cuDeviceSetMemPool(CUdevice dev, CUmemoryPool handle)
{
    if (dev < 0 || dev >= sim.ndevices)
        return CUDA_ERROR_INVALID_DEVICE;
    sim_lock();
    struct pool *p = obj_get(OBJ_POOL, handle);
    bool ok = p && p->device == dev && default_pool(dev);
    if (ok)
        sim.devices[dev].pool = p;
    sim_unlock();
    return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuMemPoolCreate(CUmemoryPool *out, const CUmemPoolProps *props)
{
    if (!out || !props || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
        props->location.type != CU_MEM_LOCATION_TYPE_DEVICE || props->location.id < 0 ||
        props->location.id >= sim.ndevices)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct pool *p = obj_new(OBJ_POOL);
    if (p) {
        p->device = props->location.id;
        *out = (CUmemoryPool)p;
    }
    sim_unlock();
    return p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_cuMemPoolDestroy(CUmemoryPool handle)
{
    CUresult r = CUDA_SUCCESS;
    sim_lock();
    struct pool *p = obj_get(OBJ_POOL, handle);
    if (!p || p == sim.devices[p->device].default_pool)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS) {
        if (sim.devices[p->device].pool == p)
            sim.devices[p->device].pool = sim.devices[p->device].default_pool;
        for (unsigned i = 0; i < alloc_count(); i++)
            if (alloc_at(i)->pool == p) /* what lives on is freed into no pool */
                alloc_at(i)->pool = default_pool(p->device);
        obj_free(p);
    }
    sim_unlock();
    return r;
}

CUresult sim_cuMemPoolTrimTo(CUmemoryPool handle, size_t keep)
{
    (void)keep;
    sim_lock();
    bool ok = obj_get(OBJ_POOL, handle) != NULL;
    sim_unlock();
    return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* The reuse policies are all on here: what they allow can happen. */
static CUresult pool_attribute(CUmemoryPool handle, CUmemPool_attribute attr, void *value, bool set)
{
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct pool *p = obj_get(OBJ_POOL, handle);
    /* A question, too, ends a capture (H100, driver 580). */
    CUresult r = p ? capture_check_unsafe() : CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS) {
        sim_unlock();
        return r;
    }
    if (attr >= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
        attr <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES) {
        if (!set)
            *(int *)value = 1;
    } else if (attr == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) {
        if (set)
            p->threshold = *(cuuint64_t *)value;
        else
            *(cuuint64_t *)value = p->threshold;
    } else if (!set) {
        *(cuuint64_t *)value =
            attr == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH || attr == CU_MEMPOOL_ATTR_USED_MEM_HIGH
                ? p->used_high
                : p->used;
    } else if (*(cuuint64_t *)value != 0) {
        r = CUDA_ERROR_INVALID_VALUE; /* a high-water mark can only be reset */
    } else {
        p->used_high = p->used;
    }
    sim_unlock();
    return r;
}

CUresult sim_cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    return pool_attribute(pool, attr, value, false);
}

CUresult sim_cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    return pool_attribute(pool, attr, value, true);
}

CUresult sim_cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc *map, size_t n)
{
    sim_lock();
    bool ok = obj_get(OBJ_POOL, handle) != NULL && (map || !n);
    sim_unlock();
    return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* -- What a pointer is -- */

/* Writes one attribute; for memory that is not the driver's, only if plain asks. */
static CUresult pointer_attribute(const struct alloc *a, CUpointer_attribute attr, CUdeviceptr p,
                                  void *out)
{
    bool host = a->kind == ALLOC_HOST || a->kind == ALLOC_REGISTERED;
    struct ctx *ctx;
    switch ((int)attr) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)out = a->pool || a->memory ? NULL : ctx_handle(a->ctx);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)out = host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *(CUdeviceptr *)out = p;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (!host && a->kind != ALLOC_MANAGED)
            return CUDA_ERROR_INVALID_VALUE;
        *(void **)out = (void *)p;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        *(unsigned *)out = a->synchronizes;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        *(unsigned *)out = 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        *(unsigned long long *)out = a->id;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(unsigned *)out = a->kind == ALLOC_MANAGED;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)out = a->device;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(CUdeviceptr *)out = a->base;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)out = a->memory ? range_reserved(p) : a->size; /* more than there is (H100) */
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *(unsigned *)out = 1;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        *(unsigned long long *)out = 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        *(unsigned *)out = alloc_access(a, ctx_current(&ctx) == CUDA_SUCCESS ? ctx->device : 0);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        *(CUdeviceptr *)out = a->base;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        *(size_t *)out = a->size;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *(CUmemoryPool *)out = (CUmemoryPool)a->pool;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult sim_cuPointerGetAttribute(void *out, CUpointer_attribute attr, CUdeviceptr p)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct alloc *a = alloc_find(p, 1);
    CUresult r = a ? pointer_attribute(a, attr, p, out) : CUDA_ERROR_INVALID_VALUE;
    sim_unlock();
    return r;
}

CUresult sim_cuPointerSetAttribute(const void *value, CUpointer_attribute attr, CUdeviceptr p)
{
    if (!value || attr != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct alloc *a = alloc_find(p, 1);
    if (a)
        a->synchronizes = *(const unsigned *)value != 0;
    sim_unlock();
    return a ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuPointerGetAttributes(unsigned n, CUpointer_attribute *attrs, void **out,
                                    CUdeviceptr p)
{
    if (!n || !attrs || !out)
        return CUDA_ERROR_INVALID_VALUE;
    sim_busy(sim.pointer_us);
    sim_lock();
    struct alloc *a = alloc_find(p, 1);
    for (unsigned i = 0; i < n; i++) {
        /* Of memory that is not the driver's: zeros, and success. */
        if (a)
            pointer_attribute(a, attrs[i], p, out[i]);
        else if (attrs[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
            *(int *)out[i] = -2;
        else if (attrs[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE ||
                 attrs[i] == CU_POINTER_ATTRIBUTE_IS_MANAGED ||
                 attrs[i] == CU_POINTER_ATTRIBUTE_MAPPED ||
                 attrs[i] == CU_POINTER_ATTRIBUTE_ACCESS_FLAGS)
            *(unsigned *)out[i] = 0;
        else
            *(void **)out[i] = NULL;
    }
    sim_unlock();
    return CUDA_SUCCESS;
}
