/* SPDX-License-Identifier: MIT */
/* Programs that set something for functions, modules and contexts in every step.
 *   settings WORD: see the table at the end
 * Prints the codes of what may fail, and a checksum. */
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

#include "sim_test.h"

enum { N = 64, STEPS = 800, BODY = 8 };

static CUdeviceptr buffer;
static CUstream stream;
static CUfunction of_library;
static CUkernel kernel;
static unsigned codes[1000];

static void count(CUresult result)
{
    codes[result]++;
}

static CUresult with(CUfunction f, uint32_t n, uint32_t k, unsigned shared)
{
    void *args[] = {&buffer, &n, &k};
    return cuLaunchKernel(f, 1, 1, 1, N, 1, 1, shared, stream, args, NULL);
}

/* Seven other launches, and a wait now and then. */
static void others(uint32_t step)
{
    for (uint32_t k = 1; k < BODY; k++)
        OK(launch_mix(buffer, N - k, k == 3 ? step : k, stream));
    if (step % 16 == 15)
        OK(cuStreamSynchronize(stream));
}

static void limit_of(CUfunction f, int value)
{
    OK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, value));
}

static void carveout_of(CUfunction f, int value)
{
    OK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, value));
}

/* -- One function ------------------------------------------------------------ */

static void again(uint32_t step)
{
    limit_of(mix, 65536);
    carveout_of(mix, 50);
    OK(cuFuncSetCacheConfig(mix, CU_FUNC_CACHE_PREFER_L1));
    OK(cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_SHARED));
    count(with(mix, N, step, 60000));
    others(step);
}

/* As cuDNN does: each layer sets what it needs, with the same kernel. */
static void layers(uint32_t step)
{
    limit_of(mix, 60000);
    count(with(mix, N, 1, 60000));
    others(step);
    limit_of(mix, 100000);
    count(with(mix, N, 2, 100000));
    others(step);
    limit_of(mix, 70000);
    count(with(mix, N, 3, 70000));
}

/* What is launched with more than the limit is refused, each time. */
static void refused(uint32_t step)
{
    limit_of(mix, step / 50 % 2 ? 60000 : 20000);
    for (uint32_t k = 0; k < 2; k++)
        count(with(mix, N, k, 50000));
    others(step);
}

static void carveouts(uint32_t step)
{
    carveout_of(mix, 0);
    count(with(mix, N, step, 1024));
    carveout_of(mix, 100);
    count(with(mix, N, step, 1024));
    others(step);
}

static void caches(uint32_t step)
{
    OK(cuFuncSetCacheConfig(mix, CU_FUNC_CACHE_PREFER_L1));
    count(with(mix, N, step, 0));
    OK(cuFuncSetCacheConfig(mix, CU_FUNC_CACHE_PREFER_SHARED));
    others(step);
}

static void contexts(uint32_t step)
{
    OK(cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_L1));
    count(with(mix, N, step, 0));
    OK(cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_EQUAL));
    others(step);
}

