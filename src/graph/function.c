/* SPDX-License-Identifier: MIT */
/* The table of known kernels. */
#include "graph/function.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "driver/driver.h"

enum {
    BUCKETS = 1024,         /* of the table of functions */
    FOUND = 256,            /* functions that are found without the table's lock */
    MOST_FUNCTIONS = 65536, /* in the table; launches of further ones are not held */
    MOST_PARAMETERS = 4096, /* of a kernel: an answer of the driver with more is not believed */
};

struct entry {
    struct entry *next, *alike; /* in the buckets of its handle and of its function */
    CUfunction handle;
    CUcontext ctx;
    CUmodule module;             /* NULL: not known */
    CUlibrary library;           /* of a CUkernel; NULL: not known, or it is none */
    struct ag_function function; /* ends in a flexible array: last */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static struct entry *table[BUCKETS], *by_function[BUCKETS];
static CUcontext first_context; /* that any function was known in */
static bool many_contexts;
static unsigned known;
static _Atomic uint32_t generation = 1; /* goes up when something is retired */
static _Atomic uint32_t doubts;         /* and when a setting has changed */

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

static struct entry **bucket_of_function(CUfunction func)
{
    return &by_function[hash_of(func, NULL) >> 54];
}

static struct found *place_of(CUfunction handle, CUcontext ctx)
{
    return &found[hash_of(handle, ctx) >> 56];
}
_Static_assert(BUCKETS == 1 << (64 - 54) && FOUND == 1 << (64 - 56), "as many as hashes");

/* How many parameters the function has; false: the driver does not tell. */
static bool count_parameters(CUfunction func, uint32_t *count)
{
    size_t offset, size;
    CUresult result;
    *count = 0;
    while ((result = ag_real.cuFuncGetParamInfo(func, *count, &offset, &size)) == CUDA_SUCCESS)
        if (++*count == MOST_PARAMETERS)
            return false;
    /* What the documentation says of an index past the end. */
    return result == CUDA_ERROR_INVALID_VALUE;
}

static bool lay_out(CUfunction func, struct ag_layout *layout)
{
    size_t offset, size;
    layout->size = 0;
    for (uint32_t i = 0; i < layout->count; i++) {
        if (ag_real.cuFuncGetParamInfo(func, i, &offset, &size) != CUDA_SUCCESS)
            return false;
        layout->field[i].offset = (uint32_t)offset;
        layout->field[i].size = (uint32_t)size;
        if (offset + size > layout->size)
            layout->size = (uint32_t)(offset + size);
    }
    return true;
}

/* The hash of the function's name; 0: nobody wants it, or the driver does not tell. */
static uint64_t hash_of_name(CUfunction func)
{
    const char *name = NULL;
    if (!*ag_opt.trace_profile || ag_real.cuFuncGetName == NULL ||
        ag_real.cuFuncGetName(&name, func) != CUDA_SUCCESS || name == NULL)
        return 0;
    return ag_hash(1, name, (uint32_t)strlen(name));
}

/* Who owns it; what the driver does not tell stays NULL. */
static void find_owners(struct entry *entry)
{
    const struct ag_function *function = &entry->function;
    if (ag_real.cuFuncGetModule == NULL ||
        ag_real.cuFuncGetModule(&entry->module, function->func) != CUDA_SUCCESS)
        entry->module = NULL;
    if (function->kernel == NULL || ag_real.cuKernelGetLibrary == NULL ||
        ag_real.cuKernelGetLibrary(&entry->library, function->kernel) != CUDA_SUCCESS)
        entry->library = NULL;
}

/* What the function's settings are now (setting.h). False: the driver does not tell. */
static bool ask_settings(struct ag_function *function)
{
    CUfunc_cache cache;
    if (!ag_limits_ask(&function->limits, function->func) ||
        ag_real.cuCtxGetCacheConfig(&cache) != CUDA_SUCCESS)
        return false;
    function->context_cache = (int)cache;
    return true;
}

/* Asks the driver. The lock is not held. */
static struct entry *describe(CUfunction handle, CUcontext ctx)
{
    CUfunction func = handle;
    CUkernel kernel = (CUkernel)handle;
    if (ag_real.cuKernelGetFunction(&func, kernel) != CUDA_SUCCESS) {
        func = handle; /* not a CUkernel, so a CUfunction */
        kernel = NULL;
    }
    uint32_t count;
    if (!count_parameters(func, &count))
        return NULL;
    struct entry *entry = calloc(1, sizeof *entry + count * sizeof(struct ag_field));
    if (entry == NULL)
        return NULL;
    entry->handle = handle;
    entry->ctx = ctx;
    entry->function.func = func;
    entry->function.kernel = kernel;
    entry->function.layout.count = count;
    entry->function.layout.name = hash_of_name(func);
    find_owners(entry);
    if (ask_settings(&entry->function) && lay_out(func, &entry->function.layout))
        return entry;
    free(entry);
    return NULL;
}

/* The lock is held. */
static struct entry *find(CUfunction handle, CUcontext ctx)
{
    struct entry *entry = *bucket_of(handle, ctx);
    while (entry != NULL &&
           !(entry->handle == handle && entry->ctx == ctx && GET(entry->function.retired) == 0))
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
    PUT(place->stamp, (uint64_t)GET(generation) << 32 | (times + 2));
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

CUfunction ag_function_of_handle(CUfunction handle, CUcontext ctx)
{
    pthread_mutex_lock(&lock);
    const struct entry *entry = find(handle, ctx);
    CUfunction func = entry != NULL ? entry->function.func : NULL;
    pthread_mutex_unlock(&lock);
    return func;
}

/* Copies a function with its layout, all of which is constant but for what launches change at any
   time. */
static void copy_to(struct ag_function *to, const struct ag_function *from)
{
    size_t size = sizeof *from + from->layout.count * sizeof from->layout.field[0];
    size_t at = offsetof(struct ag_function, limits.wanted);
    size_t behind = offsetof(struct ag_function, limits.launched) + sizeof from->limits.launched;
    memcpy(to, from, at);
    atomic_store(&to->limits.wanted, atomic_load(&from->limits.wanted));
    atomic_store(&to->limits.launched, atomic_load(&from->limits.launched));
    memcpy((char *)to + behind, (const char *)from + behind, size - behind);
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
            copy_to(copy, &entry->function);
    }
    pthread_mutex_unlock(&lock);
    return copy;
}

/* The lock is held. */
static void add(struct entry *entry)
{
    struct entry **bucket = bucket_of(entry->handle, entry->ctx);
    entry->next = *bucket;
    *bucket = entry;
    bucket = bucket_of_function(entry->function.func);
    entry->alike = *bucket;
    *bucket = entry;
    known++;
    if (first_context == NULL)
        first_context = entry->ctx;
    many_contexts |= first_context != entry->ctx;
}

void ag_function_learn(CUfunction handle, CUcontext ctx)
{
    uint32_t now = GET(generation), before = GET(doubts);
    struct entry *entry = describe(handle, ctx);
    if (entry == NULL)
        return;
    pthread_mutex_lock(&lock);
    /* Another thread may have been faster, or what was asked may have changed meanwhile. */
    if (now == GET(generation) && before == GET(doubts) && known < MOST_FUNCTIONS &&
        find(handle, ctx) == NULL) {
        add(entry);
        entry = NULL;
    }
    pthread_mutex_unlock(&lock);
    free(entry);
}

void ag_functions_doubt(void)
{
    atomic_fetch_add(&doubts, 1);
}

/* -- What goes, and what is set ----------------------------------------------- */

static bool is_owned(const struct entry *entry, const struct ag_functions *which)
{
    switch (which->of) {
    case AG_FUNCTIONS_OF_CONTEXT:
        return entry->ctx == which->owner;
    case AG_FUNCTIONS_OF_MODULE:
        return entry->module == NULL || entry->module == which->owner;
    case AG_FUNCTIONS_OF_LIBRARY:
        return entry->library == NULL || entry->library == which->owner;
    }
    return true;
}

/* The lock is held. Returns the stamp. */
static uint32_t retire(struct entry *entry, uint32_t stamp)
{
    if (stamp == 0)
        stamp = atomic_fetch_add(&generation, 1) + 1;
    PUT(entry->function.retired, stamp);
    return stamp;
}

uint32_t ag_functions_retire(const struct ag_functions *which)
{
    uint32_t stamp = 0;
    pthread_mutex_lock(&lock); /* not while one is added */
    for (unsigned i = 0; i < BUCKETS; i++)
        for (struct entry *entry = table[i]; entry != NULL; entry = entry->next)
            if (GET(entry->function.retired) == 0 && is_owned(entry, which))
                stamp = retire(entry, stamp);
    if (stamp == 0) /* who is just asking may be told of what goes */
        atomic_fetch_add(&generation, 1);
    pthread_mutex_unlock(&lock);
    return stamp;
}

void ag_functions_sweep(uint32_t retired)
{
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < BUCKETS; i++)
        for (struct entry **link = &by_function[i]; *link != NULL;)
            if (ag_function_is_retired(&(*link)->function.layout, retired))
                *link = (*link)->alike;
            else
                link = &(*link)->alike;
    for (unsigned i = 0; i < BUCKETS; i++)
        for (struct entry **link = &table[i], *entry; (entry = *link) != NULL;) {
            if (!ag_function_is_retired(&entry->function.layout, retired)) {
                link = &entry->next;
                continue;
            }
            *link = entry->next;
            free(entry->function.settings);
            free(entry);
            known--;
        }
    pthread_mutex_unlock(&lock);
}

