/* SPDX-License-Identifier: MIT */
/* What a caller of a CUDA runtime would be bound to without this library. */
#include "preload/runtime.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "preload/preload.h"

#define RUNTIME "libcudart.so"

/* -- Looking it up ---------------------------------------------------------- */

/*
 * The version that the object asks of the runtime's functions, "libcudart.so.13": a program that
 * holds two runtimes is bound to each by it. NULL if it asks for none.
 */
static const char *version_asked(const struct link_map *object)
{
    const ElfW(Verneed) *need = NULL;
    const char *strings = NULL;
    for (const ElfW(Dyn) *entry = object->l_ld; entry && entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_VERNEED)
            need = (const void *)(object->l_addr + entry->d_un.d_ptr); /* not relocated in place */
        else if (entry->d_tag == DT_STRTAB)
            strings = (const char *)entry->d_un.d_ptr;
    }
    while (need && strings) {
        const ElfW(Vernaux) *version = (const void *)((const char *)need + need->vn_aux);
        if (strncmp(strings + version->vna_name, RUNTIME, strlen(RUNTIME)) == 0)
            return strings + version->vna_name;
        need = need->vn_next ? (const void *)((const char *)need + need->vn_next) : NULL;
    }
    return NULL;
}

/* struct dl_find_object of glibc 2.35, and room for what comes behind it. */
struct place {
    unsigned long long flags;
    void *start, *end;
    struct link_map *object;
    unsigned long long others[12];
};

/* glibc's _dl_find_object(), which takes no lock; NULL before 2.35. */
typedef int object_finder(void *address, struct place *place);
static object_finder *_Atomic find_object;

/* The object around an address; NULL if there is none. */
static struct link_map *object_of(const void *address)
{
    object_finder *lock_free = atomic_load_explicit(&find_object, memory_order_relaxed);
    struct place place;
    if (lock_free)
        return lock_free((void *)(uintptr_t)address, &place) == 0 ? place.object : NULL;
    Dl_info info;
    struct link_map *object = NULL;
    return dladdr1(address, &info, (void **)&object, RTLD_DL_LINKMAP) ? object : NULL;
}

static bool defines_versions(const struct link_map *object)
{
    for (const ElfW(Dyn) *entry = object->l_ld; entry && entry->d_tag != DT_NULL; entry++)
        if (entry->d_tag == DT_VERDEF)
            return true;
    return false;
}

/* A definition without a version does for any, where the linker binds a call; dlvsym() skips it. */
static void *find(void *handle, const char *name, const char *version)
{
    void *first = ag_dlsym(handle, name);
    const struct link_map *object = version && first ? object_of(first) : NULL;
    return version && (!object || defines_versions(object)) ? dlvsym(handle, name, version) : first;
}

static void *find_in(const char *path, const char *name, const char *version)
{
    void *handle = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    if (!handle)
        return NULL;
    void *found = find(handle, name, version);
    dlclose(handle);
    return found;
}

struct runtimes {
    unsigned count;
    char path[4096];
};

static int note_runtime(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    struct runtimes *runtimes = context;
    const char *slash = strrchr(info->dlpi_name, '/');
    const char *file = slash ? slash + 1 : info->dlpi_name;
    if (strncmp(file, RUNTIME, strlen(RUNTIME)) == 0 &&
        strlen(info->dlpi_name) < sizeof runtimes->path && runtimes->count++ == 0)
        strcpy(runtimes->path, info->dlpi_name);
    return 0;
}

/* Where the dynamic linker searches behind the global scope: what the object and its opener need.
 */
static void *find_elsewhere(const char *name, const struct link_map *object, const char *version)
{
    void *found = NULL;
    if (object && object->l_name[0])
        found = find_in(object->l_name, name, version);
    if (!found && version)
        found = find_in(version, name, version); /* a version of the runtime is named as its file */
    if (!found) {
        struct runtimes runtimes = {0};
        dl_iterate_phdr(note_runtime, &runtimes);
        if (runtimes.count == 1)
            found = find_in(runtimes.path, name, NULL);
    }
    return found;
}

