/* SPDX-License-Identifier: MIT */
/*
 * A library of somebody else's: it looks names up on its own account, wraps malloc() as preloaded
 * libraries do, and has functions whose names begin as CUDA's.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

/* volatile: no tail call, the C library must find this library as the caller. */
void *third_next(const char *name)
{
    void *volatile found = dlsym(RTLD_NEXT, name);
    return found;
}

void *third_default(const char *name)
{
    void *volatile found = dlsym(RTLD_DEFAULT, name);
    return found;
}

void *malloc(size_t size)
{
    static void *(*real)(size_t);
    if (!real)
        real = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
    return real(size);
}

int cuFoo(void)
{
    return 7;
}

int cudnnCreate(void)
{
    return 8;
}

#ifdef NESTS
__attribute__((constructor)) static void nest(void)
{
    void *other = dlopen("libown.so", RTLD_LAZY);
    if (other)
        dlclose(other);
}
#endif

#ifdef WRAPS_CUDA
/* An interposer of somebody else's in front of the driver. */
int third_count;
int cuCtxSynchronize(void)
{
    third_count++;
    return ((int (*)(void))third_next("cuCtxSynchronize"))();
}
#endif

#ifdef LINKS_CUDA
int cuCtxSynchronize(void);
int third_synchronize(void)
{
    volatile int result = cuCtxSynchronize();
    return result;
}
#endif