static bool is_reached(const struct entry *entry, const struct ag_reach *reach)
{
    if (GET(entry->function.retired) != 0)
        return false;
    if (reach->handle == NULL)
        return entry->ctx == reach->current;
    return entry->handle == reach->handle || entry->function.func == reach->handle ||
           (reach->func != NULL && entry->function.func == reach->func) ||
           (reach->kernel && entry->ctx != reach->current && entry->function.kernel == NULL);
}

/* The lock is held. What `each` adds need not be visited. */
static void visit(const struct ag_reach *reach, void (*each)(struct entry *entry, void *data),
                  void *data)
{
    const CUfunction func[] = {reach->handle, reach->func};
    bool narrow = reach->handle != NULL && !many_contexts && reach->kernel == (func[1] != NULL);
    if (!narrow)
        for (unsigned i = 0; i < BUCKETS; i++)
            for (struct entry *entry = table[i]; entry != NULL; entry = entry->next)
                if (is_reached(entry, reach))
                    each(entry, data);
    for (unsigned i = 0; narrow && i < 2; i++)
        for (struct entry *entry = *bucket_of_function(func[i]); entry != NULL;
             entry = entry->alike)
            if (func[i] != NULL && entry->function.func == func[i] && is_reached(entry, reach))
                each(entry, data);
}

