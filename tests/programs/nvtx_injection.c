/* SPDX-License-Identifier: MIT */
/*
 * nvtx_injection.so: what a profiler brings for NVTX, as NVTX_INJECTION64_PATH names it. Appends
 * each range of a domain to the file AG_NVTX_LOG: thread, "push DOMAIN NAME" or "pop".
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <nvtx3/nvToolsExt.h>

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
    fprintf(file, "%d push %s %s\n", (int)gettid(), domain_name, range->message.ascii);
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
