/* SPDX-License-Identifier: MIT */
/*
 * nvtx_injection.so: what a profiler brings for NVTX, as NVTX_INJECTION64_PATH names it. Appends
 * each range of a domain to the file AG_NVTX_LOG: thread, "push DOMAIN NAME" or "pop".
 *
 * What a tool may do besides says AG_NVTX_DO, in letters. While it is begun: i calls cuInit, a asks
 * for devices and contexts, z never comes to its end. In each range: t takes a lock of the tool's,
 * c waits for the program's context, w launches a kernel there, s sleeps, f forks, x calls exit(),
 * h never comes to its end. Of the program it knows what observe_tool.c exports.
 */
#include <cuda.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nvtx3/nvToolsExt.h>

pthread_mutex_t ag_tool_lock = PTHREAD_MUTEX_INITIALIZER;
extern CUcontext ag_tool_context __attribute__((weak));
extern CUstream ag_tool_stream __attribute__((weak));
extern CUfunction ag_tool_kernel __attribute__((weak));
extern void **ag_tool_arguments __attribute__((weak));
extern _Atomic int ag_tool_goes_on __attribute__((weak));

static int does(char what)
{
    const char *all = getenv("AG_NVTX_DO");
    return all != NULL && strchr(all, what) != NULL;
}

static void check(int good)
{
    if (!good)
        abort();
}

static void begun(void)
{
    int count;
    CUdevice device;
    CUcontext context;
    if (does('i'))
        check(cuInit(0) == CUDA_SUCCESS);
    if (does('a')) {
        check(cuDeviceGetCount(&count) == CUDA_SUCCESS && cuDeviceGet(&device, 0) == CUDA_SUCCESS);
        check(cuCtxGetCurrent(&context) == CUDA_SUCCESS);
        check(cuDevicePrimaryCtxRetain(&context, device) == CUDA_SUCCESS);
        check(cuDevicePrimaryCtxRelease(device) == CUDA_SUCCESS);
    }
    while (does('z'))
        pause();
}

static void works(void)
{
    if (does('c') || does('w'))
        check(cuCtxSetCurrent(ag_tool_context) == CUDA_SUCCESS);
    if (does('c'))
        check(cuCtxSynchronize() == CUDA_SUCCESS);
    if (does('w'))
        check(cuLaunchKernel(ag_tool_kernel, 1, 1, 1, 32, 1, 1, 0, ag_tool_stream,
                             ag_tool_arguments, NULL) == CUDA_SUCCESS);
    if (does('s'))
        usleep(300);
    if (does('f')) {
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        check(waitpid(child, NULL, 0) == child);
    }
    if (does('x'))
        exit(0);
    while (does('g') && !ag_tool_goes_on)
        usleep(1000);
    while (does('h'))
        pause();
}

static FILE *file;
static const char *domain_name = "";

static nvtxDomainHandle_t create(const char *name)
{
    domain_name = name;
    return (nvtxDomainHandle_t)&domain_name;
}

static int push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *range)
{
    if (domain != (nvtxDomainHandle_t)&domain_name)
        abort();
    if (does('t'))
        pthread_mutex_lock(&ag_tool_lock);
    fprintf(file, "%d push %s %s\n", (int)gettid(), domain_name, range->message.ascii);
    works();
    if (does('t'))
        pthread_mutex_unlock(&ag_tool_lock);
    return 0;
}

static int pop(nvtxDomainHandle_t domain)
{
    (void)domain;
    fprintf(file, "%d pop\n", (int)gettid());
    return 0;
}

__attribute__((visibility("default"))) int
InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table);
int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table)
{
    const NvtxExportTableCallbacks *callbacks = get_table(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable table;
    unsigned size;
    file = fopen(getenv("AG_NVTX_LOG"), "a");
    setlinebuf(file);
    begun();
    if (file == NULL || callbacks == NULL ||
        !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) ||
        size <= NVTX_CBID_CORE2_DomainCreateA)
        return 0;
    *table[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)create;
    *table[NVTX_CBID_CORE2_DomainRangePushEx] = (NvtxFunctionPointer)push;
    *table[NVTX_CBID_CORE2_DomainRangePop] = (NvtxFunctionPointer)pop;
    fprintf(file, "%d tool\n", (int)gettid());
    return 1;
}
