/* SPDX-License-Identifier: MIT */
/*
 * Objects that pass the doors by: what dlmopen() loads into another namespace has a C library of
 * its own, and may load a driver of its own. Its launches and waits cannot be seen, so nothing is
 * held from then on. What is held goes out before its constructors run.
 *
 * The door only looks. The real function is reached by a jump (arch/.../dlmopen.S), since the C
 * library searches for a file as the caller's RUNPATH says. Once there is a driver, the C library's
 * own symbol leads here, too: an object that was opened with RTLD_DEEPBIND is bound to that.
 */
#include "preload/preload.h"

#include <dlfcn.h>
#include <errno.h>

#include "preload/libcuda.h"
#include "sanitize.h"

/* Every thread finds the same. Another library's function may come before the C library's. */
__attribute__((visibility("hidden"))) void *ag_real_dlmopen;

static void find_dlmopen(void)
{
    if (!ag_real_dlmopen)
        ag_real_dlmopen = ag_dlsym(RTLD_NEXT, "dlmopen");
}

void *ag_c_dlmopen(void)
{
    Dl_info info, c_library;
    find_dlmopen();
    bool is_c = ag_real_dlmopen && dladdr(ag_real_dlmopen, &info) &&
                dladdr((void *)ag_real_dlsym, &c_library) && info.dli_fbase == c_library.dli_fbase;
    return is_c ? ag_real_dlmopen : NULL;
}

/* Functions of the driver's may open what they like. */
AG_UNINSTRUMENTED __attribute__((used, visibility("hidden"))) void
ag_dlmopen_door(Lmid_t space, const char *name, int flags, const void *caller)
{
    (void)flags;
    find_dlmopen();
    if (space == LM_ID_BASE)
        return;
    int saved = errno;
    if (ag_engine_stopped() == NULL && !ag_in_libcuda(caller))
        ag_give_up("%s was loaded into another namespace (dlmopen)", name ? name : "an object");
    errno = saved;
}
