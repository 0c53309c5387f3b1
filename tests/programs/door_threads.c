/* SPDX-License-Identifier: MIT */
/*
 * Threads that all come to CUDA at the same moment, one of them from a constructor within dlopen():
 * each must get the same answers, and none may wait for ever.
 *
 * Built as a library (CONSTRUCTOR) it is that which dlopen() runs.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static const char *const names[] = {"cuLaunchKernel", "cuMemcpy",       "cuNotYetInvented",
                                    "cuDeviceGet",    "cuStreamCreate", "cuCtxSynchronize"};
enum { NAMES = sizeof names / sizeof *names, THREADS = 16 };

#ifdef CONSTRUCTOR
/* The loader's lock is held here. */
__attribute__((constructor)) static void contact(void)
{
    for (unsigned i = 0; i < NAMES; i++)
        dlsym(dlopen("libcuda.so.1", RTLD_LAZY), names[i]);
}
#else
static pthread_barrier_t barrier;
static void *handle;
static void *found[THREADS][NAMES];

static void *contact(void *argument)
{
    void **mine = argument;
    pthread_barrier_wait(&barrier);
    for (unsigned i = 0; i < NAMES; i++)
        mine[i] = dlsym(handle, names[i]);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    handle = dlopen("libcuda.so.1", RTLD_LAZY);
    if (!handle || argc != 2 || pthread_barrier_init(&barrier, NULL, THREADS + 1) != 0)
        return 2;
    for (unsigned i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, contact, found[i]) != 0)
            return 2;
    pthread_barrier_wait(&barrier);
    usleep(10000); /* the others have begun, and the start takes longer than this (DOOR_SLOW) */
    void *library = dlopen(argv[1], RTLD_LAZY);
    if (!library)
        return 3;
    for (unsigned i = 0; i < THREADS; i++)
        if (pthread_join(threads[i], NULL) != 0)
            return 2;
    for (unsigned i = 0; i < THREADS; i++)
        for (unsigned j = 0; j < NAMES; j++)
            if (!found[i][j] || found[i][j] != found[0][j])
                return 1;
    return 0;
}
#endif
