/* SPDX-License-Identifier: MIT */
/* The table of known kernels. */
#include "graph/function.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "driver/driver.h"

enum { BUCKETS = 1024, FOUND = 256, MOST_FUNCTIONS = 65536, MOST_PARAMETERS = 4096 };

struct entry {
    struct entry *next;
    CUfunction handle;
    CUcontext ctx;
    uint32_t generation;
    struct ag_function function; /* ends in a flexible array: last */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static struct entry *table[BUCKETS];
static unsigned known;
static _Atomic uint32_t generation = 1; /* goes up when handles may change their meaning */

/*
 * What was found last, to be read without the lock: each launch that is not the expected one looks
 * for its kernel, in any number of threads. Direct mapped; written under the lock. What a reader
 * finds counts if the stamp is the same before and behind, is not odd, and is of this generation.
 */
static struct found {
    _Atomic uint64_t stamp; /* the generation above how often it was written; odd: it is just now */
    _Atomic(CUfunction) handle;
    _Atomic(CUcontext) ctx;
    const struct ag_function *_Atomic function;
} __attribute__((aligned(64))) found[FOUND];

#define GET(field)        atomic_load_explicit(&(field), memory_order_acquire)
#define PUT(field, value) atomic_store_explicit(&(field), (value), memory_order_release)

static uint64_t hash_of(CUfunction handle, CUcontext ctx)
{
    return ((uintptr_t)handle ^ (uintptr_t)ctx << 7) * 0x9e3779b97f4a7c15u;
}

static struct entry **bucket_of(CUfunction handle, CUcontext ctx)
{
    return &table[hash_of(handle, ctx) >> 54];
}

static struct found *place_of(CUfunction handle, CUcontext ctx)
{
    return &found[hash_of(handle, ctx) >> 56];
}
_Static_assert(BUCKETS == 1 << (64 - 54) && FOUND == 1 << (64 - 56), "as many as hashes");

/* Asks the driver. The lock is not held. */
static struct entry *describe(CUfunction handle, CUcontext ctx)
{
    CUfunction func = handle;
    if (ag_real.cuKernelGetFunction != NULL &&
        ag_real.cuKernelGetFunction(&func, (CUkernel)handle) != CUDA_SUCCESS)
        func = handle; /* not a CUkernel, so a CUfunction */
    size_t offset, size;
    uint32_t count = 0;
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;
    if (ag_real.cuFuncGetParamInfo != NULL && ag_opt.update_strategy != AG_UPDATE_RECAPTURE)
        while ((result = ag_real.cuFuncGetParamInfo(func, count, &offset, &size)) == CUDA_SUCCESS)
            if (++count == MOST_PARAMETERS)
                return NULL;
    bool kept = result == CUDA_ERROR_NOT_SUPPORTED && count == 0;
    /* INVALID_VALUE: what the documentation says of an index past the end. */
    if (result != CUDA_ERROR_INVALID_VALUE && !kept)
        return NULL;
    struct entry *entry = malloc(sizeof *entry + count * sizeof(struct ag_field));
    if (entry == NULL)
        return NULL;
    entry->handle = handle;
    entry->ctx = ctx;
    entry->function.func = func;
    entry->function.kept = kept;
    struct ag_layout *layout = &entry->function.layout;
    layout->count = count;
    layout->size = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (ag_real.cuFuncGetParamInfo(func, i, &offset, &size) != CUDA_SUCCESS) {
            free(entry);
            return NULL;
        }
        layout->field[i].offset = offset;
        layout->field[i].size = size;
        if (offset + size > layout->size)
            layout->size = offset + size;
    }
    return entry;
}

/* The lock is held. */
static struct entry *find(CUfunction handle, CUcontext ctx)
{
    struct entry *entry = *bucket_of(handle, ctx);
    while (entry != NULL &&
           !(entry->handle == handle && entry->ctx == ctx && entry->generation == GET(generation)))
        entry = entry->next;
    return entry;
}

/* The lock is held. */
static void remember(const struct entry *entry)
{
    struct found *place = place_of(entry->handle, entry->ctx);
    uint32_t times = (uint32_t)GET(place->stamp);
    PUT(place->stamp, times | 1);
    PUT(place->handle, entry->handle);
    PUT(place->ctx, entry->ctx);
    PUT(place->function, &entry->function);
    PUT(place->stamp, (uint64_t)entry->generation << 32 | (times + 2));
}

static __attribute__((noinline)) const struct ag_function *find_slow(CUfunction handle,
                                                                     CUcontext ctx)
{
    pthread_mutex_lock(&lock);
    struct entry *entry = find(handle, ctx);
    if (entry != NULL)
        remember(entry);
    pthread_mutex_unlock(&lock);
    return entry != NULL ? &entry->function : NULL;
}

const struct ag_function *ag_function_find(CUfunction handle, CUcontext ctx)
{
    struct found *place = place_of(handle, ctx);
    uint32_t now = GET(generation);
    uint64_t stamp = GET(place->stamp);
    const struct ag_function *function = GET(place->function);
    if (GET(place->handle) == handle && GET(place->ctx) == ctx && stamp % 2 == 0 &&
        stamp >> 32 == now && GET(place->stamp) == stamp)
        return function;
    return find_slow(handle, ctx);
}

struct ag_function *ag_function_copy(CUfunction handle, CUcontext ctx)
{
    struct ag_function *copy = NULL;
    pthread_mutex_lock(&lock);
    struct entry *entry = find(handle, ctx);
    if (entry != NULL) {
        size_t size =
            sizeof *copy + entry->function.layout.count * sizeof *entry->function.layout.field;
        copy = malloc(size);
        if (copy != NULL)
            memcpy(copy, &entry->function, size);
    }
    pthread_mutex_unlock(&lock);
    return copy;
}

void ag_function_learn(CUfunction handle, CUcontext ctx)
{
    uint32_t now = GET(generation);
    struct entry *entry = describe(handle, ctx);
    if (entry == NULL)
        return;
    pthread_mutex_lock(&lock);
    /* Another thread may have been faster, or the handle's meaning may have changed meanwhile. */
    if (now == GET(generation) && known < MOST_FUNCTIONS && find(handle, ctx) == NULL) {
        struct entry **bucket = bucket_of(handle, ctx);
        entry->generation = now;
        entry->next = *bucket;
        *bucket = entry;
        known++;
        entry = NULL;
    }
    pthread_mutex_unlock(&lock);
    free(entry);
}

uint32_t ag_functions_retire(void)
{
    pthread_mutex_lock(&lock); /* not while one is added */
    uint32_t now = atomic_fetch_add(&generation, 1) + 1;
    pthread_mutex_unlock(&lock);
    return now;
}

void ag_functions_sweep(uint32_t since)
{
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < BUCKETS; i++)
        for (struct entry **link = &table[i], *entry; (entry = *link) != NULL;) {
            if ((int32_t)(entry->generation - since) >= 0) {
                link = &entry->next;
                continue;
            }
            *link = entry->next;
            free(entry);
            known--;
        }
    pthread_mutex_unlock(&lock);
}
