/* SPDX-License-Identifier: MIT */
/* What memory is: the driver's answers, as long as they hold. */
#include "engine/context/memory.h"

#include <stdlib.h>
#include <string.h>

#include "driver/driver.h"
#include "engine/hot.h"
#include "mutant.h"

enum { LOG2_ANSWERS = 6 };

struct ag_answers {
    struct answer {
        CUdeviceptr address;
        size_t room; /* bytes from there to the end of the allocation or mapping */
        uint64_t buffer;
        uint64_t state; /* ag_memory_state while it holds */
        CUmemorytype type;
        unsigned access;
    } answer[1 << LOG2_ANSWERS];
};

/* The range that the driver tells of mapped memory is that of the addresses, with what is mapped
   elsewhere among them; or with nothing. */
static void end_at_mapping(struct answer *answer)
{
    CUdeviceptr start;
    size_t size;
    if (ag_real.cuMemGetAddressRange_v2(&start, &size, answer->address) == CUDA_SUCCESS &&
        answer->address - start <= size)
        answer->room = size - (answer->address - start);
}

/* What the driver says of whose the memory is (`owner`, `context`), and by which address kernels
   reach it (`direct`), becomes part of the answer. */
static bool place(struct answer *answer, bool managed, int owner, CUcontext context,
                  CUdeviceptr direct)
{
    CUdevice device;
    CUcontext current;
    if (ag_real.cuCtxGetDevice(&device) != CUDA_SUCCESS ||
        ag_real.cuCtxGetCurrent(&current) != CUDA_SUCCESS)
        return false;
    if (context != NULL && context == current)
        answer->access |= AG_ACCESS_OWN;
    if (answer->type == CU_MEMORYTYPE_HOST && !managed)
        answer->access |= context != NULL && direct == answer->address
                              ? AG_ACCESS_DIRECT
                              : 0;       /* without a context it may be mapped */
    else if (managed || device != owner) /* a node's addresses must stay in their contexts */
        answer->type = AG_MEMORY_ELSEWHERE;
    else if (context == NULL || context == current)
        answer->access |= AG_ACCESS_DIRECT;
    return true;
}

/* False: nothing that can be held. */
static bool ask(struct answer *answer, CUdeviceptr address)
{
    unsigned managed = 0;
    CUdeviceptr start = 0, direct = 0;
    size_t size = 0;
    unsigned long long id = 0;
    int owner = -1;
    CUcontext context = NULL;
    *answer = (struct answer){.address = address};
    CUpointer_attribute names[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,      CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
        CU_POINTER_ATTRIBUTE_BUFFER_ID,        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        CU_POINTER_ATTRIBUTE_ACCESS_FLAGS,     CU_POINTER_ATTRIBUTE_CONTEXT,
        CU_POINTER_ATTRIBUTE_DEVICE_POINTER};
    void *values[] = {&answer->type, &managed,        &start,   &size,  &id,
                      &owner,        &answer->access, &context, &direct};
    if (ag_real.cuPointerGetAttributes(9, names, values, address) != CUDA_SUCCESS)
        return false;
    if (answer->type == 0 && !managed) {
        answer->type = AG_MEMORY_PAGEABLE;
        answer->access = AG_ACCESS_ALL;
        return address != 0;
    }
    if (answer->access == 0 || address < start || address - start > size)
        return false;
    answer->room = size - (address - start);
    answer->buffer = id;
    end_at_mapping(answer);
    return place(answer, managed != 0, owner, context, direct);
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
    bool holds = answer != NULL && answer->address == address &&
                 (answer->state == *state || AG_MUTANT(answers_stay));
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

static CUmemorytype type_of(const struct answer *answer, size_t bytes, unsigned access)
{
    bool within =
        bytes <= answer->room || answer->type == AG_MEMORY_PAGEABLE || AG_MUTANT(range_unchecked);
    return within && ((answer->access & access) == access || AG_MUTANT(access_unchecked))
               ? answer->type
               : 0;
}

CUmemorytype ag_memory_at(struct ag_answers **answers, CUdeviceptr address, size_t bytes,
                          unsigned access, uint64_t *buffer)
{
    struct answer fresh;
    uint64_t state;
    const struct answer *answer = known(*answers, address, &state);
    if (answer == NULL) {
        if (!ask(&fresh, address))
            return 0;
        remember(answers, &fresh, state);
        answer = &fresh;
    }
    *buffer = answer->buffer;
    return type_of(answer, bytes, access);
}

CUmemorytype ag_memory_now(CUdeviceptr address, size_t bytes, unsigned access)
{
    struct answer answer;
    return ask(&answer, address) ? type_of(&answer, bytes, access) : 0;
}

bool ag_memory_holds(struct ag_answers **answers, CUdeviceptr address, size_t bytes)
{
    uint64_t buffer;
    CUmemorytype type = ag_memory_at(answers, address, bytes, AG_ACCESS_BOTH, &buffer);
    return type != 0 && type != AG_MEMORY_PAGEABLE;
}

void ag_memory_forget(struct ag_answers *answers)
{
    if (answers != NULL)
        memset(answers, 0, sizeof *answers);
}
