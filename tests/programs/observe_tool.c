/* SPDX-License-Identifier: MIT */
/*
 * observe_tool.c [lock|wait|fork]: a loop of kernels, told to a tool (nvtx_injection.c). "lock": a
 * thread of the tool waits for the context, and allocates, with the tool's lock held. "wait": the
 * device waits for the program while the tool is told, and the program for nobody. "fork": children
 * take the tool's lock. "long": four times as many steps, then the tool may go on. Prints a sum of
 * the results.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agsim.h"
#include "sim_test.h"

enum { N = 32, BODY = 7, ROUNDS = 40, STEPS = 20 };

/* For the tool. */
CUcontext ag_tool_context;
CUstream ag_tool_stream;
CUfunction ag_tool_kernel;
void **ag_tool_arguments;
_Atomic int ag_tool_goes_on;

static CUdeviceptr buffer, beside;
static pthread_mutex_t *lock;
static _Atomic int stop, released;

static void find_lock(void)
{
    static pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
    const char *tool = getenv("NVTX_INJECTION64_PATH");
    void *library = tool != NULL ? dlopen(tool, RTLD_NOW) : NULL;
    lock = library != NULL ? dlsym(library, "ag_tool_lock") : &own;
    CHECK(lock != NULL);
}

static void prepare_for_tool(void)
{
    static uint32_t n = N, step = 1;
    static CUdeviceptr at;
    static void *arguments[] = {&at, &n, &step};
    at = beside;
    ag_tool_context = ctx;
    ag_tool_kernel = mix;
    ag_tool_arguments = arguments;
    OK(cuStreamCreate(&ag_tool_stream, CU_STREAM_NON_BLOCKING));
}

static void *sample(void *unused)
{
    CUdeviceptr memory;
    OK(cuCtxSetCurrent(ctx));
    while (!stop) {
        CHECK(pthread_mutex_lock(lock) == 0);
        OK(cuCtxSynchronize());
        OK(cuMemAlloc(&memory, 64));
        OK(cuMemFree(memory));
        CHECK(pthread_mutex_unlock(lock) == 0);
        usleep(200);
    }
    return unused;
}

static void fork_child(void)
{
    int status;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        alarm(20);
        CHECK(pthread_mutex_lock(lock) == 0 && pthread_mutex_unlock(lock) == 0);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void until_released(void *arg)
{
    (void)arg;
    while (released == 0)
        usleep(100);
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    uint32_t host[N], sum = 0;
    CUstream stream, other;
    pthread_t thread;
    alarm(60);
    start();
    find_lock();
    OK(cuMemAlloc(&buffer, 4 * N));
    OK(cuMemAlloc(&beside, 4 * N));
    OK(cuMemsetD32(buffer, 1, N));
    OK(cuCtxSynchronize());
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    prepare_for_tool();
    if (strcmp(how, "lock") == 0)
        CHECK(pthread_create(&thread, NULL, sample, NULL) == 0);
    for (uint32_t step = 0; step < STEPS * (strcmp(how, "long") == 0 ? 4 : 1); step++) {
        if (strcmp(how, "wait") == 0 && step == STEPS / 2)
            OK(cuLaunchHostFunc(other, until_released, NULL));
        for (uint32_t i = 0; i < BODY * ROUNDS; i++)
            OK(launch_mix(buffer, N, i % BODY, stream));
        OK(cuStreamSynchronize(stream));
        usleep(500);
        if (strcmp(how, "fork") == 0)
            fork_child();
    }
    released = 1;
    ag_tool_goes_on = 1;
    stop = 1;
    if (strcmp(how, "lock") == 0)
        CHECK(pthread_join(thread, NULL) == 0);
    OK(cuMemcpyDtoH(host, buffer, sizeof host));
    for (unsigned i = 0; i < N; i++)
        sum = sum * 31 + host[i];
    printf("%08x\n", sum);
    return 0;
}
