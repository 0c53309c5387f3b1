/* SPDX-License-Identifier: MIT */
/*
 * A program for musl, such as a child of a script that runs with this library. CUDA does not exist
 * there, so that nothing is to be done; but the dynamic linker must find all that this library
 * refers to, or it does not start the program (glibc.h), and look-ups must reach musl's dlsym().
 *
 * musl has one dlsym(), without a version, and ours hides it. So its symbol table is read.
 */
#include "preload/preload.h"

#include <link.h>
#include <string.h>

static const void *address_of(uintptr_t base, const ElfW(Dyn) * dynamic, ElfW(Sxword) tag)
{
    for (; dynamic->d_tag != DT_NULL; dynamic++)
        if (dynamic->d_tag == tag) /* musl leaves it as it is in the file */
            return (const void *)(base + dynamic->d_un.d_ptr);
    return NULL;
}

static int find_dlsym(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    const ElfW(Dyn) *dynamic = NULL;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            dynamic = (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    if (!dynamic || dynamic == _DYNAMIC)
        return 0;
    const ElfW(Sym) *symbols = address_of(info->dlpi_addr, dynamic, DT_SYMTAB);
    const char *strings = address_of(info->dlpi_addr, dynamic, DT_STRTAB);
    const uint32_t *hash = address_of(info->dlpi_addr, dynamic, DT_HASH);
    uint32_t count = symbols && strings && hash ? hash[1] : 0;
    for (uint32_t i = 0; i < count; i++) {
        if (symbols[i].st_shndx != SHN_UNDEF &&
            strcmp(strings + symbols[i].st_name, "dlsym") == 0) {
            *(void **)context = (void *)(info->dlpi_addr + symbols[i].st_value);
            return 1;
        }
    }
    return 0;
}

void *ag_musl_dlsym(void)
{
    void *found = NULL;
    dl_iterate_phdr(find_dlsym, &found);
    return found;
}
