/* SPDX-License-Identifier: MIT */
/*
 * Looks at each object that was loaded, before any code of it runs: the start of every object that
 * a compiler has linked calls __gmon_start__(), a function that only programs for gprof have. All
 * objects of one dlopen() are bound by then, and none of them has begun.
 *
 * A new libcuda or runtime gets other symbols. What was bound to it already, because it came
 * together with it, is bound anew: an address of a function in a word that the dynamic linker
 * has written is replaced by what the symbol says now. So nothing is looked up here, and nobody
 * need know which object a call comes from.
 *
 * dl_iterate_phdr() holds a lock of the loader while it calls back: no object is unloaded. Whoever
 * opens a library has another lock of the loader, so that one thread at a time looks at new
 * objects. Pages of an object are made read-only while it is loaded; who does not have that lock
 * therefore leaves objects alone that have not been looked at.
 */
#include "preload/preload.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "preload/libcuda.h"
#include "preload/launch.h"
#include "sanitize.h"

/* The C library's dlmopen(), where the door (bypass.c) stands in for it. Set under the lock. */
static void *c_dlmopen;
extern const char ag_dlmopen[] __attribute__((visibility("hidden")));

/* At the last look. Written by who loads objects. */
static _Atomic unsigned long long loads, unloads; /* of all times */
static _Atomic unsigned objects_seen;             /* new ones come behind them in the list */

/* -- Binding anew ----------------------------------------------------------------- */

static uintptr_t in_place_of_dlmopen(uintptr_t address)
{
    return address == (uintptr_t)c_dlmopen ? (uintptr_t)ag_dlmopen : 0;
}

static uintptr_t in_place_of(uintptr_t address)
{
    uintptr_t other = ag_libcuda_in_place_of(address);
    other = other ? other : ag_runtime_in_place_of(address);
    return other ? other : in_place_of_dlmopen(address);
}

struct rebinding {
    unsigned left; /* objects that may be bound anew */
    bool complete;
};

/* A driver's calls of itself, and of a driver behind it, are its own affair. */
static int rebind(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    struct rebinding *rebinding = context;
    struct ag_object object;
    if (rebinding->left == 0 || info->dlpi_subs != unloads)
        return 1;
    rebinding->left--;
    if (ag_object_read(info, &object) && !ag_libcuda_at(object.symbols) &&
        !ag_object_rebind(&object, in_place_of))
        rebinding->complete = false;
    return 0;
}

/* Under the lock. False: something that was bound to a function stays bound to it. */
static bool rebind_all(void)
{
    struct rebinding rebinding = {objects_seen, true};
    dl_iterate_phdr(rebind, &rebinding);
    return rebinding.complete;
}

void ag_bind_show(struct ag_libcuda *libcuda, unsigned shown)
{
    ag_doors_lock();
    if (libcuda->settled != shown) {
        (void)ag_libcuda_show(libcuda, shown); /* if not, gates lead there */
        (void)rebind_all();
        ag_libcuda_open_gates(libcuda);
        libcuda->settled = (unsigned char)shown;
    }
    ag_doors_unlock();
}

/* -- New objects -------------------------------------------------------------------- */

struct look {
    unsigned index;
    unsigned long long loads, unloads;
    bool nothing_new;
    bool found;  /* a libcuda or a runtime */
    bool failed; /* its symbols stay as they are */
    const char *drivers[AG_LIBCUDAS];
    unsigned count; /* of these */
};

static bool is_new(struct look *look, const struct dl_phdr_info *info)
{
    bool any_is_new = unloads != info->dlpi_subs;
    look->nothing_new = look->index == 0 && loads == info->dlpi_adds && !any_is_new;
    return !look->nothing_new && (look->index++ >= objects_seen || any_is_new);
}

static bool is_new_libcuda(const struct ag_object *object)
{
    return ag_object_is_named(object, AG_LIBCUDA) && !ag_libcuda_at(object->symbols);
}

static bool is_new_runtime(const struct ag_object *object)
{
    return ag_runtime_is_one(object) && !ag_runtime_has_doors(object);
}

static int look_at(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    struct look *look = context;
    struct ag_object object;
    look->loads = info->dlpi_adds;
    look->unloads = info->dlpi_subs;
    if (is_new(look, info) && ag_object_read(info, &object))
        look->found |= is_new_libcuda(&object) || is_new_runtime(&object);
    return look->nothing_new;
}

