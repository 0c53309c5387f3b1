/* SPDX-License-Identifier: MIT */
/* virtual.c: memory that the program maps at addresses of its choice ("Virtual Memory Management").
 * What a handle stands for is a file in memory, so that it keeps its bytes wherever it is mapped.
 * A mapping is an allocation to memory.c. What was measured is of an H100, driver 580. */
#include "sim.h"

#include <sys/mman.h>
#include <unistd.h>

enum { GRANULE = 2 << 20 };

/* Addresses that are reserved, sorted. */
static struct range {
    uintptr_t base;
    size_t size;
} ranges[64];
static unsigned nranges;

static atomic_bool used; /* some memory may be without access */

/* -- Access ------------------------------------------------------------------ */

unsigned alloc_access(const struct alloc *a, int device)
{
    if (a->memory)
        return a->access[device];
    return a->kind == ALLOC_REGISTERED && a->flags & CU_MEMHOSTREGISTER_READ_ONLY ? 1 : 3;
}

void access_is_used(void)
{
    atomic_store(&used, true);
}

bool range_is_open(CUdeviceptr p, size_t size, int device, bool write)
{
    const unsigned need = write ? 3 : 1;
    while (size) {
        const struct alloc *a = alloc_find(p, 1);
        if (!a || (alloc_access(a, device) & need) != need)
            return !a; /* pageable memory is the host's affair */
        size_t here = a->base + a->size - p;
        if (size <= here)
            break;
        size -= here;
        p += here;
    }
    return true;
}

/* Where the device may only read, a write fails when it executes (H100). */
bool range_takes_words(CUdeviceptr p, size_t size, int device)
{
    const struct alloc *a = alloc_find(p, 1);
    return range_is_device(p, size) && !a->pool && a->kind != ALLOC_MANAGED &&
           range_is_open(p, size, device, false);
}

static size_t span_of(const struct copy_side *s, const struct work *w)
{
    return (size_t)(copy_row(s, w->copy.height - 1, w->copy.depth - 1) - copy_row(s, 0, 0)) +
           w->copy.width;
}

/* A copy that calls its side the host's goes by way of the host, where the device may not (H100).
 */
static bool side_is_open(const struct copy_side *s, const struct work *w, int device, bool write)
{
    const struct alloc *a = alloc_find((CUdeviceptr)copy_row(s, 0, 0), 1);
    bool by_host = s->type == CU_MEMORYTYPE_HOST && a && a->memory && a->memory->device < 0;
    return by_host || range_is_open((CUdeviceptr)copy_row(s, 0, 0), span_of(s, w), device, write);
}

bool work_is_open(const struct work *w, int device)
{
    if (w->kind == WORK_MEMSET)
        return !w->memset.width || !w->memset.height ||
               range_is_open(w->memset.dst,
                             (w->memset.height - 1) * w->memset.pitch +
                                 w->memset.width * w->memset.elem,
                             device, true);
    if (w->kind == WORK_COPY)
        return (w->copy.staging || side_is_open(&w->copy.src, w, device, false)) &&
               side_is_open(&w->copy.dst, w, device, true);
    if (w->kind == WORK_MEM_OP)
        return range_is_open(w->mem_op.addr, w->mem_op.wide ? 8 : 4, device, !w->mem_op.wait);
    return !work_is_read_back(w) ||
           range_is_open(read_back_source(w), read_back_bytes(w), device, false);
}

/* Whether a kernel that reads back has memory of its own context, or of none. */
static bool is_own(const struct work *w, const struct ctx *ctx)
{
    const struct alloc *a = alloc_find(read_back_source(w), 1);
    return !a || a->pool || !a->ctx || a->ctx == ctx;
}

bool work_may_run(const struct work *w, const struct ctx *ctx)
{
    bool reads = work_is_read_back(w);
    if (!atomic_load(&used) && !reads)
        return true;
    pthread_mutex_lock(&sim.lock);
    bool open = work_is_open(w, ctx->device) && (!reads || is_own(w, ctx));
    pthread_mutex_unlock(&sim.lock);
    return open;
}

/* -- Addresses ------------------------------------------------------------------ */

static struct range *range_of(CUdeviceptr p, size_t size)
{
    for (unsigned i = 0; i < nranges; i++)
        if (p - ranges[i].base < ranges[i].size && size <= ranges[i].size - (p - ranges[i].base))
            return &ranges[i];
    return NULL;
}

size_t range_reserved(CUdeviceptr p)
{
    const struct range *r = range_of(p, 1);
    return r ? r->size : 0;
}

uintptr_t range_reserve(size_t wish)
{
    size_t room, size = (wish + GRANULE - 1) & ~(size_t)(GRANULE - 1);
    uintptr_t at = alloc_virtual(&room), end = at + room;
    unsigned i = 0;
    at = (at + GRANULE - 1) & ~(uintptr_t)(GRANULE - 1);
    for (; i < nranges && ranges[i].base - at < size; i++)
        at = ranges[i].base + ranges[i].size;
    if (nranges == COUNT(ranges) || size > room || end - at < size)
        return 0;
    memmove(ranges + i + 1, ranges + i, (nranges++ - i) * sizeof *ranges);
    ranges[i] = (struct range){at, size};
    return at;
}

