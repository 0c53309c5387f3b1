/* SPDX-License-Identifier: MIT */
/* module.c: modules and libraries, functions and kernels. A CUkernel belongs to
 * a library and has one CUfunction in each context that asked for it. */
#include "sim.h"

#include <stdio.h>

/* -- Life -- */

static struct function *function_new(struct module *m, struct kernel_def *def, struct kernel *k)
{
    struct function **more = realloc(m->funcs, (m->nfuncs + 1) * sizeof(struct function *));
    if (!more)
        return NULL;
    m->funcs = more;
    struct function *f = obj_new(OBJ_FUNCTION);
    if (!f)
        return NULL;
    f->module = m;
    f->ctx = m->ctx;
    f->def = def;
    f->kernel = k;
    f->attrs = kernel_fresh_attrs(def);
    m->funcs[m->nfuncs++] = f;
    return f;
}

static void module_free(struct module *m)
{
    while (m->nfuncs)
        obj_free(m->funcs[--m->nfuncs]);
    free(m->funcs);
    free(m->defs);
    obj_free(m);
}

static struct module *module_in(struct library *l, struct ctx *ctx)
{
    for (unsigned i = 0; i < l->nmodules; i++)
        if (l->per_ctx[i]->ctx == ctx)
            return l->per_ctx[i];
    struct module **more = realloc(l->per_ctx, (l->nmodules + 1) * sizeof(struct module *));
    if (!more)
        return NULL;
    l->per_ctx = more;
    struct module *m = obj_new(OBJ_MODULE);
    if (!m)
        return NULL;
    m->ctx = ctx;
    m->library = l;
    return l->per_ctx[l->nmodules++] = m;
}

void module_release_ctx(struct ctx *ctx)
{
    for (struct library *l = NULL; (l = obj_next(OBJ_LIBRARY, l));)
        for (unsigned i = 0; i < l->nmodules; i++)
            if (l->per_ctx[i]->ctx == ctx) {
                module_free(l->per_ctx[i]);
                l->per_ctx[i--] = l->per_ctx[--l->nmodules];
            }
    for (struct module *m = NULL; (m = obj_next(OBJ_MODULE, m));)
        if (m->ctx == ctx)
            module_free(m);
}

