/* SPDX-License-Identifier: MIT */
/* Writing into what the dynamic linker has made of an object. */
#include "preload/objects.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef __x86_64__
enum { TO_GOT = R_X86_64_GLOB_DAT, TO_ADDRESS = R_X86_64_64, TO_JUMP = R_X86_64_JUMP_SLOT };
#else
enum { TO_GOT = R_AARCH64_GLOB_DAT, TO_ADDRESS = R_AARCH64_ABS64, TO_JUMP = R_AARCH64_JUMP_SLOT };
#endif

extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));

bool ag_is_ours(const void *address)
{
    return (uintptr_t)address >= (uintptr_t)__ehdr_start && (uintptr_t)address < (uintptr_t)_end;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void ag_doors_lock(void)
{
    pthread_mutex_lock(&lock);
}

void ag_doors_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

/* -- Writing ------------------------------------------------------------------ */

static int protection_of(const struct ag_object *object, uintptr_t at)
{
    if (at >= object->relro && at < object->relro_end)
        return PROT_READ;
    for (unsigned i = 0; i < object->segment_count; i++) {
        const ElfW(Phdr) *segment = &object->segments[i];
        if (segment->p_type == PT_LOAD && at - object->base - segment->p_vaddr < segment->p_memsz)
            return (segment->p_flags & PF_R ? PROT_READ : 0) |
                   (segment->p_flags & PF_W ? PROT_WRITE : 0) |
                   (segment->p_flags & PF_X ? PROT_EXEC : 0);
    }
    return PROT_READ | PROT_WRITE;
}

/* Words that can be written to until they are closed again. */
struct opened {
    void *first;
    size_t length;
    int protection; /* before; -1: they are always open */
};

/* A page may also have code, which other threads execute meanwhile. */
static bool open_words(const struct ag_object *object, uintptr_t at, size_t size,
                       struct opened *opened)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    *opened =
        (struct opened){(void *)(at & -page), size + (at & (page - 1)), protection_of(object, at)};
    if (!(opened->protection & PROT_WRITE))
        return mprotect(opened->first, opened->length, opened->protection | PROT_WRITE) == 0;
    opened->protection = -1;
    return true;
}

/* Words that a system does not let be closed work as well. */
static void close_words(const struct opened *opened)
{
    if (opened->protection != -1)
        (void)mprotect(opened->first, opened->length, opened->protection);
}

bool ag_object_show(const struct ag_object *object, ag_replace *replace)
{
    struct opened opened;
    if (!open_words(object, (uintptr_t)object->symbols,
                    object->symbol_count * sizeof *object->symbols, &opened))
        return false;
    for (size_t i = 0; i < object->symbol_count; i++) {
        ElfW(Sym) *symbol = &object->symbols[i];
        uintptr_t now =
            ag_object_function(object, symbol) ? replace(object->base + symbol->st_value) : 0;
        if (now) /* other threads may read it at this moment */
            __atomic_store_n(&symbol->st_value, now - object->base, __ATOMIC_RELEASE);
    }
    close_words(&opened);
    return true;
}

/* The program may write to the word at this moment: then that counts. */
static bool write_word(const struct ag_object *object, uintptr_t at, uintptr_t before,
                       uintptr_t now)
{
    struct opened opened;
    if (!open_words(object, at, sizeof now, &opened))
        return false;
    if (at % sizeof now == 0)
        (void)atomic_compare_exchange_strong((_Atomic uintptr_t *)at, &before, now);
    else
        memcpy((void *)at, &now, sizeof now);
    close_words(&opened);
    return true;
}

static bool rebind(const struct ag_object *object, const struct ag_relocations *relocations,
                   ag_replace *replace)
{
    bool complete = true;
    for (size_t i = 0; i < relocations->count; i++) {
        const ElfW(Rela) *relocation = &relocations->list[i];
        unsigned type = ELF64_R_TYPE(relocation->r_info);
        if (type != TO_GOT && type != TO_ADDRESS && type != TO_JUMP)
            continue;
        uintptr_t at = object->base + relocation->r_offset, value;
        uintptr_t addend = type == TO_ADDRESS ? (uintptr_t)relocation->r_addend : 0;
        memcpy(&value, (const void *)at, sizeof value);
        uintptr_t now = replace(value - addend);
        if (now && now + addend != value && !write_word(object, at, value, now + addend))
            complete = false;
    }
    return complete;
}

bool ag_object_rebind(const struct ag_object *object, ag_replace *replace)
{
    bool data = rebind(object, &object->relocations, replace);
    return rebind(object, &object->jumps, replace) && data;
}
