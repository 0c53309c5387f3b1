/* SPDX-License-Identifier: MIT */
/* no_access.c: every kind of op in a loop of its own, with memory that the device may use, then may
 * not in the way that the argument names, then may again. The driver refuses such calls at once,
 * and the program goes on. A driver that does not know the way is reason to skip. With "branch" as
 * a second argument the op is in a stream that forks from another one and joins it. */
#include "sim_test.h"

#include <stdbool.h>
#include <sys/mman.h>

enum { STEPS = 120, BYTES = 64, PAGE = 4096, READS = 300, SKIP = 77 };

static CUstream stream, host; /* of the op; from which it forks, or NULL */
static CUevent forked, joined;
static CUdeviceptr open, target;
static size_t granule;
static char *page, *pinned;
static CUmemAllocationProp prop;
static uint32_t sum;

/* -- Ways to lose access -------------------------------------------------------- */

static void allow(CUdeviceptr at, CUmemAccess_flags flags)
{
    CUmemAccessDesc access = {prop.location, flags};
    OK(cuMemSetAccess(at, granule, &access, 1));
}

static void map(CUdeviceptr at)
{
    CUmemGenericAllocationHandle handle;
    OK(cuMemCreate(&handle, granule, &prop, 0));
    OK(cuMemMap(at, granule, 0, handle, 0));
    OK(cuMemRelease(handle));
}

