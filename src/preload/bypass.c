/* SPDX-License-Identifier: MIT */
/*
 * Objects that pass the doors by. What is opened with RTLD_DEEPBIND is bound to what it depends on
 * before it is bound to this library: to the driver and to the C library's dlsym(). What dlmopen()
 * loads into another namespace has a C library of its own. Neither's launches and waits can be
 * seen, so nothing is held once such an object may reach the driver. What is held goes out before
 * its constructors run.
 *
 * The doors only look. The real functions are reached by a jump (arch/.../dlopen.S), since the C
 * library searches for a file as the caller's RUNPATH says.
 */
#include "preload/preload.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "preload/libcuda.h"
#include "sanitize.h"

/* Every thread finds the same. Another library's function may come before the C library's. */
__attribute__((visibility("hidden"))) void *ag_real_dlopen, *ag_real_dlmopen;

/* -- What is loaded already ------------------------------------------------ */

/*
 * Whether opening that name opens an object which is loaded, and thus bound already. A name without
 * a slash counts only if it is the object's own (DT_SONAME): that comes before any search, which
 * would depend on who searches.
 */
static bool is_loaded(const char *name)
{
    struct link_map *object = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
    if (!object)
        return false;
    const char *own = strchr(name, '/') ? name : ag_dynamic_string(object->l_ld, DT_SONAME);
    bool loaded = own && strcmp(own, name) == 0;
    dlclose(object);
    return loaded;
}

/* -- What a file says of itself --------------------------------------------- */

struct file {
    const char *bytes;
    size_t size;
};

/* A range of the file; NULL if it has no such range. */
static const void *range(const struct file *file, uint64_t at, uint64_t size)
{
    return at <= file->size && size <= file->size - at ? file->bytes + at : NULL;
}

struct dynamic {
    const ElfW(Dyn) * entries;
    size_t count;
    const char *strings; /* the last byte is zero */
    uint64_t strings_size;
};

/* The program headers; NULL if this is no ELF file as it should be. */
static const ElfW(Phdr) * read_segments(const struct file *file, unsigned *count)
{
    const ElfW(Ehdr) *header = range(file, 0, sizeof *header);
    if (!header || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
        header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_phentsize != sizeof(ElfW(Phdr)) ||
        header->e_phoff % sizeof(uint64_t) != 0)
        return NULL;
    *count = header->e_phnum;
    return range(file, header->e_phoff, (uint64_t)header->e_phnum * sizeof(ElfW(Phdr)));
}

/* The address of the strings, as the dynamic section has it; 0 if it has none. */
static uint64_t read_entries(struct dynamic *dynamic)
{
    uint64_t address = 0;
    for (size_t i = 0; dynamic->entries && i < dynamic->count; i++) {
        if (dynamic->entries[i].d_tag == DT_STRTAB)
            address = dynamic->entries[i].d_un.d_ptr;
        else if (dynamic->entries[i].d_tag == DT_STRSZ)
            dynamic->strings_size = dynamic->entries[i].d_un.d_val;
    }
    return address;
}

/* Finds the dynamic section and its strings. False: this is no shared object as it should be. */
static bool read_dynamic(const struct file *file, struct dynamic *dynamic)
{
    unsigned count = 0;
    const ElfW(Phdr) *segments = read_segments(file, &count);
    if (!segments)
        return false;
    for (unsigned i = 0; i < count; i++)
        if (segments[i].p_type == PT_DYNAMIC && segments[i].p_offset % sizeof(uint64_t) == 0) {
            dynamic->count = segments[i].p_filesz / sizeof(ElfW(Dyn));
            dynamic->entries = range(file, segments[i].p_offset, segments[i].p_filesz);
        }
    uint64_t address = read_entries(dynamic);
    for (unsigned i = 0; i < count; i++)
        if (segments[i].p_type == PT_LOAD && address >= segments[i].p_vaddr &&
            address - segments[i].p_vaddr < segments[i].p_filesz)
            dynamic->strings = range(file, segments[i].p_offset + (address - segments[i].p_vaddr),
                                     dynamic->strings_size);
    return dynamic->strings && dynamic->strings_size > 0 &&
           dynamic->strings[dynamic->strings_size - 1] == '\0';
}

