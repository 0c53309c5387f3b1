/* SPDX-License-Identifier: MIT */
/* stack.c: the stack that the calls of a real driver use, for AGSIM_STACK. */
#include "sim.h"

#include <alloca.h>

/* Bytes below the caller (driver 580 on an H100, by a painted stack). Of calls that sometimes go
 * deeper, to take memory from the device, each goes as deep as any. */
enum { OTHERS = 1100 };
static const struct {
    const char *name;
    unsigned bytes;
} most[] = {
    {"cuLaunchKernel", 6376},
    {"cuLaunchKernelEx", 6376},
    {"cuMemsetD8Async", 4728},
    {"cuMemsetD32Async", 4728},
    {"cuMemcpyDtoDAsync", 9416},
    {"cuMemcpyAsync", 9416},
    {"cuMemcpy3DAsync", 9416},
    {"cuMemcpyHtoDAsync", 5592},
    {"cuMemcpyDtoH", 8216},
    {"cuMemcpyDtoHAsync", 5640},
    {"cuStreamSynchronize", 1472},
    {"cuCtxSynchronize", 1632},
    {"cuStreamQuery", 800},
    {"cuEventRecord", 896},
    {"cuStreamWaitEvent", 1192},
    {"cuEventSynchronize", 1360},
    {"cuPointerGetAttributes", 488},
    {"cuCtxGetCurrent", 296},
    {"cuStreamIsCapturing", 488},
    {"cuEventCreate", 632},
    {"cuStreamCreate", 13840},
    {"cuMemAlloc", 13472},
    {"cuMemHostAlloc", 13472},
    {"cuModuleLoadData", 23448},
    {"cuGraphAddKernelNode", 1208},
    {"cuGraphAddMemsetNode", 1152},
    {"cuGraphAddMemcpyNode", 1592},
    {"cuGraphAddEventRecordNode", 856},
    {"cuGraphInstantiateWithFlags", 15040},
    {"cuGraphUpload", 4760},
    {"cuGraphLaunch", 5016},
    {"cuGraphExecUpdate", 1256},
};

void stack_init(void)
{
    for (unsigned i = 0; i < sim_napis; i++) {
        sim_apis[i].stack = OTHERS;
        for (unsigned j = 0; j < COUNT(most); j++)
            if (name_matches(most[j].name, sim_apis[i].name))
                sim_apis[i].stack = most[j].bytes;
    }
}

__attribute__((noinline)) void stack_use(unsigned bytes)
{
    volatile char *deep = alloca(bytes);
    for (unsigned i = bytes; i > 0; i--)
        deep[i - 1] = (char)i;
}
