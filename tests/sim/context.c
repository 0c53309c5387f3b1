/* SPDX-License-Identifier: MIT */
/* context.c: contexts, each thread's stack of them, and the driver's lock. */
#include "sim.h"

void sim_lock(void)
{
    pthread_mutex_lock(&sim.lock);
    while (UNLIKELY(sim.frozen))
        pthread_cond_wait(&sim.thaw, &sim.lock);
}

void sim_unlock(void)
{
    pthread_mutex_unlock(&sim.lock);
}

void sim_wait_quiet(void)
{
    sim.frozen = true;
    while (sim.running)
        pthread_cond_wait(&sim.quiet, &sim.lock);
    sim.frozen = false;
    pthread_cond_broadcast(&sim.thaw);
}

/* -- The current context -- */

static bool ctx_alive(const struct ctx *ctx, uint64_t gen)
{
    /* A primary context's handle comes to life again with the next retain. */
    return ctx->o.alive && (ctx->primary || ctx->o.gen == gen);
}

CUresult ctx_current(struct ctx **ctx)
{
    if (UNLIKELY(sim_tls.callback))
        return CUDA_ERROR_NOT_PERMITTED;
    unsigned depth = sim_tls.depth;
    struct ctx *c = depth ? sim_tls.stack[depth - 1].ctx : NULL;
    if (!c)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!ctx_alive(c, sim_tls.stack[depth - 1].gen))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *ctx = c;
    return CUDA_SUCCESS;
}

CUresult ctx_get(CUcontext handle, struct ctx **ctx)
{
    *ctx = obj_get(OBJ_CTX, handle);
    if (*ctx)
        return CUDA_SUCCESS;
    return obj_is(OBJ_CTX, handle) ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_ERROR_INVALID_CONTEXT;
}

CUcontext ctx_handle(struct ctx *ctx)
{
    return (CUcontext)ctx;
}

static CUresult push(struct ctx *ctx)
{
    if (sim_tls.depth == COUNT(sim_tls.stack))
        return CUDA_ERROR_INVALID_VALUE;
    sim_tls.stack[sim_tls.depth].ctx = ctx;
    sim_tls.stack[sim_tls.depth++].gen = ctx ? ctx->o.gen : 0;
    return CUDA_SUCCESS;
}

/* -- Life -- */

