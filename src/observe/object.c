/* SPDX-License-Identifier: MIT */
/* Reading what the dynamic linker has made of an object. */
#include "observe/object.h"

#include <string.h>
#include <unistd.h>

/* Symbols in a table of DT_GNU_HASH: one more than the last of the longest chain. */
static size_t count_hashed(const uint32_t *table)
{
    uint32_t buckets = table[0], first = table[1], bloom = table[2], last = 0;
    const uint32_t *bucket = table + 4 + bloom * (sizeof(ElfW(Addr)) / sizeof *table);
    const uint32_t *chain = bucket + buckets;
    for (uint32_t i = 0; i < buckets; i++)
        last = bucket[i] > last ? bucket[i] : last;
    if (last < first)
        return first;
    while (!(chain[last - first] & 1))
        last++;
    return last + 1;
}

void ag_object_count(struct ag_object *object)
{
    object->symbol_count = object->gnu_hash ? count_hashed(object->gnu_hash)
                           : object->hash   ? object->hash[1]
                                            : 0;
}

struct dynamic {
    const char *soname_at; /* an offset in the strings, or NULL */
    size_t relative;       /* relocations at the beginning, without a symbol */
};

static void read_entry(struct ag_object *object, struct dynamic *dynamic, const ElfW(Dyn) * entry)
{
    uintptr_t value = entry->d_un.d_ptr;
    /* The dynamic linker adds the base, but not in an object that it did not load (vDSO). */
    const void *pointer = (const void *)(value < object->base ? value + object->base : value);
    switch (entry->d_tag) {
    case DT_SYMTAB:
        object->symbols = (ElfW(Sym) *)(uintptr_t)pointer;
        break;
    case DT_STRTAB:
        object->strings = pointer;
        break;
    case DT_SONAME:
        dynamic->soname_at = (const char *)value;
        break;
    case DT_HASH:
        object->hash = pointer;
        break;
    case DT_GNU_HASH:
        object->gnu_hash = pointer;
        break;
    case DT_RELA:
        object->relocations.list = pointer;
        break;
    case DT_RELASZ:
        object->relocations.count = value / sizeof(ElfW(Rela));
        break;
    case DT_RELACOUNT:
        dynamic->relative = value;
        break;
    case DT_JMPREL:
        object->jumps.list = pointer;
        break;
    case DT_PLTRELSZ:
        object->jumps.count = value / sizeof(ElfW(Rela));
        break;
    default:
        break;
    }
}

bool ag_object_has(const struct dl_phdr_info *info, uintptr_t address)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type == PT_LOAD &&
            address - info->dlpi_addr - segment->p_vaddr < segment->p_memsz)
            return true;
    }
    return false;
}

/* The C library protects whole pages only: one that RELRO ends in stays writable. */
static void note_segment(struct ag_object *object, const ElfW(Phdr) * segment)
{
    uintptr_t start = object->base + segment->p_vaddr, end = start + segment->p_memsz;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    if (segment->p_type == PT_LOAD) {
        object->start = start < object->start ? start : object->start;
        object->end = end > object->end ? end : object->end;
    } else if (segment->p_type == PT_GNU_RELRO) {
        object->relro = start & -page;
        object->relro_end = end & -page;
    }
}

bool ag_object_read(const struct dl_phdr_info *info, struct ag_object *object)
{
    *object = (struct ag_object){
        .base = info->dlpi_addr,
        .start = UINTPTR_MAX,
        .path = info->dlpi_name,
        .segments = info->dlpi_phdr,
        .segment_count = info->dlpi_phnum,
    };
    const ElfW(Dyn) *entry = NULL;
    struct dynamic dynamic = {0};
    for (unsigned i = 0; i < object->segment_count; i++) {
        note_segment(object, &object->segments[i]);
        if (object->segments[i].p_type == PT_DYNAMIC)
            entry = (const ElfW(Dyn) *)(object->base + object->segments[i].p_vaddr);
    }
    if (!entry || entry == _DYNAMIC)
        return false;
    for (; entry->d_tag != DT_NULL; entry++)
        read_entry(object, &dynamic, entry);
    if (!object->symbols || !object->strings)
        return false;
    object->soname = dynamic.soname_at ? object->strings + (uintptr_t)dynamic.soname_at : "";
    if (dynamic.relative <= object->relocations.count) {
        object->relocations.list += dynamic.relative;
        object->relocations.count -= dynamic.relative;
    }
    return true;
}

bool ag_object_is_named(const struct ag_object *object, const char *name)
{
    const char *slash = strrchr(object->path, '/');
    size_t length = strlen(name);
    return strncmp(slash ? slash + 1 : object->path, name, length) == 0 ||
           strncmp(object->soname, name, length) == 0;
}

const char *ag_object_function(const struct ag_object *object, const ElfW(Sym) * symbol)
{
    bool defined = symbol->st_shndx != SHN_UNDEF && symbol->st_shndx != SHN_ABS &&
                   symbol->st_value != 0 && ELF64_ST_BIND(symbol->st_info) != STB_LOCAL;
    return defined && ELF64_ST_TYPE(symbol->st_info) == STT_FUNC ? object->strings + symbol->st_name
                                                                 : NULL;
}

const ElfW(Sym) * ag_object_around(const struct ag_object *object, uintptr_t address)
{
    const ElfW(Sym) *found = NULL;
    for (size_t i = 0; i < object->symbol_count; i++) {
        const ElfW(Sym) *symbol = &object->symbols[i];
        if (ag_object_function(object, symbol) &&
            address - object->base - symbol->st_value < symbol->st_size &&
            (found == NULL || symbol->st_value > found->st_value))
            found = symbol;
    }
    return found;
}
