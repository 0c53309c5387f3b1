/* SPDX-License-Identifier: MIT */
/*
 * between.c WORD [wait [EVERY]]: 400 steps of twelve kernels in one stream. Behind each EVERY-th
 * kernel (1) stand the calls that WORD says: questions, or a host function. With `wait` other than
 * 0 the host waits in each step. No argument: the words. Codes and answers are hashed and printed;
 * those that differ from run to run are not.
 */
#include "sim_test.h"

enum { N = 64, KERNELS = 12, STEPS = 400 };

static CUstream stream;
static CUdeviceptr buffer;
static CUlibrary library;
static CUkernel kernel;
static CUfunction of_kernel;
static uint32_t *pinned;
static uint32_t seen;

static void note(uint64_t value)
{
    seen = seen * 31 + (uint32_t)value;
}

/* -- Questions about functions ------------------------------------------------ */

static void functions(void)
{
    int value = 0;
    size_t offset = 0, size = 0;
    const char *name = "";
    CUmodule module = NULL;
    CUfunctionLoadingState state;
    note(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, mix) + (unsigned)value);
    note(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_BINARY_VERSION, word_copy));
    note(cuFuncGetModule(&module, mix) + (module == mod));
    note(cuFuncGetName(&name, mix) + strlen(name));
    note(cuFuncGetParamInfo(mix, 1, &offset, &size) + offset + size);
    note(cuFuncIsLoaded(&state, mix) + state);
}

static void kernels(void)
{
    int value = 0;
    size_t offset = 0, size = 0;
    const char *name = "";
    CUfunction func = NULL;
    CUkernel again = NULL;
    CUlibrary of = NULL;
    note(cuLibraryGetKernel(&again, library, "ag_mix") + (again == kernel));
    note(cuKernelGetFunction(&func, kernel) + (func == of_kernel));
    note(cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, kernel, dev) + (unsigned)value);
    note(cuKernelGetName(&name, kernel) + strlen(name));
    note(cuKernelGetLibrary(&of, kernel) + (of == library));
    note(cuKernelGetParamInfo(kernel, 2, &offset, &size) + offset + size);
}

static void occupancy(void)
{
    int blocks = 0, grid = 0, block = 0;
    size_t bytes = 0;
    note(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, mix, N, 0) + (unsigned)blocks);
    note(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, mix, N, 0, 0));
    note(cuOccupancyMaxPotentialBlockSize(&grid, &block, mix, NULL, 0, 0) + (unsigned)block);
    note(cuOccupancyMaxPotentialBlockSizeWithFlags(&grid, &block, mix, NULL, 0, 0, 0));
    note(cuOccupancyAvailableDynamicSMemPerBlock(&bytes, mix, 1, N) + bytes);
}

static void functions_by_name(void)
{
    CUfunction again = NULL;
    note(cuModuleGetFunction(&again, mod, "ag_mix") + (again == mix));
}

/* -- Questions about contexts, devices, memory, streams ------------------------- */

static void contexts(void)
{
    size_t value = 0;
    CUdevice device = 0;
    CUcontext current = NULL;
    unsigned number = 0;
    int least = 0, most = 0;
    CUfunc_cache cache;
    note(cuCtxGetCurrent(&current) + (current == ctx));
    note(cuCtxGetDevice(&device) + (unsigned)device);
    note(cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE) + value);
    note(cuCtxGetFlags(&number) + number);
    note(cuCtxGetApiVersion(ctx, &number));
    note(cuCtxGetStreamPriorityRange(&least, &most) + (unsigned)(least - most));
    note(cuCtxGetCacheConfig(&cache) + cache);
    note(cuDeviceGetAttribute(&least, CU_DEVICE_ATTRIBUTE_WARP_SIZE, dev) + (unsigned)least);
    note(cuDevicePrimaryCtxGetState(dev, &number, &most) + (unsigned)most);
}

static void memory(void)
{
    CUdeviceptr base = 0;
    size_t size = 0, all = 0;
    unsigned type = 0, flags = 0;
    int managed = 0;
    CUdeviceptr device = 0;
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                        CU_POINTER_ATTRIBUTE_IS_MANAGED};
    void *values[] = {&type, &managed};
    note(cuMemGetInfo(&size, &all));
    note(cuMemGetAddressRange(&base, &size, buffer + 16) + (base == buffer) + size);
    note(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, buffer) + type);
    note(cuPointerGetAttributes(2, attributes, values, buffer) + type + (unsigned)managed);
    note(cuMemHostGetDevicePointer(&device, pinned, 0));
    note(cuMemHostGetFlags(&flags, pinned) + flags);
}