/* Under the lock. */
static int add(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    struct look *look = context;
    struct ag_object object;
    if (!ag_object_read(info, &object))
        return 0;
    if (is_new_libcuda(&object)) {
        if (ag_libcuda_add(&object))
            look->drivers[look->count++] = object.path;
        else
            look->failed = true;
    } else if (is_new_runtime(&object)) {
        ag_runtime_add(&object, ag_runtime_doors);
    } else if (c_dlmopen && ag_object_has(info, (uintptr_t)c_dlmopen)) {
        ag_object_count(&object);
        look->failed |= !ag_object_show(&object, in_place_of_dlmopen);
    }
    return 0;
}

static int keep(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size, (void)context;
    struct ag_object object;
    if (ag_object_read(info, &object))
        ag_runtime_keep(&object);
    return 0;
}

/* Under the lock. What is gone first: something else may lie there now. False: something could not
   be written. */
static bool add_all(struct look *look)
{
    ag_runtimes_begin();
    dl_iterate_phdr(keep, NULL);
    ag_runtimes_end();
    if (!look->found)
        return true;
    dl_iterate_phdr(add, look);
    return rebind_all() && !look->failed;
}

/* An address of the driver's that was given out stays valid. */
static void pin(const char *path)
{
    if (!dlopen(path, RTLD_LAZY | RTLD_NOLOAD))
        ag_give_up("%s cannot be kept", path);
}

/* By who loads objects, before any of them begins. */
static void look_at_new_objects(void)
{
    int saved = errno;
    struct look look = {0};
    if (!dlvsym) /* musl */
        return;
    dl_iterate_phdr(look_at, &look);
    bool changed = ag_runtimes_known() && unloads != look.unloads;
    loads = look.loads;
    unloads = look.unloads;
    if (!look.nothing_new)
        objects_seen = look.index;
    if ((look.found || changed) && !ag_switched_off() && ag_watches_forks()) {
        void *dlmopen_now = ag_c_dlmopen();
        ag_doors_lock();
        c_dlmopen = dlmopen_now;
        bool complete = add_all(&look);
        ag_doors_unlock();
        for (unsigned i = 0; i < look.count; i++)
            pin(look.drivers[i]);
        if (!complete)
            ag_give_up("what a driver's functions are bound to cannot be changed");
    }
    errno = saved;
}

/*
 * Objects that do not need the C library may begin before it: then there is no environment yet, and
 * what the process began with is not known. A sanitizer's runtime is not ready for instrumented
 * code either. Once the library's constructor has run, both are there.
 */
static _Atomic bool ready;

AG_UNINSTRUMENTED static bool is_ready(void)
{
#ifdef AG_SANITIZED
    return ready;
#else
    return ready || environ != NULL;
#endif
}

void __gmon_start__(void);
AG_UNINSTRUMENTED __attribute__((visibility("default"))) void __gmon_start__(void)
{
    if (is_ready())
        look_at_new_objects();
}

/* For a program with a __gmon_start__() of its own: what it begins with. */
__attribute__((constructor)) static void look_first(void)
{
    ready = true;
    look_at_new_objects();
}

/* -- What was not seen ---------------------------------------------------------------- */

struct search {
    uintptr_t address;
    bool certain;
    bool found, failed;
    char path[4096];
};

/* Under the lock if it is certain. */
static int find_unseen(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    struct search *search = context;
    struct ag_object object;
    if (!ag_object_has(info, search->address))
        return 0;
    if (!ag_object_read(info, &object))
        return 1;
    search->found = search->certain || ag_object_is_named(&object, AG_LIBCUDA);
    if (strlen(object.path) < sizeof search->path)
        strcpy(search->path, object.path);
    if (search->certain && !ag_libcuda_at(object.symbols))
        search->failed = !ag_libcuda_add(&object);
    return 1;
}

static void search_for(struct search *search)
{
    if (search->certain)
        ag_doors_lock();
    dl_iterate_phdr(find_unseen, search);
    if (search->certain) {
        (void)rebind_all();
        ag_doors_unlock();
    }
}

struct ag_libcuda *ag_bind_found(const void *address, bool certain)
{
    struct ag_libcuda *known = ag_libcuda_at(address);
    if (known || ag_is_ours(address))
        return known;
    struct search search = {.address = (uintptr_t)address, .certain = certain};
    search_for(&search);
    (void)(search.found && ag_enabled()); /* there are options that say whether the log says why */
    if (certain && !search.found)
        ag_give_up("a function of the driver lies where none can be looked up");
    else if (certain && search.failed)
        ag_give_up("the symbols of %s cannot be changed", search.path);
    else if (certain)
        pin(search.path);
    else if (search.found)
        ag_give_up("%s was loaded unseen", search.path);
    return ag_libcuda_at(address);
}
