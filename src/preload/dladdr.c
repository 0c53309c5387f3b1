/* SPDX-License-Identifier: MIT */
/*
 * The doors of dladdr() and dladdr1(). The C library finds the name of a function by what the
 * symbols say, and those of a driver's functions lead elsewhere (libcuda.h). Who asks for an
 * address in a driver gets the name of the driver's function all the same: shims in front of a
 * driver and tools that print where a thread is do ask.
 */
#include "preload/preload.h"

#include <dlfcn.h>

#include "preload/libcuda.h"

typedef int finder(const void *address, Dl_info *info);
typedef int finder1(const void *address, Dl_info *info, void **extra, int flags);

/* The symbol around an address in a driver, if it leads elsewhere. */
static const ElfW(Sym) * name_function(const void *address, Dl_info *info)
{
    const struct ag_libcuda *libcuda = ag_libcuda_at(address);
    unsigned slot = libcuda ? ag_libcuda_around(libcuda, address) : AG_SLOTS;
    if (slot == AG_SLOTS)
        return NULL;
    const ElfW(Sym) *symbol = &libcuda->object.symbols[libcuda->symbols[slot]];
    info->dli_sname = libcuda->object.strings + symbol->st_name;
    info->dli_saddr = libcuda->slots[slot].real;
    return symbol;
}

__attribute__((visibility("default"))) finder dladdr;
int dladdr(const void *address, Dl_info *info)
{
    static finder *_Atomic real;
    if (!real)
        real = (finder *)ag_dlsym(RTLD_NEXT, "dladdr");
    int found = real ? real(address, info) : 0;
    if (found)
        (void)name_function(address, info);
    return found;
}

__attribute__((visibility("default"))) finder1 dladdr1;
int dladdr1(const void *address, Dl_info *info, void **extra, int flags)
{
    static finder1 *_Atomic real;
    if (!real)
        real = (finder1 *)ag_dlsym(RTLD_NEXT, "dladdr1");
    int found = real ? real(address, info, extra, flags) : 0;
    const ElfW(Sym) *symbol = found ? name_function(address, info) : NULL;
    if (symbol && flags == RTLD_DL_SYMENT)
        *(const ElfW(Sym) **)extra = symbol;
    return found;
}
