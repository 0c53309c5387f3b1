/* SPDX-License-Identifier: MIT */
/* Look-ups of the library's own: past its doors, and past its exports. */
#include "preload/preload.h"

#include <dlfcn.h>
#include <link.h>

#include "sanitize.h"

/* Every thread finds the same. */
void *(*ag_real_dlsym)(void *handle, const char *name);

AG_UNINSTRUMENTED void ag_find_dlsym(void)
{
    if (ag_real_dlsym)
        return;
    void *real = dlvsym ? dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34") : ag_musl_dlsym();
    if (!real && dlvsym)
        real = dlvsym(RTLD_NEXT, "dlsym", AG_DLSYM_VERSION);
    ag_real_dlsym = (void *(*)(void *, const char *))real;
}

void *ag_dlsym(void *handle, const char *name)
{
    ag_find_dlsym();
    return ag_real_dlsym(handle, name);
}

/* -- Objects -------------------------------------------------------------- */

extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));

bool ag_is_ours(const void *address)
{
    return (uintptr_t)address >= (uintptr_t)__ehdr_start && (uintptr_t)address < (uintptr_t)_end;
}

void ag_object_range(const struct dl_phdr_info *info, uintptr_t *start, uintptr_t *end)
{
    *start = UINTPTR_MAX;
    *end = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD)
            continue;
        uintptr_t at = info->dlpi_addr + segment->p_vaddr;
        *start = at < *start ? at : *start;
        *end = at + segment->p_memsz > *end ? at + segment->p_memsz : *end;
    }
}

const char *ag_dynamic_string(const ElfW(Dyn) * dynamic, ElfW(Sxword) tag)
{
    const char *strings = NULL;
    const ElfW(Dyn) *found = NULL;
    for (const ElfW(Dyn) *entry = dynamic; entry && entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_STRTAB)
            strings = (const char *)entry->d_un.d_ptr;
        else if (entry->d_tag == tag)
            found = entry;
    }
    return strings && found ? strings + found->d_un.d_val : NULL;
}

/* A handle of the object that contains `address`, to be closed; NULL for the program itself. */
static void *open_object_of(const void *address)
{
    Dl_info info;
    struct link_map *map = NULL;
    if (!dladdr1 || !dladdr1(address, &info, (void **)&map, RTLD_DL_LINKMAP) || !map ||
        !map->l_name[0])
        return NULL;
    return dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD);
}

void *ag_in_scope_of(const void *caller, const char *name)
{
    void *handle = open_object_of(caller);
    if (!handle)
        return NULL;
    void *found = ag_dlsym(handle, name);
    dlclose(handle);
    return found;
}

void *ag_behind_us(const char *name, const void *caller)
{
    void *found = ag_dlsym(RTLD_NEXT, name);
    if (!found && caller)
        found = ag_in_scope_of(caller, name);
    return found;
}

/* -- Whether the program's look-ups come here ------------------------------- */

_Thread_local struct ag_look_up ag_look_up __attribute__((tls_model("initial-exec")));

bool ag_dlsym_is_asked(void *libcuda)
{
    void *(*first)(void *, const char *) =
        (void *(*)(void *, const char *))ag_dlsym(RTLD_DEFAULT, "dlsym");
    bool saved = ag_look_up.inside;
    ag_look_up.inside = true;
    ag_look_up.came_again = false;
    if (first)
        (void)first(libcuda, "cuInit");
    ag_look_up.inside = saved;
    return ag_look_up.came_again;
}
