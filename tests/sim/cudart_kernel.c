/* SPDX-License-Identifier: MIT */
/*
 * Kernels of the simulated runtime: the fat binaries and host functions that a
 * program registers as it starts, libraries, and what can be asked of a kernel.
 * Nothing is loaded before the first use of a kernel in its fat binary.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "cudart.h"

/* What nvcc's generated code hands over. */
struct fat_binary_wrapper {
    int magic, version;
    const void *data;
    void *filename;
};
#define FAT_BINARY_MAGIC 0x466243b1

struct fat_binary {
    const void *image;
    CUlibrary library; /* NULL: not loaded */
};

struct function {
    const void *host;
    struct fat_binary *binary;
    const char *name;
    CUkernel kernel;          /* NULL: not loaded */
    UT_hash_handle by_host;   /* always */
    UT_hash_handle by_kernel; /* if loaded */
};

/* A kernel that the program got from a library: it may be launched by its handle. */
struct handle {
    CUkernel kernel;
    CUlibrary library;
    UT_hash_handle hh;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all of these */
static struct function *functions_by_host, *functions_by_kernel;
static struct handle *handles;

/* -- Registration --- */

/* nvcc declares these by itself, no header does. */
void **__cudaRegisterFatBinary(void *wrapper);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *host_function, char *device_function,
                            const char *device_name, int thread_limit, uint3 *tid, uint3 *bid,
                            dim3 *block, dim3 *grid, int *warp_size);
char __cudaInitModule(void **handle);
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *func);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);

/* A program whose kernels cannot be registered is of no use; it has no way to be told, either. */
static void *allocate(size_t size)
{
    void *p = calloc(1, size);
    if (!p) {
        fputs("libcudart (simulated): out of memory while kernels are registered\n", stderr);
        abort();
    }
    return p;
}

void **__cudaRegisterFatBinary(void *wrapper)
{
    const struct fat_binary_wrapper *w = wrapper;
    struct fat_binary *binary = allocate(sizeof(*binary));
    binary->image = w->magic == FAT_BINARY_MAGIC ? w->data : NULL;
    return (void **)binary;
}

void __cudaRegisterFatBinaryEnd(void **handle)
{
    (void)handle;
}

char __cudaInitModule(void **handle)
{
    (void)handle;
    return 1;
}

void __cudaRegisterFunction(void **handle, const char *host_function, char *device_function,
                            const char *device_name, int thread_limit, uint3 *tid, uint3 *bid,
                            dim3 *block, dim3 *grid, int *warp_size)
{
    (void)device_function, (void)thread_limit, (void)tid, (void)bid;
    (void)block, (void)grid, (void)warp_size;
    struct function *f = allocate(sizeof(*f));
    f->host = host_function;
    f->binary = (struct fat_binary *)handle;
    f->name = device_name;
    pthread_mutex_lock(&lock);
    HASH_ADD(by_host, functions_by_host, host, sizeof(f->host), f);
    pthread_mutex_unlock(&lock);
}

void __cudaUnregisterFatBinary(void **handle)
{
    struct fat_binary *binary = (struct fat_binary *)handle;
    struct function *f, *next;
    pthread_mutex_lock(&lock);
    HASH_ITER(by_host, functions_by_host, f, next)
    {
        if (f->binary != binary)
            continue;
        if (f->kernel)
            HASH_DELETE(by_kernel, functions_by_kernel, f);
        HASH_DELETE(by_host, functions_by_host, f);
        free(f);
    }
    /* The driver may be gone already when a program ends: its answer changes nothing. */
    if (binary->library)
        (void)DRIVER.cuLibraryUnload(binary->library);
    free(binary);
    pthread_mutex_unlock(&lock);
}

/* -- Look-up --- */

static cudaError_t load(struct function *f)
{
    CUresult result = CUDA_SUCCESS;
    if (!f->binary->library) {
        if (!f->binary->image)
            return cudaErrorInvalidKernelImage;
        result = DRIVER.cuLibraryLoadData(&f->binary->library, f->binary->image, NULL, NULL, 0,
                                          NULL, NULL, 0);
    }
    if (result == CUDA_SUCCESS)
        result = DRIVER.cuLibraryGetKernel(&f->kernel, f->binary->library, f->name);
    if (result == CUDA_ERROR_NOT_FOUND)
        return cudaErrorInvalidDeviceFunction;
    if (result)
        return (cudaError_t)result;
    HASH_ADD(by_kernel, functions_by_kernel, kernel, sizeof(f->kernel), f);
    return cudaSuccess;
}

