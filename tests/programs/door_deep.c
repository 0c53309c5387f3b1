/* SPDX-License-Identifier: MIT */
/*
 * A library's calls of the driver, among those of a program that repeats its own. The library comes
 * as the words say, and may pass the doors by:
 *
 *   plain | deep | space     dlopen(), dlopen() with RTLD_DEEPBIND, dlmopen()
 *   sync | launch | mix | read    what the library does in each step
 *   first | early | late | beside  opened before CUDA is used, before anything is launched, in the
 *                            middle of a step in the middle of the run, or then by another thread
 *   FILE                     the library
 *
 * Prints what has come out; the same each time.
 */
#ifdef LIBRARY
#define _GNU_SOURCE
#include <cuda.h>
#include <dlfcn.h>

/* `driver`: a handle of the program's. Without one the library calls what it is linked to. */
#ifdef LINKS
#define FUNCTION(name) (__typeof__(name) *)name
#else
#define FUNCTION(name) (__typeof__(name) *)dlsym(driver, DEEP_STRING(name))
#endif
#define DEEP_STRING(name)  DEEP_STRING_(name)
#define DEEP_STRING_(name) #name

static __typeof__(cuStreamSynchronize) *synchronize;
static __typeof__(cuLaunchKernel) *launch;
static __typeof__(cuMemcpyDtoH) *copy;

void deep_begin(void *driver)
{
    (void)driver;
    synchronize = FUNCTION(cuStreamSynchronize);
    launch = FUNCTION(cuLaunchKernel);
    copy = FUNCTION(cuMemcpyDtoH);
}

CUresult deep_sync(CUstream stream)
{
    return synchronize(stream);
}

CUresult deep_launch(CUfunction func, void **args, unsigned threads, CUstream stream)
{
    return launch(func, 1, 1, 1, threads, 1, 1, 0, stream, args, NULL);
}

CUresult deep_read(void *to, CUdeviceptr from, size_t bytes)
{
    return copy(to, from, bytes);
}

#else
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "sim_test.h"

enum { STEPS = 600, WORDS = 32, FLAGS = 6 };

/* The program's own, until the library has been opened. */
static CUresult own_sync(CUstream stream)
{
    return cuStreamSynchronize(stream);
}

static CUresult own_launch(CUfunction func, void **args, unsigned threads, CUstream stream)
{
    return cuLaunchKernel(func, 1, 1, 1, threads, 1, 1, 0, stream, args, NULL);
}

static CUresult own_read(void *to, CUdeviceptr from, size_t bytes)
{
    return cuMemcpyDtoH(to, from, bytes);
}

static CUresult (*do_sync)(CUstream) = own_sync;
static CUresult (*do_launch)(CUfunction, void **, unsigned, CUstream) = own_launch;
static CUresult (*do_read)(void *, CUdeviceptr, size_t) = own_read;

static const char *how, *what, *when, *file;
static _Atomic bool opened;
static void *library;

static void open_library(void)
{
    if (strcmp(how, "space") == 0)
        library = dlmopen(LM_ID_NEWLM, file, RTLD_NOW);
    else
        library = dlopen(file, RTLD_NOW | (strcmp(how, "deep") == 0 ? RTLD_DEEPBIND : 0));
    if (!library)
        fprintf(stderr, "%s\n", dlerror());
    CHECK(library);
    atomic_store(&opened, true);
}

static void *open_beside(void *unused)
{
    open_library();
    return unused;
}

static void take_over(void)
{
    void (*begin)(void *) = (void (*)(void *))dlsym(library, "deep_begin");
    CHECK(begin);
    begin(dlopen("libcuda.so.1", RTLD_NOW));
    do_sync = (CUresult(*)(CUstream))dlsym(library, "deep_sync");
    do_launch = (CUresult(*)(CUfunction, void **, unsigned, CUstream))dlsym(library, "deep_launch");
    do_read = (CUresult(*)(void *, CUdeviceptr, size_t))dlsym(library, "deep_read");
    CHECK(do_sync && do_launch && do_read);
}

static unsigned wrong;
static uint32_t sum;

/* What the program launches in a step; `middle` is called before the last of it. */
static void launches(unsigned step, volatile uint32_t *flags, CUdeviceptr words, CUstream stream,
                     void (*middle)(void))
{
    bool with_flags = strcmp(what, "sync") == 0 || strcmp(what, "launch") == 0;
    for (unsigned k = 0; k < FLAGS; k++) {
        if (k == FLAGS - 1 && middle)
            middle();
        if (with_flags)
            OK(launch_word(flag, flags + k, step, stream));
        else
            OK(launch_mix(words, WORDS, step + k, stream));
    }
}

static void library_part(unsigned step, volatile uint32_t *flags, CUdeviceptr words,
                         CUstream stream)
{
    CUdeviceptr at = (CUdeviceptr)(uintptr_t)flags;
    unsigned n = WORDS, value = step + STEPS;
    if (strcmp(what, "sync") == 0) {
        OK(do_sync(stream));
        for (unsigned k = 0; k < FLAGS; k++)
            wrong += get_word(flags + k) != step;
    } else if (strcmp(what, "launch") == 0) {
        OK(do_launch(flag, (void *[]){&at, &value}, 1, stream));
        OK(cuStreamSynchronize(stream));
        wrong += get_word(flags) != value;
    } else if (strcmp(what, "mix") == 0) {
        OK(do_launch(mix, (void *[]){&words, &n, &step}, WORDS, stream));
    } else {
        uint32_t read[WORDS];
        OK(do_read(read, words, sizeof read)); /* the stream is one that the legacy one waits for */
        for (unsigned i = 0; i < WORDS; i++)
            sum = sum * 31 + read[i];
    }
}

static void run(volatile uint32_t *flags, CUdeviceptr words, CUstream stream)
{
    pthread_t thread;
    bool beside = strcmp(when, "beside") == 0, taken = false;
    for (unsigned step = 1; step < STEPS; step++) {
        bool now = step == STEPS / 2 && !opened;
        if (now && beside)
            CHECK(pthread_create(&thread, NULL, open_beside, NULL) == 0);
        launches(step, flags, words, stream, now && !beside ? open_library : NULL);
        while (now && beside && !opened)
            launches(step, flags, words, stream, NULL);
        if (now && beside)
            CHECK(pthread_join(thread, NULL) == 0);
        if (opened && !taken)
            take_over();
        taken = opened;
        library_part(step, flags, words, stream);
    }
}

int main(int argc, char **argv)
{
    CHECK(argc == 5);
    how = argv[1], what = argv[2], when = argv[3], file = argv[4];
    if (strcmp(when, "first") == 0)
        open_library();
    start();
    CUstream stream;
    CUdeviceptr words;
    OK(cuStreamCreate(&stream, strcmp(what, "read") == 0 ? 0 : CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&words, 4 * WORDS));
    OK(cuMemsetD32(words, 3, WORDS));
    OK(cuCtxSynchronize());
    volatile uint32_t *flags = host_words(FLAGS);
    if (strcmp(when, "early") == 0)
        open_library();
    run(flags, words, stream);
    OK(cuStreamSynchronize(stream));
    /* Steps that were made while another thread opened the library are as many as it took. */
    uint32_t now[WORDS];
    OK(cuMemcpyDtoH(now, words, sizeof now));
    for (unsigned i = 0; i < WORDS; i++)
        sum = sum * 31 + now[i];
    if (strcmp(when, "beside") == 0)
        sum = 0;
    printf("wrong %u, sum %08x\n", wrong, sum);
    return wrong != 0;
}
#endif