/* The defaults of an H200, driver 580. */
static void limits_init(struct ctx *ctx)
{
    ctx->limit[CU_LIMIT_STACK_SIZE] = 1024;
    ctx->limit[CU_LIMIT_PRINTF_FIFO_SIZE] = 8650752;
    ctx->limit[CU_LIMIT_MALLOC_HEAP_SIZE] = (size_t)8 << 20;
    ctx->limit[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048;
    ctx->limit[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64;
}

static CUresult ctx_start(struct ctx *ctx)
{
    limits_init(ctx);
    variables_read();
    ctx->cache = CU_FUNC_CACHE_PREFER_NONE;
    ctx->exec_fresh = sim.graph_free;
    ctx->reading = NULL;
    ctx->placed = 0;
    ctx->legacy = stream_new(ctx, STREAM_LEGACY, CU_STREAM_DEFAULT, 0);
    return ctx->legacy ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult ctx_synchronize(struct ctx *ctx)
{
    unsigned n = 0;
    for (struct stream *s = ctx->streams; s; s = s->next_in_ctx)
        n++;
    struct dep *all = calloc(n ? n : 1, sizeof *all);
    if (!all)
        return CUDA_ERROR_OUT_OF_MEMORY;
    n = 0;
    for (struct stream *s = ctx->streams; s; s = s->next_in_ctx)
        all[n++] = (struct dep){.stream = s, .seq = s->submitted};
    for (unsigned i = 0; i < n; i++)
        stream_wait(all[i].stream, all[i].seq);
    free(all);
    return CUDA_SUCCESS;
}

/* Waits for the context's work and frees everything in it. */
static void ctx_clear(struct ctx *ctx)
{
    ctx->o.alive = false; /* no more work comes in while this waits */
    for (struct stream *s = ctx->streams; s; s = s->next_in_ctx)
        if (s->capture)
            capture_stream_gone(s);
    ctx_synchronize(ctx);
    exec_release_ctx(ctx);
    for (struct stream *s = ctx->streams, *next; s; s = next) {
        next = s->next_in_ctx;
        if (!s->destroyed)
            stream_destroy(s);
    }
    /* A worker may still be about to let go of some. */
    for (struct stream *s = ctx->streams; s; s = s->next_in_ctx)
        s->ctx = NULL;
    ctx->streams = NULL;
    for (struct event *e = NULL; (e = obj_next(OBJ_EVENT, e));)
        if (e->ctx == ctx)
            event_free(e);
    module_release_ctx(ctx);
    alloc_release_ctx(ctx);
    ctx->legacy = NULL;
}

static CUresult create(CUcontext *out, unsigned flags, CUdevice dev)
{
    if (!out || flags & ~(unsigned)CU_CTX_FLAGS_MASK)
        return CUDA_ERROR_INVALID_VALUE;
    if (dev < 0 || dev >= sim.ndevices)
        return CUDA_ERROR_INVALID_DEVICE;
    sim_lock();
    struct ctx *ctx = obj_new(OBJ_CTX);
    CUresult r = ctx ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    if (ctx) {
        ctx->device = dev;
        ctx->flags = flags;
        r = ctx_start(ctx);
        if (r == CUDA_SUCCESS)
            r = push(ctx);
        if (r == CUDA_SUCCESS)
            *out = ctx_handle(ctx);
        else
            obj_free(ctx);
    }
    sim_unlock();
    return r;
}

CUresult sim_cuCtxCreate_v2(CUcontext *out, unsigned flags, CUdevice dev)
{
    return create(out, flags, dev);
}

CUresult sim_cuCtxCreate_v3(CUcontext *out, CUexecAffinityParam *params, int n, unsigned flags,
                            CUdevice dev)
{
    return params || n ? CUDA_ERROR_NOT_SUPPORTED : create(out, flags, dev);
}

CUresult sim_cuCtxCreate_v4(CUcontext *out, CUctxCreateParams *params, unsigned flags, CUdevice dev)
{
    if (params && (!params->cigParams || params->execAffinityParams))
        return CUDA_ERROR_NOT_SUPPORTED;
    CUresult r = create(out, flags, dev);
    if (r == CUDA_SUCCESS)
        ((struct ctx *)*out)->cig = params != NULL;
    return r;
}

/* A green context is a context like others here, and has the whole device. */
CUresult sim_cuGreenCtxCreate(CUgreenCtx *out, CUdevResourceDesc desc, CUdevice dev, unsigned flags)
{
    CUcontext ctx, popped;
    (void)desc;
    CUresult r =
        flags != CU_GREEN_CTX_DEFAULT_STREAM ? CUDA_ERROR_INVALID_VALUE : create(&ctx, 0, dev);
    if (r == CUDA_SUCCESS)
        r = sim_cuCtxPopCurrent_v2(&popped);
    if (r == CUDA_SUCCESS)
        *out = (CUgreenCtx)ctx;
    return r;
}

CUresult sim_cuCtxFromGreenCtx(CUcontext *out, CUgreenCtx green)
{
    struct ctx *ctx;
    sim_lock();
    CUresult r = out ? ctx_get((CUcontext)green, &ctx) : CUDA_ERROR_INVALID_VALUE;
    sim_unlock();
    if (r == CUDA_SUCCESS)
        *out = (CUcontext)green;
    return r;
}

CUresult sim_cuCtxDestroy_v2(CUcontext handle)
{
    struct ctx *ctx;
    sim_lock();
    CUresult r = ctx_get(handle, &ctx);
    if (r == CUDA_SUCCESS && ctx->primary)
        r = CUDA_ERROR_INVALID_CONTEXT;
    if (r == CUDA_SUCCESS) {
        ctx_clear(ctx);
        unsigned top = sim_tls.depth;
        if (top && sim_tls.stack[top - 1].ctx == ctx)
            sim_tls.depth--;
        obj_free(ctx);
    }
    sim_unlock();
    return r;
}

CUresult sim_cuCtxDestroy(CUcontext handle)
{
    return sim_cuCtxDestroy_v2(handle);
}

/* -- Primary contexts -- */

CUresult sim_cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice dev)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (dev < 0 || dev >= sim.ndevices)
        return CUDA_ERROR_INVALID_DEVICE;
    CUresult r = CUDA_SUCCESS;
    sim_lock();
    struct ctx *ctx = sim.devices[dev].primary;
    if (!ctx && (ctx = obj_new(OBJ_CTX))) {
        ctx->primary = true;
        ctx->device = dev;
        ctx->o.alive = false;
        sim.devices[dev].primary = ctx;
    }
    if (!ctx)
        r = CUDA_ERROR_OUT_OF_MEMORY;
    else if (!ctx->o.alive) {
        ctx->o.gen++;
        ctx->made = 0; /* its streams went with its last life */
        ctx->flags = sim.devices[dev].primary_flags;
        ctx->o.alive = true;
        r = ctx_start(ctx);
        ctx->o.alive = r == CUDA_SUCCESS;
    }
    if (r == CUDA_SUCCESS) {
        ctx->refs++;
        *out = ctx_handle(ctx);
    }
    sim_unlock();
    return r;
}

CUresult sim_cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
    if (dev < 0 || dev >= sim.ndevices)
        return CUDA_ERROR_INVALID_DEVICE;
    CUresult r = CUDA_SUCCESS;
    sim_lock();
    struct ctx *ctx = sim.devices[dev].primary;
    if (!ctx || !ctx->refs)
        r = CUDA_ERROR_INVALID_CONTEXT;
    else if (--ctx->refs == 0 && ctx->o.alive)
        ctx_clear(ctx);
    sim_unlock();
    return r;
}