/* Two mappings side by side; the target lies in the first, or across both. */
static void reserve(bool across)
{
    static CUdeviceptr base;
    if (base == 0) {
        OK(cuMemAddressReserve(&base, 3 * granule, 0, 0, 0));
        for (unsigned i = 0; i < 2; i++) {
            map(base + i * granule);
            allow(base + i * granule, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
        }
        OK(cuMemsetD8(base, 3, 2 * granule));
    }
    target = across ? base + granule - BYTES / 2 : base;
}

static void none(bool may)
{
    reserve(false);
    allow(target, may ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE);
}

static void readonly(bool may)
{
    reserve(false);
    allow(target, may ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_READ);
}

/* Other memory, to which no access is given. */
static void never(bool may)
{
    reserve(false);
    if (may) {
        allow(target, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
        OK(cuMemsetD8(target, 3, BYTES));
    } else {
        OK(cuMemUnmap(target, granule));
        map(target);
    }
}

static void half(bool may)
{
    reserve(true);
    allow(target + BYTES / 2,
          may ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE);
}

static void half_readonly(bool may)
{
    reserve(true);
    allow(target + BYTES / 2,
          may ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_READ);
}

/* The second half of the range is there, or is not. */
static void hole(bool may)
{
    static bool mapped = true;
    reserve(true);
    CUdeviceptr second = target + BYTES / 2;
    if (may && !mapped) {
        map(second);
        allow(second, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
        OK(cuMemsetD8(second, 4, BYTES));
    } else if (!may) {
        OK(cuMemUnmap(second, granule));
    }
    mapped = may;
}

/* Memory of the host that the device may only read. */
static void registered(bool may)
{
    static void *memory;
    if (memory == NULL) {
        memory = mmap((void *)0x500000000000, PAGE, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(memory != MAP_FAILED);
    } else {
        OK(cuMemHostUnregister(memory));
    }
    CUresult result = cuMemHostRegister(memory, PAGE, may ? 0 : CU_MEMHOSTREGISTER_READ_ONLY);
    if (result == CUDA_ERROR_NOT_SUPPORTED)
        _exit(SKIP);
    OK(result);
    target = (CUdeviceptr)memory;
}

/* Memory of the host that is mapped. */
static void of_the_host(bool may)
{
    static CUdeviceptr base;
    CUmemAccessDesc here = {{CU_MEM_LOCATION_TYPE_HOST_NUMA, 0},
                            CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    if (base == 0) {
        CUmemAllocationProp device = prop;
        prop.location = here.location;
        OK(cuMemAddressReserve(&base, granule, 0, 0, 0));
        map(base);
        prop = device;
        OK(cuMemSetAccess(base, granule, &here, 1));
    }
    target = base;
    allow(target, may ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE);
}

/* Memory of a pool, or managed memory, is where there was plain memory. */
static void changed(bool may, CUresult (*allocate)(CUdeviceptr *to))
{
    if (target != 0)
        OK(cuMemFree(target));
    OK(may ? cuMemAlloc(&target, PAGE) : allocate(&target));
    OK(cuCtxSynchronize());
    OK(cuMemsetD8(target, 3, PAGE));
}

static CUresult allocate_in_pool(CUdeviceptr *to)
{
    return cuMemAllocAsync(to, PAGE, stream);
}

static CUresult allocate_managed(CUdeviceptr *to)
{
    return cuMemAllocManaged(to, PAGE, CU_MEM_ATTACH_GLOBAL);
}

static void pool(bool may)
{
    changed(may, allocate_in_pool);
}

static void managed(bool may)
{
    changed(may, allocate_managed);
}

enum words { WITH_OTHERS, NO_WORDS, ONLY_WORDS };

/* A word that is written where the device may only read ends the context. */
static const struct {
    const char *name;
    void (*change)(bool may);
    enum words words;
} ways[] = {
    {"none", none, WITH_OTHERS},
    {"never", never, WITH_OTHERS},
    {"readonly", readonly, NO_WORDS},
    {"half", half, WITH_OTHERS},
    {"half_readonly", half_readonly, NO_WORDS},
    {"hole", hole, WITH_OTHERS},
    {"registered", registered, NO_WORDS},
    {"host", of_the_host, WITH_OTHERS},
    {"pool", pool, ONLY_WORDS},
    {"managed", managed, ONLY_WORDS},
};

/* -- Ops ------------------------------------------------------------------------------ */

static CUresult copy_2d(CUdeviceptr to, CUdeviceptr from)
{
    const CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                                .srcDevice = from,
                                .srcPitch = BYTES / 4,
                                .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                                .dstDevice = to,
                                .dstPitch = BYTES / 4,
                                .WidthInBytes = 8,
                                .Height = 4};
    return cuMemcpy2DAsync(&copy, stream);
}

static CUresult copy_3d(CUdeviceptr to, CUdeviceptr from)
{
    const CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                                .srcDevice = from,
                                .srcPitch = BYTES / 4,
                                .srcHeight = 2,
                                .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                                .dstDevice = to,
                                .dstPitch = BYTES / 4,
                                .dstHeight = 2,
                                .WidthInBytes = 8,
                                .Height = 2,
                                .Depth = 2};
    return cuMemcpy3DAsync(&copy, stream);
}

#define OPS(X)                                                                                     \
    X("to", cuMemcpyDtoDAsync(target, open, BYTES, stream), false, true)                           \
    X("from", cuMemcpyDtoDAsync(open, target, BYTES, stream), false, true)                         \
    X("up", cuMemcpyHtoDAsync(target, page, BYTES, stream), false, true)                           \
    X("up from pinned", cuMemcpyHtoDAsync(target, pinned, BYTES, stream), false, true)             \
    X("down", cuMemcpyDtoHAsync(page, target, BYTES, stream), false, true)                         \
    X("down to pinned", cuMemcpyDtoHAsync(pinned, target, BYTES, stream), false, true)             \
    X("read", cuMemcpyDtoH(page, target, BYTES), false, false)                                     \
    X("down to it", cuMemcpyDtoHAsync((void *)target, open, BYTES, stream), true, true)            \
    X("read to it", cuMemcpyDtoH((void *)target, open, BYTES), true, false)                        \
    X("up from it", cuMemcpyHtoDAsync(open, (void *)target, BYTES, stream), true, true)            \
    X("any to", cuMemcpyAsync(target, open, BYTES, stream), true, true)                            \
    X("any from", cuMemcpyAsync(open, target, BYTES, stream), true, true)                          \
    X("copy to", cuMemcpy(target, open, BYTES), true, false)                                       \
    X("copy from", cuMemcpy(open, target, BYTES), true, false)                                     \
    X("2D to", copy_2d(target, open), true, true)                                                  \
    X("2D from", copy_2d(open, target), true, true)                                                \
    X("3D to", copy_3d(target, open), true, true)                                                  \
    X("3D from", copy_3d(open, target), true, true)                                                \
    X("memset 8", cuMemsetD8Async(target, (unsigned char)step, BYTES, stream), true, true)         \
    X("memset 16", cuMemsetD16Async(target, (unsigned short)step, BYTES / 2, stream), true, true)  \
    X("memset 32", cuMemsetD32Async(target, step, BYTES / 4, stream), true, true)                  \
    X("memset 2D", cuMemsetD2D32Async(target, BYTES / 4, step, 2, 4, stream), true, true)          \
    X("memset", cuMemsetD32(target, step, BYTES / 4), true, false)                                 \
    X("write", cuStreamWriteValue32(stream, target + BYTES / 2, step, 0), true, true)              \
    X("wait", cuStreamWaitValue32(stream, target + BYTES / 2, 0, CU_STREAM_WAIT_VALUE_GEQ), true,  \
      true)

static const char *const names[] = {
#define X(name, call, host, streams) name,
    OPS(X)
#undef X
};
static bool is_word(unsigned op)
{
    return strcmp(names[op], "write") == 0 || strcmp(names[op], "wait") == 0;
}

static const bool streams[] = {/* else the call has none */
#define X(name, call, host, streams) streams,
                               OPS(X)
#undef X
};
static const bool of_host[] = {/* the target may be memory of the host */
#define X(name, call, host, streams) host,
                               OPS(X)
#undef X
};

static CUresult issue(unsigned op, uint32_t step)
{
    unsigned i = 0;
#define X(name, call, host, streams)                                                               \
    if (op == i++)                                                                                 \
        return call;
    OPS(X)
#undef X
    return CUDA_ERROR_UNKNOWN;
}

/* -- The loops -------------------------------------------------------------------------- */

static void look(const void *bytes)
{
    for (unsigned i = 0; i < BYTES; i++)
        sum = sum * 31 + ((const unsigned char *)bytes)[i];
}

/* The op's stream goes on behind what its host was given, and has an op before it. */
static void fork_from(uint32_t step)
{
    OK(cuEventRecord(forked, host));
    OK(cuStreamWaitEvent(stream, forked, 0));
    OK(cuMemsetD32Async(open + 2 * PAGE, step, BYTES / 4, stream));
}

static void join(uint32_t step)
{
    OK(cuEventRecord(joined, stream));
    OK(cuStreamWaitEvent(host, joined, 0));
    OK(cuMemsetD32Async(open + 2 * PAGE + BYTES, step, BYTES / 4, host));
}

/* Says each time that other codes are returned than in the step before. */
static void loop(unsigned op, const char *when)
{
    char seen[BYTES];
    int last[3] = {-1, -1, -1};
    OK(cuCtxSynchronize()); /* what the change has written is there */
    for (uint32_t step = 0; step < STEPS; step++) {
        int now[3] = {0, 0, 0};
        CUstream first = host != NULL ? host : stream;
        for (unsigned i = 0; i < 4; i++)
            now[0] |= (int)cuMemsetD32Async(open + PAGE + BYTES * i, step + i, BYTES / 4, first);
        if (host != NULL)
            fork_from(step);
        now[1] = (int)issue(op, step);
        if (host != NULL)
            join(step);
        now[2] = (int)cuStreamSynchronize(first);
        if (memcmp(now, last, sizeof now) != 0)
            printf("%s, %s, step %u: others %d, call %d, wait %d\n", names[op], when, step, now[0],
                   now[1], now[2]);
        memcpy(last, now, sizeof now);
        look(page);
        look(pinned);
    }
    OK(cuMemcpyDtoH(seen, open, BYTES));
    look(seen);
}

/* The call is taken, and the context is lost when it executes. */
static void word_is_written(void)
{
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    reserve(false);
    OK(cuCtxSynchronize()); /* for the memset in the default stream: the stream's wait does not */
    for (uint32_t step = 0; step < STEPS; step++)
        OK(cuStreamWriteValue32(stream, target, step, 0));
    OK(cuStreamSynchronize(stream));
    readonly(false);
    int call = (int)cuStreamWriteValue32(stream, target, 1, 0);
    printf("call %d, wait %d\n", call, (int)cuStreamSynchronize(stream));
}

int main(int argc, char **argv)
{
    bool branch = argc == 3 && strcmp(argv[2], "branch") == 0;
    if (branch) /* fewer streams than queues: those that share one have no branches */
        CHECK(setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1) == 0);
    start();
    prop = (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {CU_MEM_LOCATION_TYPE_DEVICE, dev}};
    if (cuMemGetAllocationGranularity(&granule, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM) !=
        CUDA_SUCCESS)
        return SKIP;
    OK(cuMemAlloc(&open, 3 * PAGE));
    OK(cuMemsetD8(open, 5, 3 * PAGE));
    OK(cuMemAllocHost((void **)&pinned, PAGE));
    page = calloc(1, PAGE);
    CHECK(page != NULL);
    for (unsigned i = 0; i < READS; i++) /* read-backs may be held from then on */
        OK(cuMemcpyDtoH(page, open, BYTES));
    OK(cuEventCreate(&forked, CU_EVENT_DISABLE_TIMING));
    OK(cuEventCreate(&joined, CU_EVENT_DISABLE_TIMING));
    unsigned loops = 0;
    for (size_t i = 0; (argc == 2 || branch) && i < sizeof ways / sizeof *ways; i++) {
        if (strcmp(ways[i].name, argv[1]) != 0)
            continue;
        bool is_host = ways[i].change == registered || ways[i].change == of_the_host;
        for (unsigned op = 0; op < sizeof names / sizeof *names; op++) {
            if ((is_host ? !of_host[op] : strstr(names[op], " it") != NULL) ||
                ways[i].words == (is_word(op) ? NO_WORDS : ONLY_WORDS) || (branch && !streams[op]))
                continue;
            stream = NULL;
            if (streams[op]) /* about which nothing is known */
                OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
            if (branch && loops++ % 2 == 0)
                OK(cuStreamCreate(&host, CU_STREAM_NON_BLOCKING));
            ways[i].change(true);
            loop(op, "with access");
            ways[i].change(false);
            loop(op, "without");
            ways[i].change(true);
            loop(op, "with access again");
            if (streams[op])
                OK(cuStreamDestroy(stream));
        }
        printf("%08x\n", sum);
        return 0;
    }
    if (argc == 2 && strcmp(argv[1], "word") == 0) {
        word_is_written();
        return 0;
    }
    fprintf(stderr, "usage: no_access WAY [branch]\n");
    return 2;
}
