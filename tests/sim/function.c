/* SPDX-License-Identifier: MIT */
/* function.c: what functions and kernels tell of themselves: names, parameter
 * layouts, attributes, occupancy. */
#include "sim.h"

static CUresult def_of_function(CUfunction handle, struct kernel_def **def)
{
    struct function *f;
    CUresult r = function_get(handle, &f, NULL);
    if (r == CUDA_SUCCESS)
        *def = f->def;
    return r;
}

static CUresult def_of_kernel(CUkernel handle, struct kernel_def **def)
{
    struct kernel *k = obj_get(OBJ_KERNEL, handle);
    if (k)
        *def = k->def;
    return k ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult param_info(const struct kernel_def *def, size_t i, size_t *offset, size_t *size)
{
    if (!offset || i >= def->nparams)
        return CUDA_ERROR_INVALID_VALUE;
    *offset = def->param[i].offset;
    if (size)
        *size = def->param[i].size;
    return CUDA_SUCCESS;
}

CUresult sim_cuFuncGetParamInfo(CUfunction f, size_t i, size_t *offset, size_t *size)
{
    struct kernel_def *def;
    sim_lock();
    CUresult r = def_of_function(f, &def);
    if (r == CUDA_SUCCESS)
        r = param_info(def, i, offset, size);
    sim_unlock();
    return r;
}

CUresult sim_cuKernelGetParamInfo(CUkernel k, size_t i, size_t *offset, size_t *size)
{
    struct kernel_def *def;
    sim_lock();
    struct ctx *ctx;
    CUresult r = ctx_current(&ctx);
    if (r == CUDA_SUCCESS)
        r = def_of_kernel(k, &def);
    if (r == CUDA_SUCCESS)
        r = param_info(def, i, offset, size);
    sim_unlock();
    return r;
}

CUresult sim_cuFuncGetParamCount(CUfunction f, size_t *count)
{
    struct kernel_def *def;
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = def_of_function(f, &def);
    if (r == CUDA_SUCCESS)
        *count = def->nparams;
    sim_unlock();
    return r;
}

CUresult sim_cuKernelGetParamCount(CUkernel k, size_t *count)
{
    struct kernel_def *def;
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = def_of_kernel(k, &def);
    if (r == CUDA_SUCCESS)
        *count = def->nparams;
    sim_unlock();
    return r;
}

CUresult sim_cuFuncGetName(const char **name, CUfunction f)
{
    struct kernel_def *def;
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = def_of_function(f, &def);
    if (r == CUDA_SUCCESS)
        *name = def->name;
    sim_unlock();
    return r;
}

CUresult sim_cuKernelGetName(const char **name, CUkernel k)
{
    struct kernel_def *def;
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = def_of_kernel(k, &def);
    if (r == CUDA_SUCCESS)
        *name = def->name;
    sim_unlock();
    return r;
}

CUresult sim_cuFuncGetModule(CUmodule *out, CUfunction handle)
{
    struct function *f;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = function_get(handle, &f, NULL);
    if (r == CUDA_SUCCESS)
        *out = (CUmodule)f->module;
    sim_unlock();
    return r;
}

CUresult sim_cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction f)
{
    struct kernel_def *def;
    if (!state)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = def_of_function(f, &def);
    if (r == CUDA_SUCCESS)
        *state = CU_FUNCTION_LOADING_STATE_LOADED;
    sim_unlock();
    return r;
}

CUresult sim_cuFuncLoad(CUfunction f)
{
    CUfunctionLoadingState state;
    return sim_cuFuncIsLoaded(&state, f);
}

/* -- Attributes -- */

static CUresult attr_get(const struct func_attrs *a, const struct kernel_def *def,
                         CUfunction_attribute which, int *value)
{
    switch ((int)which) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = (int)kernel_most_threads(def);
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
        *value = (int)def->limits.shared;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
        *value = (int)def->limits.local;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
        *value = def->limits.registers ? (int)def->limits.registers : 16;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        *value = 90;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = a->max_dynamic_shared;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        *value = a->carveout;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
        *value = def->limits.asks_cluster;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
        *value = (int)a->cluster[which - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH];
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
        *value = a->nonportable_cluster;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        *value = a->cluster_policy;
        return CUDA_SUCCESS;
    default:
        if ((int)which < 0 || which >= CU_FUNC_ATTRIBUTE_MAX)
            return CUDA_ERROR_INVALID_VALUE;
        *value = 0;
        return CUDA_SUCCESS;
    }
}