CUresult sim_cuDevicePrimaryCtxRelease(CUdevice dev)
{
    return sim_cuDevicePrimaryCtxRelease_v2(dev);
}

CUresult sim_cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
    if (dev < 0 || dev >= sim.ndevices)
        return CUDA_ERROR_INVALID_DEVICE;
    sim_lock();
    struct ctx *ctx = sim.devices[dev].primary;
    if (ctx && ctx->o.alive)
        ctx_clear(ctx); /* who retained it still has to release it */
    sim_unlock();
    return CUDA_SUCCESS;
}

CUresult sim_cuDevicePrimaryCtxReset(CUdevice dev)
{
    return sim_cuDevicePrimaryCtxReset_v2(dev);
}

CUresult sim_cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned flags)
{
    if (dev < 0 || dev >= sim.ndevices)
        return CUDA_ERROR_INVALID_DEVICE;
    if (flags & ~(unsigned)CU_CTX_FLAGS_MASK)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    sim.devices[dev].primary_flags = flags;
    if (sim.devices[dev].primary)
        sim.devices[dev].primary->flags = flags;
    sim_unlock();
    return CUDA_SUCCESS;
}

CUresult sim_cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned flags)
{
    return sim_cuDevicePrimaryCtxSetFlags_v2(dev, flags);
}

CUresult sim_cuDevicePrimaryCtxGetState(CUdevice dev, unsigned *flags, int *active)
{
    if (dev < 0 || dev >= sim.ndevices)
        return CUDA_ERROR_INVALID_DEVICE;
    if (!flags || !active)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct ctx *ctx = sim.devices[dev].primary;
    *flags = sim.devices[dev].primary_flags;
    *active = ctx && ctx->o.alive;
    sim_unlock();
    return CUDA_SUCCESS;
}

/* -- Each thread's stack -- */

CUresult sim_cuCtxPushCurrent_v2(CUcontext handle)
{
    struct ctx *ctx;
    sim_lock();
    CUresult r = ctx_get(handle, &ctx); /* driver 580 dies where this is an error */
    if (r == CUDA_SUCCESS)
        r = push(ctx);
    sim_unlock();
    return r;
}

