/* SPDX-License-Identifier: MIT */
/* report_life.c SCENARIO: what public reports say of threads, host functions, processes, the end of
 * all, and looking functions up (docs/reports.md has their addresses). Prints what came out, which
 * is the same with the library as without it. */
#define _GNU_SOURCE
#include "live.h"

#include <dlfcn.h>
#include <spawn.h>
#include <sys/wait.h>

extern char **environ;

/* -- Host functions -- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned called;

static void CUDA_CB takes_lock(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&lock);
    called++;
    pthread_mutex_unlock(&lock);
}

/* A host function waits for a lock of the program, which launches while it has that: always other
   loops, so that there are more to make graphs of than a context gives freely. */
static void callback_lock(void)
{
    CUstream s = made(CU_STREAM_NON_BLOCKING), other = made(CU_STREAM_NON_BLOCKING);
    CUevent event;
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    for (uint32_t round = 0; round < 60; round++) {
        pthread_mutex_lock(&lock);
        OK(cuLaunchHostFunc(other, takes_lock, NULL));
        OK(launch_mix(buffer[1], N, round, other));
        OK(cuEventRecord(event, other));
        for (uint32_t step = 0; step < 10; step++) {
            for (uint32_t i = 0; i < 3 + round % 30; i++)
                OK(launch_mix(buffer[0], N, i == 1 ? step : i, s));
            CHECK(cuEventQuery(event) == CUDA_ERROR_NOT_READY);
        }
        OK(cuStreamSynchronize(s));
        pthread_mutex_unlock(&lock);
        OK(cuEventSynchronize(event));
    }
    printf("%u calls\n", called);
}

/* Memory is given back while host functions are on their way in several streams. */
static void callback_free(void)
{
    CUstream s[4];
    for (unsigned i = 0; i < 4; i++)
        s[i] = made(CU_STREAM_NON_BLOCKING);
    for (uint32_t step = 0; step < STEPS; step++) {
        CUdeviceptr at[4];
        for (unsigned i = 0; i < 4; i++) {
            OK(cuMemAlloc(&at[i], 4 * N));
            OK(cuMemsetD32Async(at[i], step, N, s[i]));
            body(s[i], at[i], step);
            OK(cuMemcpyDtoDAsync(buffer[i], at[i], 4 * N, s[i]));
            OK(cuLaunchHostFunc(s[i], takes_lock, NULL));
            body(s[i], buffer[i], step);
            if (i % 2)
                OK(cuMemFree(at[i - 1]));
        }
        OK(cuMemFree(at[1]));
        OK(cuMemFree(at[3]));
    }
    OK(cuCtxSynchronize());
    printf("%u calls\n", called);
}

/* -- Threads -- */

static void *loads_and_unloads(void *arg)
{
    CUdeviceptr at = buffer[(uintptr_t)arg];
    OK(cuCtxSetCurrent(ctx));
    for (uint32_t round = 0; round < 40; round++) {
        CUmodule m;
        CUfunction f;
        OK(cuModuleLoadData(&m, agsim_kernels_ptx));
        OK(cuModuleGetFunction(&f, m, "ag_mix"));
        for (uint32_t step = 0; step < 20; step++) {
            uint32_t n = N, k = step ^ round;
            void *args[] = {&at, &n, &k};
            OK(cuLaunchKernel(f, 1, 1, 1, N, 1, 1, 0, CU_STREAM_PER_THREAD, args, NULL));
            OK(launch_mix(at, N, 3, CU_STREAM_PER_THREAD));
        }
        if (round % 3)
            OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
        if (round % 4)
            OK(cuModuleUnload(m));
    }
    OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    return NULL;
}

/* Two threads load a module, launch, and unload it, each its own. */
static void unload_beside(void)
{
    pthread_t thread[2];
    for (uintptr_t i = 0; i < 2; i++)
        CHECK(pthread_create(&thread[i], NULL, loads_and_unloads, (void *)i) == 0);
    for (unsigned i = 0; i < 2; i++)
        CHECK(pthread_join(thread[i], NULL) == 0);
}

static pthread_barrier_t turn;
static CUcontext passing;