struct told {
    void (*each)(struct ag_function *function, void *data);
    void *data;
};

static void tell(struct entry *entry, void *data)
{
    const struct told *told = data;
    told->each(&entry->function, told->data);
}

void ag_functions_visit(const struct ag_reach *reach,
                        void (*each)(struct ag_function *function, void *data), void *data)
{
    struct told told = {each, data};
    pthread_mutex_lock(&lock);
    visit(reach, tell, &told);
    pthread_mutex_unlock(&lock);
}

struct renewal {
    bool (*chosen)(const struct ag_function *function, const void *data);
    bool (*begin)(struct ag_function *function);
    const void *data;
    uint32_t stamp;
};

static void renew(struct entry *entry, void *data)
{
    struct renewal *renewal = data;
    const struct ag_function *old = &entry->function;
    if (old->settings != NULL || !ag_limits_wanted(&old->limits) ||
        !renewal->chosen(old, renewal->data))
        return;
    size_t size = sizeof *entry + old->layout.count * sizeof old->layout.field[0];
    struct entry *fresh = malloc(size);
    if (fresh != NULL) {
        memcpy(fresh, entry, offsetof(struct entry, function));
        copy_to(&fresh->function, old);
    }
    renewal->stamp = retire(entry, renewal->stamp);
    if (fresh != NULL && renewal->begin(&fresh->function))
        add(fresh);
    else
        free(fresh);
}

uint32_t ag_functions_renew(const struct ag_reach *reach,
                            bool (*chosen)(const struct ag_function *function, const void *data),
                            bool (*begin)(struct ag_function *function), const void *data)
{
    struct renewal renewal = {chosen, begin, data, 0};
    pthread_mutex_lock(&lock);
    visit(reach, renew, &renewal);
    pthread_mutex_unlock(&lock);
    return renewal.stamp;
}
