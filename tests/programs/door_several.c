/* SPDX-License-Identifier: MIT */
/*
 * door_several.c WAY FILE...: opens one file named libcuda after the other and uses what it finds
 * there, until one works; by name (dlsym) or by cuGetProcAddress. Linked to none.
 *
 *   WAY: name, ask, both (the first half of its functions by name), all (each file that works is
 *   used, in turns)
 *
 * Prints the status of each cuInit() and what each driver has computed.
 */
#ifdef SHIM
/*
 * A libcuda.so.1 that hands everything on to the file DRIVER. names.inc, made by the test, has a
 * row NAME(function) for each. What cuGetProcAddress gives is the driver's (RAW), or the shim's.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#define INTEGERS                                                                                   \
    long a, long b, long c, long d, long e, long f, long g, long h, long i, long j, long k
#define GIVEN a, b, c, d, e, f, g, h, i, j, k
typedef int function(INTEGERS);

static function *find(const char *name)
{
    static void *driver;
    if (!driver)
        driver = dlopen(DRIVER, RTLD_NOW);
    return driver ? (function *)dlsym(driver, name) : NULL;
}

#ifdef EARLY
__attribute__((constructor)) static void look(void)
{
    find("cuLaunchKernel");
}
#endif

#define NAME(name)                                                                                 \
    int name(INTEGERS)                                                                             \
    {                                                                                              \
        static function *real;                                                                     \
        if (!real)                                                                                 \
            real = find(#name);                                                                    \
        return real ? real(GIVEN) : 500;                                                           \
    }
#include "names.inc"

static int get(const char *own, const char *symbol, void **found, int version, unsigned long flags,
               int *status)
{
    int result =
        find(own)((long)symbol, (long)found, version, (long)flags, (long)status, 0, 0, 0, 0, 0, 0);
#ifndef RAW
    Dl_info info;
    if (result == 0 && found && *found && dladdr(*found, &info) && info.dli_sname) {
        void *shim = dladdr((void *)get, &info) ? dlopen(info.dli_fname, RTLD_NOW) : NULL;
        if (shim && dladdr(*found, &info))
            *found = dlsym(shim, info.dli_sname);
    }
#endif
    return result;
}

int cuGetProcAddress(const char *symbol, void **found, int version, unsigned long flags)
{
    return get("cuGetProcAddress", symbol, found, version, flags, NULL);
}

int cuGetProcAddress_v2(const char *symbol, void **found, int version, unsigned long flags,
                        int *status)
{
    return get("cuGetProcAddress_v2", symbol, found, version, flags, status);
}

#else
#define _GNU_SOURCE
#include <dlfcn.h>

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels.h"

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)
#define OK(call) CHECK((call) == CUDA_SUCCESS)

/* Name for cuGetProcAddress; the exported name is what cuda.h makes of it. */
#define FUNCTIONS(X)                                                                               \
    X(cuInit)                                                                                      \
    X(cuDeviceGet)                                                                                 \
    X(cuDevicePrimaryCtxRetain)                                                                    \
    X(cuCtxSetCurrent)                                                                             \
    X(cuModuleLoadData)                                                                            \
    X(cuModuleGetFunction)                                                                         \
    X(cuMemAlloc)                                                                                  \
    X(cuMemsetD32)                                                                                 \
    X(cuStreamCreate)                                                                              \
    X(cuLaunchKernel)                                                                              \
    X(cuStreamSynchronize)                                                                         \
    X(cuMemcpyDtoH)

struct driver {
#define X(name) __typeof__(name) *f_##name;
    FUNCTIONS(X)
#undef X
    CUcontext context;
    CUstream stream;
    CUdeviceptr words;
    CUfunction mix;
    uint32_t sum;
};

enum { MOST = 4, STEPS = 400, WORDS = 32 };

#define STRING(name)  STRING_(name)
#define STRING_(name) #name

static void *ask(void *file, const char *name)
{
    void *found = NULL;
    __typeof__(cuGetProcAddress_v2) *get = (__typeof__(get))dlsym(file, "cuGetProcAddress_v2");
    if (!get || get(name, &found, 12000, 0, NULL) != CUDA_SUCCESS)
        return NULL;
    return found;
}

static void look_up(struct driver *d, void *file, const char *way)
{
    bool by_name = strcmp(way, "ask") != 0, both = strcmp(way, "both") == 0;
#define X(name)                                                                                    \
    d->f_##name =                                                                                  \
        (__typeof__(d->f_##name))(by_name ? dlsym(file, STRING(name)) : ask(file, #name));         \
    if (both && strcmp(#name, "cuMemAlloc") == 0)                                                  \
        by_name = false;
    FUNCTIONS(X)
#undef X
}

/* False: it does not work. */
static bool begin(struct driver *d)
{
    CUdevice device;
    CUmodule module;
    CUresult status = d->f_cuInit ? d->f_cuInit(0) : CUDA_ERROR_STUB_LIBRARY;
    printf("cuInit: %d\n", status);
    if (status != CUDA_SUCCESS)
        return false;
    OK(d->f_cuDeviceGet(&device, 0));
    OK(d->f_cuDevicePrimaryCtxRetain(&d->context, device));
    OK(d->f_cuCtxSetCurrent(d->context));
    OK(d->f_cuModuleLoadData(&module, agsim_kernels_ptx));
    OK(d->f_cuModuleGetFunction(&d->mix, module, "ag_mix"));
    OK(d->f_cuMemAlloc(&d->words, 4 * WORDS));
    OK(d->f_cuMemsetD32(d->words, 3, WORDS));
    OK(d->f_cuStreamCreate(&d->stream, 0));
    return true;
}

static void step(struct driver *d, unsigned number)
{
    unsigned n = WORDS;
    uint32_t read[WORDS];
    OK(d->f_cuCtxSetCurrent(d->context));
    for (unsigned k = 0; k < 8; k++) {
        unsigned value = number + k;
        OK(d->f_cuLaunchKernel(d->mix, 1, 1, 1, WORDS, 1, 1, 0, d->stream,
                               (void *[]){&d->words, &n, &value}, NULL));
    }
    if (number % 16 == 0)
        OK(d->f_cuStreamSynchronize(d->stream));
    if (number % 16 == 8) {
        OK(d->f_cuMemcpyDtoH(read, d->words, sizeof read));
        for (unsigned i = 0; i < WORDS; i++)
            d->sum = d->sum * 31 + read[i];
    }
}

int main(int argc, char **argv)
{
    CHECK(argc >= 3 && argc <= 2 + MOST);
    struct driver drivers[MOST] = {0};
    unsigned count = 0;
    bool all = strcmp(argv[1], "all") == 0;
    for (int i = 2; i < argc && (all || count == 0); i++) {
        void *file = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
        CHECK(file);
        look_up(&drivers[count], file, argv[1]);
        count += begin(&drivers[count]);
    }
    CHECK(count > 0);
    for (unsigned number = 0; number < STEPS; number++)
        for (unsigned i = 0; i < count; i++)
            step(&drivers[i], number);
    for (unsigned i = 0; i < count; i++)
        printf("%08x\n", drivers[i].sum);
    return 0;
}
#endif