/* Bits of func_attrs.own. */
enum {
    OWN_SHARED = 1,
    OWN_CARVEOUT = 2,
    OWN_NONPORTABLE = 4,
    OWN_POLICY = 8,
    OWN_CACHE = 16,
    OWN_CLUSTER = 32
};

static CUresult attr_set(struct func_attrs *a, const struct kernel_def *def,
                         CUfunction_attribute which, int value)
{
    switch ((int)which) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        if (value < 0 || value > (int)(SHARED_MAX - def->limits.shared))
            return CUDA_ERROR_INVALID_VALUE;
        a->max_dynamic_shared = value;
        a->own |= OWN_SHARED;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        if (value < -1 || value > 100)
            return CUDA_ERROR_INVALID_VALUE;
        a->carveout = value;
        a->own |= OWN_CARVEOUT;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
        /* One that the text gives stays: 1, not the documented 800 (H100, driver 580). */
        if (def->limits.cluster[0] || value < 0)
            return CUDA_ERROR_INVALID_VALUE;
        a->cluster[which - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH] = (unsigned)value;
        a->own |= OWN_CLUSTER;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
        if (value != 0 && value != 1)
            return CUDA_ERROR_INVALID_VALUE;
        a->nonportable_cluster = value;
        a->own |= OWN_NONPORTABLE;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        a->cluster_policy = value;
        a->own |= OWN_POLICY;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* Those of a library's function are its kernel's for the device, but for what was set for itself:
 * what is set for the kernel later does not change that (H200, driver 580). */
struct func_attrs function_attrs(const struct function *f)
{
    struct func_attrs a = f->attrs;
    if (!f->kernel)
        return a;
    const struct func_attrs *kernel = &f->kernel->attrs[f->ctx->device];
    if (!(a.own & OWN_SHARED))
        a.max_dynamic_shared = kernel->max_dynamic_shared;
    if (!(a.own & OWN_CARVEOUT))
        a.carveout = kernel->carveout;
    if (!(a.own & OWN_NONPORTABLE))
        a.nonportable_cluster = kernel->nonportable_cluster;
    if (!(a.own & OWN_POLICY))
        a.cluster_policy = kernel->cluster_policy;
    if (!(a.own & OWN_CACHE))
        a.cache = kernel->cache;
    if (!(a.own & OWN_CLUSTER))
        memcpy(a.cluster, kernel->cluster, sizeof a.cluster);
    return a;
}

static CUresult cache_set(struct func_attrs *a, CUfunc_cache config)
{
    if ((unsigned)config > CU_FUNC_CACHE_PREFER_EQUAL)
        return CUDA_ERROR_INVALID_VALUE;
    a->cache = (int)config;
    a->own |= OWN_CACHE;
    return CUDA_SUCCESS;
}

CUresult sim_cuFuncGetAttribute(int *value, CUfunction_attribute which, CUfunction handle)
{
    struct function *f;
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = function_get(handle, &f, NULL);
    if (r == CUDA_SUCCESS) {
        const struct func_attrs a = function_attrs(f);
        r = attr_get(&a, f->def, which, value);
    }
    sim_unlock();
    return r;
}

/* A setter waits while a launch of another thread waits for room (H100: cuFuncSetAttribute; its
 * like are taken to), but for AGSIM_SETTERS_PASS. The function may be gone then. */
static CUresult function_alone(CUfunction handle, struct function **f)
{
    CUresult r = function_get(handle, f, NULL);
    if (r != CUDA_SUCCESS)
        return r;
    if (!sim.setters_pass)
        ctx_alone((*f)->ctx);
    return function_get(handle, f, NULL);
}

CUresult sim_cuFuncSetAttribute(CUfunction handle, CUfunction_attribute which, int value)
{
    struct function *f;
    sim_lock();
    CUresult r = function_alone(handle, &f);
    if (r == CUDA_SUCCESS)
        r = attr_set(&f->attrs, f->def, which, value);
    sim_unlock();
    return r;
}

CUresult sim_cuFuncSetCacheConfig(CUfunction handle, CUfunc_cache config)
{
    struct function *f;
    sim_lock();
    CUresult r = function_alone(handle, &f);
    if (r == CUDA_SUCCESS)
        r = cache_set(&f->attrs, config);
    sim_unlock();
    return r;
}

static CUresult kernel_on(CUkernel handle, CUdevice dev, struct kernel **k)
{
    *k = obj_get(OBJ_KERNEL, handle);
    if (!*k)
        return CUDA_ERROR_INVALID_HANDLE;
    if (dev < 0 || dev >= sim.ndevices)
        return CUDA_ERROR_INVALID_DEVICE;
    struct ctx *ctx;
    struct function *f;
    if (sim.lazy && ctx_current(&ctx) == CUDA_SUCCESS && ctx->device == dev)
        (void)function_of_kernel(*k, ctx, &f); /* the question loads it */
    return CUDA_SUCCESS;
}

/* As function_alone(), in the device's context that is current. */
static CUresult kernel_alone(CUkernel handle, CUdevice dev, struct kernel **k)
{
    struct ctx *ctx;
    CUresult r = kernel_on(handle, dev, k);
    if (r != CUDA_SUCCESS || ctx_current(&ctx) != CUDA_SUCCESS || ctx->device != dev)
        return r;
    if (!sim.setters_pass)
        ctx_alone(ctx);
    return kernel_on(handle, dev, k);
}

CUresult sim_cuKernelGetAttribute(int *value, CUfunction_attribute which, CUkernel handle,
                                  CUdevice dev)
{
    struct kernel *k;
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = kernel_on(handle, dev, &k);
    if (r == CUDA_SUCCESS)
        r = attr_get(&k->attrs[dev], k->def, which, value);
    sim_unlock();
    return r;
}

CUresult sim_cuKernelSetAttribute(CUfunction_attribute which, int value, CUkernel handle,
                                  CUdevice dev)
{
    struct kernel *k;
    sim_lock();
    CUresult r = kernel_alone(handle, dev, &k);
    if (r == CUDA_SUCCESS)
        r = attr_set(&k->attrs[dev], k->def, which, value);
    sim_unlock();
    return r;
}

CUresult sim_cuKernelSetCacheConfig(CUkernel handle, CUfunc_cache config, CUdevice dev)
{
    struct kernel *k;
    sim_lock();
    CUresult r = kernel_alone(handle, dev, &k);
    if (r == CUDA_SUCCESS)
        r = cache_set(&k->attrs[dev], config);
    sim_unlock();
    return r;
}

/* -- Occupancy: by threads and shared memory alone -- */

CUresult sim_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *n, CUfunction handle,
                                                                  int block, size_t shared,
                                                                  unsigned flags)
{
    struct function *f;
    if (!n || block <= 0 || flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = function_get(handle, &f, NULL);
    if (r == CUDA_SUCCESS) {
        bool fits = block <= (int)kernel_most_threads(f->def);
        int by_threads = fits ? 2048 / ((block + 31) / 32 * 32) : 0;
        shared += f->def->limits.shared;
        int by_shared = 233472 / (int)(shared > SHARED_MAX ? 233473 : shared + 1024);
        *n = by_threads > 32 ? 32 : by_threads;
        *n = by_shared < *n ? by_shared : *n;
    }
    sim_unlock();
    return r;
}

CUresult sim_cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, CUfunction f, int block,
                                                         size_t shared)
{
    return sim_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(n, f, block, shared, 0);
}

CUresult sim_cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, CUfunction handle,
                                                       CUoccupancyB2DSize by_block, size_t shared,
                                                       int limit, unsigned flags)
{
    struct function *f;
    (void)by_block, (void)shared;
    if (!grid || !block || flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = function_get(handle, &f, NULL);
    sim_unlock();
    *block = limit > 0 && limit < 1024 ? limit : 1024;
    *grid = 132 * (2048 / *block);
    return r;
}

CUresult sim_cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction f,
                                              CUoccupancyB2DSize by_block, size_t shared, int limit)
{
    return sim_cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, f, by_block, shared, limit,
                                                         0);
}

CUresult sim_cuOccupancyAvailableDynamicSMemPerBlock(size_t *size, CUfunction handle, int blocks,
                                                     int block)
{
    struct function *f;
    if (!size || blocks <= 0 || block <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = function_get(handle, &f, NULL);
    sim_unlock();
    int each = 233472 / blocks - 1024;
    *size = each < 0 ? 0 : each > SHARED_MAX ? SHARED_MAX : (size_t)each;
    return r;
}
