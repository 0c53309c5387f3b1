/* SPDX-License-Identifier: MIT */
/*
 * Uses libraries whose variables are named like functions (pointers_lib.c), which it links, or
 * loads: pointers [LIBRARY USER [PLUGIN]]. The plugin links libcuda.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int function(void);

static void *open_library(const char *file, int flags)
{
    void *handle = dlopen(file, flags);
    if (!handle) {
        printf("%s\n", dlerror());
        exit(1);
    }
    return handle;
}

static int call(void *handle, const char *name)
{
    function *f = (function *)dlsym(handle, name);
    return f ? f() : -100;
}

static void use_plugin(const char *file)
{
    void *plugin = open_library(file, RTLD_NOW);
    void *(*address)(void) = (void *(*)(void))dlsym(plugin, "address_of_plugin");
    Dl_info info;
    if (!address || !dladdr(address(), &info))
        exit(1);
    const char *slash = strrchr(info.dli_fname, '/');
    fprintf(stderr, "%s\n", slash ? slash + 1 : info.dli_fname);
    printf("%d\n", call(plugin, "call_of_plugin"));
}

#ifdef LINKED

/* A copy of the library's variable lies in the program. */
extern int (*cuDriverGetVersion)(int *);
extern int (*cuInit)(unsigned);
int wrangle(void);
int device_count(void);
int version_of_user(void);

int main(void)
{
    int version = 0;
    printf("%d %d\n", cuDriverGetVersion == NULL, cuInit == NULL);
    printf("%d", wrangle());
    printf(" %d %d\n", device_count(), version_of_user());
    printf("%d", cuDriverGetVersion(&version));
    printf(" %d\n", version);
    return 0;
}

#else

int main(int argc, char **argv)
{
    if (argc < 3)
        return 1;
    void *library = open_library(argv[1], RTLD_NOW);
    void *user = open_library(argv[2], RTLD_NOW);
    if (argc > 3)
        use_plugin(argv[3]);
    printf("%d", call(library, "wrangle"));
    dlclose(user); /* what is loaded now is looked at anew */
    user = open_library(argv[2], RTLD_NOW);
    printf(" %d", call(library, "device_count"));
    printf(" %d\n", call(user, "version_of_user"));
    if (argc > 3)
        use_plugin(argv[3]);
    return 0;
}

#endif
