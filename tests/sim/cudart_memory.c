/* SPDX-License-Identifier: MIT */
/* Memory of the simulated runtime that belongs to no stream, and copies as the driver describes
 * them. */
#include <string.h>

#include "cudart.h"

/* -- Allocation --- */

cudaError_t cudaMalloc(void **pointer, size_t size)
{
    if (pointer && size == 0) {
        *pointer = NULL;
        RT_CALL(CUDA_SUCCESS);
    }
    RT_CALL(DRIVER.cuMemAlloc((CUdeviceptr *)pointer, size));
}

cudaError_t cudaMallocPitch(void **pointer, size_t *pitch, size_t width, size_t height)
{
    RT_CALL(DRIVER.cuMemAllocPitch((CUdeviceptr *)pointer, pitch, width, height, 4));
}

cudaError_t cudaMallocManaged(void **pointer, size_t size, unsigned flags)
{
    RT_CALL(DRIVER.cuMemAllocManaged((CUdeviceptr *)pointer, size, flags));
}

cudaError_t cudaFree(void *pointer)
{
    if (!pointer)
        RT_CALL(CUDA_SUCCESS);
    RT_CALL(DRIVER.cuMemFree((CUdeviceptr)pointer));
}

cudaError_t cudaHostAlloc(void **pointer, size_t size, unsigned flags)
{
    RT_CALL(DRIVER.cuMemHostAlloc(pointer, size, flags));
}

cudaError_t cudaMallocHost(void **pointer, size_t size)
{
    return cudaHostAlloc(pointer, size, 0);
}

cudaError_t cudaFreeHost(void *pointer)
{
    if (!pointer)
        RT_CALL(CUDA_SUCCESS);
    RT_CALL(DRIVER.cuMemFreeHost(pointer));
}

cudaError_t cudaHostRegister(void *pointer, size_t size, unsigned flags)
{
    RT_CALL(DRIVER.cuMemHostRegister(pointer, size, flags));
}

cudaError_t cudaHostUnregister(void *pointer)
{
    RT_CALL(DRIVER.cuMemHostUnregister(pointer));
}

cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned flags)
{
    RT_CALL(DRIVER.cuMemHostGetDevicePointer((CUdeviceptr *)device, host, flags));
}

cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
    RT_CALL(DRIVER.cuMemGetInfo(available, total));
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device)
{
    RT_CALL(DRIVER.cuDeviceGetDefaultMemPool(pool, device));
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value)
{
    RT_CALL(DRIVER.cuMemPoolSetAttribute(pool, (CUmemPool_attribute)attribute, value));
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *a, const void *pointer)
{
    CUdeviceptr p = (CUdeviceptr)pointer, device_pointer = 0;
    void *host_pointer = NULL;
    unsigned type = 0, managed = 0;
    int device = cudaInvalidDeviceId;
    memset(a, 0, sizeof(*a));
    cudaError_t error = rt_enter();
    if (error)
        return rt_result(error);
    /* Memory that the driver does not know is no error: plain host memory. */
    if (DRIVER.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p)) {
        a->type = cudaMemoryTypeUnregistered;
        a->device = cudaInvalidDeviceId;
        a->hostPointer = (void *)pointer;
        return cudaSuccess;
    }
    CUresult result = DRIVER.cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, p);
    if (result == CUDA_SUCCESS)
        result = DRIVER.cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p);
    if (result)
        return rt_result((cudaError_t)result);
    /* Memory without a mapping on one side has no pointer there. */
    if (DRIVER.cuPointerGetAttribute(&device_pointer, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, p))
        device_pointer = 0;
    if (DRIVER.cuPointerGetAttribute(&host_pointer, CU_POINTER_ATTRIBUTE_HOST_POINTER, p))
        host_pointer = NULL;
    a->type = managed                      ? cudaMemoryTypeManaged
              : type == CU_MEMORYTYPE_HOST ? cudaMemoryTypeHost
                                           : cudaMemoryTypeDevice;
    a->device = device;
    a->devicePointer = (void *)device_pointer;
    a->hostPointer = host_pointer;
    return cudaSuccess;
}

/* -- Copies --- */

struct side {
    CUmemorytype from, to;
};

static cudaError_t sides(enum cudaMemcpyKind kind, struct side *side)
{
    static const struct side by_kind[] = {
        [cudaMemcpyHostToHost] = {CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_HOST},
        [cudaMemcpyHostToDevice] = {CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE},
        [cudaMemcpyDeviceToHost] = {CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST},
        [cudaMemcpyDeviceToDevice] = {CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_DEVICE},
        [cudaMemcpyDefault] = {CU_MEMORYTYPE_UNIFIED, CU_MEMORYTYPE_UNIFIED},
    };
    if ((unsigned)kind > cudaMemcpyDefault)
        return cudaErrorInvalidMemcpyDirection;
    *side = by_kind[kind];
    return cudaSuccess;
}

cudaError_t rt_copy_3d(CUDA_MEMCPY3D *copy, const struct cudaMemcpy3DParms *p)
{
    struct side side;
    cudaError_t error = sides(p->kind, &side);
    if (error)
        return error;
    if (p->srcArray || p->dstArray)
        return cudaErrorNotSupported;
    memset(copy, 0, sizeof(*copy));
    copy->srcMemoryType = side.from;
    copy->srcHost = p->srcPtr.ptr;
    copy->srcDevice = (CUdeviceptr)p->srcPtr.ptr;
    copy->srcPitch = p->srcPtr.pitch;
    copy->srcHeight = p->srcPtr.ysize;
    copy->srcXInBytes = p->srcPos.x;
    copy->srcY = p->srcPos.y;
    copy->srcZ = p->srcPos.z;
    copy->dstMemoryType = side.to;
    copy->dstHost = p->dstPtr.ptr;
    copy->dstDevice = (CUdeviceptr)p->dstPtr.ptr;
    copy->dstPitch = p->dstPtr.pitch;
    copy->dstHeight = p->dstPtr.ysize;
    copy->dstXInBytes = p->dstPos.x;
    copy->dstY = p->dstPos.y;
    copy->dstZ = p->dstPos.z;
    copy->WidthInBytes = p->extent.width;
    copy->Height = p->extent.height;
    copy->Depth = p->extent.depth;
    return cudaSuccess;
}

cudaError_t rt_copy_1d(CUDA_MEMCPY3D *copy, void *to, const void *from, size_t bytes,
                       enum cudaMemcpyKind kind)
{
    struct cudaMemcpy3DParms p = {
        .srcPtr = {(void *)from, bytes, bytes, 1},
        .dstPtr = {to, bytes, bytes, 1},
        .extent = {bytes, 1, 1},
        .kind = kind,
    };
    return rt_copy_3d(copy, &p);
}

cudaError_t rt_copy_2d(CUDA_MEMCPY2D *copy, void *to, size_t to_pitch, const void *from,
                       size_t from_pitch, size_t width, size_t height, enum cudaMemcpyKind kind)
{
    struct side side;
    cudaError_t error = sides(kind, &side);
    if (error)
        return error;
    memset(copy, 0, sizeof(*copy));
    copy->srcMemoryType = side.from;
    copy->srcHost = from;
    copy->srcDevice = (CUdeviceptr)from;
    copy->srcPitch = from_pitch;
    copy->dstMemoryType = side.to;
    copy->dstHost = to;
    copy->dstDevice = (CUdeviceptr)to;
    copy->dstPitch = to_pitch;
    copy->WidthInBytes = width;
    copy->Height = height;
    return cudaSuccess;
}
