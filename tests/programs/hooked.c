/* SPDX-License-Identifier: MIT */
/*
 * A tool that hooks the functions for memory by patching them, as UCX does (src/ucm/bistro): a jump
 * to its hook replaces their first instructions, which are executed elsewhere.
 *
 *   hooked rules      how many bytes of each function's beginning such a tool can take apart
 *
 *   hooked near|far   hooks each of them by the short jump or by the long one, and calls them
 *
 *   hooked none       calls them
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <sys/mman.h>

#include "sim_test.h"

#define FUNCTIONS(X)                                                                               \
    X(cuMemAlloc)                                                                                  \
    X(cuMemAlloc_v2)                                                                               \
    X(cuMemAllocManaged)                                                                           \
    X(cuMemAllocPitch)                                                                             \
    X(cuMemAllocPitch_v2)                                                                          \
    X(cuMemMap)                                                                                    \
    X(cuModuleGetGlobal_v2)                                                                        \
    X(cuMemAllocAsync)                                                                             \
    X(cuMemAllocFromPoolAsync)                                                                     \
    X(cuLibraryGetGlobal)                                                                          \
    X(cuMemFree)                                                                                   \
    X(cuMemFree_v2)                                                                                \
    X(cuMemFreeHost)                                                                               \
    X(cuMemUnmap)                                                                                  \
    X(cuMemFreeAsync)                                                                              \
    X(cuMemAllocHost_v2) /* UCX does not hook it; its neighbour must stay whole */

enum {
#define NUMBER(name) N_##name,
    FUNCTIONS(NUMBER)
#undef NUMBER
        COUNT
};

typedef long function(long, long, long, long, long, long);
static const char *const names[COUNT] = {
#define NAME(name) #name,
    FUNCTIONS(NAME)
#undef NAME
};
static uint8_t *found[COUNT];
static function *original[COUNT];
static int calls[COUNT];