cudaError_t rt_kernel(const void *func, CUkernel *kernel)
{
    cudaError_t error = cudaSuccess;
    struct function *f;
    struct handle *h;
    pthread_mutex_lock(&lock);
    HASH_FIND(by_host, functions_by_host, &func, sizeof(func), f);
    if (f) {
        error = f->kernel ? cudaSuccess : load(f);
        *kernel = f->kernel;
    } else {
        *kernel = (CUkernel)func;
        HASH_FIND(by_kernel, functions_by_kernel, kernel, sizeof(*kernel), f);
        HASH_FIND(hh, handles, kernel, sizeof(*kernel), h);
        if (!f && !h)
            error = cudaErrorInvalidResourceHandle;
    }
    pthread_mutex_unlock(&lock);
    return error;
}

void *rt_host_function(CUkernel kernel)
{
    struct function *f;
    pthread_mutex_lock(&lock);
    HASH_FIND(by_kernel, functions_by_kernel, &kernel, sizeof(kernel), f);
    void *host = f ? (void *)f->host : (void *)kernel;
    pthread_mutex_unlock(&lock);
    return host;
}

cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *func)
{
    RT_CALL_NO_CONTEXT(rt_kernel(func, kernel));
}

cudaError_t cudaGetKernel(cudaKernel_t *kernel, const void *func)
{
    RT_CALL(rt_kernel(func, kernel));
}

/* For calls about one kernel. */
#define RT_KERNEL_CALL(func, call)                                                                 \
    do {                                                                                           \
        CUkernel kernel;                                                                           \
        cudaError_t error_ = rt_enter();                                                           \
        if (!error_)                                                                               \
            error_ = rt_kernel(func, &kernel);                                                     \
        return rt_result(error_ ? error_ : (cudaError_t)(call));                                   \
    } while (0)

cudaError_t cudaGetFuncBySymbol(cudaFunction_t *function, const void *symbol)
{
    RT_KERNEL_CALL(symbol, DRIVER.cuKernelGetFunction(function, kernel));
}

/* -- <<<>>> --- */

static _Thread_local struct {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
} configurations[8];
static _Thread_local unsigned configuration_count;

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream)
{
    if (configuration_count == sizeof(configurations) / sizeof(*configurations))
        return 1;
    unsigned i = configuration_count++;
    configurations[i].grid = grid;
    configurations[i].block = block;
    configurations[i].shared = shared;
    configurations[i].stream = stream;
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream)
{
    if (!configuration_count)
        return rt_result(cudaErrorMissingConfiguration);
    unsigned i = --configuration_count;
    *grid = configurations[i].grid;
    *block = configurations[i].block;
    *shared = configurations[i].shared;
    *(cudaStream_t *)stream = configurations[i].stream;
    return cudaSuccess;
}

/* -- Attributes --- */

cudaError_t cudaFuncSetAttribute(const void *func, enum cudaFuncAttribute attribute, int value)
{
    int device;
    cudaError_t error = cudaGetDevice(&device);
    if (error)
        return error;
    RT_KERNEL_CALL(
        func, DRIVER.cuKernelSetAttribute((CUfunction_attribute)attribute, value, kernel, device));
}

cudaError_t cudaFuncSetCacheConfig(const void *func, enum cudaFuncCache config)
{
    int device;
    cudaError_t error = cudaGetDevice(&device);
    if (error)
        return error;
    RT_KERNEL_CALL(func, DRIVER.cuKernelSetCacheConfig(kernel, (CUfunc_cache)config, device));
}

cudaError_t cudaFuncGetName(const char **name, const void *func)
{
    RT_KERNEL_CALL(func, DRIVER.cuKernelGetName(name, kernel));
}

