/* SPDX-License-Identifier: MIT */
/*
 * The dlsym door: what a program looks up it is about to use, and what it shall get is decided
 * before. The answer is the C library's, by a jump (arch/.../dlsym.S): it finds its caller by the
 * return address, and the symbols lead where they shall (libcuda.h).
 *
 * A libcuda's own look-ups are its own affair: it gets its functions.
 */
#include "preload/preload.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "preload/libcuda.h"
#include "sanitize.h"

/* True: the answer is `*result`. */
static bool decide(void *handle, const char *name, const void *caller, void **result)
{
    void *found = ag_dlsym(handle == RTLD_NEXT ? RTLD_DEFAULT : handle, name);
    void *real = found ? ag_libcuda_behind(found) : NULL;
    struct ag_libcuda *libcuda = real ? ag_bind_found(real, false) : NULL;
    unsigned slot = libcuda ? ag_libcuda_slot(libcuda, real) : AG_SLOTS;
    if (slot == AG_SLOTS)
        return false;
    if (!ag_in_libcuda(caller))
        (void)ag_route(libcuda, slot);
    *result = real;
    return ag_in_libcuda(caller) && handle != RTLD_NEXT;
}

/* cu... */
AG_UNINSTRUMENTED static bool may_be_cuda(const char *name)
{
    return name[0] == 'c' && name[1] == 'u';
}

static bool decide_once(void *handle, const char *name, const void *caller, void **result)
{
    int saved = errno;
    bool decided = !ag_switched_off() && decide(handle, name, caller, result);
    errno = saved;
    return decided;
}

AG_UNINSTRUMENTED __attribute__((used, visibility("hidden"))) bool
ag_dlsym_door(void *handle, const char *name, const void *caller, void **result)
{
    ag_find_dlsym();
    return name && may_be_cuda(name) && dlvsym && decide_once(handle, name, caller, result);
}
