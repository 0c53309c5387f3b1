/* SPDX-License-Identifier: MIT */
/* The runtimes that are loaded. */
#include "preload/runtime.h"

#include <stdatomic.h>
#include <string.h>

#include "engine/engine.h"

#define RUNTIME "libcudart.so"

struct ag_runtime ag_runtimes[AG_RUNTIMES];

static const char *const names[AG_RUNTIME_FUNCTIONS] = {
    [AG_LAUNCH] = "cudaLaunchKernel",          [AG_LAUNCH_PTSZ] = "cudaLaunchKernel_ptsz",
    [AG_LAUNCH_HANDLE] = "__cudaLaunchKernel", [AG_LAUNCH_HANDLE_PTSZ] = "__cudaLaunchKernel_ptsz",
    [AG_PUSH] = "__cudaPushCallConfiguration", [AG_POP] = "__cudaPopCallConfiguration",
};

bool ag_runtime_is_one(const struct ag_object *object)
{
    return ag_object_is_named(object, RUNTIME);
}

static bool is_loaded(const struct ag_runtime *runtime)
{
    return runtime->object.end != 0;
}

bool ag_runtimes_known(void)
{
    for (unsigned i = 0; i < AG_RUNTIMES; i++)
        if (is_loaded(&ag_runtimes[i]))
            return true;
    return false;
}

/* -- What is loaded ---------------------------------------------------------------- */

static struct ag_runtime *runtime_at(uintptr_t address)
{
    for (unsigned i = 0; i < AG_RUNTIMES; i++)
        if (address >= ag_runtimes[i].object.start && address < ag_runtimes[i].object.end)
            return &ag_runtimes[i];
    return NULL;
}

void ag_runtimes_begin(void)
{
    for (unsigned i = 0; i < AG_RUNTIMES; i++)
        ag_runtimes[i].seen = false;
}

/* Another file may lie where one was, or the same anew: then its symbols do not lead to doors. */
bool ag_runtime_has_doors(const struct ag_object *object)
{
    struct ag_object now = *object;
    if (!runtime_at((uintptr_t)object->symbols))
        return false;
    ag_object_count(&now);
    for (size_t i = 0; i < now.symbol_count; i++)
        if (ag_is_ours((void *)(now.base + now.symbols[i].st_value)))
            return true;
    return false;
}

void ag_runtime_keep(const struct ag_object *object)
{
    if (ag_runtime_has_doors(object))
        runtime_at((uintptr_t)object->symbols)->seen = true;
}

/* A kernel of another program may have the address of one that was launched there. */
void ag_runtimes_end(void)
{
    for (unsigned i = 0; i < AG_RUNTIMES; i++) {
        if (!is_loaded(&ag_runtimes[i]) || ag_runtimes[i].seen)
            continue;
        memset(&ag_runtimes[i], 0, sizeof ag_runtimes[i]);
        ag_engine_changed();
    }
}

static int index_of(const char *name)
{
    for (int i = 0; i < AG_RUNTIME_FUNCTIONS; i++)
        if (strcmp(name, names[i]) == 0)
            return i;
    return -1;
}

static void read_symbols(struct ag_runtime *runtime)
{
    const struct ag_object *object = &runtime->object;
    for (size_t i = 0; i < object->symbol_count; i++) {
        const char *name = ag_object_function(object, &object->symbols[i]);
        void *function = (void *)(object->base + object->symbols[i].st_value);
        if (name && strcmp(name, "cudaRuntimeGetVersion") == 0)
            runtime->get_version = (int (*)(int *))function;
        else if (name && index_of(name) >= 0)
            runtime->real[index_of(name)] = function;
    }
}

/* One without doors works as well: the driver's doors see its launches. */
void ag_runtime_add(const struct ag_object *object,
                    void *const doors[AG_RUNTIMES][AG_RUNTIME_FUNCTIONS])
{
    for (unsigned i = 0; i < AG_RUNTIMES; i++) {
        struct ag_runtime *runtime = &ag_runtimes[i];
        if (is_loaded(runtime))
            continue;
        runtime->object = *object;
        ag_object_count(&runtime->object);
        runtime->doors = doors[i];
        read_symbols(runtime);
        if (!ag_object_show(&runtime->object, ag_runtime_in_place_of))
            memset(runtime, 0, sizeof *runtime);
        break;
    }
}

uintptr_t ag_runtime_in_place_of(uintptr_t address)
{
    const struct ag_runtime *runtime = runtime_at(address);
    for (unsigned i = 0; runtime && i < AG_RUNTIME_FUNCTIONS; i++)
        if ((uintptr_t)runtime->real[i] == address)
            return (uintptr_t)runtime->doors[i];
    return 0;
}

/* -- Its version -------------------------------------------------------------------- */

int ag_runtime_version(struct ag_runtime *runtime)
{
    int version = atomic_load_explicit(&runtime->version, memory_order_relaxed);
    if (version != 0 || !runtime->get_version)
        return version;
    if (runtime->get_version(&version) != AG_RUNTIME_SUCCESS)
        return 0;
    atomic_store_explicit(&runtime->version, version, memory_order_relaxed);
    return version;
}
