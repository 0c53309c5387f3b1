/* SPDX-License-Identifier: MIT */
/* stream.c: stream handles, the two default streams, and the calls on streams
 * that enqueue no memory operation and no kernel. */
#include "sim.h"

#include <unistd.h>

/* -- Life -- */

static unsigned streams_made;
static pthread_key_t thread_key;
static pthread_once_t thread_once = PTHREAD_ONCE_INIT;

/* No two streams share one while there is another. */
static unsigned next_queue(struct ctx *ctx)
{
    unsigned n = ctx->placed++;
    return n >= sim.connections && sim.deal ? sim_random(&sim.deal) % sim.connections
                                            : n % sim.connections;
}

struct stream *stream_new(struct ctx *ctx, enum stream_kind kind, unsigned flags, int priority)
{
    struct stream *s = obj_new(OBJ_STREAM);
    if (!s)
        return NULL;
    s->ctx = ctx;
    s->kind = kind;
    s->flags = flags;
    s->priority = priority;
    s->number = kind == STREAM_LEGACY ? 0 : ++streams_made;
    s->random = (sim.seed + 1) * 0x9e3779b97f4a7c15u ^ (s->number + 1) * 0xd1342543de82ef95u;
    s->queue = &ctx->queues[next_queue(ctx)];
    s->next_in_ctx = ctx->streams;
    ctx->streams = s;
    return s;
}

bool stream_blocking(const struct stream *s)
{
    return s->kind != STREAM_USER || !(s->flags & CU_STREAM_NON_BLOCKING);
}

void stream_release(struct stream *s)
{
    if (s->ctx) {
        struct stream **p = &s->ctx->streams;
        while (*p != s)
            p = &(*p)->next_in_ctx;
        *p = s->next_in_ctx;
    }
    obj_free(s);
}

void stream_destroy(struct stream *s)
{
    if (s->capture)
        capture_stream_gone(s);
    capture_set_free(&s->capture_deps);
    s->destroyed = true;
    s->o.alive = false;
    if (!s->head && !s->running)
        stream_release(s);
}

/* -- Handles -- */

static void thread_gone(void *arg)
{
    struct tls *t = arg;
    if (atomic_load(&sim.forked))
        return; /* whoever held the lock is not in this process */
    pthread_mutex_lock(&sim.lock);
    for (unsigned i = 0; i < t->nstreams; i++)
        if (t->streams[i].stream->o.gen == t->streams[i].stream_gen &&
            t->streams[i].stream->o.alive)
            stream_destroy(t->streams[i].stream);
    free(t->streams);
    t->streams = NULL;
    t->nstreams = 0;
    t->registered = false;
    pthread_mutex_unlock(&sim.lock);
}

static void make_thread_key(void)
{
    if (pthread_key_create(&thread_key, thread_gone))
        abort();
}

static struct stream *per_thread_stream(struct ctx *ctx)
{
    struct tls *t = &sim_tls;
    unsigned i = 0;
    for (; i < t->nstreams; i++) {
        struct stream *s = t->streams[i].stream;
        bool living = s->o.alive && s->o.gen == t->streams[i].stream_gen;
        if (living && s->ctx == ctx)
            return s;
        if (!living)
            break; /* of a context that is gone: the place is used again */
    }
    pthread_once(&thread_once, make_thread_key);
    if (!t->registered && pthread_setspecific(thread_key, t))
        return NULL;
    t->registered = true;
    if (i == t->nstreams) {
        void *more = realloc(t->streams, (i + 1) * sizeof *t->streams);
        if (!more)
            return NULL;
        t->streams = more;
    }
    struct stream *s = stream_new(ctx, STREAM_PER_THREAD, CU_STREAM_DEFAULT, 0);
    if (!s)
        return NULL;
    t->streams[i].stream = s;
    t->streams[i].stream_gen = s->o.gen;
    t->nstreams += i == t->nstreams;
    return s;
}