static void streams(void)
{
    unsigned flags = 0;
    int priority = 0;
    unsigned long long id = 0;
    CUcontext of = NULL;
    CUevent made;
    CUstreamCaptureStatus status;
    note(cuStreamGetFlags(stream, &flags) + flags);
    note(cuStreamGetPriority(stream, &priority) + (unsigned)priority);
    note(cuStreamGetCtx(stream, &of) + (of == ctx));
    note(cuStreamGetId(stream, &id));
    note(cuStreamIsCapturing(stream, &status) + status);
    note(cuEventCreate(&made, CU_EVENT_DISABLE_TIMING));
    note(cuEventDestroy(made));
}

/* -- Questions about work: an allocator asks for its events, and a loop goes on ---------- */

static CUevent recorded;
static CUstream beside;

static volatile uint32_t *mapped;
static uint32_t written;

/* The answer to a question about the kernel that has written that. */
static void answer(CUresult now, uint32_t value)
{
    CHECK(now == CUDA_ERROR_NOT_READY || (now == CUDA_SUCCESS && get_word(mapped) >= value));
}

static void write_word(void)
{
    OK(launch_word(flag, mapped, ++written, stream));
}

/* The record is of this step, or of the one before. */
static void events(void)
{
    static uint32_t by;
    write_word();
    if (written % KERNELS == KERNELS / 2) {
        by = written;
        OK(cuEventRecord(recorded, stream));
    }
    answer(cuEventQuery(recorded), by);
}

/* A copy in another stream, which waits for nothing. */
static void events_beside(void)
{
    static unsigned calls;
    if (++calls % KERNELS == 0) {
        OK(cuMemcpyHtoDAsync(buffer + N * 4, pinned + 64, 64, beside));
        OK(cuEventRecord(recorded, beside));
    }
    answer(cuEventQuery(recorded), 0);
    answer(cuEventQuery(recorded), 0);
}

static void idle(void)
{
    write_word();
    answer(cuStreamQuery(stream), written);
}

/* -- Host functions --------------------------------------------------------------- */

static void CUDA_CB count(void *of)
{
    ++*(uint32_t *)of;
}

static void CUDA_CB count_back(CUstream of, CUresult result, void *counter)
{
    *(uint32_t *)counter += (of == stream) + (result == CUDA_SUCCESS);
}

static void host_functions(void)
{
    OK(cuLaunchHostFunc(stream, count, pinned));
}

static void callbacks(void)
{
    OK(cuStreamAddCallback(stream, count_back, pinned, 0));
}

#define WORD(word) .name = #word, .call = (word)

static const struct {
    const char *name;
    void (*call)(void);
} words[] = {
    {WORD(functions)},     {WORD(kernels)}, {WORD(occupancy)},      {WORD(functions_by_name)},
    {WORD(contexts)},      {WORD(memory)},  {WORD(streams)},        {WORD(events)},
    {WORD(events_beside)}, {WORD(idle)},    {WORD(host_functions)}, {WORD(callbacks)},
};

static void begin(void)
{
    start();
    OK(cuLibraryLoadData(&library, agsim_kernels_ptx, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&kernel, library, "ag_mix"));
    OK(cuKernelGetFunction(&of_kernel, kernel));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    mapped = host_words(1);
    OK(cuStreamCreate(&beside, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&recorded, CU_EVENT_DISABLE_TIMING));
    OK(cuMemAlloc(&buffer, N * 4 + 64));
    OK(cuMemsetD32(buffer, 1, N));
    OK(cuMemHostAlloc((void **)&pinned, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    memset(pinned, 0, 4096);
    OK(cuCtxSynchronize());
}

int main(int argc, char **argv)
{
    uint32_t host[N];
    const unsigned all = sizeof words / sizeof words[0];
    unsigned word = 0;
    for (; argc < 2 && word < all; word++)
        puts(words[word].name);
    while (argc >= 2 && word < all && strcmp(words[word].name, argv[1]) != 0)
        word++;
    if (word == all)
        return argc >= 2;
    uint32_t every = argc > 3 ? (uint32_t)atoi(argv[3]) : 1;
    begin();
    for (uint32_t step = 0; step < STEPS; step++) {
        for (uint32_t k = 0; k < KERNELS; k++) {
            OK(launch_mix(buffer, N - k, k, stream));
            if (k % every == every - 1)
                words[word].call();
        }
        if (argc > 2 && atoi(argv[2]))
            OK(cuStreamSynchronize(stream));
    }
    OK(cuCtxSynchronize());
    OK(cuMemcpyDtoH(host, buffer, sizeof host));
    for (unsigned i = 0; i < N; i++)
        note(host[i]);
    note(pinned[0]);
    printf("%s %08x\n", argv[1], seen);
    return 0;
}
