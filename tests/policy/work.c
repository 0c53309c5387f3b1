/* SPDX-License-Identifier: MIT */
/* The driver's calls that give work to the GPU, one op each, and those that wait for it. */
#include "driver/driver.h"
#include "engine/context/fetch.h"
#include "policy/costs.h"
#include "policy/driver.h"
#include "policy/threads.h"

/* An op that the calling thread has submitted by itself. Returns when it will be done. */
static uint64_t submit(CUstream handle, enum play_kind kind, struct play_event *event, uint64_t ns,
                       uint64_t locked)
{
    struct play_gpu *stream = play_resolve(handle);
    play_gpu_room(stream);
    play_call(ns, locked);
    struct play_op op = play_gpu_take(play_issues(stream), kind, event);
    return play_gpu_submit(stream, &op);
}

/* -- Kernels ---------------------------------------------------------------------------- */

static CUresult launch(CUfunction func, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                       unsigned by, unsigned bz, unsigned shared, CUstream stream, void **params,
                       void **extra)
{
    (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)extra;
    if (play_is_fetch(func))
        ((struct ag_fetched *)*(CUdeviceptr *)params[1])->done = 1;
    submit(stream, play_is_fetch(func) ? PLAY_OP_FETCH : PLAY_OP_KERNEL, NULL, NS_LAUNCH,
           NS_LAUNCH_LOCKED);
    return CUDA_SUCCESS;
}

static CUresult launch_ex(const CUlaunchConfig *config, CUfunction func, void **params,
                          void **extra)
{
    return launch(func, config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX,
                  config->blockDimY, config->blockDimZ, config->sharedMemBytes, config->hStream,
                  params, extra);
}

/* -- Memsets and copies ------------------------------------------------------------------- */

static CUresult memset_in(CUstream stream)
{
    submit(stream, PLAY_OP_MEMSET, NULL, NS_MEMSET, NS_LAUNCH_LOCKED);
    return CUDA_SUCCESS;
}

static CUresult memset_8(CUdeviceptr dst, unsigned char value, size_t count, CUstream stream)
{
    (void)dst, (void)value, (void)count;
    return memset_in(stream);
}

static CUresult memset_16(CUdeviceptr dst, unsigned short value, size_t count, CUstream stream)
{
    (void)dst, (void)value, (void)count;
    return memset_in(stream);
}

static CUresult memset_32(CUdeviceptr dst, unsigned value, size_t count, CUstream stream)
{
    (void)dst, (void)value, (void)count;
    return memset_in(stream);
}

static CUresult memset_2d8(CUdeviceptr dst, size_t pitch, unsigned char value, size_t count,
                           size_t height, CUstream stream)
{
    (void)dst, (void)pitch, (void)value, (void)count, (void)height;
    return memset_in(stream);
}

static CUresult memset_2d16(CUdeviceptr dst, size_t pitch, unsigned short value, size_t count,
                            size_t height, CUstream stream)
{
    (void)dst, (void)pitch, (void)value, (void)count, (void)height;
    return memset_in(stream);
}

static CUresult memset_2d32(CUdeviceptr dst, size_t pitch, unsigned value, size_t count,
                            size_t height, CUstream stream)
{
    (void)dst, (void)pitch, (void)value, (void)count, (void)height;
    return memset_in(stream);
}

/* The host waits for what goes to pageable memory, and gives the driver what comes from there. */
static CUresult copy(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
    enum { PAGEABLE, HOST };
    unsigned to = play_memory_type(dst), from = play_memory_type(src);
    if (to <= HOST) {
        uint64_t end = submit(stream, PLAY_OP_DOWNLOAD, NULL, NS_READ, NS_LAUNCH_LOCKED);
        if (to == PAGEABLE)
            play_gpu_wait(end);
    } else if (from <= HOST) {
        uint64_t own = from == PAGEABLE ? bytes / 1024 * NS_PAGEABLE_KB : 0;
        submit(stream, PLAY_OP_UPLOAD, NULL, NS_UPLOAD + own, NS_LAUNCH_LOCKED);
    } else {
        submit(stream, PLAY_OP_COPY, NULL, NS_COPY, NS_LAUNCH_LOCKED);
    }
    return CUDA_SUCCESS;
}

