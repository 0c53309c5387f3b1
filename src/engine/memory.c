/* SPDX-License-Identifier: MIT */
/* What memory is: the driver's answers, as long as they hold. */
#include "engine/memory.h"

#include <stdlib.h>
#include <string.h>

#include "driver/driver.h"
#include "engine/hot.h"

enum { LOG2_ANSWERS = 6 };

struct ag_answers {
    struct answer {
        CUdeviceptr address;
        size_t room; /* bytes from there to the end of the allocation */
        uint64_t buffer;
        uint64_t state;    /* ag_memory_state while it holds */
        CUmemorytype type; /* 0: only the room was asked for, and this is device memory */
    } answer[1 << LOG2_ANSWERS];
};

/* False: nothing that can be held. */
static bool ask(struct answer *answer, CUdeviceptr address)
{
    unsigned managed = 0;
    CUdeviceptr start = 0;
    size_t size = 0;
    unsigned long long id = 0;
    int owner = -1;
    CUdevice device;
    *answer = (struct answer){.address = address};
    CUpointer_attribute names[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,      CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
        CU_POINTER_ATTRIBUTE_BUFFER_ID,        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void *values[] = {&answer->type, &managed, &start, &size, &id, &owner};
    if (ag_real.cuPointerGetAttributes(6, names, values, address) != CUDA_SUCCESS || managed)
        return false;
    if (answer->type == 0) {
        answer->type = AG_MEMORY_PAGEABLE;
        return address != 0;
    }
    if (address < start || address - start > size)
        return false;
    answer->room = size - (address - start);
    answer->buffer = id;
    if (answer->type == CU_MEMORYTYPE_DEVICE) /* a node's addresses must stay in their contexts */
        return ag_real.cuCtxGetDevice(&device) == CUDA_SUCCESS && device == owner;
    return answer->type == CU_MEMORYTYPE_HOST;
}

/* The answer for an address, or where it is to be: in its place, or in the one beside it, so that
   two addresses that are copied between in turn need not take each other's. */
static struct answer *place_of(struct ag_answers *answers, CUdeviceptr address, uint64_t state)
{
    unsigned place = (unsigned)(address * 0x9e3779b97f4a7c15u >> (64 - LOG2_ANSWERS));
    struct answer *first = &answers->answer[place], *second = &answers->answer[place ^ 1];
    if (first->address == address)
        return first;
    bool free = first->state == state && second->state != state;
    return second->address == address || free ? second : first;
}

/* The answer for an address if it is known, and holds; NULL: the driver must be asked. *state is
   read before that: a change meanwhile makes the answer an old one. */
static const struct answer *known(struct ag_answers *answers, CUdeviceptr address, uint64_t *state)
{
    *state = atomic_load(&ag_memory_state);
    struct answer *answer = answers != NULL ? place_of(answers, address, *state) : NULL;
    bool holds = answer != NULL && answer->address == address && answer->state == *state;
    return holds ? answer : NULL;
}

static void remember(struct ag_answers **answers, struct answer *fresh, uint64_t state)
{
    fresh->state = state | 1;
    if (state % 2 == 0) /* or it has changed, or another thread has done it */
        (void)atomic_compare_exchange_strong(&ag_memory_state, &state, state | 1);
    if (*answers == NULL) /* without memory for it nothing is remembered */
        *answers = calloc(1, sizeof **answers);
    if (*answers != NULL)
        *place_of(*answers, fresh->address, fresh->state) = *fresh;
}

CUmemorytype ag_memory_at(struct ag_answers **answers, CUdeviceptr address, size_t bytes,
                          uint64_t *buffer)
{
    struct answer fresh;
    uint64_t state;
    const struct answer *answer = known(*answers, address, &state);
    if (answer == NULL || answer->type == 0) {
        if (!ask(&fresh, address))
            return 0;
        remember(answers, &fresh, state);
        answer = &fresh;
    }
    *buffer = answer->buffer;
    bool within = bytes <= answer->room || answer->type == AG_MEMORY_PAGEABLE;
    return within ? answer->type : 0;
}

bool ag_memory_holds(struct ag_answers **answers, CUdeviceptr address, size_t bytes)
{
    uint64_t state;
    const struct answer *answer = known(*answers, address, &state);
    if (answer != NULL && answer->type != CU_MEMORYTYPE_HOST)
        return bytes <= answer->room;
    CUdeviceptr start;
    size_t size;
    if (ag_real.cuMemGetAddressRange_v2(&start, &size, address) != CUDA_SUCCESS ||
        address - start > size)
        return false;
    struct answer fresh = {.address = address, .room = size - (address - start)};
    if (answer == NULL) /* what copies have asked says more */
        remember(answers, &fresh, state);
    return bytes <= fresh.room;
}

void ag_memory_forget(struct ag_answers *answers)
{
    if (answers != NULL)
        memset(answers, 0, sizeof *answers);
}
