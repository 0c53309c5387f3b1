/* SPDX-License-Identifier: MIT */
/* memory.c: allocations of all kinds. The device's memory is host memory in an
 * arena at a fixed address, so a program that allocates the same gets the same
 * pointers in every run. Lowest free address first: what is freed is used again
 * at once, and a use after it shows as wrong data. */
#include "sim.h"

#include "sanitize.h"

#include <sys/mman.h>
#include <unistd.h>

#define ARENA_SIZE ((size_t)16 << 30) /* per kind; address space, not memory */
#define ALIGN      512
#define POISON_MAX ((size_t)64 << 10) /* bytes of freed memory that are overwritten */

#ifdef AG_SANITIZED
#define ARENA_BASE 0x7e9000000000u /* where the sanitizers leave room */
#else
#define ARENA_BASE 0x200000000000u
#endif

enum { ARENA_DEVICE, ARENA_HOST, ARENA_VIRTUAL, ARENAS };
static struct {
    uintptr_t base;
    size_t size;
} arenas[ARENAS];
static int shared = -1; /* with AGSIM_IPC, what the device's memory is */

/* All allocations, sorted by address; pointers, since others keep them. */
static struct alloc **table;
static unsigned count, capacity;
static uint64_t allocs_made;

void alloc_init(void)
{
    for (unsigned i = 0; i < ARENAS; i++) {
        void *want = (void *)(uintptr_t)(ARENA_BASE + i * ARENA_SIZE);
        if (i == ARENA_DEVICE && sim_env("AGSIM_IPC")) {
            shared = memfd_create("simulated device", MFD_CLOEXEC);
            if (shared >= 0 && ftruncate(shared, (off_t)ARENA_SIZE) != 0)
                abort();
        }
        int fd = i == ARENA_DEVICE ? shared : -1;
        int how = MAP_NORESERVE | (fd >= 0 ? MAP_SHARED : MAP_ANONYMOUS | MAP_PRIVATE);
        void *p = mmap(want, ARENA_SIZE, PROT_READ | PROT_WRITE, how | MAP_FIXED_NOREPLACE, fd, 0);
        if (p == MAP_FAILED)
            p = mmap(NULL, ARENA_SIZE, PROT_READ | PROT_WRITE, how, fd, 0);
        if (p == MAP_FAILED)
            continue; /* every allocation will say out of memory */
        arenas[i].base = (uintptr_t)p;
        arenas[i].size = ARENA_SIZE;
    }
}

/* -- The table -- */