static bool needs_only_what_is_loaded(const struct dynamic *dynamic)
{
    for (size_t i = 0; i < dynamic->count && dynamic->entries[i].d_tag != DT_NULL; i++) {
        ElfW(Sxword) tag = dynamic->entries[i].d_tag;
        if (tag == DT_FILTER || tag == DT_AUXILIARY)
            return false;
        if (tag == DT_NEEDED && (dynamic->entries[i].d_un.d_val >= dynamic->strings_size ||
                                 !is_loaded(dynamic->strings + dynamic->entries[i].d_un.d_val)))
            return false;
    }
    return true;
}

/* Whether a name in the table may be that of a function which leads to the driver. Names share
   tails, so what stands before does not matter. */
static bool names_a_way(const struct dynamic *dynamic)
{
    static const char *const ways[] = {"dlsym", "dlvsym", "dlopen", "dlmopen"};
    const char *strings = dynamic->strings;
    for (unsigned i = 0; i < sizeof ways / sizeof ways[0]; i++)
        if (memmem(strings, dynamic->strings_size, ways[i], strlen(ways[i])))
            return true;
    for (uint64_t i = 0; i + 2 < dynamic->strings_size; i++)
        if (strings[i] == 'c' && strings[i + 1] == 'u' && strings[i + 2] >= 'A' &&
            strings[i + 2] <= 'Z')
            return true;
    return false;
}

/* Whether the object in that file can certainly not reach the driver by itself. */
static bool is_harmless(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return errno == ENOENT; /* then there is nothing to open */
    void *bytes = MAP_FAILED;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0)
        bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (bytes == MAP_FAILED)
        return false;
    struct file file = {bytes, (size_t)st.st_size};
    struct dynamic dynamic = {0};
    bool harmless = read_dynamic(&file, &dynamic) && needs_only_what_is_loaded(&dynamic) &&
                    !names_a_way(&dynamic);
    munmap(bytes, file.size);
    return harmless;
}

/* -- The doors ---------------------------------------------------------------- */

/* Whether what is opened with RTLD_DEEPBIND may reach the driver past the doors. */
static bool may_pass(const char *name, int flags)
{
    if (!name || !*name || (flags & RTLD_NOLOAD))
        return false;      /* the program itself; or nothing is loaded */
    if (strchr(name, '$')) /* what it stands for depends on the caller */
        return true;
    /* The driver's own calls are its own affair. */
    if (ag_is_libcuda(name) || is_loaded(name))
        return false;
    return !strchr(name, '/') || !is_harmless(name);
}

/* Functions of the driver's may open what they like. */
static void look(Lmid_t space, const char *name, int flags, const void *caller)
{
    int saved = errno;
    if (ag_engine_stopped() == NULL && !ag_in_libcuda(caller)) {
        if (space != LM_ID_BASE)
            ag_give_up("%s was loaded into another namespace (dlmopen)", name ? name : "an object");
        else if (may_pass(name, flags))
            ag_give_up("%s was opened with RTLD_DEEPBIND", name);
    }
    errno = saved;
}

AG_UNINSTRUMENTED __attribute__((used, visibility("hidden"))) void
ag_dlopen_door(const char *name, int flags, const void *caller)
{
    if (!ag_real_dlopen)
        ag_real_dlopen = ag_dlsym(RTLD_NEXT, "dlopen");
    if (flags & RTLD_DEEPBIND)
        look(LM_ID_BASE, name, flags, caller);
}

AG_UNINSTRUMENTED __attribute__((used, visibility("hidden"))) void
ag_dlmopen_door(Lmid_t space, const char *name, int flags, const void *caller)
{
    if (!ag_real_dlmopen)
        ag_real_dlmopen = ag_dlsym(RTLD_NEXT, "dlmopen");
    if (space != LM_ID_BASE || (flags & RTLD_DEEPBIND))
        look(space, name, flags, caller);
}