/* More combinations than are remembered. */
static void many(uint32_t step)
{
    carveout_of(mix, (int)(step % 40));
    count(with(mix, N, step, 0));
    for (uint32_t k = 1; k < BODY; k++)
        OK(cuLaunchKernel(nop, k, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
}

/* -- A kernel and its function ------------------------------------------------ */

static void kernel_limit(int value)
{
    OK(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, value, kernel, dev));
}

static void kernels(uint32_t step)
{
    kernel_limit(80000);
    count(with((CUfunction)kernel, N, 1, 80000));
    others(step);
    kernel_limit(60000);
    count(with(of_library, N, 2, 60000));
    count(with((CUfunction)kernel, N, 2, step % 100 == 99 ? 70000 : 50000));
    others(step);
}

/* What was set for the function itself stays, whatever is set for its kernel. */
static void both(uint32_t step)
{
    if (step % 100 == 50)
        limit_of(of_library, step % 200 == 50 ? 40000 : 75000);
    kernel_limit(step % 2 ? 65000 : 55000);
    count(with((CUfunction)kernel, N, 1, 50000));
    others(step);
    count(with(of_library, N, 2, 30000));
}

/* What a function has of its kernel stays, whatever else is set for the function. */
static void preferred(uint32_t step)
{
    if (step == 0)
        OK(cuKernelSetCacheConfig(kernel, CU_FUNC_CACHE_PREFER_L1, dev));
    carveout_of(of_library, 0);
    count(with(of_library, N, step, 1024));
    carveout_of(of_library, 100);
    count(with(of_library, N, step, 1024));
    others(step);
}

/* -- Sequences that are left, other streams, threads --------------------------- */

static void leaves(uint32_t step)
{
    limit_of(mix, 90000);
    count(with(mix, N, 1, 90000));
    for (uint32_t k = 1; k < BODY - (step % 23 == 22); k++)
        OK(launch_mix(buffer, N - k, k, stream));
    carveout_of(mix, step % 2 ? 25 : 75);
    limit_of(mix, 10000);
    if (step % 17 == 16)
        OK(cuMemsetD32Async(buffer, step, 1, stream));
    else
        count(with(mix, N, 7, 10000));
}

static void *setter(void *unused)
{
    OK(cuCtxSetCurrent(ctx));
    for (unsigned i = 0; i < 2000; i++) {
        limit_of(mix, i % 2 ? 70000 : 90000);
        carveout_of(mix, 50);
    }
    return unused;
}

static void beside(uint32_t step)
{
    static pthread_t thread;
    if (step == 0)
        CHECK(pthread_create(&thread, NULL, setter, NULL) == 0);
    count(with(mix, N, step, 70000));
    others(step);
    if (step == STEPS - 1)
        CHECK(pthread_join(thread, NULL) == 0);
}

/* -- Modules ------------------------------------------------------------------- */

/* One comes and goes, the others' launches go on. */
static void modules(uint32_t step)
{
    CUmodule m;
    CUfunction f;
    if (step % 8 == 0) {
        OK(cuModuleLoadData(&m, agsim_kernels_ptx));
        OK(cuModuleGetFunction(&f, m, "ag_mix"));
        for (uint32_t i = 0; i < 12; i++)
            count(with(f, N, i, 0));
        OK(cuModuleUnload(m));
    }
    others(step);
    OK(launch_mix(buffer, N, step, stream));
}

static void libraries(uint32_t step)
{
    CUlibrary l;
    CUkernel k;
    if (step % 8 == 0) {
        OK(cuLibraryLoadData(&l, agsim_kernels_ptx, NULL, NULL, 0, NULL, NULL, 0));
        OK(cuLibraryGetKernel(&k, l, "ag_mix"));
        for (uint32_t i = 0; i < 12; i++)
            count(with((CUfunction)k, N, i, 0));
        OK(cuLibraryUnload(l));
    }
    for (uint32_t i = 0; i < BODY; i++)
        count(with((CUfunction)kernel, N - i, i == 2 ? step : i, 0));
}

enum { UNLOADERS = 4, LOADED = 16 }; /* modules at a time, and for how many steps */

static _Atomic unsigned ready;

static void *unloader(void *module)
{
    OK(cuCtxSetCurrent(ctx));
    for (ready++; ready % UNLOADERS != 0;)
        sched_yield();
    OK(cuModuleUnload(module));
    return NULL;
}

/* Several threads unload at once what sequences of one stream launch, each something else. */
static void unloads(uint32_t step)
{
    static CUmodule m[UNLOADERS];
    static CUfunction f[UNLOADERS];
    pthread_t threads[UNLOADERS];
    for (unsigned i = 0; i < UNLOADERS; i++) {
        if (step % LOADED == 0) {
            OK(cuModuleLoadData(&m[i], agsim_kernels_ptx));
            OK(cuModuleGetFunction(&f[i], m[i], "ag_mix"));
        }
        for (uint32_t k = 0; k < BODY; k++)
            count(with(f[i], N - i, k, 0));
        OK(cuStreamSynchronize(stream));
    }
    if (step % LOADED != LOADED - 1)
        return;
    for (unsigned i = 0; i < UNLOADERS; i++)
        CHECK(pthread_create(&threads[i], NULL, unloader, m[i]) == 0);
    for (unsigned i = 0; i < UNLOADERS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

/* -- Limits of the context ------------------------------------------------------ */

static void stacks(uint32_t step)
{
    static const size_t sizes[] = {1024, 2048, 4096, 1024};
    OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, sizes[step / (STEPS / 4)]));
    OK(cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, 16 << 20));
    count(cuCtxSetLimit(CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH, 2));
    OK(launch_mix(buffer, N, step, stream));
    others(step);
}

static _Atomic uint32_t now;

static void *resizer(void *unused)
{
    OK(cuCtxSetCurrent(ctx));
    for (uint32_t at = STEPS / 4; at < STEPS; at += STEPS / 32) {
        while (now < at)
            sched_yield();
        OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, at / (STEPS / 32) % 2 ? 4096 : 1024));
    }
    return unused;
}

/* Another thread makes it larger and smaller meanwhile. */
static void resized(uint32_t step)
{
    static pthread_t thread;
    if (step == 0) {
        OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096));
        CHECK(pthread_create(&thread, NULL, resizer, NULL) == 0);
    }
    count(with(mix, N, step, 0));
    others(step);
    now = step;
    if (step == STEPS - 1)
        CHECK(pthread_join(thread, NULL) == 0);
}

static const struct {
    const char *name;
    void (*step)(uint32_t step);
} words[] = {{"again", again},         {"layers", layers},   {"refused", refused},
             {"carveouts", carveouts}, {"caches", caches},   {"contexts", contexts},
             {"many", many},           {"kernels", kernels}, {"both", both},
             {"leaves", leaves},       {"beside", beside},   {"modules", modules},
             {"libraries", libraries}, {"stacks", stacks},   {"preferred", preferred},
             {"resized", resized},     {"unloads", unloads}};

static void prepare(void)
{
    CUlibrary library;
    start();
    limit_of(mix, 70000); /* so that `beside` launches nothing that is refused */
    OK(cuLibraryLoadData(&library, agsim_kernels_ptx, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&kernel, library, "ag_mix"));
    OK(cuKernelGetFunction(&of_library, kernel));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&buffer, 4 * N));
    OK(cuMemsetD32Async(buffer, 1, N, stream));
}

static void finish(void)
{
    uint32_t words_of[N], sum = 0;
    int value;
    OK(cuStreamSynchronize(stream));
    OK(cuMemcpyDtoH(words_of, buffer, sizeof words_of));
    for (unsigned i = 0; i < N; i++)
        sum = sum * 31 + words_of[i];
    for (unsigned i = 0; i < 1000; i++)
        if (codes[i])
            printf("code %u: %u times\n", i, codes[i]);
    for (unsigned i = 0; i < 3; i++) {
        CUfunction f[] = {mix, of_library, word_copy};
        for (int a = 0; a < CU_FUNC_ATTRIBUTE_MAX; a++)
            if (cuFuncGetAttribute(&value, (CUfunction_attribute)a, f[i]) == CUDA_SUCCESS)
                printf("%d ", value);
    }
    OK(cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, kernel, dev));
    printf("%d\nsum %08x\n", value, sum);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    for (unsigned i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(argv[1], words[i].name) != 0)
            continue;
        prepare();
        for (uint32_t step = 0; step < STEPS; step++)
            words[i].step(step);
        finish();
        return 0;
    }
    return 2;
}
