/* SPDX-License-Identifier: MIT */
/* launch.c: kernel launches: the copy of the arguments, and launch attributes. */
#include "sim.h"

/* -- Arguments -- */

static CUresult args_from_extra(unsigned char *to, const struct kernel_def *def, void **extra)
{
    const void *buffer = NULL;
    size_t size = 0;
    for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
        if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[1];
        else if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE)
            size = *(const size_t *)extra[1];
        else
            return CUDA_ERROR_INVALID_VALUE;
    }
    if (!buffer)
        return CUDA_ERROR_INVALID_VALUE;
    if (size > def->args_size)
        return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    memcpy(to, buffer, size); /* what is missing stays zero */
    return CUDA_SUCCESS;
}

static CUresult args_copy(unsigned char **out, const struct kernel_def *def, void **params,
                          void **extra)
{
    if ((params && extra) || (def->nparams && !params && !extra))
        return CUDA_ERROR_INVALID_VALUE;
    unsigned char *to = calloc(1, def->args_size ? def->args_size : 1);
    if (!to)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult r = extra ? args_from_extra(to, def, extra) : CUDA_SUCCESS;
    for (unsigned i = 0; params && i < def->nparams && r == CUDA_SUCCESS; i++) {
        if (!params[i])
            r = CUDA_ERROR_INVALID_VALUE;
        else
            memcpy(to + def->param[i].offset, params[i], def->param[i].size);
    }
    if (r == CUDA_SUCCESS)
        *out = to;
    else
        free(to);
    return r;
}

/* What the function asks for, or else its context: an eager launch takes it at the call, a graph's
 * node when it is added (H200). */
static int cache_of(const struct func_attrs *attrs, const struct ctx *ctx)
{
    return attrs->cache != CU_FUNC_CACHE_PREFER_NONE ? attrs->cache : (int)ctx->cache;
}

CUresult kernel_prepare(struct work *w, struct ctx *ctx, struct kernel_def *def,
                        const struct func_attrs *attrs, const unsigned grid[3],
                        const unsigned block[3], unsigned shared, void **params, void **extra)
{
    *w = (struct work){.kind = WORK_KERNEL,
                       .kernel = {.def = def,
                                  .ctx = ctx,
                                  .shared = shared,
                                  .attrs.carveout = attrs->carveout,
                                  .attrs.cache = cache_of(attrs, ctx),
                                  .stack = ctx->limit[CU_LIMIT_STACK_SIZE]}};
    memcpy(w->kernel.grid, grid, sizeof w->kernel.grid);
    memcpy(w->kernel.block, block, sizeof w->kernel.block);
    CUresult r = kernel_shape_check(def, grid, block);
    return r == CUDA_SUCCESS ? args_copy(&w->kernel.args, def, params, extra) : r;
}

/* -- Attributes -- */

/* One that is a word, which drivers before `since` do not know. */
static CUresult mode_set(struct kernel_attrs *a, CUlaunchAttributeID id,
                         const CUlaunchAttributeValue *v, unsigned *mode, unsigned most, int since)
{
    unsigned value;
    memcpy(&value, v, sizeof value);
    if (sim.version < since || value > most)
        return CUDA_ERROR_INVALID_VALUE;
    *mode = value;
    a->set |= 1u << id;
    return CUDA_SUCCESS;
}

