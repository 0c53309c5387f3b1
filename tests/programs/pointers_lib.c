/* SPDX-License-Identifier: MIT */
/*
 * A library that keeps the driver's functions in global variables with the functions' names: of
 * which it sets some by name, and some by a table. With USER: another that uses one of these
 * variables. With LINKED: a plugin that links libcuda.
 */
#include <dlfcn.h>
#include <stddef.h>

#if defined(USER)

extern int (*cuDriverGetVersion)(int *);
int version_of_user(void);

int version_of_user(void)
{
    int version = 0;
    return cuDriverGetVersion && cuDriverGetVersion(&version) == 0 ? version : -1;
}

#elif defined(LINKED)

int cuDriverGetVersion(int *);
int cuMemFreeHost(void *);
void *address_of_plugin(void);
int call_of_plugin(void);

void *address_of_plugin(void)
{
    return (void *)cuMemFreeHost;
}

int call_of_plugin(void)
{
    int version = 0;
    return cuDriverGetVersion(&version) == 0 ? version : -1;
}

#else

int (*cuInit)(unsigned);
int (*cuDeviceGet)(int *, int);
int (*cuDriverGetVersion)(int *);
int (*cuDeviceGetCount)(int *);
int wrangle(void);
int device_count(void);

static const struct {
    const char *name;
    void **variable;
} table[] = {
    {"cuDriverGetVersion", (void **)&cuDriverGetVersion},
    {"cuDeviceGetCount", (void **)&cuDeviceGetCount},
};

/* Begins as the address of the variable, and becomes the function's. */
static void *count_of_devices = (void *)&cuDeviceGetCount;

int wrangle(void)
{
    void *libcuda = dlopen("libcuda.so.1", RTLD_NOW);
    if (!libcuda)
        return -1;
    cuInit = (int (*)(unsigned))dlsym(libcuda, "cuInit");
    cuDeviceGet = (int (*)(int *, int))dlsym(libcuda, "cuDeviceGet");
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        *table[i].variable = dlsym(libcuda, table[i].name);
    count_of_devices = dlsym(libcuda, "cuDeviceGetCount");
    return cuInit && cuDeviceGet && cuDriverGetVersion && cuDeviceGetCount ? cuInit(0) : -2;
}

int device_count(void)
{
    int device, count = 0;
    if (cuDeviceGet(&device, 0) != 0 || ((int (*)(int *))count_of_devices)(&count) != 0)
        return -1;
    return count;
}

#endif
