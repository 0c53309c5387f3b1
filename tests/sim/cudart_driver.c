/* SPDX-License-Identifier: MIT */
/* Start of the simulated runtime, its tables of driver functions, devices, contexts and errors. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "cudart.h"

/* The runtime of CUDA 13 wants a driver of CUDA 13. This one serves older simulated drivers too, as
 * those of CUDA 12 would, so that programs can be tried on them. */
#define LEAST_DRIVER 12000
#define MAX_DEVICES  16

struct rt_driver rt_drivers[2];

static pthread_once_t start_once = PTHREAD_ONCE_INIT;
static cudaError_t start_error;

/* -- Look-ups --- */

static CUresult missing(void)
{
    return CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER;
}

static const struct {
    const char *name;
    size_t offset;
    int version[2]; /* by enum rt_stream; 0: no form of its own */
} functions[] = {
#define ONE(name, v)       {#name, offsetof(struct rt_driver, name), {v, 0}},
#define BOTH(name, v0, v2) {#name, offsetof(struct rt_driver, name), {v0, v2}},
    RT_DRIVER_FUNCTIONS(ONE, BOTH)
#undef ONE
#undef BOTH
};

typedef CUresult get_proc_address_fn(const char *, void **, int, cuuint64_t,
                                     CUdriverProcAddressQueryResult *);

static void look_up_all(get_proc_address_fn *get)
{
    static const cuuint64_t flags[2] = {0, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM};
    void *address = NULL;
    (void)get("", &address, 0, 0, NULL);
    for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++) {
        for (int s = RT_LEGACY; s <= RT_PER_THREAD; s++) {
            void **slot = (void **)((char *)&rt_drivers[s] + functions[i].offset);
            if (!functions[i].version[s]) {
                *slot = address;
                continue;
            }
            address = NULL;
            if (get(functions[i].name, &address, functions[i].version[s], flags[s], NULL) ||
                !address)
                address = (void *)missing;
            *slot = address;
        }
    }
}

static cudaError_t open_driver(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library)
        return cudaErrorInsufficientDriver;
    get_proc_address_fn *get = (get_proc_address_fn *)dlsym(library, "cuGetProcAddress_v2");
    if (!get)
        return cudaErrorInsufficientDriver;
    look_up_all(get);

    int version = 0, devices = 0;
    CUmoduleLoadingMode mode;
    CUresult result = DRIVER.cuDriverGetVersion(&version);
    if (result == CUDA_SUCCESS && version < LEAST_DRIVER)
        return cudaErrorInsufficientDriver;
    if (result == CUDA_SUCCESS)
        result = DRIVER.cuInit(0);
    if (result == CUDA_SUCCESS)
        result = DRIVER.cuModuleGetLoadingMode(&mode);
    if (result == CUDA_SUCCESS)
        result = DRIVER.cuDeviceGetCount(&devices);
    if (result == CUDA_SUCCESS && devices == 0)
        result = CUDA_ERROR_NO_DEVICE;
    return (cudaError_t)result;
}

static void start(void)
{
    start_error = open_driver();
}

cudaError_t rt_start(void)
{
    pthread_once(&start_once, start);
    return start_error;
}

/* -- Errors --- */

static _Thread_local cudaError_t last_error;

