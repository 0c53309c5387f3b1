/* SPDX-License-Identifier: MIT */
/*
 * Pointers that are named like functions: some libraries look the driver's functions up by dlsym(),
 * and keep them in global variables with the functions' own names. The dynamic linker takes this
 * library's functions for these variables, since they come first, and an assignment would end in
 * our code.
 *
 * So the variables are given back whenever an object was loaded: what it refers to, and the dynamic
 * linker took from here, is bound anew to the variable that it would have been bound to without
 * this library. References to functions stay as they are.
 *
 * This happens before any code of the object runs: the start of every object that a compiler has
 * linked calls __gmon_start__(), a function that only programs for gprof have. For other objects it
 * happens at the next look-up of a CUDA name.
 *
 * dl_iterate_phdr() holds a lock of the loader while it calls back: no object is unloaded, and one
 * thread at a time comes here. Within, nothing may be looked up: that takes another lock first.
 */
#include "preload/preload.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sanitize.h"

#ifdef __x86_64__
enum { RELOCATION_GOT = R_X86_64_GLOB_DAT, RELOCATION_ADDRESS = R_X86_64_64 };
#else
enum { RELOCATION_GOT = R_AARCH64_GLOB_DAT, RELOCATION_ADDRESS = R_AARCH64_ABS64 };
#endif

/* -- Objects -------------------------------------------------------------- */

extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));

struct object {
    uintptr_t base;
    const ElfW(Sym) * symbols;
    const char *strings;
    const ElfW(Rela) * relocations;
    size_t count;               /* of relocations */
    size_t relative;            /* of them, at the beginning, without a symbol */
    uintptr_t relro, relro_end; /* read-only since it was relocated */
};

static void read_dynamic(struct object *object, const ElfW(Dyn) * entry)
{
    for (; entry->d_tag != DT_NULL; entry++) {
        uintptr_t value = entry->d_un.d_ptr;
        /* The dynamic linker adds the base, but not in an object that it did not load (vDSO). */
        const void *pointer = (const void *)(value < object->base ? value + object->base : value);
        switch (entry->d_tag) {
        case DT_SYMTAB:
            object->symbols = pointer;
            break;
        case DT_STRTAB:
            object->strings = pointer;
            break;
        case DT_RELA:
            object->relocations = pointer;
            break;
        case DT_RELASZ:
            object->count = value / sizeof(ElfW(Rela));
            break;
        case DT_RELACOUNT:
            object->relative = value;
            break;
        default:
            break;
        }
    }
}

/* False for this library itself, and for what cannot refer to anything. */
static bool read_object(const struct dl_phdr_info *info, struct object *object)
{
    *object = (struct object){.base = info->dlpi_addr};
    const ElfW(Dyn) *dynamic = NULL;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t start = object->base + segment->p_vaddr;
        if (segment->p_type == PT_DYNAMIC)
            dynamic = (const ElfW(Dyn) *)start;
        if (segment->p_type == PT_GNU_RELRO) {
            object->relro = start;
            object->relro_end = start + segment->p_memsz;
        }
    }
    if (!dynamic || dynamic == _DYNAMIC)
        return false;
    read_dynamic(object, dynamic);
    return object->symbols && object->strings;
}

/* -- Words that refer to this library --------------------------------------- */

/* A word of the object that refers to `name`: the dynamic linker has put the function's address
 * there, and added something. */
struct word {
    uintptr_t at;
    const char *name;
    uintptr_t function, addend;
};

static bool in_this_library(uintptr_t address)
{
    return address >= (uintptr_t)__ehdr_start && address < (uintptr_t)_end;
}

/* The next word, from relocation *i on, that refers to this library. */
static bool next_word(const struct object *object, size_t *i, struct word *word)
{
    while (*i < object->count) {
        const ElfW(Rela) *relocation = &object->relocations[(*i)++];
        unsigned type = ELF64_R_TYPE(relocation->r_info);
        uintptr_t value;
        if (type != RELOCATION_GOT && type != RELOCATION_ADDRESS)
            continue;
        word->at = object->base + relocation->r_offset;
        word->addend = type == RELOCATION_ADDRESS ? (uintptr_t)relocation->r_addend : 0;
        memcpy(&value, (const void *)word->at, sizeof value);
        word->function = value - word->addend;
        if (!in_this_library(word->function))
            continue;
        const ElfW(Sym) *symbol = &object->symbols[ELF64_R_SYM(relocation->r_info)];
        word->name = object->strings + symbol->st_name;
        if (strncmp(word->name, "cu", 2) == 0)
            return true;
    }
    return false;
}

/* -- References ------------------------------------------------------------- */

/* What an object refers to and took from here, and the variable that it means. */
struct reference {
    const void *inside; /* an address in the object */
    char *name;
    uintptr_t function; /* in this library */
    uintptr_t variable; /* 0: none, it means a function */
};