/* Index of the first allocation that begins above p. */
static unsigned above(uintptr_t p)
{
    unsigned low = 0, high = count;
    while (low < high) {
        unsigned mid = (low + high) / 2;
        if (table[mid]->base <= p)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static struct alloc *holder(uintptr_t p, size_t size)
{
    unsigned i = above(p);
    struct alloc *a = i ? table[i - 1] : NULL;
    return a && p - a->base < a->size + (size == 0) && size <= a->size - (p - a->base) ? a : NULL;
}

struct alloc *alloc_find(CUdeviceptr p, size_t size)
{
    struct alloc *a = holder((uintptr_t)p, size);
    return a && !a->freed ? a : NULL;
}

bool range_is_device(CUdeviceptr p, size_t size)
{
    const struct alloc *a = alloc_find(p, 1);
    for (; a && a->memory && size > a->base + a->size - p; a = alloc_find(p, 1)) {
        size -= a->base + a->size - p; /* it goes on in what is mapped behind */
        p = a->base + a->size;
    }
    return a && alloc_find(p, size);
}

bool range_is_ours(uintptr_t p)
{
    for (unsigned i = 0; i < ARENAS; i++)
        if (p - arenas[i].base < arenas[i].size)
            return true;
    return false;
}

bool range_is_host(uintptr_t p)
{
    return !range_is_ours(p) || p - arenas[ARENA_HOST].base < arenas[ARENA_HOST].size;
}

static bool insert(struct alloc *a)
{
    if (count == capacity) {
        unsigned more = capacity ? 2 * capacity : 64;
        struct alloc **t = realloc(table, more * sizeof(struct alloc *));
        if (!t)
            return false;
        table = t;
        capacity = more;
    }
    unsigned i = above(a->base);
    memmove(table + i + 1, table + i, (count - i) * sizeof(struct alloc *));
    table[i] = a;
    count++;
    return true;
}

/* First fit; 0: no room. */
static uintptr_t find_gap(unsigned arena, size_t size)
{
    uintptr_t at = arenas[arena].base, end = at + arenas[arena].size;
    for (unsigned i = above(at - 1); at && i < count && table[i]->base < end; i++) {
        if (table[i]->base - at >= size)
            return at;
        at = table[i]->base + table[i]->capacity;
    }
    return end - at >= size ? at : 0;
}

CUresult alloc_new(struct ctx *ctx, enum alloc_kind kind, size_t size, struct alloc **out)
{
    size_t room = (size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    if (room < size || room > DEVICE_MEMORY)
        return CUDA_ERROR_OUT_OF_MEMORY;
    uintptr_t at = find_gap(kind == ALLOC_HOST ? ARENA_HOST : ARENA_DEVICE, room);
    struct alloc *a = at ? calloc(1, sizeof *a) : NULL;
    if (!a)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *a = (struct alloc){.base = at,
                        .size = size,
                        .capacity = room,
                        .kind = kind,
                        .ctx = ctx,
                        .device = ctx->device,
                        .id = ++allocs_made};
    if (!insert(a)) {
        free(a);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = a;
    return CUDA_SUCCESS;
}

struct alloc *alloc_mapped(uintptr_t at, size_t size, struct memory *memory)
{
    struct alloc *a = calloc(1, sizeof *a);
    if (!a)
        return NULL;
    *a = (struct alloc){.base = at,
                        .size = size,
                        .capacity = size,
                        .kind = memory->device < 0 ? ALLOC_HOST : ALLOC_DEVICE,
                        .device = memory->device < 0 ? 0 : memory->device,
                        .id = ++allocs_made,
                        .memory = memory};
    if (insert(a))
        return a;
    free(a);
    return NULL;
}

struct alloc *alloc_foreign(struct ctx *ctx, uintptr_t at, size_t size)
{
    struct alloc *a = calloc(1, sizeof *a);
    if (!a)
        return NULL;
    *a = (struct alloc){.base = at,
                        .size = size,
                        .capacity = size,
                        .kind = ALLOC_DEVICE,
                        .ctx = ctx,
                        .device = ctx->device,
                        .id = ++allocs_made,
                        .foreign = true};
    if (insert(a))
        return a;
    free(a);
    return NULL;
}

int alloc_shared(uintptr_t *base)
{
    *base = arenas[ARENA_DEVICE].base;
    return shared;
}

struct alloc *alloc_first(uintptr_t at, size_t size)
{
    unsigned i = above(at - 1);
    return i < count && table[i]->base - at < size ? table[i] : NULL;
}

uintptr_t alloc_virtual(size_t *room)
{
    *room = arenas[ARENA_VIRTUAL].size;
    return arenas[ARENA_VIRTUAL].base;
}

unsigned alloc_count(void)
{
    return count;
}

struct alloc *alloc_at(unsigned i)
{
    return table[i];
}

void alloc_reborn(struct alloc *a, size_t size)
{
    a->size = size;
    a->freed = false;
    a->id = ++allocs_made; /* the free on its way is not for this one */
}

static void poison(const struct alloc *a)
{
    if (a->kind != ALLOC_REGISTERED && !a->foreign)
        memset((void *)a->base, 0xdb, a->size < POISON_MAX ? a->size : POISON_MAX);
}

void alloc_forget(struct alloc *a)
{
    unsigned i = above(a->base) - 1;
    memmove(table + i, table + i + 1, (count - i - 1) * sizeof(struct alloc *));
    count--;
    free(a);
}

void alloc_drop(struct alloc *a)
{
    if (a->pool)
        a->pool->used -= a->capacity;
    poison(a);
    alloc_forget(a);
}

void alloc_hold(CUdeviceptr p, uint64_t id, int change)
{
    struct alloc *a = holder((uintptr_t)p, 0);
    if (a && a->id == id && !(a->holders += (unsigned)change))
        alloc_drop(a);
}

void alloc_release_ctx(struct ctx *ctx)
{
    for (unsigned i = count; i-- > 0;)
        if (table[i]->ctx == ctx)
            alloc_drop(table[i]);
}

void alloc_free_done(CUdeviceptr p, uint64_t id)
{
    struct alloc *a = holder((uintptr_t)p, 0);
    if (!a || a->id != id)
        return; /* used again by its own stream in the meantime */
    alloc_drop(a);
}

/* -- Doors: device memory -- */

static CUresult allocate(enum alloc_kind kind, size_t size, unsigned flags, CUdeviceptr *out)
{
    struct ctx *ctx;
    struct alloc *a;
    if (!out || !size)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = ctx_current(&ctx);
    if (r == CUDA_SUCCESS)
        r = capture_check_unsafe();
    if (r == CUDA_SUCCESS) {
        ctx_alone(ctx);
        r = alloc_new(ctx, kind, size, &a);
    }
    if (r == CUDA_SUCCESS) {
        a->flags = flags;
        *out = a->base;
    }
    sim_unlock();
    return r;
}

CUresult sim_cuMemAlloc_v2(CUdeviceptr *out, size_t size)
{
    return allocate(ALLOC_DEVICE, size, 0, out);
}

CUresult sim_cuMemAlloc(CUdeviceptr_v1 *out, unsigned size)
{
    (void)out, (void)size;
    return CUDA_ERROR_OUT_OF_MEMORY; /* no address here fits in 32 bits */
}

CUresult sim_cuMemAllocPitch_v2(CUdeviceptr *out, size_t *pitch, size_t width, size_t height,
                                unsigned elem)
{
    if (!pitch || !width || !height || (elem != 4 && elem != 8 && elem != 16))
        return CUDA_ERROR_INVALID_VALUE;
    *pitch = (width + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    return allocate(ALLOC_DEVICE, *pitch * height, 0, out);
}

CUresult sim_cuMemAllocManaged(CUdeviceptr *out, size_t size, unsigned flags)
{
    if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)
        return CUDA_ERROR_INVALID_VALUE;
    return allocate(ALLOC_MANAGED, size, flags, out);
}

/* The common way to free: after all work of the context. */
static CUresult release(uintptr_t p, unsigned kinds)
{
    if (!p)
        return kinds & 1u << ALLOC_DEVICE ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = capture_check_unsafe();
    struct alloc *a = r == CUDA_SUCCESS ? alloc_find(p, 0) : NULL;
    if (r == CUDA_SUCCESS &&
        (!a || a->base != p || a->memory || a->foreign || !(kinds & 1u << a->kind)))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS) {
        uint64_t id = a->id;
        strict_quiet();
        r = ctx_synchronize(a->ctx);
        a = alloc_find(p, 0); /* the lock was open meanwhile */
        if (r == CUDA_SUCCESS)
            r = a && a->id == id ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
        if (r == CUDA_SUCCESS)
            alloc_drop(a);
    }
    sim_unlock();
    return r;
}

CUresult sim_cuMemFree_v2(CUdeviceptr p)
{
    return release(p, 1u << ALLOC_DEVICE | 1u << ALLOC_MANAGED);
}

CUresult sim_cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr p)
{
    struct ctx *ctx;
    sim_lock();
    CUresult r = ctx_current(&ctx);
    struct alloc *a = r == CUDA_SUCCESS ? alloc_find(p, 1) : NULL;
    if (a && !alloc_access(a, ctx->device))
        a = NULL; /* as if it were not there (H100) */
    if (r == CUDA_SUCCESS && !a)
        r = CUDA_ERROR_NOT_FOUND;
    if (a && base)
        *base = a->base;
    if (a && size)
        *size = a->size;
    sim_unlock();
    return r;
}

CUresult sim_cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    struct ctx *ctx;
    if (!free_bytes || !total)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    CUresult r = ctx_current(&ctx);
    if (r == CUDA_SUCCESS) {
        *total = *free_bytes = DEVICE_MEMORY;
        for (unsigned i = 0; i < count; i++)
            if (table[i]->kind == ALLOC_DEVICE && table[i]->device == ctx->device &&
                *free_bytes >= table[i]->capacity)
                *free_bytes -= table[i]->capacity;
    }
    sim_unlock();
    return r;
}

/* -- Doors: host memory -- */

CUresult sim_cuMemHostAlloc(void **out, size_t size, unsigned flags)
{
    CUdeviceptr p;
    if (!out || flags > 7)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = allocate(ALLOC_HOST, size, flags, &p);
    if (r == CUDA_SUCCESS)
        *out = (void *)p;
    return r;
}

CUresult sim_cuMemAllocHost_v2(void **out, size_t size)
{
    return sim_cuMemHostAlloc(out, size, 0);
}

CUresult sim_cuMemFreeHost(void *p)
{
    return release((uintptr_t)p, 1u << ALLOC_HOST);
}

CUresult sim_cuMemHostRegister_v2(void *p, size_t size, unsigned flags)
{
    struct ctx *ctx;
    if (!p || !size || flags > 15)
        return CUDA_ERROR_INVALID_VALUE;
    uintptr_t base = (uintptr_t)p;
    sim_lock();
    CUresult r = ctx_current(&ctx);
    if (r == CUDA_SUCCESS)
        r = capture_check_unsafe();
    unsigned i = above(base + size - 1);
    if (r == CUDA_SUCCESS && i && table[i - 1]->base + table[i - 1]->size > base)
        r = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    struct alloc *a = r == CUDA_SUCCESS ? calloc(1, sizeof *a) : NULL;
    if (a) {
        *a = (struct alloc){.base = base,
                            .size = size,
                            .capacity = size,
                            .kind = ALLOC_REGISTERED,
                            .ctx = ctx,
                            .device = ctx->device,
                            .flags = flags,
                            .id = ++allocs_made};
        if (flags & CU_MEMHOSTREGISTER_READ_ONLY)
            access_is_used();
    }
    if (r == CUDA_SUCCESS && (!a || !insert(a))) {
        free(a);
        r = CUDA_ERROR_OUT_OF_MEMORY;
    }
    sim_unlock();
    return r;
}

CUresult sim_cuMemHostRegister(void *p, size_t size, unsigned flags)
{
    return sim_cuMemHostRegister_v2(p, size, flags);
}

CUresult sim_cuMemHostUnregister(void *p)
{
    CUresult r = release((uintptr_t)p, 1u << ALLOC_REGISTERED);
    return r == CUDA_ERROR_INVALID_VALUE && p ? CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED : r;
}

CUresult sim_cuMemHostGetDevicePointer_v2(CUdeviceptr *out, void *p, unsigned flags)
{
    if (!out || !p || flags)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct alloc *a = alloc_find((uintptr_t)p, 1);
    bool ok = a && (a->kind == ALLOC_HOST || a->kind == ALLOC_REGISTERED);
    if (ok)
        *out = (CUdeviceptr)(uintptr_t)p;
    sim_unlock();
    return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuMemHostGetFlags(unsigned *flags, void *p)
{
    if (!flags || !p)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct alloc *a = alloc_find((uintptr_t)p, 1);
    bool ok = a && (a->kind == ALLOC_HOST || a->kind == ALLOC_REGISTERED);
    if (ok)
        *flags = a->flags | CU_MEMHOSTALLOC_DEVICEMAP;
    sim_unlock();
    return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* -- Doors: hints for managed memory, which change nothing here -- */

static CUresult hint(CUdeviceptr p, size_t size)
{
    sim_lock();
    struct alloc *a = size ? alloc_find(p, size) : NULL;
    bool ok = a && a->kind == ALLOC_MANAGED;
    sim_unlock();
    return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuMemAdvise_v2(CUdeviceptr p, size_t size, CUmem_advise advice, CUmemLocation where)
{
    (void)advice, (void)where;
    return hint(p, size);
}

CUresult sim_cuMemPrefetchAsync_v2(CUdeviceptr p, size_t size, CUmemLocation where, unsigned flags,
                                   CUstream stream)
{
    struct stream *s;
    struct work w = {.kind = WORK_EMPTY};
    (void)where;
    CUresult r = flags ? CUDA_ERROR_INVALID_VALUE : hint(p, size);
    sim_lock();
    if (r == CUDA_SUCCESS)
        r = stream_get(stream, &s);
    if (r == CUDA_SUCCESS)
        r = s->capture ? stream_check_sync(s) : stream_submit(s, &w);
    sim_unlock();
    return r;
}
