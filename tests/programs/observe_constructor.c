/* SPDX-License-Identifier: MIT */
/*
 * observe_constructor.c PLUGIN: a thread has a loop of a kernel and a read-back. The
 * constructor of a library that another thread opens waits for some more of the rounds. Prints
 * whether they came. Built as a library (CONSTRUCTOR) it is that which is opened.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "sim_test.h"

enum { N = 32, ROUNDS = 20, PATIENCE_MS = 60000 };

bool rounds_come(void);

#ifdef CONSTRUCTOR
/* The loader's lock is held here. */
__attribute__((constructor)) static void begin(void)
{
    printf("while it begins: %s\n", rounds_come() ? "done" : "waited in vain");
    fflush(stdout);
}
#else
static _Atomic unsigned rounds;
static _Atomic bool over;

bool rounds_come(void)
{
    unsigned until = atomic_load(&rounds) + ROUNDS;
    for (int i = 0; i < PATIENCE_MS && atomic_load(&rounds) < until; i++)
        usleep(1000);
    return atomic_load(&rounds) >= until;
}

/* Other places than that of the first rounds: each is named anew. */
#define READ_BACK(name)                                                                            \
    void name(void *to, CUdeviceptr from, CUstream stream);                                        \
    void __attribute__((noinline)) name(void *to, CUdeviceptr from, CUstream stream)               \
    {                                                                                              \
        OK(cuMemcpyDtoHAsync(to, from, 4 * N, stream));                                            \
        OK(cuStreamSynchronize(stream));                                                           \
    }
READ_BACK(first_read_back)
READ_BACK(later_read_back)

static void *work(void *opens)
{
    uint32_t values[N];
    CUdeviceptr buffer;
    CUstream stream;
    OK(cuCtxSetCurrent(ctx));
    OK(cuMemAlloc(&buffer, sizeof values));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    while (!atomic_load(&over)) {
        OK(launch_mix(buffer, N, 7, stream));
        (atomic_load((_Atomic bool *)opens) ? later_read_back : first_read_back)(values, buffer,
                                                                                 stream);
        atomic_fetch_add(&rounds, 1);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    static _Atomic bool opens;
    pthread_t thread;
    CHECK(argc == 2);
    start();
    CHECK(pthread_create(&thread, NULL, work, &opens) == 0);
    CHECK(rounds_come());
    atomic_store(&opens, true);
    CHECK(dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) != NULL);
    atomic_store(&over, true);
    CHECK(pthread_join(thread, NULL) == 0);
    return 0;
}
#endif
