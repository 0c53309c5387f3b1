/* SPDX-License-Identifier: MIT */
/* What the driver says of memory. */
#include <stdlib.h>
#include <string.h>

#include "driver/driver.h"
#include "policy/costs.h"
#include "policy/driver.h"
#include "policy/threads.h"

enum { PAGEABLE, HOST, DEVICE, MANAGED, OTHER_DEVICE }; /* types of memory in recorded programs */

struct memory {
    uint64_t address, start, size, id;
    unsigned type;
    bool pooled; /* it begins here, and is a pool's */
};

static struct memory *table; /* by address; address 0: free */
static uint64_t room, used;

static struct memory *place(uint64_t address)
{
    uint64_t at = (address * 0x9e3779b97f4a7c15u >> 32) & (room - 1);
    while (table[at].address != 0 && table[at].address != address)
        at = (at + 1) & (room - 1);
    return &table[at];
}

static void grow(void)
{
    struct memory *before = table;
    uint64_t count = room;
    room = room != 0 ? 2 * room : 1024;
    table = calloc(room, sizeof *table);
    if (table == NULL)
        abort();
    for (uint64_t i = 0; i < count; i++)
        if (before[i].address != 0)
            *place(before[i].address) = before[i];
    free(before);
}

static struct memory *make(uint64_t address)
{
    if (2 * used >= room)
        grow();
    struct memory *memory = place(address);
    used += memory->address == 0;
    memory->address = address;
    return memory;
}

void play_memory_is(uint64_t address, unsigned type, uint64_t start, uint64_t size, uint64_t id)
{
    if (address == 0)
        return;
    struct memory *memory = make(address);
    memory->type = type;
    memory->start = start;
    memory->size = size;
    memory->id = id;
}

/* NULL: nothing is known of the address. */
static const struct memory *find(uint64_t address)
{
    const struct memory *memory = room != 0 ? place(address) : NULL;
    return memory != NULL && memory->address != 0 ? memory : NULL;
}

void play_memory_is_pooled(uint64_t address)
{
    if (find(address) == NULL)
        play_memory_is(address, DEVICE, address, 0, 0);
    make(address)->pooled = true;
}

unsigned play_memory_type(uint64_t address)
{
    const struct memory *memory = find(address);
    if (memory != NULL)
        return memory->type;
    return play_is_host(address) ? PAGEABLE : DEVICE;
}

static void answer(CUpointer_attribute attribute, void *to, uint64_t address,
                   const struct memory *memory)
{
    unsigned type = play_memory_type(address);
    bool known = type != PAGEABLE && memory != NULL;
    const struct memory *begin = known ? find(memory->start) : NULL;
    bool is_pooled = begin != NULL && begin->pooled;
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: {
        const CUmemorytype types[] = {0, CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE,
                                      CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_DEVICE};
        *(CUmemorytype *)to = types[type % 5];
        break;
    }
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(unsigned *)to = type == MANAGED;
        break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(CUdeviceptr *)to = known ? memory->start : 0;
        break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)to = known ? memory->size : 0;
        break;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        *(unsigned long long *)to = known ? memory->id : 0;
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)to =
            play_current() == NULL ? -1 : (int)play_current()->number - 1 + (type == OTHER_DEVICE);
        break;
    case CU_POINTER_ATTRIBUTE_CONTEXT: /* the program has recorded no other */
        *(CUcontext *)to = known && !is_pooled ? (CUcontext)play_current() : NULL;
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *(CUdeviceptr *)to = known ? address : 0;
        break;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *(CUmemoryPool *)to = is_pooled ? (CUmemoryPool)table : NULL;
        break;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        *(unsigned *)to = known ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE : 0;
        break;
    default:
        *(unsigned *)to = 0;
        break;
    }
}

static CUresult attributes(unsigned count, CUpointer_attribute *names, void **to,
                           CUdeviceptr address)
{
    const struct memory *memory = find(address);
    play_spend(NS_ASK_POINTER);
    for (unsigned i = 0; i < count; i++)
        answer(names[i], to[i], address, memory);
    return CUDA_SUCCESS;
}

static CUresult range(CUdeviceptr *start, size_t *size, CUdeviceptr address)
{
    const struct memory *memory = find(address);
    play_spend(NS_ASK_POINTER);
    if (memory == NULL || memory->type == PAGEABLE)
        return CUDA_ERROR_NOT_FOUND;
    *start = memory->start;
    *size = memory->size;
    return CUDA_SUCCESS;
}

/* -- Pinned memory of the library's own -------------------------------------------------- */

static CUresult allocate_host(void **to, size_t size, unsigned flags)
{
    static uint64_t ids = 1ull << 48;
    (void)flags;
    play_spend(NS_HOST_ALLOCATE);
    *to = play_place(size);
    play_memory_is((uint64_t)*to, HOST, (uint64_t)*to, size, ids++);
    return CUDA_SUCCESS;
}

static CUresult device_pointer(CUdeviceptr *to, void *memory, unsigned flags)
{
    (void)flags;
    *to = (CUdeviceptr)memory;
    return CUDA_SUCCESS;
}

void play_driver_ask(struct ag_driver *to)
{
    to->cuPointerGetAttributes = attributes;
    to->cuMemGetAddressRange_v2 = range;
    to->cuMemHostAlloc = allocate_host;
    to->cuMemHostGetDevicePointer_v2 = device_pointer;
}