CUresult sim_cuCtxPushCurrent(CUcontext handle)
{
    return sim_cuCtxPushCurrent_v2(handle);
}

CUresult sim_cuCtxPopCurrent_v2(CUcontext *out)
{
    if (!sim_tls.depth)
        return CUDA_ERROR_INVALID_CONTEXT;
    struct ctx *ctx = sim_tls.stack[--sim_tls.depth].ctx;
    if (out)
        *out = ctx ? ctx_handle(ctx) : NULL;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxPopCurrent(CUcontext *out)
{
    return sim_cuCtxPopCurrent_v2(out);
}

CUresult sim_cuCtxSetCurrent(CUcontext handle)
{
    struct ctx *ctx = NULL;
    CUresult r = CUDA_SUCCESS;
    sim_lock();
    if (handle)
        r = ctx_get(handle, &ctx);
    if (r == CUDA_SUCCESS && sim_tls.depth)
        sim_tls.depth--;
    if (r == CUDA_SUCCESS && ctx)
        r = push(ctx);
    sim_unlock();
    return r;
}

CUresult sim_cuCtxGetCurrent(CUcontext *out)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    struct ctx *ctx = sim_tls.depth ? sim_tls.stack[sim_tls.depth - 1].ctx : NULL;
    *out = ctx ? ctx_handle(ctx) : NULL;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetDevice(CUdevice *dev)
{
    struct ctx *ctx;
    if (!dev)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = ctx_current(&ctx);
    if (r == CUDA_ERROR_CONTEXT_IS_DESTROYED) { /* the driver answers all the same (H200) */
        ctx = sim_tls.stack[sim_tls.depth - 1].ctx;
        r = CUDA_SUCCESS;
    }
    if (r == CUDA_SUCCESS)
        *dev = ctx->device;
    sim_unlock();
    return r;
}

CUresult sim_cuCtxGetDevice_v2(CUdevice *dev, CUcontext handle)
{
    struct ctx *ctx;
    if (!dev)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = handle ? ctx_get(handle, &ctx) : ctx_current(&ctx);
    if (r == CUDA_SUCCESS)
        *dev = ctx->device;
    sim_unlock();
    return r;
}

CUresult sim_cuCtxGetFlags(unsigned *flags)
{
    struct ctx *ctx;
    if (!flags)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = ctx_current(&ctx);
    if (r == CUDA_SUCCESS)
        *flags = ctx->flags;
    sim_unlock();
    return r;
}

CUresult sim_cuCtxGetId(CUcontext handle, unsigned long long *id)
{
    struct ctx *ctx;
    if (!id)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = handle ? ctx_get(handle, &ctx) : ctx_current(&ctx);
    if (r == CUDA_SUCCESS)
        *id = ctx->o.gen << 32 | ctx->o.id;
    sim_unlock();
    return r;
}

CUresult sim_cuCtxGetApiVersion(CUcontext handle, unsigned *version)
{
    struct ctx *ctx;
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = handle ? ctx_get(handle, &ctx) : ctx_current(&ctx);
    sim_unlock();
    if (r == CUDA_SUCCESS)
        *version = 3020;
    return r;
}

static CUresult synchronize(CUcontext handle)
{
    struct ctx *ctx;
    sim_lock();
    CUresult r = handle ? ctx_get(handle, &ctx) : ctx_current(&ctx);
    if (r == CUDA_SUCCESS)
        r = capture_check_ctx_sync(ctx);
    if (r == CUDA_SUCCESS)
        r = ctx_synchronize(ctx);
    sim_unlock();
    return r;
}

CUresult sim_cuCtxSynchronize(void)
{
    return synchronize(NULL);
}

CUresult sim_cuCtxSynchronize_v2(CUcontext handle)
{
    return synchronize(handle);
}

CUresult sim_cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    struct ctx *ctx;
    CUresult r;
    sim_lock();
    r = ctx_current(&ctx);
    sim_unlock();
    if (r != CUDA_SUCCESS)
        return r;
    if (least)
        *least = 0;
    if (greatest)
        *greatest = GREATEST_PRIORITY;
    return CUDA_SUCCESS;
}