CUresult kernel_attr_set(struct kernel_attrs *a, CUlaunchAttributeID id,
                         const CUlaunchAttributeValue *v)
{
    switch ((int)id) {
    case CU_LAUNCH_ATTRIBUTE_IGNORE:
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
        a->window = v->accessPolicyWindow;
        break;
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        a->cooperative = v->cooperative;
        break;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
        if (!v->clusterDim.x || !v->clusterDim.y || !v->clusterDim.z)
            return CUDA_ERROR_INVALID_CLUSTER_SIZE;
        a->cluster[0] = v->clusterDim.x;
        a->cluster[1] = v->clusterDim.y;
        a->cluster[2] = v->clusterDim.z;
        break;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        a->cluster_policy = (int)v->clusterSchedulingPolicyPreference;
        break;
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
        a->programmatic = v->programmaticStreamSerializationAllowed;
        break;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        a->priority = v->priority;
        break;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
        a->domain_map = v->memSyncDomainMap;
        break;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
        a->mem_sync_domain = (int)v->memSyncDomain;
        break;
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        if (v->sharedMemCarveout > 100)
            return CUDA_ERROR_INVALID_VALUE;
        a->carveout = (int)v->sharedMemCarveout;
        break;
    case ATTR_PREFERRED_CLUSTER:
        memcpy(a->preferred, v, sizeof a->preferred);
        if (!a->preferred[0] || !a->preferred[1] || !a->preferred[2])
            return CUDA_ERROR_INVALID_CLUSTER_SIZE;
        break;
    case ATTR_NVLINK:
        return mode_set(a, id, v, &a->nvlink, 1, 13000);
    case ATTR_CLUSTER_MODE:
        return mode_set(a, id, v, &a->cluster_mode, MODE_ANY, 13020);
    case ATTR_SHARED_MODE:
        return mode_set(a, id, v, &a->shared_mode, MODE_ANY, 13020);
    case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
        return CUDA_ERROR_NOT_SUPPORTED;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    a->set |= 1u << id;
    return CUDA_SUCCESS;
}

CUresult kernel_attr_get(const struct kernel_attrs *a, CUlaunchAttributeID id,
                         CUlaunchAttributeValue *v)
{
    memset(v, 0, sizeof *v);
    switch ((int)id) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
        v->accessPolicyWindow = a->window;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        v->cooperative = a->cooperative;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
        v->clusterDim.x = a->cluster[0];
        v->clusterDim.y = a->cluster[1];
        v->clusterDim.z = a->cluster[2];
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        v->clusterSchedulingPolicyPreference = (CUclusterSchedulingPolicy)a->cluster_policy;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        v->priority = a->priority;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
        v->memSyncDomainMap = a->domain_map;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
        v->memSyncDomain = (CUlaunchMemSyncDomain)a->mem_sync_domain;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        v->sharedMemCarveout = (unsigned)a->carveout;
        return CUDA_SUCCESS;
    case ATTR_PREFERRED_CLUSTER:
        memcpy(v, a->preferred, sizeof a->preferred);
        return CUDA_SUCCESS;
    case ATTR_NVLINK:
        memcpy(v, &a->nvlink, sizeof a->nvlink);
        return CUDA_SUCCESS;
    case ATTR_CLUSTER_MODE:
        memcpy(v, &a->cluster_mode, sizeof a->cluster_mode);
        return CUDA_SUCCESS;
    case ATTR_SHARED_MODE:
        memcpy(v, &a->shared_mode, sizeof a->shared_mode);
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* -- Doors -- */

static bool attr_is_event(const CUlaunchAttribute *a)
{
    return a->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT ||
           a->id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT;
}

/* The event that a launch attribute asks to record with the kernel, or NULL.
 * Here the kernel is one moment, so its end will do for each of them. */
static CUresult attr_event(const CUlaunchAttribute *a, struct stream *s, struct event **e)
{
    CUevent handle;
    int flags;
    if (a->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT) {
        handle = a->value.programmaticEvent.event;
        flags = a->value.programmaticEvent.flags;
    } else if (a->id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT) {
        handle = a->value.launchCompletionEvent.event;
        flags = a->value.launchCompletionEvent.flags;
    } else {
        return CUDA_SUCCESS;
    }
    *e = obj_get(OBJ_EVENT, handle);
    if (!*e || (*e)->ctx != s->ctx || flags)
        return CUDA_ERROR_INVALID_VALUE;
    return (*e)->flags & CU_EVENT_DISABLE_TIMING ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult launch(CUfunction handle, const CUlaunchConfig *c, void **params, void **extra)
{
    const unsigned grid[3] = {c->gridDimX, c->gridDimY, c->gridDimZ};
    const unsigned block[3] = {c->blockDimX, c->blockDimY, c->blockDimZ};
    struct stream *s;
    struct function *f;
    struct kernel *k;
    struct event *e = NULL;
    struct work w = {.kind = WORK_EMPTY};
    sim_busy(sim.launch_us);
    sim_lock();
    CUresult r = stream_get(c->hStream, &s);
    if (r == CUDA_SUCCESS)
        r = function_get(handle, &f, &k);
    if (r == CUDA_SUCCESS && f && f->ctx != s->ctx)
        r = CUDA_ERROR_INVALID_HANDLE;
    if (r == CUDA_SUCCESS) {
        const struct func_attrs a = f ? function_attrs(f) : k->attrs[s->ctx->device];
        r = kernel_prepare(&w, s->ctx, f ? f->def : k->def, &a, grid, block, c->sharedMemBytes,
                           params, extra);
        w.kernel.attrs.priority = s->priority;
        for (unsigned i = 0; r == CUDA_SUCCESS && i < c->numAttrs; i++)
            if ((r = attr_event(&c->attrs[i], s, &e)) == CUDA_SUCCESS &&
                !attr_is_event(&c->attrs[i]))
                r = kernel_attr_set(&w.kernel.attrs, c->attrs[i].id, &c->attrs[i].value);
        if (r == CUDA_SUCCESS)
            r = kernel_attrs_check(&w, &w.kernel.attrs, &a, false);
    }
    if (r == CUDA_SUCCESS && !f && (s->capture || k->def->limits.local))
        r = function_of_kernel(k, s->ctx, &f);
    if (r == CUDA_SUCCESS && s->capture) {
        w.kernel.func = f;
        w.kernel.func_gen = f->o.gen;
    } else if (r == CUDA_SUCCESS && f) {
        f->settled = true;
    }
    if (r == CUDA_SUCCESS) {
        r = stream_submit(s, &w);
        if (r == CUDA_SUCCESS && e)
            r = event_record(s, e, 0);
        if (r == CUDA_SUCCESS && sim.blocking && !s->capture && !s->cig)
            stream_wait(s, s->submitted);
    } else {
        if (w.kind == WORK_KERNEL && s->capture) /* a right handle, but a wrong launch */
            capture_invalidate(s->capture);
        work_clear(&w);
    }
    sim_unlock();
    return r;
}

CUresult sim_cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                            unsigned by, unsigned bz, unsigned shared, CUstream stream,
                            void **params, void **extra)
{
    CUlaunchConfig c = {.gridDimX = gx,
                        .gridDimY = gy,
                        .gridDimZ = gz,
                        .blockDimX = bx,
                        .blockDimY = by,
                        .blockDimZ = bz,
                        .sharedMemBytes = shared,
                        .hStream = stream};
    return launch(f, &c, params, extra);
}

CUresult sim_cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **params,
                              void **extra)
{
    if (!config || (config->numAttrs && !config->attrs))
        return CUDA_ERROR_INVALID_VALUE;
    return launch(f, config, params, extra);
}

CUresult sim_cuLaunchCooperativeKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz,
                                       unsigned bx, unsigned by, unsigned bz, unsigned shared,
                                       CUstream stream, void **params)
{
    CUlaunchAttribute a = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value = {.cooperative = 1}};
    CUlaunchConfig c = {.gridDimX = gx,
                        .gridDimY = gy,
                        .gridDimZ = gz,
                        .blockDimX = bx,
                        .blockDimY = by,
                        .blockDimZ = bz,
                        .sharedMemBytes = shared,
                        .hStream = stream,
                        .attrs = &a,
                        .numAttrs = 1};
    return launch(f, &c, params, NULL);
}
