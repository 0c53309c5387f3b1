/* SPDX-License-Identifier: MIT */
/*
 * The dlsym door: what a program gets when it looks a CUDA name up.
 *
 * It decides only where its answer differs from the C library's: where the result lies in libcuda,
 * and where our own export stands in front of the result. Everything else, errors included, is left
 * to the real dlsym() by a jump (arch/.../dlsym.S).
 */
#include "preload/preload.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "sanitize.h"

extern const char __ehdr_start[] __attribute__((visibility("hidden")));

/* -- RTLD_NEXT on behalf of another object -------------------------------- */

struct object {
    char *path;
    uintptr_t start, end;
};

struct objects {
    struct object *list;
    size_t count, room;
};

static bool contains(const struct object *object, const void *address)
{
    return (uintptr_t)address >= object->start && (uintptr_t)address < object->end;
}

static int add_object(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    struct objects *objects = context;
    if (objects->count == objects->room) {
        size_t room = objects->room ? 2 * objects->room : 64;
        struct object *list = realloc(objects->list, room * sizeof *list);
        if (!list)
            return 1;
        objects->list = list;
        objects->room = room;
    }
    struct object object = {.path = strdup(info->dlpi_name)};
    if (!object.path)
        return 1;
    ag_object_range(info, &object.start, &object.end);
    objects->list[objects->count++] = object;
    return 0;
}

/* The object's own definition of `name`: a look-up also finds what the object depends on. */
static void *find_defined_in(const struct object *object, const char *name)
{
    void *handle = dlopen(object->path, RTLD_LAZY | RTLD_NOLOAD);
    void *address = handle ? ag_dlsym(handle, name) : NULL;
    if (handle)
        dlclose(handle);
    return address && contains(object, address) ? address : NULL;
}

/*
 * The first definition of `name` after the object of `caller`, in the order of loading, this
 * library left out. `*behind` tells whether this library comes after the caller. NULL if there is
 * none.
 */
static void *find_after(const void *caller, const char *name, bool *behind)
{
    struct objects objects = {0};
    /* Objects that were loaded for others only are in the list too, but not in the scope. */
    bool in_scope = ag_behind_us(name, caller) != NULL;
    void *found = NULL;
    bool after = false;
    *behind = false;
    dl_iterate_phdr(add_object, &objects);
    for (size_t i = 0; i < objects.count; i++) {
        const struct object *object = &objects.list[i];
        bool ours = contains(object, __ehdr_start);
        if (after && ours)
            *behind = true;
        if (after && !ours && in_scope && !found && object->path[0])
            found = find_defined_in(object, name);
        after = after || contains(object, caller);
    }
    for (size_t i = 0; i < objects.count; i++)
        free(objects.list[i].path);
    free(objects.list);
    return found || !in_scope ? found : ag_in_scope_of(caller, name);
}

/* -- The door ------------------------------------------------------------- */

/* True: the answer is `*result`. False: the real dlsym() knows best. */
static bool decide(void *handle, const char *name, const void *caller, void **result)
{
    void *found;
    bool covered; /* our own export stands in front of the answer */
    if (handle == RTLD_NEXT) {
        found = find_after(caller, name, &covered);
        covered = covered && ag_is_ours(ag_in_scope_of(__ehdr_start, name));
    } else {
        found = ag_dlsym(handle, name);
        covered = ag_is_ours(found);
        if (covered)
            found = ag_behind_us(name, handle == RTLD_DEFAULT ? caller : NULL);
        else if (!found && handle == RTLD_DEFAULT)
            found = ag_in_scope_of(caller, name);
    }
    /* libcuda's own look-ups are its own affair. */
    void *answer =
        found && ag_in_libcuda(found) && !ag_in_libcuda(caller) ? ag_route(found) : found;
    if (!covered && answer == found)
        return false;
    if (answer)
        dlerror(); /* forget what failed on the way */
    else
        ag_dlsym(RTLD_NEXT, name); /* leave the error that the program expects */
    *result = answer;
    return true;
}

/* cu..., __cu... */
AG_UNINSTRUMENTED static bool may_be_cuda(const char *name)
{
    if (name[0] == '_' && name[1] == '_')
        name += 2;
    return name[0] == 'c' && name[1] == 'u';
}

static bool decide_once(void *handle, const char *name, const void *caller, void **result)
{
    if (ag_look_up.inside) {
        ag_look_up.came_again = true;
        return false;
    }
    int saved = errno;
    ag_look_up.inside = true;
    ag_pointers_at_look_up();
    bool decided = decide(handle, name, caller, result);
    ag_look_up.inside = false;
    errno = saved;
    return decided;
}

AG_UNINSTRUMENTED __attribute__((used, visibility("hidden"))) bool
ag_dlsym_door(void *handle, const char *name, const void *caller, void **result)
{
    ag_find_dlsym();
    return name && may_be_cuda(name) && dlvsym && decide_once(handle, name, caller, result);
}