static void *keeps_context(void *arg)
{
    CUmodule m;
    CUfunction f, outer = mix;
    CUdeviceptr at;
    CUstream s;
    OK(cuCtxSetCurrent(passing));
    OK(cuModuleLoadData(&m, agsim_kernels_ptx));
    OK(cuModuleGetFunction(&f, m, "ag_mix"));
    mix = f;
    OK(cuMemAlloc(&at, 4 * N));
    OK(cuMemsetD32(at, 1, N));
    OK(cuCtxSynchronize());
    s = made(CU_STREAM_NON_BLOCKING);
    loop(s, at);
    OK(cuStreamSynchronize(s));
    show("passing", at);
    body(s, at, 1); /* held when it goes, perhaps */
    mix = outer;
    pthread_barrier_wait(&turn);
    pthread_barrier_wait(&turn); /* the context is gone, and still this thread's current one */
    CUcontext now = NULL;
    CUresult answers[] = {cuCtxGetCurrent(&now), cuCtxSynchronize(), cuMemAlloc(&at, 4),
                          launch_mix(buffer[0], N, 1, NULL), cuCtxSetCurrent(ctx)};
    for (unsigned i = 0; i < sizeof answers / sizeof *answers; i++)
        printf("%d ", answers[i]);
    puts("");
    loop(NULL, buffer[1]);
    return arg;
}

/* One thread destroys a context that is another one's current one. */
static void destroyed_elsewhere(void)
{
    CHECK(pthread_barrier_init(&turn, NULL, 2) == 0);
    for (unsigned round = 0; round < 3; round++) {
        pthread_t thread;
        CUcontext popped;
        OK(create_context(&passing));
        OK(cuCtxPopCurrent(&popped));
        CHECK(pthread_create(&thread, NULL, keeps_context, NULL) == 0);
        pthread_barrier_wait(&turn);
        OK(cuCtxDestroy(passing));
        pthread_barrier_wait(&turn);
        CHECK(pthread_join(thread, NULL) == 0);
        loop(NULL, buffer[0]);
    }
}

/* Ops in streams that mean something only with a current context, when there is none. */
static void no_context(void)
{
    CUcontext popped;
    for (uint32_t step = 0; step < 2 * STEPS; step++) {
        body(NULL, buffer[0], step);
        body(CU_STREAM_PER_THREAD, buffer[1], step);
        if (step % 16 != 15)
            continue;
        OK(cuCtxPopCurrent(&popped));
        CUresult answers[] = {launch_mix(buffer[0], N, 1, NULL),
                              launch_mix(buffer[1], N, 1, CU_STREAM_PER_THREAD),
                              cuMemsetD32Async(buffer[0], 1, N, CU_STREAM_LEGACY),
                              cuStreamQuery(NULL),
                              cuStreamSynchronize(CU_STREAM_PER_THREAD),
                              cuCtxSynchronize()};
        OK(cuCtxPushCurrent(popped));
        for (unsigned i = 0; i < sizeof answers / sizeof *answers; i++)
            printf("%d ", answers[i]);
        puts("");
    }
}

struct leftovers {
    CUstream s;
    CUevent event;
    CUdeviceptr at;
};

static pthread_key_t key;

/* Runs when its thread has ended, and for the main thread not at all. */
static void clean_up(void *arg)
{
    struct leftovers *l = arg;
    OK(cuCtxSetCurrent(ctx)); /* the driver may have forgotten it by then (H200) */
    body(l->s, l->at, 4);
    body(CU_STREAM_PER_THREAD, buffer[1], 5);
    OK(cuEventRecord(l->event, l->s));
    OK(cuEventSynchronize(l->event));
    OK(cuEventDestroy(l->event));
    OK(cuStreamDestroy(l->s));
    OK(cuMemcpyDtoD(buffer[0], l->at, 4 * N));
    OK(cuMemFree(l->at));
    free(l);
}

static void *leaves_the_rest(void *arg)
{
    struct leftovers *l = calloc(1, sizeof *l);
    CHECK(l != NULL && pthread_setspecific(key, l) == 0);
    OK(cuCtxSetCurrent(ctx));
    l->s = made(CU_STREAM_NON_BLOCKING);
    OK(cuEventCreate(&l->event, CU_EVENT_DISABLE_TIMING));
    OK(cuMemAlloc(&l->at, 4 * N));
    OK(cuMemsetD32Async(l->at, 7, N, l->s));
    loop(l->s, l->at);
    loop(CU_STREAM_PER_THREAD, buffer[1]);
    OK(cuStreamSynchronize(CU_STREAM_PER_THREAD)); /* the thread gets another one in clean_up() */
    return arg;
}