#define HOOK(name)                                                                                 \
    static long hook_##name(long a, long b, long c, long d, long e, long f)                        \
    {                                                                                              \
        calls[N_##name]++;                                                                         \
        return original[N_##name](a, b, c, d, e, f);                                               \
    }
FUNCTIONS(HOOK)
static function *const hooks[COUNT] = {
#define ENTRY(name) hook_##name,
    FUNCTIONS(ENTRY)
#undef ENTRY
};

struct code {
    uint8_t *at;
};

static void put(struct code *code, const void *bytes, size_t size)
{
    memcpy(code->at, bytes, size);
    code->at += size;
}

/*
 * For each architecture: the sizes of the short and the long jump; a jump that changes no register;
 * and relocate(), which copies an instruction, made independent of where it is. relocate() returns
 * the instruction's length, or 0 if it is none of those that the tool knows.
 */
#ifdef __x86_64__

enum { NEAR = 5, FAR = 12 };

static void put_jump(struct code *code, const void *target)
{
    put(code, "\xff\x25\0\0\0\0", 6); /* jmp *0(%rip) */
    put(code, &target, sizeof target);
}

static void patch(uint8_t *at, const void *target, unsigned size)
{
    int32_t distance = (int32_t)((intptr_t)target - (intptr_t)at - NEAR);
    if (size == NEAR) {
        at[0] = 0xe9;
        memcpy(at + 1, &distance, sizeof distance);
    } else {
        memcpy(at, "\x48\xb8", 2); /* mov $target, %rax */
        memcpy(at + 2, &target, sizeof target);
        memcpy(at + 10, "\xff\xe0", 2); /* jmp *%rax */
    }
}

static unsigned copy(const uint8_t *from, struct code *to, unsigned size)
{
    put(to, from, size);
    return size;
}

/* cmpl $n, distance(%rip) */
static unsigned relocate_comparison(const uint8_t *from, struct code *to)
{
    int32_t distance;
    memcpy(&distance, from + 2, sizeof distance);
    const uint8_t *global = from + 10 + distance;
    put(to, "\x50\x48\xb8", 3); /* push %rax; mov $global, %rax */
    put(to, &global, sizeof global);
    put(to, "\x81\x38", 2); /* cmpl $n, (%rax) */
    put(to, from + 6, 4);
    put(to, "\x58", 1); /* pop %rax */
    return 10;
}

/* jcc to a near place, behind what is copied */
static unsigned relocate_branch(const uint8_t *from, struct code *to)
{
    const uint8_t over[] = {from[0], 2, 0xeb, 14}; /* jcc 1f; jmp 2f; 1: jump; 2: */
    put(to, over, sizeof over);
    put_jump(to, from + 2 + (int8_t)from[1]);
    return 2;
}

static unsigned relocate(const uint8_t *from, struct code *to)
{
    bool wide = from[0] == 0x48;
    const uint8_t *op = from + wide;
    unsigned mod = op[1] >> 6;
    if ((from[0] & 0xf0) == 0x50) /* push, pop */
        return copy(from, to, 1);
    if (from[0] == 0x41 && (from[1] & 0xf0) == 0x50)
        return copy(from, to, 2);
    if (wide && (op[0] == 0x81 || op[0] == 0x83) && op[1] == 0xec) /* sub $n, %rsp */
        return copy(from, to, op[0] == 0x83 ? 4 : 7);
    if (wide && op[0] == 0x89 && op[1] == 0xe5) /* mov %rsp, %rbp */
        return copy(from, to, 3);
    if (wide && op[0] == 0x89 && (mod == 1 || mod == 2) && (op[1] & 7) == 4) /* mov to the stack */
        return copy(from, to, mod == 1 ? 5 : 8);
    if ((from[0] & 0xf8) == 0xb8) /* mov $n, register */
        return copy(from, to, 5);
    if (from[0] == 0x81 && from[1] == 0x3d)
        return relocate_comparison(from, to);
    if ((from[0] & 0xf0) == 0x70)
        return relocate_branch(from, to);
    return 0;
}

#else

enum { NEAR = 16, FAR = 16 };

/* x9 belongs to nobody at a call, and is written by none of the instructions that are copied. */
static void put_jump(struct code *code, const void *target)
{
    put(code, (uint32_t[]){0x58000049, 0xd61f0120}, 8); /* ldr x9, 1f; br x9; 1: */
    put(code, &target, sizeof target);
}

static void patch(uint8_t *at, const void *target, unsigned size)
{
    (void)size;
    memcpy(at, (uint32_t[]){0x5800004f, 0xd61f01e0}, 8); /* ldr x15, 1f; br x15; 1: */
    memcpy(at + 8, &target, sizeof target);
}

/* adrp: the page's address by four moves */
static unsigned relocate_page(const uint8_t *from, uint32_t word, struct code *to)
{
    uint64_t pages = (uint64_t)(word >> 5 & 0x7ffff) << 2 | (word >> 29 & 3);
    uint64_t value = ((uintptr_t)from & ~0xfffull) + (uint64_t)((int64_t)(pages << 43) >> 31);
    for (unsigned i = 0; i < 4; i++) {
        uint32_t move = (i ? 0xf2800000 : 0xd2800000) | i << 21 |
                        (uint32_t)(value >> 16 * i & 0xffff) << 5 | (word & 31);
        put(to, &move, sizeof move);
    }
    return 4;
}

static unsigned relocate(const uint8_t *from, struct code *to)
{
    uint32_t word;
    memcpy(&word, from, sizeof word);
    if ((word & 0x9f000000) == 0x90000000) /* adrp */
        return relocate_page(from, word, to);
    if ((word & 0xffc00000) != 0xa8800000 && (word & 0xffc00000) != 0xa9800000 &&
        (word & 0xffc00000) != 0xa9000000 &&                                      /* stp */
        (word & 0x7fc0001f) != 0x6b00001f &&                                      /* cmp */
        (word & 0x7f800000) != 0x72800000 && (word & 0x7f800000) != 0x52800000 && /* mov $n */
        (word & 0x7fe0ffe0) != 0x2a0003e0 && (word & 0x7ffffc00) != 0x11000000 && /* mov */
        (word & 0xbfe00400) != 0xb8400400 && (word & 0xbfc00000) != 0xb9400000)   /* ldr */
        return 0;
    put(to, &word, sizeof word);
    return 4;
}

#endif

/* How many bytes of the beginning the tool takes apart, to get at least `enough`. */
static unsigned take_apart(const uint8_t *from, struct code *to, unsigned enough)
{
    unsigned size = 0;
    while (size < enough) {
        unsigned length = relocate(from + size, to);
        if (length == 0)
            break;
        size += length;
    }
    return size;
}

static void print_rules(void)
{
    for (unsigned i = 0; i < COUNT; i++) {
        uint8_t scratch[256];
        unsigned size = found[i] ? take_apart(found[i], &(struct code){scratch}, FAR) : 0;
        printf("%s %s\n", names[i],
               !found[i]      ? "missing"
               : size >= FAR  ? "far"
               : size >= NEAR ? "near"
                              : "no");
    }
}

static void replace(uint8_t *function, const void *hook, unsigned size)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uint8_t *first = (uint8_t *)((uintptr_t)function & -page);
    size_t length = (size_t)(function + size - first);
    CHECK(mprotect(first, length, PROT_READ | PROT_WRITE | PROT_EXEC) == 0);
    patch(function, hook, size);
    __builtin___clear_cache((char *)function, (char *)function + size);
    CHECK(mprotect(first, length, PROT_READ | PROT_EXEC) == 0);
}

/* Each function that the tool can take apart gets its hook. */
static void hook_all(unsigned size)
{
    enum { ROOM = 1 << 16 };
    uint8_t *room =
        mmap(NULL, ROOM, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(room != MAP_FAILED);
    struct code code = {room};
    for (unsigned i = 0; i < COUNT; i++) {
        original[i] = (function *)code.at;
        unsigned taken = found[i] ? take_apart(found[i], &code, size) : 0;
        if (taken < size) {
            code.at = (uint8_t *)original[i];
            continue;
        }
        put_jump(&code, found[i] + taken);
        uint8_t *near = code.at; /* the program itself may lie too far away for a short jump */
        put_jump(&code, (void *)hooks[i]);
        __builtin___clear_cache((char *)original[i], (char *)code.at);
        replace(found[i], size == NEAR ? (void *)near : (void *)hooks[i], size);
    }
}

#define CALL(name, ...) (int)((function *)found[N_##name])(__VA_ARGS__)

static void call_all(void)
{
    CUdeviceptr a = 0, b = 0, c = 0, d = 0, e = 0;
    size_t pitch = 0, bytes = 0;
    CUmemoryPool pool;
    void *host = NULL;
    OK(cuDeviceGetDefaultMemPool(&pool, dev));
    int results[] = {
        CALL(cuMemAlloc_v2, (long)&a, 1000, 0, 0, 0, 0),
        CALL(cuMemAllocManaged, (long)&b, 1000, CU_MEM_ATTACH_GLOBAL, 0, 0, 0),
        CALL(cuMemAllocPitch_v2, (long)&c, (long)&pitch, 100, 3, 4, 0),
        CALL(cuMemAllocHost_v2, (long)&host, 1000, 0, 0, 0, 0),
        CALL(cuMemAllocAsync, (long)&d, 1000, 0, 0, 0, 0),
        CALL(cuMemAllocFromPoolAsync, (long)&e, 1000, (long)pool, 0, 0, 0),
        CALL(cuMemFreeAsync, (long)d, 0, 0, 0, 0, 0),
        CALL(cuMemFreeAsync, (long)e, 0, 0, 0, 0, 0),
        CALL(cuMemFree_v2, (long)a, 0, 0, 0, 0, 0),
        CALL(cuMemFree_v2, (long)b, 0, 0, 0, 0, 0),
        CALL(cuMemFree_v2, (long)c, 0, 0, 0, 0, 0),
        CALL(cuMemFreeHost, (long)host, 0, 0, 0, 0, 0),
        /* what these say of arguments that are none */
        CALL(cuMemMap, 0, 0, 0, 0, 0, 0),
        CALL(cuMemUnmap, 0, 0, 0, 0, 0, 0),
        CALL(cuModuleGetGlobal_v2, (long)&a, (long)&bytes, (long)mod, (long)"none", 0, 0),
        CALL(cuLibraryGetGlobal, (long)&a, (long)&bytes, 0, (long)"none", 0, 0),
        CALL(cuMemAlloc, 0, 0, 0, 0, 0, 0),
        CALL(cuMemAllocPitch, 0, 0, 0, 0, 0, 0),
        CALL(cuMemFree, 1, 0, 0, 0, 0, 0),
    };
    for (unsigned i = 0; i < sizeof results / sizeof results[0]; i++)
        printf("%d ", results[i]);
    printf("%d\n", pitch >= 100);
}

/* Some work that repeats, to be held where the calls for memory come. */
static void work(CUdeviceptr words)
{
    for (int i = 0; i < 8; i++)
        OK(cuMemsetD32Async(words + 4 * (unsigned)i, (unsigned)i, 1, NULL));
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    bool near = strcmp(argv[1], "near") == 0, far = strcmp(argv[1], "far") == 0;
    void *libcuda = dlopen("libcuda.so.1", RTLD_NOW);
    CHECK(libcuda);
    for (unsigned i = 0; i < COUNT; i++)
        found[i] = dlsym(libcuda, names[i]);
    if (strcmp(argv[1], "rules") == 0) {
        print_rules();
        return 0;
    }
    start();
    CUdeviceptr words;
    unsigned read[8];
    OK(cuMemAlloc_v2(&words, sizeof read));
    if (near || far)
        hook_all(near ? NEAR : FAR);
    for (int i = 0; i < 20; i++) {
        work(words);
        call_all();
    }
    OK(cuMemcpyDtoH(read, words, sizeof read));
    for (int i = 0; i < 8; i++)
        CHECK(read[i] == (unsigned)i);
    for (unsigned i = 0; i < COUNT; i++)
        fprintf(stderr, "%s %d\n", names[i], calls[i]);
    return 0;
}
