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