/* The real driver's codes (H200, driver 580): two limits cannot be set, two not even be read;
 * smaller buffers of printf and malloc than there are by default are accepted, and nothing comes of
 * them. */
static bool limit_is_unknown(CUlimit limit)
{
    return limit == CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH || limit > CU_LIMIT_CIG_SHMEM_FALLBACK_ENABLED;
}

CUresult sim_cuCtxGetLimit(size_t *value, CUlimit limit)
{
    struct ctx *ctx;
    if (!value || (unsigned)limit >= CU_LIMIT_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = ctx_current(&ctx);
    if (r == CUDA_SUCCESS && limit_is_unknown(limit))
        r = CUDA_ERROR_UNSUPPORTED_LIMIT;
    if (r == CUDA_SUCCESS)
        *value = ctx->limit[limit];
    sim_unlock();
    return r;
}

CUresult sim_cuCtxSetLimit(CUlimit limit, size_t value)
{
    struct ctx *ctx;
    if ((unsigned)limit >= CU_LIMIT_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = ctx_current(&ctx);
    if (r == CUDA_SUCCESS && limit_is_unknown(limit))
        r = CUDA_ERROR_UNSUPPORTED_LIMIT;
    if (r == CUDA_SUCCESS && limit >= CU_LIMIT_CIG_ENABLED)
        r = CUDA_ERROR_NOT_PERMITTED;
    bool moves = r == CUDA_SUCCESS && limit == CU_LIMIT_STACK_SIZE && value != ctx->limit[limit];
    if (moves)
        sim_wait_quiet(); /* the stacks move */
    bool buffer = limit == CU_LIMIT_PRINTF_FIFO_SIZE || limit == CU_LIMIT_MALLOC_HEAP_SIZE;
    if (r == CUDA_SUCCESS && !(buffer && value < ctx->limit[limit]))
        ctx->limit[limit] = value;
    sim_unlock();
    if (moves) /* other threads may launch before the call returns */
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    return r;
}

CUresult sim_cuCtxGetCacheConfig(CUfunc_cache *config)
{
    struct ctx *ctx;
    if (!config)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = ctx_current(&ctx);
    if (r == CUDA_SUCCESS)
        *config = ctx->cache;
    sim_unlock();
    return r;
}

CUresult sim_cuCtxSetCacheConfig(CUfunc_cache config)
{
    struct ctx *ctx;
    if ((unsigned)config > CU_FUNC_CACHE_PREFER_EQUAL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = ctx_current(&ctx);
    if (r == CUDA_SUCCESS)
        ctx->cache = config;
    sim_unlock();
    return r;
}

CUresult sim_cuCtxEnablePeerAccess(CUcontext peer, unsigned flags)
{
    struct ctx *ctx, *other;
    sim_lock();
    CUresult r = ctx_current(&ctx);
    if (r == CUDA_SUCCESS)
        r = ctx_get(peer, &other);
    if (r == CUDA_SUCCESS && (flags || other->device == ctx->device))
        r = flags ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_DEVICE;
    sim_unlock();
    return r;
}

CUresult sim_cuCtxDisablePeerAccess(CUcontext peer)
{
    return sim_cuCtxEnablePeerAccess(peer, 0);
}

CUresult sim_cuCtxSetFlags(unsigned flags)
{
    struct ctx *ctx;
    if (flags & ~(unsigned)CU_CTX_FLAGS_MASK)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = ctx_current(&ctx);
    if (r == CUDA_SUCCESS)
        ctx->flags = flags;
    sim_unlock();
    return r;
}

CUresult sim_cuCtxResetPersistingL2Cache(void)
{
    struct ctx *ctx;
    sim_lock();
    CUresult r = ctx_current(&ctx);
    sim_unlock();
    return r;
}