CUresult function_of_kernel(struct kernel *k, struct ctx *ctx, struct function **out)
{
    struct module *m = module_in(k->library, ctx);
    if (!m)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (unsigned i = 0; i < m->nfuncs; i++)
        if (m->funcs[i]->kernel == k) {
            *out = m->funcs[i];
            return CUDA_SUCCESS;
        }
    *out = function_new(m, k->def, k);
    strict_load();
    if (sim.lazy)
        sim_wait_quiet();
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Whether other threads' calls wait, too, and whether a first launch waits, was not measured: here
 * they do, and it does not. */
void function_settle(struct function *f)
{
    if (f->def->limits.local && !f->settled) {
        strict_load();
        if (sim.lazy)
            sim_wait_quiet();
    }
    f->settled = true;
}

CUresult function_get(CUfunction handle, struct function **f, struct kernel **k)
{
    *f = obj_get(OBJ_FUNCTION, handle);
    if (k)
        *k = *f ? NULL : obj_get(OBJ_KERNEL, handle);
    return *f || (k && *k) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* -- Modules -- */

static CUresult module_load(CUmodule *out, const void *image)
{
    struct ctx *ctx;
    struct kernel_def **defs = NULL;
    unsigned n = 0;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = ctx_current(&ctx);
    strict_quiet();
    if (r == CUDA_SUCCESS)
        r = image_kernels(image, &defs, &n);
    struct module *m = r == CUDA_SUCCESS ? obj_new(OBJ_MODULE) : NULL;
    if (m) {
        m->ctx = ctx;
        m->defs = defs;
        m->ndefs = n;
        *out = (CUmodule)m;
    } else if (r == CUDA_SUCCESS) {
        free(defs);
        r = CUDA_ERROR_OUT_OF_MEMORY;
    }
    sim_unlock();
    return r;
}

CUresult sim_cuModuleLoadData(CUmodule *out, const void *image)
{
    return module_load(out, image);
}

CUresult sim_cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned n, CUjit_option *options,
                                void **values)
{
    if (n && (!options || !values))
        return CUDA_ERROR_INVALID_VALUE;
    return module_load(out, image);
}

CUresult sim_cuModuleLoadFatBinary(CUmodule *out, const void *image)
{
    return module_load(out, image);
}

static char *read_file(const char *path)
{
    FILE *f = path ? fopen(path, "rb") : NULL;
    char *text = NULL;
    size_t used = 0, got;
    while (f) {
        char *more = realloc(text, used + 65537);
        if (!more)
            break;
        text = more;
        got = fread(text + used, 1, 65536, f);
        used += got;
        text[used] = 0;
        if (!got)
            break;
    }
    if (f)
        fclose(f);
    return text;
}

CUresult sim_cuModuleLoad(CUmodule *out, const char *path)
{
    char *text = read_file(path);
    CUresult r = text ? module_load(out, text) : CUDA_ERROR_FILE_NOT_FOUND;
    free(text);
    return r;
}

CUresult sim_cuModuleUnload(CUmodule handle)
{
    sim_lock();
    struct module *m = obj_get(OBJ_MODULE, handle);
    CUresult r = m ? capture_check_unsafe() : CUDA_ERROR_INVALID_HANDLE;
    if (r == CUDA_SUCCESS && m->library)
        r = CUDA_ERROR_NOT_PERMITTED; /* a library's module goes with the library */
    if (r == CUDA_SUCCESS)
        module_free(m);
    sim_unlock();
    return r;
}

CUresult sim_cuModuleGetFunction(CUfunction *out, CUmodule handle, const char *name)
{
    if (!out || !name)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = CUDA_ERROR_NOT_FOUND;
    sim_lock();
    struct module *m = obj_get(OBJ_MODULE, handle);
    struct function *f = NULL;
    if (!m) {
        r = CUDA_ERROR_INVALID_HANDLE;
    } else if (m->library) {
        for (unsigned i = 0; i < m->library->nkernels; i++)
            if (!strcmp(m->library->kernels[i]->def->name, name) &&
                m->library->kernels[i]->def->body)
                r = function_of_kernel(m->library->kernels[i], m->ctx, &f);
    } else {
        for (unsigned i = 0; i < m->nfuncs && !f; i++)
            if (!strcmp(m->funcs[i]->def->name, name))
                f = m->funcs[i];
        for (unsigned i = 0; i < m->ndefs && !f; i++)
            if (!strcmp(m->defs[i]->name, name) && m->defs[i]->body &&
                !(f = function_new(m, m->defs[i], NULL)))
                r = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (f) {
        *out = (CUfunction)f;
        r = CUDA_SUCCESS;
    }
    sim_unlock();
    return r;
}

CUresult sim_cuModuleGetFunctionCount(unsigned *n, CUmodule handle)
{
    if (!n)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct module *m = obj_get(OBJ_MODULE, handle);
    if (m)
        *n = m->library ? m->library->nkernels : m->ndefs;
    sim_unlock();
    return m ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult sim_cuModuleEnumerateFunctions(CUfunction *out, unsigned n, CUmodule handle)
{
    CUresult r = out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    unsigned have = 0;
    if (r == CUDA_SUCCESS)
        r = sim_cuModuleGetFunctionCount(&have, handle);
    for (unsigned i = 0; i < have && i < n && r == CUDA_SUCCESS; i++) {
        struct module *m = (struct module *)handle; /* alive: just asked */
        r = sim_cuModuleGetFunction(
            &out[i], handle, m->library ? m->library->kernels[i]->def->name : m->defs[i]->name);
    }
    return r;
}

CUresult sim_cuModuleGetGlobal_v2(CUdeviceptr *p, size_t *size, CUmodule handle, const char *name)
{
    (void)p, (void)size;
    sim_lock();
    bool ok = obj_get(OBJ_MODULE, handle) != NULL && name;
    sim_unlock();
    return ok ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_INVALID_HANDLE; /* no globals here */
}

/* -- Libraries -- */

static void library_free(struct library *l)
{
    while (l->nmodules)
        module_free(l->per_ctx[--l->nmodules]);
    while (l->nkernels)
        obj_free(l->kernels[--l->nkernels]);
    free(l->per_ctx);
    free(l->kernels);
    obj_free(l);
}

static CUresult library_load(CUlibrary *out, const void *image)
{
    struct kernel_def **defs = NULL;
    unsigned n = 0;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = image_kernels(image, &defs, &n);
    struct library *l = r == CUDA_SUCCESS ? obj_new(OBJ_LIBRARY) : NULL;
    if (l && (l->kernels = calloc(n ? n : 1, sizeof(struct kernel *)))) {
        while (l->nkernels < n) {
            struct kernel *k = obj_new(OBJ_KERNEL);
            if (!k)
                break;
            k->library = l;
            k->def = defs[l->nkernels];
            for (unsigned d = 0; d < MAX_DEVICES; d++)
                k->attrs[d] = kernel_fresh_attrs(k->def);
            l->kernels[l->nkernels++] = k;
        }
    }
    if (r == CUDA_SUCCESS && (!l || !l->kernels || l->nkernels < n)) {
        if (l)
            library_free(l);
        r = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (r == CUDA_SUCCESS)
        *out = (CUlibrary)l;
    free(defs);
    sim_unlock();
    return r;
}

CUresult sim_cuLibraryLoadData(CUlibrary *out, const void *code, CUjit_option *jit,
                               void **jit_values, unsigned njit, CUlibraryOption *options,
                               void **values, unsigned n)
{
    if ((njit && (!jit || !jit_values)) || (n && !options))
        return CUDA_ERROR_INVALID_VALUE;
    (void)values;
    return library_load(out, code);
}

CUresult sim_cuLibraryLoadFromFile(CUlibrary *out, const char *path, CUjit_option *jit,
                                   void **jit_values, unsigned njit, CUlibraryOption *options,
                                   void **values, unsigned n)
{
    if ((njit && (!jit || !jit_values)) || (n && !options))
        return CUDA_ERROR_INVALID_VALUE;
    (void)values;
    char *text = read_file(path);
    CUresult r = text ? library_load(out, text) : CUDA_ERROR_FILE_NOT_FOUND;
    free(text);
    return r;
}

CUresult sim_cuLibraryUnload(CUlibrary handle)
{
    sim_lock();
    struct library *l = obj_get(OBJ_LIBRARY, handle);
    CUresult r = l ? capture_check_unsafe() : CUDA_ERROR_INVALID_HANDLE;
    if (r == CUDA_SUCCESS)
        library_free(l);
    sim_unlock();
    return r;
}

CUresult sim_cuLibraryGetKernel(CUkernel *out, CUlibrary handle, const char *name)
{
    if (!out || !name)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct library *l = obj_get(OBJ_LIBRARY, handle);
    CUresult r = l ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_INVALID_HANDLE;
    for (unsigned i = 0; l && i < l->nkernels; i++)
        if (!strcmp(l->kernels[i]->def->name, name) && l->kernels[i]->def->body) {
            *out = (CUkernel)l->kernels[i];
            r = CUDA_SUCCESS;
        }
    sim_unlock();
    return r;
}

CUresult sim_cuLibraryGetKernelCount(unsigned *n, CUlibrary handle)
{
    if (!n)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct library *l = obj_get(OBJ_LIBRARY, handle);
    if (l)
        *n = l->nkernels;
    sim_unlock();
    return l ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult sim_cuLibraryEnumerateKernels(CUkernel *out, unsigned n, CUlibrary handle)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct library *l = obj_get(OBJ_LIBRARY, handle);
    for (unsigned i = 0; l && i < n && i < l->nkernels; i++)
        out[i] = (CUkernel)l->kernels[i];
    sim_unlock();
    return l ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult sim_cuLibraryGetModule(CUmodule *out, CUlibrary handle)
{
    struct ctx *ctx;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct library *l = obj_get(OBJ_LIBRARY, handle);
    CUresult r = l ? ctx_current(&ctx) : CUDA_ERROR_INVALID_HANDLE;
    if (r == CUDA_SUCCESS) {
        struct module *m = module_in(l, ctx);
        *out = (CUmodule)m;
        r = m ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    sim_unlock();
    return r;
}

CUresult sim_cuLibraryGetGlobal(CUdeviceptr *p, size_t *size, CUlibrary handle, const char *name)
{
    (void)p, (void)size;
    sim_lock();
    bool ok = obj_get(OBJ_LIBRARY, handle) != NULL && name;
    sim_unlock();
    return ok ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_INVALID_HANDLE;
}

CUresult sim_cuKernelGetFunction(CUfunction *out, CUkernel handle)
{
    struct ctx *ctx;
    struct function *f;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct kernel *k = obj_get(OBJ_KERNEL, handle);
    CUresult r = k ? ctx_current(&ctx) : CUDA_ERROR_INVALID_HANDLE;
    if (r == CUDA_SUCCESS)
        r = function_of_kernel(k, ctx, &f);
    if (r == CUDA_SUCCESS)
        *out = (CUfunction)f;
    sim_unlock();
    return r;
}

CUresult sim_cuKernelGetLibrary(CUlibrary *out, CUkernel handle)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct kernel *k = obj_get(OBJ_KERNEL, handle);
    if (k)
        *out = (CUlibrary)k->library;
    sim_unlock();
    return k ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
