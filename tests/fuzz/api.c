/* SPDX-License-Identifier: MIT */
/* Resolving the driver functions by both routes. */
#include "api.h"

#include <stdio.h>
#include <string.h>

struct api api[API_ROUTES][2];

/* cuda.h renames functions to their newest form: these expand the name first. */
#define JOIN_(a, b) a##b
#define JOIN(a, b)  JOIN_(a, b)
#define TEXT_(a)    #a
#define TEXT(a)     TEXT_(a)

#define X(name, suffix) extern __typeof__(name) JOIN(name, suffix);
FUZZ_STREAM_API(X)
#undef X

/* The address that cuGetProcAddress has for an exported name. A name with a version is the header's
   newest form; for a name without one a newer form may exist that the header does not use. */
static void *look_up(const char *exported, bool per_thread)
{
    enum { ALL_OTHERS = 12000 };
    char name[64];
    void *address = NULL;
    CUdriverProcAddressQueryResult status;
    snprintf(name, sizeof name, "%s", exported);
    char *version = strstr(name, "_v");
    if (version != NULL)
        *version = 0;
    CUresult result = cuGetProcAddress(name, &address, version != NULL ? CUDA_VERSION : ALL_OTHERS,
                                       per_thread ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
                                                  : CU_GET_PROC_ADDRESS_LEGACY_STREAM,
                                       &status);
    if (result != CUDA_SUCCESS || address == NULL)
        fprintf(stderr, "fuzz: the driver has no %s\n", exported);
    return address;
}

bool api_resolve(void)
{
    bool found = true;
    struct api *linked = api[API_LINKED], *looked_up = api[API_LOOKED_UP];
#define X(name, suffix)                                                                            \
    linked[0].name = name;                                                                         \
    linked[1].name = JOIN(name, suffix);                                                           \
    for (int p = 0; p < 2; p++)                                                                    \
        found &= (looked_up[p].name = look_up(TEXT(name), p)) != NULL;
    FUZZ_STREAM_API(X)
#undef X
#define X(name)                                                                                    \
    for (int p = 0; p < 2; p++) {                                                                  \
        linked[p].name = name;                                                                     \
        found &= (looked_up[p].name = look_up(TEXT(name), p)) != NULL;                             \
    }
    FUZZ_PLAIN_API(X)
#undef X
    return found;
}