cudaError_t cudaFuncGetParamInfo(const void *func, size_t index, size_t *offset, size_t *size)
{
    RT_KERNEL_CALL(func, DRIVER.cuKernelGetParamInfo(kernel, index, offset, size));
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *a, const void *func)
{
    int shared = 0, constant = 0, local = 0, device;
    memset(a, 0, sizeof(*a));
    const struct {
        CUfunction_attribute attribute;
        int *value;
    } values[] = {
        {CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, &shared},
        {CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, &constant},
        {CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, &local},
        {CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &a->maxThreadsPerBlock},
        {CU_FUNC_ATTRIBUTE_NUM_REGS, &a->numRegs},
        {CU_FUNC_ATTRIBUTE_PTX_VERSION, &a->ptxVersion},
        {CU_FUNC_ATTRIBUTE_BINARY_VERSION, &a->binaryVersion},
        {CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, &a->maxDynamicSharedSizeBytes},
        {CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, &a->preferredShmemCarveout},
    };
    CUkernel kernel;
    cudaError_t error = rt_enter();
    if (!error)
        error = rt_kernel(func, &kernel);
    if (!error)
        error = cudaGetDevice(&device);
    for (size_t i = 0; !error && i < sizeof(values) / sizeof(*values); i++)
        error = (cudaError_t)DRIVER.cuKernelGetAttribute(values[i].value, values[i].attribute,
                                                         kernel, device);
    a->sharedSizeBytes = (size_t)shared;
    a->constSizeBytes = (size_t)constant;
    a->localSizeBytes = (size_t)local;
    return rt_result(error);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *func,
                                                                   int block_size, size_t shared,
                                                                   unsigned flags)
{
    RT_KERNEL_CALL(func, DRIVER.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
                             blocks, (CUfunction)kernel, block_size, shared, flags));
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *func,
                                                          int block_size, size_t shared)
{
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, func, block_size, shared,
                                                                  cudaOccupancyDefault);
}

/* -- Libraries --- */

cudaError_t cudaLibraryLoadData(cudaLibrary_t *library, const void *code,
                                enum cudaJitOption *jit_options, void **jit_values,
                                unsigned jit_count, enum cudaLibraryOption *options, void **values,
                                unsigned count)
{
    /* Options of both kinds have the driver's numbers. */
    RT_CALL_NO_CONTEXT(DRIVER.cuLibraryLoadData(library, code, (CUjit_option *)jit_options,
                                                jit_values, jit_count, (CUlibraryOption *)options,
                                                values, count));
}

cudaError_t cudaLibraryUnload(cudaLibrary_t library)
{
    struct handle *h, *next;
    pthread_mutex_lock(&lock);
    HASH_ITER(hh, handles, h, next)
    {
        if (h->library == library) {
            HASH_DELETE(hh, handles, h);
            free(h);
        }
    }
    pthread_mutex_unlock(&lock);
    RT_CALL_NO_CONTEXT(DRIVER.cuLibraryUnload(library));
}

static cudaError_t add_handle(CUkernel kernel, CUlibrary library)
{
    struct handle *h;
    pthread_mutex_lock(&lock);
    HASH_FIND(hh, handles, &kernel, sizeof(kernel), h);
    if (!h && (h = calloc(1, sizeof(*h)))) {
        h->kernel = kernel;
        h->library = library;
        HASH_ADD(hh, handles, kernel, sizeof(kernel), h);
    }
    pthread_mutex_unlock(&lock);
    return h ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t *kernel, cudaLibrary_t library, const char *name)
{
    cudaError_t error = rt_start();
    if (!error)
        error = (cudaError_t)DRIVER.cuLibraryGetKernel(kernel, library, name);
    if (!error)
        error = add_handle(*kernel, library);
    return rt_result(error);
}

cudaError_t cudaLibraryGetKernelCount(unsigned *count, cudaLibrary_t library)
{
    RT_CALL_NO_CONTEXT(DRIVER.cuLibraryGetKernelCount(count, library));
}

cudaError_t cudaLibraryEnumerateKernels(cudaKernel_t *kernels, unsigned count,
                                        cudaLibrary_t library)
{
    cudaError_t error = rt_start();
    unsigned most = 0;
    if (!error)
        error = (cudaError_t)DRIVER.cuLibraryGetKernelCount(&most, library);
    if (!error)
        error = (cudaError_t)DRIVER.cuLibraryEnumerateKernels(kernels, count, library);
    for (unsigned i = 0; !error && i < count && i < most; i++)
        error = add_handle(kernels[i], library);
    return rt_result(error);
}