struct references {
    struct reference *list;
    size_t count, room;
};

enum { MOST_REFERENCES = 1 << 16 };

static struct reference *find_reference(const struct references *all, const struct object *object,
                                        const struct word *word)
{
    for (size_t i = 0; i < all->count; i++) {
        struct reference *reference = &all->list[i];
        if (reference->inside == object->symbols && reference->function == word->function &&
            strcmp(reference->name, word->name) == 0)
            return reference;
    }
    return NULL;
}

static void add_reference(struct references *all, const struct object *object,
                          const struct word *word)
{
    if (find_reference(all, object, word))
        return;
    if (all->count == all->room) {
        size_t room = all->room ? 2 * all->room : 64;
        if (room > MOST_REFERENCES)
            return;
        struct reference *list = realloc(all->list, room * sizeof *list);
        if (!list)
            return;
        all->list = list;
        all->room = room;
    }
    char *copy = strdup(word->name);
    if (copy)
        all->list[all->count++] = (struct reference){object->symbols, copy, word->function, 0};
}

/* -- New objects ------------------------------------------------------------ */

/* At the last look. Written under the loader's lock; atomic because race detectors do not see it.
 */
static _Atomic unsigned long long loads, unloads; /* of all times */
static _Atomic unsigned objects_seen;             /* new ones come behind them in the list */

struct look {
    unsigned index;
    struct references all;
};

/*
 * Collects what new objects took from here; ends the look if there is none. Each word takes a
 * fraction of the time that the dynamic linker took to find its symbol.
 */
static int look_at(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    struct look *look = context;
    struct object object;
    struct word word;
    bool nothing_new = look->index == 0 && loads == info->dlpi_adds;
    if (unloads != info->dlpi_subs)
        objects_seen = 0;
    loads = info->dlpi_adds;
    unloads = info->dlpi_subs;
    if (!nothing_new && look->index >= objects_seen) {
        objects_seen = look->index + 1;
        if (read_object(info, &object))
            for (size_t i = object.relative; next_word(&object, &i, &word);)
                add_reference(&look->all, &object, &word);
    }
    look->index++;
    return nothing_new;
}

/* Whether `address` is that of a global function or variable. */
static bool is_symbol(const void *address, unsigned type)
{
    Dl_info info;
    const ElfW(Sym) *symbol = NULL;
    return dladdr1(address, &info, (void **)&symbol, RTLD_DL_SYMENT) && symbol &&
           info.dli_saddr == address && ELF64_ST_TYPE(symbol->st_info) == type;
}

/*
 * What each would be bound to without this library; whether that is a variable for any. A thunk or
 * a door, which the program itself may have put into the word since, is no exported function.
 */
static bool resolve(const struct references *all)
{
    bool any = false;
    for (size_t i = 0; i < all->count; i++) {
        struct reference *reference = &all->list[i];
        void *found = ag_behind_us(reference->name, reference->inside);
        if (found && is_symbol(found, STT_OBJECT) &&
            is_symbol((void *)reference->function, STT_FUNC))
            reference->variable = (uintptr_t)found;
        any = any || reference->variable;
    }
    return any;
}

static void write_word(const struct object *object, const struct word *word, uintptr_t value)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    void *first = (void *)(word->at & -page);
    size_t length = word->at + sizeof value - (uintptr_t)first;
    bool closed = word->at < object->relro_end && word->at + sizeof value > object->relro;
    if (closed && mprotect(first, length, PROT_READ | PROT_WRITE) != 0)
        return;
    memcpy((void *)word->at, &value, sizeof value);
    if (closed)
        (void)mprotect(first, length, PROT_READ); /* left writable, it works as well */
}

static int bind(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    struct object object;
    struct word word;
    if (!read_object(info, &object))
        return 0;
    for (size_t i = object.relative; next_word(&object, &i, &word);) {
        const struct reference *reference = find_reference(context, &object, &word);
        if (reference && reference->variable)
            write_word(&object, &word, reference->variable + word.addend);
    }
    return 0;
}

static void give_back(void)
{
    int saved = errno;
    struct look look = {0};
    if (!dladdr1) /* musl */
        return;
    dl_iterate_phdr(look_at, &look);
    if (resolve(&look.all))
        dl_iterate_phdr(bind, &look.all);
    for (size_t i = 0; i < look.all.count; i++)
        free(look.all.list[i].name);
    free(look.all.list);
    errno = saved;
}

/* A sanitizer's runtime is not ready for instrumented code when the first objects start. */
#ifdef AG_SANITIZED
static _Atomic bool ready;
#else
enum { ready = true };
#endif

void ag_pointers_at_look_up(void)
{
#ifdef AG_SANITIZED
    ready = true;
#endif
    give_back();
}

void __gmon_start__(void);
AG_UNINSTRUMENTED __attribute__((visibility("default"))) void __gmon_start__(void)
{
    if (ready)
        give_back();
}
