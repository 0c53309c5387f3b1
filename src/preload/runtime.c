/* SPDX-License-Identifier: MIT */
/*
 * The doors of the runtime's launch functions, for programs that link libcudart.so.
 *
 * They call what the program would have been bound to without this library; that function's own
 * driver call comes through the driver's doors. What that is depends on the caller: a process can
 * hold several runtimes. So it is looked up once for each call instruction.
 */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "preload/preload.h"

#define RUNTIME "libcudart.so"

typedef int error; /* cudaError_t */

enum {
    SUCCESS = 0,
    STUB_LIBRARY = 34, /* cudaErrorStubLibrary */
};

struct dim3 {
    unsigned x, y, z;
};

/* -- What a caller would be bound to --------------------------------------- */

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

static void *find(void *handle, const char *name, const char *version)
{
    return version ? dlvsym(handle, name, version) : ag_dlsym(handle, name);
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

/* As the dynamic linker searches: global scope, the object's own, that of what loaded the object.
 */
static void *find_runtime(const char *name, const void *caller)
{
    Dl_info info;
    struct link_map *object = NULL;
    if (!dladdr1(caller, &info, (void **)&object, RTLD_DL_LINKMAP))
        object = NULL;
    const char *version = object ? version_asked(object) : NULL;

    void *found = find(RTLD_NEXT, name, version);
    if (!found && object && object->l_name[0])
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
    Dl_info info;
    struct link_map *object = NULL;
    if (!dladdr1(address, &info, (void **)&object, RTLD_DL_LINKMAP) || !object)
        return false;
    return !object->l_name[0] || dlopen(object->l_name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

/* -- Remembering it -------------------------------------------------------- */

enum function {
    LAUNCH,
    LAUNCH_PTSZ,
    LAUNCH_HANDLE,
    LAUNCH_HANDLE_PTSZ,
    LAUNCH_EX,
    LAUNCH_EX_PTSZ,
    LAUNCH_COOPERATIVE,
    LAUNCH_COOPERATIVE_PTSZ,
    FUNCTIONS
};

static const char *const names[FUNCTIONS] = {
    "cudaLaunchKernel",
    "cudaLaunchKernel_ptsz",
    "__cudaLaunchKernel",
    "__cudaLaunchKernel_ptsz",
    "cudaLaunchKernelExC",
    "cudaLaunchKernelExC_ptsz",
    "cudaLaunchCooperativeKernel",
    "cudaLaunchCooperativeKernel_ptsz",
};

/*
 * One entry for each call instruction, set once: the caller first, then the function. A caller that
 * finds all its entries taken is looked up at each call.
 */
enum { PLACES = 1024, PROBES = 8 };

static struct place {
    _Atomic uintptr_t caller;
    _Atomic(void *) function;
} places[FUNCTIONS][PLACES];

static struct place *place_of(enum function which, uintptr_t caller, unsigned probe)
{
    return &places[which][((caller * 0x9e3779b97f4a7c15u >> 40) + probe) % PLACES];
}

static __attribute__((noinline)) void *bind(enum function which, const void *address)
{
    uintptr_t caller = (uintptr_t)address;
    int saved = errno;
    void *found = find_runtime(names[which], address);
    if (found && pin(found)) {
        for (unsigned i = 0; i < PROBES; i++) {
            struct place *place = place_of(which, caller, i);
            uintptr_t there = 0;
            if (atomic_compare_exchange_strong(&place->caller, &there, caller) || there == caller) {
                atomic_store_explicit(&place->function, found, memory_order_release);
                break;
            }
        }
    }
    errno = saved;
    return found;
}

static inline void *bound(enum function which, const void *address)
{
    uintptr_t caller = (uintptr_t)address;
    for (unsigned i = 0; i < PROBES; i++) {
        struct place *place = place_of(which, caller, i);
        uintptr_t there = atomic_load_explicit(&place->caller, memory_order_relaxed);
        if (there == caller) {
            void *function = atomic_load_explicit(&place->function, memory_order_acquire);
            if (__builtin_expect(function != NULL, 1))
                return function;
        }
        if (there == caller || !there)
            break;
    }
    return bind(which, address);
}

/* -- Doors ------------------------------------------------------------------ */

#define DOOR(name) __attribute__((visibility("default"))) error name

/* Whether the library has nothing to do before the driver's door. */
static inline bool unconcerned(CUstream stream)
{
    return !atomic_load_explicit(&ag_engine_on, memory_order_relaxed) || ag_engine_rests(stream) ||
           ag_depth != 0;
}

#define GRID_PARAMETERS                                                                            \
    (const void *kernel, struct dim3 grid, struct dim3 block, void **params, size_t shared,        \
     void *stream)

#define GRID_LAUNCH(name, which)                                                                   \
    DOOR(name) GRID_PARAMETERS;                                                                    \
    DOOR(name) GRID_PARAMETERS                                                                     \
    {                                                                                              \
        __typeof__(name) *real = bound(which, __builtin_return_address(0));                        \
        if (!real)                                                                                 \
            return STUB_LIBRARY;                                                                   \
        if (unconcerned(stream))                                                                   \
            return real(kernel, grid, block, params, shared, stream);                              \
        struct ag_kernel_call call = {                                                             \
            .shape = {{grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, (uint32_t)shared, 0}, \
            .stream = stream,                                                                      \
            .params = params,                                                                      \
        };                                                                                         \
        if (shared <= UINT32_MAX && ag_shortcut_taken(real, kernel, &call))                        \
            return SUCCESS;                                                                        \
        error result = real(kernel, grid, block, params, shared, stream);                          \
        if (ag_shortcut.call == &call)                                                             \
            ag_shortcut_learn(real, kernel, result == SUCCESS);                                    \
        return result;                                                                             \
    }

#define COOPERATIVE_LAUNCH(name, which)                                                            \
    DOOR(name) GRID_PARAMETERS;                                                                    \
    DOOR(name) GRID_PARAMETERS                                                                     \
    {                                                                                              \
        __typeof__(name) *real = bound(which, __builtin_return_address(0));                        \
        return real ? real(kernel, grid, block, params, shared, stream) : STUB_LIBRARY;            \
    }

#define CONFIG_LAUNCH(name, which)                                                                 \
    DOOR(name)(const void *config, const void *kernel, void **params);                             \
    DOOR(name)(const void *config, const void *kernel, void **params)                              \
    {                                                                                              \
        __typeof__(name) *real = bound(which, __builtin_return_address(0));                        \
        return real ? real(config, kernel, params) : STUB_LIBRARY;                                 \
    }

GRID_LAUNCH(cudaLaunchKernel, LAUNCH)
GRID_LAUNCH(cudaLaunchKernel_ptsz, LAUNCH_PTSZ)
GRID_LAUNCH(__cudaLaunchKernel, LAUNCH_HANDLE)
GRID_LAUNCH(__cudaLaunchKernel_ptsz, LAUNCH_HANDLE_PTSZ)
COOPERATIVE_LAUNCH(cudaLaunchCooperativeKernel, LAUNCH_COOPERATIVE)
COOPERATIVE_LAUNCH(cudaLaunchCooperativeKernel_ptsz, LAUNCH_COOPERATIVE_PTSZ)
CONFIG_LAUNCH(cudaLaunchKernelExC, LAUNCH_EX)
CONFIG_LAUNCH(cudaLaunchKernelExC_ptsz, LAUNCH_EX_PTSZ)