/* Thread-local objects that use CUDA when their thread has ended. */
static void thread_locals(void)
{
    CHECK(pthread_key_create(&key, clean_up) == 0);
    for (unsigned i = 0; i < 12; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, leaves_the_rest, NULL) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
    }
}

/* -- Loading -- */

static void *uses_all(void *arg)
{
    OK(cuCtxSetCurrent(ctx));
    for (uint32_t round = 0; round < 4; round++) {
        CUstream s = made(CU_STREAM_NON_BLOCKING);
        loop(s, buffer[0]);
        body(CU_STREAM_PER_THREAD, buffer[1], round);
        OK(cuStreamSynchronize(s));
        OK(cuStreamDestroy(s));
    }
    OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    return arg;
}

/* The plugin's constructor, and so with the loader's lock. */
void report_constructed(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, uses_all, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

/* A library that is opened waits for a thread that launches: nobody who launches may need the
   loader. */
static void constructor(void)
{
    const char *plugin = getenv("REPORT_PLUGIN");
    loop(NULL, buffer[2]);
    for (unsigned i = 0; i < 3; i++) {
        void *handle = dlopen(plugin, RTLD_NOW);
        CHECK(handle != NULL && dlclose(handle) == 0);
    }
}

typedef CUresult look_up_fn(const char *, void **, int, cuuint64_t,
                            CUdriverProcAddressQueryResult *);

/* What a name, a version and flags give: the code, the status, and which of the earlier answers it
   equals. */
static void look_ups(void)
{
    static const char *const names[] = {"cuMemAlloc",
                                        "cuCtxCreate",
                                        "cuLaunchKernel",
                                        "cuStreamBeginCapture",
                                        "cuGraphInstantiate",
                                        "cuMemcpyHtoDAsync",
                                        "cuGetProcAddress",
                                        "cuEventElapsedTime",
                                        "cuStreamGetCaptureInfo",
                                        "cuMemPrefetchAsync",
                                        "cuLaunchKernelEx",
                                        "cuGraphKernelNodeSetParams",
                                        "cuDevicePrimaryCtxReset",
                                        "cuStreamWriteValue64",
                                        "cuNoSuchThing"};
    static const int versions[] = {2000, 3020, 4000, 6050, 7000, 10010, 11030, 12000, 12040, 13000};
    enum { NAMES = sizeof names / sizeof *names, VERSIONS = sizeof versions / sizeof *versions };
    void *seen[3 * VERSIONS], *self;
    look_up_fn *own;
    OK(cuGetProcAddress("cuGetProcAddress", &self, 12000, 0, NULL));
    memcpy(&own, &self, sizeof own);
    for (unsigned i = 0; i < NAMES; i++) {
        unsigned count = 0;
        printf("%s", names[i]);
        for (unsigned v = 0; v < 3 * VERSIONS; v++) {
            void *at = NULL;
            CUdriverProcAddressQueryResult status = 0;
            look_up_fn *how = v % 2 ? own : cuGetProcAddress;
            CUresult answer = how(names[i], &at, versions[v / 3], v % 3, &status);
            unsigned k = 0;
            while (k < count && seen[k] != at)
                k++;
            if (k == count)
                seen[count++] = at;
            printf(" %d/%d/%c%s", answer, (int)status, 'a' + (int)k, at ? "" : "-");
        }
        puts("");
    }
    void *handle = dlopen("libcuda.so.1", RTLD_NOW);
    CHECK(handle != NULL);
    OK(cuGetProcAddress("cuLaunchKernel", &self, 13000, 0, NULL));
    void *by_name = dlsym(handle, "cuLaunchKernel"), *none = dlsym(handle, "cuNoSuchThing");
    printf("%d %d %d\n", by_name == self, by_name == dlsym(RTLD_DEFAULT, "cuLaunchKernel"),
           none == NULL);
    CHECK(dlclose(handle) == 0);
}

/* No place for the answer, or no object. What crashes a driver is not here. */
static void null_answers(void)
{
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    CUdevice d = dev;
    size_t size;
    loop(s, buffer[0]);
    CUresult answers[] = {cuMemAlloc(NULL, 4),
                          cuStreamCreate(NULL, 0),
                          cuEventCreate(NULL, 0),
                          cuEventDestroy(NULL),
                          cuEventRecord(NULL, s),
                          cuEventQuery(NULL),
                          cuStreamWaitEvent(s, NULL, 0),
                          cuEventSynchronize(NULL),
                          cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, s, NULL, NULL),
                          cuLaunchKernelEx(NULL, mix, NULL, NULL),
                          cuMemAllocAsync(NULL, 4, s),
                          cuMemFreeAsync(0, s),
                          cuMemFree(0),
                          cuStreamIsCapturing(s, NULL),
                          cuStreamEndCapture(s, NULL),
                          cuGraphLaunch(NULL, s),
                          cuModuleUnload(NULL),
                          cuCtxDestroy(NULL),
                          cuMemcpy2DAsync(NULL, s),
                          cuMemcpy3DAsync(NULL, s),
                          cuMemGetAddressRange(NULL, &size, buffer[0]),
                          cuLaunchHostFunc(s, NULL, NULL),
                          cuMemsetD8Async(0, 1, 4, s),
                          cuMemcpyDtoDAsync(buffer[0], 0, 4, s),
                          cuDevicePrimaryCtxRetain(NULL, d),
                          cuModuleGetFunction(NULL, mod, "ag_mix")};
    for (unsigned i = 0; i < sizeof answers / sizeof *answers; i++)
        printf("%d ", answers[i]);
    puts("");
    loop(s, buffer[0]);
}

