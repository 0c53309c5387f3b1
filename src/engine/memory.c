/* SPDX-License-Identifier: MIT */
/* What memory is: the driver's answers, as long as they hold. */
#include "engine/memory.h"

#include "driver/driver.h"
#include "engine/engine.h"

enum { ANSWERS_LOG2 = 6, ANSWERS = 1 << ANSWERS_LOG2 };

struct answer {
    CUdeviceptr address;
    size_t room; /* bytes from there to the end of the allocation */
    uint64_t buffer;
    uint64_t state; /* ag_memory_state while it holds */
    CUcontext current;
    CUmemorytype type;
};

static _Thread_local struct answer answers[ANSWERS] __attribute__((tls_model("initial-exec")));

_Atomic uint64_t ag_memory_state = 2; /* no answer's yet */

/* False: nothing that can be held. */
static bool ask(struct answer *answer, CUcontext current, CUdeviceptr address)
{
    unsigned managed = 0;
    CUdeviceptr start = 0;
    size_t size = 0;
    unsigned long long id = 0;
    int owner = -1;
    CUdevice device;
    *answer = (struct answer){.address = address, .current = current};
    CUpointer_attribute names[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,      CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
        CU_POINTER_ATTRIBUTE_BUFFER_ID,        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void *values[] = {&answer->type, &managed, &start, &size, &id, &owner};
    if (ag_real.cuPointerGetAttributes(6, names, values, address) != CUDA_SUCCESS || managed ||
        address < start || address - start > size)
        return false;
    answer->room = size - (address - start);
    answer->buffer = id;
    if (answer->type == CU_MEMORYTYPE_DEVICE) /* a node's addresses must stay in their contexts */
        return ag_real.cuCtxGetDevice(&device) == CUDA_SUCCESS && device == owner;
    return answer->type == CU_MEMORYTYPE_HOST;
}

CUmemorytype ag_memory_at(CUcontext current, CUdeviceptr address, size_t bytes, uint64_t *buffer)
{
    /* Read before the driver is asked: a change meanwhile makes the answer an old one. */
    uint64_t state = atomic_load(&ag_memory_state);
    struct answer *answer = &answers[address * 0x9e3779b97f4a7c15u >> (64 - ANSWERS_LOG2)];
    if (answer->address != address || answer->state != state || answer->current != current) {
        if (!ask(answer, current, address))
            return 0;
        answer->state = state | 1;
        if (state % 2 == 0) /* or it has changed, or another thread has done it */
            (void)atomic_compare_exchange_strong(&ag_memory_state, &state, state | 1);
    }
    *buffer = answer->buffer;
    return bytes <= answer->room ? answer->type : 0;
}
