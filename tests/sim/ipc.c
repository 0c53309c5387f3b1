/* SPDX-License-Identifier: MIT */
/* ipc.c: memory of another process. With AGSIM_IPC=1 the arena of device memory is a file in
 * memory, which the other process opens by way of /proc. */
#include "sim.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE ((uintptr_t)4096)

struct shared {
    int pid, fd;
    size_t offset, size;
};
_Static_assert(sizeof(struct shared) <= sizeof(CUipcMemHandle), "a handle has room for it");

CUresult sim_cuIpcGetMemHandle(CUipcMemHandle *out, CUdeviceptr p)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    const struct alloc *a = alloc_find(p, 1);
    uintptr_t base;
    struct shared handle = {.pid = getpid(), .fd = alloc_shared(&base)};
    CUresult r = !a || a->kind != ALLOC_DEVICE || a->pool || a->memory ? CUDA_ERROR_INVALID_VALUE
                 : handle.fd < 0                                       ? CUDA_ERROR_NOT_SUPPORTED
                                                                       : CUDA_SUCCESS;
    if (r == CUDA_SUCCESS) {
        handle.offset = a->base - base;
        handle.size = a->size;
        memset(out, 0, sizeof *out);
        memcpy(out, &handle, sizeof handle);
    }
    sim_unlock();
    return r;
}

/* The lock is held, and what is found may go away with the other process. */
static CUresult bring(struct ctx *ctx, const struct shared *handle, CUdeviceptr *out)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/fd/%d", handle->pid, handle->fd);
    uintptr_t inside = handle->offset % PAGE;
    size_t size = (inside + handle->size + PAGE - 1) & ~(PAGE - 1);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    uintptr_t at = fd >= 0 ? range_reserve(size) : 0;
    struct alloc *a = at ? alloc_foreign(ctx, at + inside, handle->size) : NULL;
    if (a && mmap((void *)at, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
                  (off_t)(handle->offset - inside)) == MAP_FAILED) {
        alloc_forget(a);
        a = NULL;
    }
    if (fd >= 0)
        close(fd);
    if (!a)
        return CUDA_ERROR_INVALID_VALUE;
    *out = a->base;
    return CUDA_SUCCESS;
}

CUresult sim_cuIpcOpenMemHandle_v2(CUdeviceptr *out, CUipcMemHandle from, unsigned flags)
{
    struct ctx *ctx;
    struct shared handle;
    memcpy(&handle, &from, sizeof handle);
    if (!out || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS || handle.pid == getpid())
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = ctx_current(&ctx);
    if (r == CUDA_SUCCESS)
        r = bring(ctx, &handle, out);
    sim_unlock();
    return r;
}

CUresult sim_cuIpcCloseMemHandle(CUdeviceptr p)
{
    sim_lock();
    struct alloc *a = alloc_find(p, 1);
    CUresult r =
        a && a->foreign && a->base == p ? ctx_synchronize(a->ctx) : CUDA_ERROR_INVALID_VALUE;
    a = r == CUDA_SUCCESS ? alloc_find(p, 1) : NULL; /* the lock was open meanwhile */
    if (a) {
        alloc_forget(a);
        range_release(p & ~(PAGE - 1));
    }
    sim_unlock();
    return r == CUDA_SUCCESS && !a ? CUDA_ERROR_INVALID_VALUE : r;
}