static CUresult copy_3d(const CUDA_MEMCPY3D *p, CUstream stream)
{
    CUdeviceptr dst =
        p->dstMemoryType == CU_MEMORYTYPE_HOST ? (CUdeviceptr)p->dstHost : p->dstDevice;
    CUdeviceptr src =
        p->srcMemoryType == CU_MEMORYTYPE_HOST ? (CUdeviceptr)p->srcHost : p->srcDevice;
    return copy(dst, src, p->WidthInBytes * p->Height * p->Depth, stream);
}

static CUresult free_async(CUdeviceptr address, CUstream stream)
{
    (void)stream, (void)address;
    play_call(NS_FREE, NS_FREE / 2);
    return CUDA_SUCCESS;
}

/* -- Values -------------------------------------------------------------------------------- */

static CUresult value_32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags)
{
    (void)address, (void)value, (void)flags;
    submit(stream, PLAY_OP_VALUE, NULL, NS_VALUE, NS_LAUNCH_LOCKED);
    return CUDA_SUCCESS;
}

static CUresult value_64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags)
{
    return value_32(stream, address, (cuuint32_t)value, flags);
}

/* -- Events -------------------------------------------------------------------------------- */

static CUresult create_event(CUevent *to, unsigned flags)
{
    struct play_event *event = play_place(sizeof *event);
    (void)flags;
    play_call(NS_EVENT_CREATE, NS_EVENT_CREATE);
    *to = (CUevent)event;
    return CUDA_SUCCESS;
}

static CUresult destroy_event(CUevent event)
{
    (void)event;
    return CUDA_SUCCESS;
}

static CUresult record(CUevent event, CUstream stream)
{
    submit(stream, PLAY_OP_RECORD, (struct play_event *)event, NS_RECORD, 0);
    return CUDA_SUCCESS;
}

static CUresult wait_event(CUstream stream, CUevent event, unsigned flags)
{
    (void)flags;
    submit(stream, PLAY_OP_WAIT, (struct play_event *)event, NS_STREAM_WAIT, 0);
    return CUDA_SUCCESS;
}

static CUresult query_event(CUevent event)
{
    play_spend(NS_ASK);
    return ((struct play_event *)event)->time <= play_now() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static CUresult synchronize_event(CUevent event)
{
    play_gpu_wait(((struct play_event *)event)->time);
    return CUDA_SUCCESS;
}

/* -- Streams ------------------------------------------------------------------------------- */

static CUresult create_stream(CUstream *to, unsigned flags)
{
    struct play_gpu *stream = play_place(sizeof *stream);
    play_call(NS_STREAM_CREATE, NS_STREAM_CREATE);
    stream->kind = flags == CU_STREAM_NON_BLOCKING;
    stream->context = play_current();
    *to = (CUstream)stream;
    return CUDA_SUCCESS;
}

static CUresult destroy_stream(CUstream stream)
{
    (void)stream;
    play_call(NS_STREAM_DESTROY, NS_STREAM_DESTROY);
    return CUDA_SUCCESS;
}

static CUresult query_stream(CUstream stream)
{
    play_spend(NS_ASK);
    return play_gpu_end(play_resolve(stream)) <= play_now() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static CUresult synchronize_stream(CUstream stream)
{
    play_gpu_wait(play_gpu_end(play_resolve(stream)));
    return CUDA_SUCCESS;
}

void play_driver_work(struct ag_driver *to)
{
    to->cuLaunchKernel = launch;
    to->cuLaunchKernelEx = launch_ex;
    to->cuMemsetD8Async = memset_8;
    to->cuMemsetD16Async = memset_16;
    to->cuMemsetD32Async = memset_32;
    to->cuMemsetD2D8Async = memset_2d8;
    to->cuMemsetD2D16Async = memset_2d16;
    to->cuMemsetD2D32Async = memset_2d32;
    to->cuMemcpyAsync = copy;
    to->cuMemcpy3DAsync_v2 = copy_3d;
    to->cuMemFreeAsync = free_async;
    to->cuStreamWriteValue32_v2 = to->cuStreamWaitValue32_v2 = value_32;
    to->cuStreamWriteValue64_v2 = to->cuStreamWaitValue64_v2 = value_64;
    to->cuEventCreate = create_event;
    to->cuEventDestroy_v2 = destroy_event;
    to->cuEventRecord = record;
    to->cuEventQuery = query_event;
    to->cuEventSynchronize = synchronize_event;
    to->cuStreamCreate = create_stream;
    to->cuStreamDestroy_v2 = destroy_stream;
    to->cuStreamQuery = query_stream;
    to->cuStreamSynchronize = synchronize_stream;
    to->cuStreamWaitEvent = wait_event;
}