CUresult stream_get(CUstream handle, struct stream **stream)
{
    if (handle == NULL)
        handle = sim_tls.per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
    if (handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) {
        struct ctx *ctx;
        CUresult r = ctx_current(&ctx);
        if (r != CUDA_SUCCESS)
            return r;
        *stream = handle == CU_STREAM_LEGACY ? ctx->legacy : per_thread_stream(ctx);
        return *stream ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    *stream = obj_get(OBJ_STREAM, handle); /* no current context is asked for */
    return *stream ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* -- Doors: life and properties -- */

CUresult sim_cuStreamCreateWithPriority(CUstream *out, unsigned flags, int priority)
{
    struct ctx *ctx;
    if (!out || flags & ~(unsigned)CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = ctx_current(&ctx);
    if (r == CUDA_SUCCESS) {
        /* Out of range is clamped, says the documentation. */
        priority = priority > 0 ? 0 : priority < GREATEST_PRIORITY ? GREATEST_PRIORITY : priority;
        ctx_alone(ctx);
        if (sim.streams_free && ctx->made++ >= sim.streams_free) {
            strict_quiet();
            if (sim.streams_wait)
                sim_wait_quiet();
        }
        struct stream *s = stream_new(ctx, STREAM_USER, flags, priority);
        if (s)
            *out = (CUstream)s;
        else
            r = CUDA_ERROR_OUT_OF_MEMORY;
    }
    sim_unlock();
    return r;
}

CUresult sim_cuStreamCreate(CUstream *out, unsigned flags)
{
    return sim_cuStreamCreateWithPriority(out, flags, 0);
}

CUresult sim_cuStreamDestroy_v2(CUstream handle)
{
    struct stream *s;
    sim_lock();
    CUresult r = stream_get(handle, &s);
    if (r == CUDA_SUCCESS && s->kind != STREAM_USER)
        r = CUDA_ERROR_INVALID_HANDLE;
    if (r == CUDA_SUCCESS)
        ctx_alone(s->ctx);
    if (r == CUDA_SUCCESS && (r = stream_get(handle, &s)) == CUDA_SUCCESS)
        stream_destroy(s);
    sim_unlock();
    return r;
}

CUresult sim_cuStreamDestroy(CUstream handle)
{
    return sim_cuStreamDestroy_v2(handle);
}

/* Seen on driver 580: no capture of a stream survives it that the stream's flags, number or device
 * are asked for; unlike a synchronisation, any other stream's may be. The priority may be asked
 * for. */
static CUresult check_question(struct stream *s)
{
    return s->capture ? stream_check_sync(s) : capture_check_legacy(s);
}

CUresult sim_cuStreamGetPriority(CUstream handle, int *priority)
{
    struct stream *s;
    if (!priority)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = stream_get(handle, &s);
    if (r == CUDA_SUCCESS)
        r = capture_check_legacy(s);
    if (r == CUDA_SUCCESS)
        *priority = s->priority;
    sim_unlock();
    return r;
}

CUresult sim_cuStreamGetFlags(CUstream handle, unsigned *flags)
{
    struct stream *s;
    if (!flags)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = stream_get(handle, &s);
    if (r == CUDA_SUCCESS)
        r = check_question(s);
    if (r == CUDA_SUCCESS)
        *flags = s->flags;
    sim_unlock();
    return r;
}

CUresult sim_cuStreamGetId(CUstream handle, unsigned long long *id)
{
    struct stream *s;
    if (!id)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = stream_get(handle, &s);
    if (r == CUDA_SUCCESS)
        r = check_question(s);
    if (r == CUDA_SUCCESS)
        *id = s->o.id;
    sim_unlock();
    return r;
}

CUresult sim_cuStreamGetDevice(CUstream handle, CUdevice *dev)
{
    struct stream *s;
    if (!dev)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = stream_get(handle, &s);
    if (r == CUDA_SUCCESS)
        r = check_question(s);
    if (r == CUDA_SUCCESS)
        *dev = s->ctx->device;
    sim_unlock();
    return r;
}

CUresult sim_cuStreamGetCtx(CUstream handle, CUcontext *ctx)
{
    struct stream *s;
    if (!ctx)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = stream_get(handle, &s);
    if (r == CUDA_SUCCESS)
        *ctx = ctx_handle(s->ctx);
    sim_unlock();
    return r;
}

CUresult sim_cuStreamGetCtx_v2(CUstream handle, CUcontext *ctx, CUgreenCtx *green)
{
    if (green)
        *green = NULL;
    return sim_cuStreamGetCtx(handle, ctx);
}

CUresult sim_cuStreamGetAttribute(CUstream handle, CUstreamAttrID attr, CUstreamAttrValue *value)
{
    struct stream *s;
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = stream_get(handle, &s);
    if (r == CUDA_SUCCESS) {
        if (attr == CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY)
            value->syncPolicy = s->sync_policy;
        else if (attr == CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW)
            value->accessPolicyWindow = s->window;
        else if (attr == CU_STREAM_ATTRIBUTE_PRIORITY)
            value->priority = s->priority;
        else
            r = CUDA_ERROR_INVALID_VALUE;
    }
    sim_unlock();
    return r;
}

CUresult sim_cuStreamSetAttribute(CUstream handle, CUstreamAttrID attr,
                                  const CUstreamAttrValue *value)
{
    struct stream *s;
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = stream_get(handle, &s);
    if (r == CUDA_SUCCESS) {
        if (attr == CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY)
            s->sync_policy = value->syncPolicy;
        else if (attr == CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW)
            s->window = value->accessPolicyWindow;
        else if (attr == CU_STREAM_ATTRIBUTE_PRIORITY)
            s->priority = value->priority;
        else
            r = CUDA_ERROR_INVALID_VALUE;
    }
    sim_unlock();
    return r;
}

/* -- Doors: synchronisation -- */

static bool stream_idle(struct stream *s)
{
    if (s->completed < s->submitted)
        return false;
    if (s->kind == STREAM_LEGACY)
        for (struct stream *t = s->ctx->streams; t; t = t->next_in_ctx)
            if (stream_blocking(t) && t->completed < t->submitted)
                return false;
    return true;
}

void stream_synchronize(struct stream *s)
{
    if (s->kind == STREAM_LEGACY) {
        /* Like an operation there: after it, what the blocking streams had is done. */
        if (stream_idle(s) || stream_enqueue_end(s) != CUDA_SUCCESS)
            return;
    }
    stream_wait(s, s->submitted);
}

CUresult stream_check_sync(struct stream *s)
{
    if (!s->capture) {
        CUresult r = capture_check_legacy(s);
        return r == CUDA_SUCCESS ? capture_check_unsafe() : r;
    }
    capture_invalidate(s->capture);
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult sim_cuStreamQuery(CUstream handle)
{
    struct stream *s;
    sim_lock();
    CUresult r = stream_get(handle, &s);
    if (r == CUDA_SUCCESS)
        r = stream_check_sync(s);
    if (r == CUDA_SUCCESS && !stream_idle(s)) {
        if (!sim_called_by_library())
            stream_wanted(s, s->submitted);
        r = CUDA_ERROR_NOT_READY;
    }
    sim_unlock();
    return r;
}

CUresult sim_cuStreamSynchronize(CUstream handle)
{
    struct stream *s;
    if (sim.sync_us)
        usleep((useconds_t)sim.sync_us);
    sim_lock();
    CUresult r = stream_get(handle, &s);
    if (r == CUDA_SUCCESS)
        r = stream_check_sync(s);
    if (r == CUDA_SUCCESS)
        stream_synchronize(s);
    sim_unlock();
    return r;
}

/* -- Doors: host functions -- */

CUresult stream_submit(struct stream *s, struct work *w)
{
    CUresult r = s->capture ? CUDA_SUCCESS : capture_check_legacy(s);
    if (r != CUDA_SUCCESS) {
        work_clear(w);
        return r;
    }
    if (s->cig) {
        work_clear(w);
        return CUDA_SUCCESS;
    }
    return s->capture ? capture_add(s, w) : stream_enqueue(s, w, NULL, 0);
}

CUresult sim_cuLaunchHostFunc(CUstream handle, CUhostFn fn, void *data)
{
    struct stream *s;
    if (!fn)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = stream_get(handle, &s);
    if (r == CUDA_SUCCESS)
        ctx_alone(s->ctx);
    if (r == CUDA_SUCCESS && (r = stream_get(handle, &s)) == CUDA_SUCCESS) {
        struct work w = {.kind = WORK_HOST, .host = {.fn = fn, .data = data}};
        r = stream_submit(s, &w);
    }
    sim_unlock();
    return r;
}

CUresult sim_cuLaunchHostFunc_v2(CUstream stream, CUhostFn fn, void *data, unsigned sync_mode)
{
    return sync_mode > 1 ? CUDA_ERROR_INVALID_VALUE : sim_cuLaunchHostFunc(stream, fn, data);
}

CUresult sim_cuStreamAddCallback(CUstream handle, CUstreamCallback callback, void *data,
                                 unsigned flags)
{
    struct stream *s;
    if (!callback || flags)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = stream_get(handle, &s);
    if (r == CUDA_SUCCESS && s->capture)
        r = stream_check_sync(s);
    if (r == CUDA_SUCCESS) {
        struct work w = {.kind = WORK_HOST,
                         .host = {.callback = callback, .data = data, .stream = handle}};
        r = stream_submit(s, &w);
    }
    sim_unlock();
    return r;
}

CUresult sim_cuStreamCopyAttributes(CUstream to, CUstream from)
{
    struct stream *a, *b;
    sim_lock();
    CUresult r = stream_get(to, &a);
    if (r == CUDA_SUCCESS)
        r = stream_get(from, &b);
    if (r == CUDA_SUCCESS) {
        a->sync_policy = b->sync_policy;
        a->window = b->window;
        a->priority = b->priority;
    }
    sim_unlock();
    return r;
}

/* -- Doors: values in memory -- */

static CUresult mem_op(CUstream handle, CUdeviceptr addr, uint64_t value, unsigned flags, bool wait,
                       bool wide)
{
    struct stream *s;
    if (addr % (wide ? 8 : 4) || (flags & ~0x40000000u) > (wait ? 3u : 1u))
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = stream_get(handle, &s);
    if (r == CUDA_SUCCESS && !s->capture && !range_takes_words(addr, wide ? 8 : 4, s->ctx->device))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS) {
        struct work w = {
            .kind = WORK_MEM_OP,
            .mem_op = {
                .addr = addr, .value = value, .flags = flags & 3, .wait = wait, .wide = wide}};
        r = stream_submit(s, &w);
    }
    sim_unlock();
    return r;
}

CUresult sim_cuStreamWaitValue32_v2(CUstream s, CUdeviceptr addr, cuuint32_t v, unsigned flags)
{
    return mem_op(s, addr, v, flags, true, false);
}

CUresult sim_cuStreamWaitValue64_v2(CUstream s, CUdeviceptr addr, cuuint64_t v, unsigned flags)
{
    return mem_op(s, addr, v, flags, true, true);
}

CUresult sim_cuStreamWriteValue32_v2(CUstream s, CUdeviceptr addr, cuuint32_t v, unsigned flags)
{
    return mem_op(s, addr, v, flags, false, false);
}

CUresult sim_cuStreamWriteValue64_v2(CUstream s, CUdeviceptr addr, cuuint64_t v, unsigned flags)
{
    return mem_op(s, addr, v, flags, false, true);
}

CUresult sim_cuStreamWaitValue32(CUstream s, CUdeviceptr addr, cuuint32_t v, unsigned flags)
{
    return mem_op(s, addr, v, flags, true, false);
}

CUresult sim_cuStreamWriteValue32(CUstream s, CUdeviceptr addr, cuuint32_t v, unsigned flags)
{
    return mem_op(s, addr, v, flags, false, false);
}

/* Where memory lies makes no difference here: it only has to be managed, and whole. (The driver
   crashes where the flags are 0.) */
CUresult sim_cuStreamAttachMemAsync(CUstream handle, CUdeviceptr p, size_t length, unsigned flags)
{
    struct stream *s;
    if ((flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST &&
         flags != CU_MEM_ATTACH_SINGLE) ||
        (!handle && flags == CU_MEM_ATTACH_SINGLE))
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = stream_get(handle, &s);
    if (r == CUDA_SUCCESS && s->capture)
        r = stream_check_sync(s);
    const struct alloc *a = r == CUDA_SUCCESS ? alloc_find(p, 0) : NULL;
    if (r == CUDA_SUCCESS &&
        (!a || a->kind != ALLOC_MANAGED || a->base != p || (length && length != a->size)))
        r = CUDA_ERROR_INVALID_VALUE;
    sim_unlock();
    return r;
}

/* One operation after the other; what is wrong with one is found before any is enqueued. */
CUresult sim_cuStreamBatchMemOp_v2(CUstream stream, unsigned n, CUstreamBatchMemOpParams *ops,
                                   unsigned flags)
{
    struct stream *s;
    if (n > 256 || (n && !ops) || flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (!n)
        return CUDA_SUCCESS;
    sim_lock();
    CUresult r = stream_get(stream, &s);
    struct work *w = r == CUDA_SUCCESS ? calloc(n, sizeof *w) : NULL;
    if (r == CUDA_SUCCESS && !w)
        r = CUDA_ERROR_OUT_OF_MEMORY;
    unsigned made = 0;
    for (; made < n && r == CUDA_SUCCESS; made++)
        r = mem_op_prepare(&w[made], &ops[made]);
    for (unsigned i = 0; i < n && r == CUDA_SUCCESS; i++)
        r = stream_submit(s, &w[i]);
    free(w); /* these own nothing */
    sim_unlock();
    return r;
}

CUresult sim_cuStreamBatchMemOp(CUstream stream, unsigned n, CUstreamBatchMemOpParams *ops,
                                unsigned flags)
{
    return sim_cuStreamBatchMemOp_v2(stream, n, ops, flags);
}

CUresult sim_cuStreamWaitValue64(CUstream s, CUdeviceptr addr, cuuint64_t v, unsigned flags)
{
    return mem_op(s, addr, v, flags, true, true);
}

CUresult sim_cuStreamWriteValue64(CUstream s, CUdeviceptr addr, cuuint64_t v, unsigned flags)
{
    return mem_op(s, addr, v, flags, false, true);
}