cudaError_t rt_result(cudaError_t error)
{
    if (error)
        last_error = error;
    return error;
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError(void)
{
    return last_error;
}

#define ERRORS(F)                                                                                  \
    F(cudaSuccess)                                                                                 \
    F(cudaErrorInvalidValue)                                                                       \
    F(cudaErrorMemoryAllocation)                                                                   \
    F(cudaErrorInitializationError)                                                                \
    F(cudaErrorInvalidConfiguration)                                                               \
    F(cudaErrorInvalidMemcpyDirection)                                                             \
    F(cudaErrorInsufficientDriver)                                                                 \
    F(cudaErrorCallRequiresNewerDriver)                                                            \
    F(cudaErrorInvalidDeviceFunction)                                                              \
    F(cudaErrorNoDevice)                                                                           \
    F(cudaErrorInvalidDevice)                                                                      \
    F(cudaErrorInvalidKernelImage)                                                                 \
    F(cudaErrorDeviceUninitialized)                                                                \
    F(cudaErrorInvalidResourceHandle)                                                              \
    F(cudaErrorSymbolNotFound)                                                                     \
    F(cudaErrorNotReady)                                                                           \
    F(cudaErrorIllegalAddress)                                                                     \
    F(cudaErrorContextIsDestroyed)                                                                 \
    F(cudaErrorLaunchFailure)                                                                      \
    F(cudaErrorNotPermitted)                                                                       \
    F(cudaErrorNotSupported)                                                                       \
    F(cudaErrorStreamCaptureUnsupported)                                                           \
    F(cudaErrorStreamCaptureInvalidated)                                                           \
    F(cudaErrorStreamCaptureMerge)                                                                 \
    F(cudaErrorStreamCaptureUnmatched)                                                             \
    F(cudaErrorStreamCaptureUnjoined)                                                              \
    F(cudaErrorStreamCaptureIsolation)                                                             \
    F(cudaErrorStreamCaptureImplicit)                                                              \
    F(cudaErrorCapturedEvent)                                                                      \
    F(cudaErrorStreamCaptureWrongThread)                                                           \
    F(cudaErrorGraphExecUpdateFailure)                                                             \
    F(cudaErrorUnknown)

const char *cudaGetErrorName(cudaError_t error)
{
    switch (error) {
#define NAME(error)                                                                                \
    case error:                                                                                    \
        return #error;
        ERRORS(NAME)
#undef NAME
    default:
        return "unrecognized error code";
    }
}

const char *cudaGetErrorString(cudaError_t error)
{
    return cudaGetErrorName(error);
}

/* -- Contexts --- */

static pthread_mutex_t context_lock = PTHREAD_MUTEX_INITIALIZER;
static CUcontext primary[MAX_DEVICES]; /* retained; guarded by context_lock */
static atomic_uint resets;             /* how often a primary context was reset */

static _Thread_local struct {
    int device;
    CUcontext context; /* the primary context that the runtime made current */
    unsigned resets;   /* when it did */
} thread;

static cudaError_t use_primary(int device)
{
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&context_lock);
    if (!primary[device])
        result = DRIVER.cuDevicePrimaryCtxRetain(&primary[device], device);
    CUcontext context = primary[device];
    unsigned when = atomic_load(&resets);
    pthread_mutex_unlock(&context_lock);
    if (result == CUDA_SUCCESS)
        result = DRIVER.cuCtxSetCurrent(context);
    if (result == CUDA_SUCCESS) {
        thread.context = context;
        thread.resets = when;
    }
    return (cudaError_t)result;
}

cudaError_t rt_enter(void)
{
    cudaError_t error = rt_start();
    if (error)
        return error;
    CUcontext context;
    CUresult result = DRIVER.cuCtxGetCurrent(&context);
    if (result)
        return (cudaError_t)result;
    if (context && (context != thread.context || thread.resets == atomic_load(&resets)))
        return cudaSuccess;
    return use_primary(thread.device);
}

static cudaError_t check_device(int device)
{
    int count;
    cudaError_t error = rt_start();
    if (!error)
        error = (cudaError_t)DRIVER.cuDeviceGetCount(&count);
    if (!error && (device < 0 || device >= count || device >= MAX_DEVICES))
        error = cudaErrorInvalidDevice;
    return error;
}

cudaError_t cudaSetDevice(int device)
{
    cudaError_t error = check_device(device);
    if (error)
        return rt_result(error);
    thread.device = device;
    return rt_result(use_primary(device));
}

cudaError_t cudaInitDevice(int device, unsigned device_flags, unsigned flags)
{
    (void)device_flags;
    (void)flags;
    int before = thread.device;
    CUcontext context;
    cudaError_t error = check_device(device);
    if (!error)
        error = (cudaError_t)DRIVER.cuCtxGetCurrent(&context);
    if (!error)
        error = use_primary(device);
    if (!error)
        error = (cudaError_t)DRIVER.cuCtxSetCurrent(context);
    thread.device = before;
    return rt_result(error);
}