/* -- Processes -- */

static void told(const char *who)
{
    int count = -1;
    CUresult one = cuDeviceGetCount(&count);
    printf("%s: %d %d\n", who, one, launch_mix(buffer[0], N, 1, NULL));
    fflush(stdout);
}

static void child_ends(void)
{
    told("handler of the child");
    (void)cuModuleUnload(mod);
    (void)cuDevicePrimaryCtxRelease(dev);
}

/* A child that has CUDA's handles from its parent ends as programs do, with handlers that use them;
   others begin by vfork, posix_spawn and popen. The parent goes on. */
static void child_exits(void)
{
    CUstream s = made(CU_STREAM_NON_BLOCKING);
    char *other[] = {"report_life", "look_ups", NULL}, line[256];
    for (unsigned round = 0; round < 8; round++) {
        int status = 0;
        pid_t child;
        loop(s, buffer[0]);
        fflush(stdout);
        switch (round % 4) {
        case 0:
            child = fork();
            if (child == 0) {
                if (atexit(child_ends) == 0)
                    exit(3);
                _exit(99);
            }
            break;
        case 1:
            child = vfork();
            if (child == 0)
                _exit(execl("/bin/true", "true", NULL));
            break;
        case 2:
            CHECK(posix_spawn(&child, "/proc/self/exe", NULL, NULL, other, environ) == 0);
            break;
        default: {
            FILE *pipe = popen("echo from a shell", "r");
            CHECK(pipe != NULL && fgets(line, sizeof line, pipe) != NULL);
            printf("%s", line);
            printf("%d\n", pclose(pipe));
            continue;
        }
        }
        body(s, buffer[0], round);
        CHECK(child > 0 && waitpid(child, &status, 0) == child);
        printf("%u: %d\n", round, status);
    }
    OK(cuStreamSynchronize(s));
}

/* -- The end -- */

static void late(void)
{
    told("handler from before cuInit");
}

static void later(void)
{
    told("handler from behind cuInit");
    loop(NULL, buffer[0]);
}

/* Handlers and destructors use CUDA while the process ends. */
static void exit_calls(void)
{
    CHECK(atexit(later) == 0);
    loop(NULL, buffer[0]);
    loop(made(CU_STREAM_NON_BLOCKING), buffer[1]);
    body(CU_STREAM_PER_THREAD, buffer[2], 1);
    exit(7);
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {
        {"callback_lock", callback_lock}, {"callback_free", callback_free},
        {"unload_beside", unload_beside}, {"destroyed_elsewhere", destroyed_elsewhere},
        {"no_context", no_context},       {"thread_locals", thread_locals},
        {"constructor", constructor},     {"look_ups", look_ups},
        {"null_answers", null_answers},   {"child_exits", child_exits},
        {"exit_calls", exit_calls},       {NULL, NULL}};
    if (argc == 2 && strcmp(argv[1], "exit_calls") == 0)
        CHECK(atexit(late) == 0);
    run(all, argc, argv);
    show_all(argv[1]);
    return 0;
}
