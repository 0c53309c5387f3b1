/* SPDX-License-Identifier: MIT */
/*
 * A libcuda.so.1 that does nothing but write down how it was called: for tests of the doors alone.
 * functions.inc, made by the test, has a row for each name: FUNCTION(name), ALIAS(name, function),
 * or SMALL(name), which nobody calls.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* The last call: six or eight integers come in registers, the others on the stack. */
struct door_call {
    const char *name;
    long integers[10];
    double reals[8];
} door_last;

/* Attributes of functions have this value; this context is current. */
int door_attribute;
long door_context = 1;

#define INTEGERS long a, long b, long c, long d, long e, long f, long g, long h, long i, long j
#define REALS    double r, double s, double t, double u, double v, double w, double x, double y
#define FUNCTION(function)                                                                         \
    int function(INTEGERS, REALS)                                                                  \
    {                                                                                              \
        door_last = (struct door_call){                                                            \
            #function, {a, b, c, d, e, f, g, h, i, j}, {r, s, t, u, v, w, x, y}};                  \
        return 0;                                                                                  \
    }
#define SMALL(function)                                                                            \
    int function(void)                                                                             \
    {                                                                                              \
        return 0;                                                                                  \
    }
#define ALIAS(name, function) int name(INTEGERS, REALS) __attribute__((alias(#function)));
#include "functions.inc"

int cuInit(unsigned flags)
{
    (void)flags;
    return 0;
}

int cuDriverGetVersion(int *version)
{
    *version = 13000;
    return 0;
}

int cuFuncGetAttribute(int *value, int attribute, void *function)
{
    (void)attribute, (void)function;
    *value = door_attribute;
    return 0;
}

int cuCtxGetCurrent(long *context)
{
    *context = door_context;
    return 0;
}

/* The newest version of a name; flag 2 asks for the per-thread default stream. */
int cuGetProcAddress_v2(const char *name, void **found, int version, unsigned long flags,
                        int *status)
{
    (void)version;
    static const char *const versions[] = {"_v3", "_v2", ""};
    static const char *const streams[] = {"_ptsz", "_ptds", ""};
    static int here;
    Dl_info info;
    dladdr(&here, &info);
    void *self = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    *found = NULL;
    for (unsigned i = flags == 2 ? 0 : 2; i < 3 && !*found; i++) {
        for (unsigned j = 0; j < 3 && !*found; j++) {
            char symbol[256];
            snprintf(symbol, sizeof symbol, "%s%s%s", name, versions[j], streams[i]);
            if (*name)
                *found = dlsym(self, symbol);
        }
    }
    dlclose(self);
    if (status)
        *status = *found ? 0 : 1;
    return *found ? 0 : 500; /* CUDA_ERROR_NOT_FOUND */
}

int cuGetProcAddress(const char *name, void **found, int version, unsigned long flags)
{
    return cuGetProcAddress_v2(name, found, version, flags, NULL);
}