/* Keeps the object around `address` loaded, so that the address stays valid. */
static bool pin(const void *address)
{
    const struct link_map *object = object_of(address);
    if (!object)
        return false;
    return !object->l_name[0] || dlopen(object->l_name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

/* -- Remembering it -------------------------------------------------------- */

static const char *const names[AG_RUNTIME_FUNCTIONS] = {
    [AG_LAUNCH] = "cudaLaunchKernel",
    [AG_LAUNCH_PTSZ] = "cudaLaunchKernel_ptsz",
    [AG_LAUNCH_HANDLE] = "__cudaLaunchKernel",
    [AG_LAUNCH_HANDLE_PTSZ] = "__cudaLaunchKernel_ptsz",
    [AG_LAUNCH_EX] = "cudaLaunchKernelExC",
    [AG_LAUNCH_EX_PTSZ] = "cudaLaunchKernelExC_ptsz",
    [AG_LAUNCH_COOPERATIVE] = "cudaLaunchCooperativeKernel",
    [AG_LAUNCH_COOPERATIVE_PTSZ] = "cudaLaunchCooperativeKernel_ptsz",
    [AG_PUSH] = "__cudaPushCallConfiguration",
    [AG_POP] = "__cudaPopCallConfiguration",
};

struct ag_binding ag_bindings[AG_RUNTIME_FUNCTIONS][AG_BINDINGS];

/*
 * The runtime's functions that the global scope has, by version. All objects that ask for a version
 * find the same functions, since what is loaded later comes behind them. So all functions are
 * looked up once, together, and a later launch from a new place needs no look-up. That matters
 * because a look-up takes the loader's lock: a thread that opens a library may have it while the
 * library's constructor waits for a thread that launches.
 */
enum {
    VERSIONS = 8,      /* versions that are remembered */
    VERSION_SIZE = 32, /* bytes of a version's name, with its zero */
};

static struct version {
    _Atomic bool ready;       /* constant from then on */
    char asked[VERSION_SIZE]; /* "" for none */
    void *function[AG_PUSH_PAIRED];
} versions[VERSIONS];
static _Atomic unsigned versions_taken; /* may be more than there are */

static const struct version *known_version(const char *asked)
{
    for (unsigned i = 0; i < VERSIONS; i++)
        if (atomic_load_explicit(&versions[i].ready, memory_order_acquire) &&
            strcmp(versions[i].asked, asked ? asked : "") == 0)
            return &versions[i];
    return NULL;
}

/* Two threads may learn the same: then it is there twice. */
static void learn_version(const char *asked)
{
    if ((asked && strlen(asked) >= VERSION_SIZE) || atomic_load(&versions_taken) >= VERSIONS)
        return;
    unsigned taken = atomic_fetch_add(&versions_taken, 1);
    if (taken >= VERSIONS)
        return;
    struct version *new = &versions[taken];
    for (unsigned i = 0; i < AG_PUSH_PAIRED; i++) {
        void *found = find(RTLD_NEXT, names[i], asked);
        if (found && pin(found)) {
            new->function[i] = found;
            (void)ag_runtime_version(found);
        }
    }
    dlerror(); /* forget what an older runtime has not */
    strcpy(new->asked, asked ? asked : "");
    atomic_store_explicit(&new->ready, true, memory_order_release);
}

void ag_runtime_remember(enum ag_runtime_function which, uintptr_t caller, void *function)
{
    for (unsigned i = 0; i < AG_PROBES; i++) {
        struct ag_binding *binding = ag_binding_of(which, caller, i);
        uintptr_t there = 0;
        if (atomic_compare_exchange_strong(&binding->caller, &there, caller) || there == caller) {
            atomic_store_explicit(&binding->function, function, memory_order_release);
            break;
        }
    }
}

void *ag_runtime_bind(enum ag_runtime_function which, uintptr_t caller)
{
    int saved = errno;
    if (atomic_load_explicit(&versions_taken, memory_order_relaxed) == 0)
        atomic_store(&find_object, (object_finder *)ag_dlsym(RTLD_NEXT, "_dl_find_object"));
    const struct link_map *object = object_of((const void *)caller);
    const char *asked = object ? version_asked(object) : NULL;
    const struct version *version = known_version(asked);
    void *known = version ? version->function[which] : NULL;
    void *found = known ? known : find(RTLD_NEXT, names[which], asked);
    if (found && !version)
        learn_version(asked);
    if (!found)
        found = find_elsewhere(names[which], object, asked);
    if (found && (known || pin(found)))
        ag_runtime_remember(which, caller, found);
    errno = saved;
    return found;
}

bool ag_runtime_is_one(const void *function, const void *other)
{
    const struct link_map *object = object_of(function);
    return object && object == object_of(other);
}

int ag_runtime_version(const void *function)
{
    /* The loader takes long to say so, and a lock: each thread asks for each kernel. */
    void *known = ag_runtime_known(AG_VERSION, (uintptr_t)function);
    if (known)
        return (int)(intptr_t)known;
    int saved = errno;
    Dl_info info;
    int version = 0;
    void *handle = dladdr(function, &info) ? dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    int (*get)(int *) = handle ? ag_dlsym(handle, "cudaRuntimeGetVersion") : NULL;
    if (get && get(&version) != 0)
        version = 0;
    if (handle)
        dlclose(handle);
    if (version > 0)
        ag_runtime_remember(AG_VERSION, (uintptr_t)function, (void *)(intptr_t)version);
    errno = saved;
    return version;
}