/* Nothing is behind the addresses any more, whatever was. */
static void clear(uintptr_t p, size_t size)
{
    (void)mmap((void *)p, size, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

void range_release(uintptr_t p)
{
    struct range *r = range_of(p, 1);
    clear(r->base, r->size);
    memmove(r, r + 1, (size_t)(ranges + nranges-- - (r + 1)) * sizeof *r);
}

CUresult sim_cuMemAddressReserve(CUdeviceptr *out, size_t size, size_t alignment, CUdeviceptr wish,
                                 unsigned long long flags)
{
    (void)wish;
    if (!out || !size || size % GRANULE || alignment > GRANULE || flags)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    uintptr_t at = range_reserve(size);
    if (at)
        *out = at;
    sim_unlock();
    return at ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_cuMemAddressFree(CUdeviceptr p, size_t size)
{
    sim_lock();
    struct range *r = range_of(p, size);
    bool ok = r && r->base == p && r->size == size;
    ok = ok && !alloc_first(p, size);
    if (ok)
        range_release(p);
    sim_unlock();
    return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* -- Memory ------------------------------------------------------------------------ */

static bool prop_is_good(const CUmemAllocationProp *p)
{
    return p && p->type == CU_MEM_ALLOCATION_TYPE_PINNED &&
           (p->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
            (p->location.type == CU_MEM_LOCATION_TYPE_DEVICE && p->location.id >= 0 &&
             p->location.id < sim.ndevices));
}

CUresult sim_cuMemGetAllocationGranularity(size_t *out, const CUmemAllocationProp *prop,
                                           CUmemAllocationGranularity_flags which)
{
    (void)which;
    if (!out || !prop_is_good(prop))
        return CUDA_ERROR_INVALID_VALUE;
    *out = GRANULE;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemCreate(CUmemGenericAllocationHandle *out, size_t size,
                         const CUmemAllocationProp *prop, unsigned long long flags)
{
    if (!out || !size || size % GRANULE || flags || !prop_is_good(prop))
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    int fd = memfd_create("simulated memory", MFD_CLOEXEC);
    struct memory *m = fd >= 0 && ftruncate(fd, (off_t)size) == 0 ? obj_new(OBJ_MEMORY) : NULL;
    if (m) {
        m->size = size;
        m->fd = fd;
        m->device = prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? prop->location.id : -1;
        *out = (CUmemGenericAllocationHandle)(uintptr_t)m;
    } else if (fd >= 0) {
        close(fd);
    }
    sim_unlock();
    return m ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static void settle(struct memory *m)
{
    if (!m->released || m->mappings)
        return;
    close(m->fd);
    obj_free(m);
}

CUresult sim_cuMemRelease(CUmemGenericAllocationHandle handle)
{
    sim_lock();
    struct memory *m = obj_get(OBJ_MEMORY, (void *)(uintptr_t)handle);
    bool ok = m && !m->released;
    if (ok) {
        m->released = true;
        settle(m);
    }
    sim_unlock();
    return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* -- Mappings -------------------------------------------------------------------------- */

/* Whether the range is made of whole mappings. */
static bool is_mapped(CUdeviceptr p, size_t size)
{
    const struct alloc *a = NULL;
    for (CUdeviceptr at = p; at < p + size; at = a->base + a->size)
        if (!(a = alloc_find(at, 1)) || !a->memory || a->base != at || a->size > p + size - at)
            return false;
    return true;
}

CUresult sim_cuMemMap(CUdeviceptr p, size_t size, size_t offset,
                      CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    if (!size || size % GRANULE || p % GRANULE || offset || flags)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct memory *m = obj_get(OBJ_MEMORY, (void *)(uintptr_t)handle);
    CUresult r = m && !m->released && size == m->size && range_of(p, size) && !alloc_first(p, size)
                     ? CUDA_SUCCESS
                     : CUDA_ERROR_INVALID_VALUE;
    struct alloc *a = NULL;
    if (r == CUDA_SUCCESS && !(a = alloc_mapped(p, size, m)))
        r = CUDA_ERROR_OUT_OF_MEMORY;
    if (a && mmap((void *)(uintptr_t)p, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, m->fd,
                  0) == MAP_FAILED) {
        alloc_forget(a);
        r = CUDA_ERROR_OUT_OF_MEMORY;
    } else if (a) {
        m->mappings++;
        access_is_used();
    }
    sim_unlock();
    return r;
}

CUresult sim_cuMemUnmap(CUdeviceptr p, size_t size)
{
    if (!size || size % GRANULE || p % GRANULE)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    bool ok = is_mapped(p, size);
    for (struct alloc *a = NULL; ok && (a = alloc_first(p, size));) {
        struct memory *m = a->memory;
        alloc_forget(a);
        m->mappings--;
        settle(m);
    }
    if (ok)
        clear(p, size);
    sim_unlock();
    return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static bool desc_is_good(const CUmemAccessDesc *d)
{
    return d->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
           (d->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
            (unsigned)d->location.id < (unsigned)sim.ndevices);
}

CUresult sim_cuMemSetAccess(CUdeviceptr p, size_t size, const CUmemAccessDesc *desc, size_t n)
{
    if (!size || size % GRANULE || p % GRANULE || !desc || !n)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    bool ok = is_mapped(p, size);
    for (size_t i = 0; ok && i < n; i++)
        ok = desc_is_good(&desc[i]);
    for (CUdeviceptr at = p; ok && at < p + size;) {
        struct alloc *a = alloc_find(at, 1);
        for (size_t i = 0; i < n; i++)
            if (desc[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE)
                a->access[desc[i].location.id] = (unsigned char)desc[i].flags;
        at += a->size;
    }
    sim_unlock();
    return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuMemGetAccess(unsigned long long *out, const CUmemLocation *location, CUdeviceptr p)
{
    if (!out || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE ||
        (unsigned)location->id >= (unsigned)sim.ndevices)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    const struct alloc *a = alloc_find(p, 1);
    bool ok = a && a->memory;
    if (ok)
        *out = a->access[location->id];
    sim_unlock();
    return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