cudaError_t cudaGetDevice(int *device)
{
    cudaError_t error = rt_start();
    CUcontext context = NULL;
    if (!error)
        error = (cudaError_t)DRIVER.cuCtxGetCurrent(&context);
    *device = thread.device;
    if (!error && context && context != thread.context)
        error = (cudaError_t)DRIVER.cuCtxGetDevice(device);
    return rt_result(error);
}

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = 0;
    RT_CALL_NO_CONTEXT(DRIVER.cuDeviceGetCount(count));
}

cudaError_t cudaDeviceSynchronize(void)
{
    RT_CALL(DRIVER.cuCtxSynchronize());
}

cudaError_t cudaDeviceReset(void)
{
    cudaError_t error = rt_start();
    if (error)
        return rt_result(error);
    pthread_mutex_lock(&context_lock);
    CUresult result = CUDA_SUCCESS;
    if (primary[thread.device]) {
        result = DRIVER.cuDevicePrimaryCtxReset(thread.device);
        (void)DRIVER.cuDevicePrimaryCtxRelease(thread.device);
        primary[thread.device] = NULL;
        atomic_fetch_add(&resets, 1);
    }
    pthread_mutex_unlock(&context_lock);
    return rt_result((cudaError_t)result);
}

/* -- What there is --- */

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = 0;
    cudaError_t error = rt_start();
    if (error == cudaErrorInsufficientDriver)
        return cudaSuccess; /* no driver: version 0 */
    return rt_result(error ? error : (cudaError_t)DRIVER.cuDriverGetVersion(version));
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    cudaError_t error = check_device(device);
    return rt_result(error ? error
                           : (cudaError_t)DRIVER.cuDeviceGetAttribute(
                                 value, (CUdevice_attribute)attribute, device));
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    RT_CALL(DRIVER.cuCtxGetStreamPriorityRange(least, greatest));
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device)
{
    memset(p, 0, sizeof(*p));
    const struct {
        enum cudaDeviceAttr attribute;
        int *field;
    } fields[] = {
        {cudaDevAttrComputeCapabilityMajor, &p->major},
        {cudaDevAttrComputeCapabilityMinor, &p->minor},
        {cudaDevAttrMultiProcessorCount, &p->multiProcessorCount},
        {cudaDevAttrMaxThreadsPerBlock, &p->maxThreadsPerBlock},
        {cudaDevAttrMaxBlockDimX, &p->maxThreadsDim[0]},
        {cudaDevAttrMaxBlockDimY, &p->maxThreadsDim[1]},
        {cudaDevAttrMaxBlockDimZ, &p->maxThreadsDim[2]},
        {cudaDevAttrMaxGridDimX, &p->maxGridSize[0]},
        {cudaDevAttrMaxGridDimY, &p->maxGridSize[1]},
        {cudaDevAttrMaxGridDimZ, &p->maxGridSize[2]},
        {cudaDevAttrWarpSize, &p->warpSize},
        {cudaDevAttrUnifiedAddressing, &p->unifiedAddressing},
        {cudaDevAttrManagedMemory, &p->managedMemory},
        {cudaDevAttrConcurrentKernels, &p->concurrentKernels},
        {cudaDevAttrStreamPrioritiesSupported, &p->streamPrioritiesSupported},
    };
    cudaError_t error = check_device(device);
    if (!error)
        error = (cudaError_t)DRIVER.cuDeviceGetName(p->name, sizeof(p->name), device);
    if (!error)
        error = (cudaError_t)DRIVER.cuDeviceTotalMem(&p->totalGlobalMem, device);
    for (size_t i = 0; !error && i < sizeof(fields) / sizeof(*fields); i++)
        error = (cudaError_t)DRIVER.cuDeviceGetAttribute(
            fields[i].field, (CUdevice_attribute)fields[i].attribute, device);
    int shared = 0, optin = 0;
    if (!error)
        error = (cudaError_t)DRIVER.cuDeviceGetAttribute(
            &shared, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, device);
    if (!error)
        error = (cudaError_t)DRIVER.cuDeviceGetAttribute(
            &optin, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device);
    p->sharedMemPerBlock = (size_t)shared;
    p->sharedMemPerBlockOptin = (size_t)optin;
    return rt_result(error);
}
