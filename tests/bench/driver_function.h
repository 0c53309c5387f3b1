/* SPDX-License-Identifier: MIT */
/* Functions of the driver, as a runtime in the program would get them. */
#ifndef DRIVER_FUNCTION_H
#define DRIVER_FUNCTION_H

#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

/* Ends the program if there is none of that name. */
static void *driver_function(const char *name)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *found = NULL;
    auto get =
        driver ? (__typeof__(cuGetProcAddress_v2) *)dlsym(driver, "cuGetProcAddress_v2") : NULL;
    if (!get || get(name, &found, CUDA_VERSION, CU_GET_PROC_ADDRESS_DEFAULT, NULL) || !found) {
        fprintf(stderr, "the driver has no %s\n", name);
        exit(1);
    }
    return found;
}

#endif
