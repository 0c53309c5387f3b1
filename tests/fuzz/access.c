/* SPDX-License-Identifier: MIT */
/* Memory of a lane that is mapped, and whose access comes and goes. No kernel gets it. */
#include "world.h"

static CUmemAllocationProp prop_of(const struct lane *l)
{
    return (CUmemAllocationProp){
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = l->context->device}};
}

static void set(struct thread *t, struct lane *l, unsigned parts, CUmemAccess_flags flags)
{
    const CUmemAccessDesc access = {prop_of(l).location, flags};
    for (unsigned i = 0; i < 2; i++)
        if (parts >> i & 1)
            MUST(t, l->api->cuMemSetAccess(l->mapping.base + i * l->mapping.size, l->mapping.size,
                                           &access, 1));
}

/* Two mappings side by side, with half of the memory in each. */
static void make(struct thread *t, struct lane *l, uint32_t value)
{
    const CUmemAllocationProp prop = prop_of(l);
    const struct api *call = l->api;
    CUdeviceptr base = 0;
    size_t size = 0;
    MUST(t, call->cuMemGetAllocationGranularity(&size, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    MUST(t, call->cuMemAddressReserve(&base, 2 * size, 0, 0, 0));
    for (unsigned i = 0; i < 2; i++) {
        CUmemGenericAllocationHandle handle = 0;
        MUST(t, call->cuMemCreate(&handle, size, &prop, 0));
        MUST(t, call->cuMemMap(base + i * size, size, 0, handle, 0));
        MUST(t, call->cuMemRelease(handle));
    }
    l->mapping.base = base;
    l->mapping.size = size;
    set(t, l, 3, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    MUST(t, call->cuMemsetD32Async(access_memory(l), value, BUFFER_WORDS, l->stream));
}

CUdeviceptr access_memory(const struct lane *l)
{
    enum { HALF = BUFFER_WORDS / 2 * 4 };
    return l->capturing || l->mapping.base == 0 ? l->a : l->mapping.base + l->mapping.size - HALF;
}

bool access_is_in(const struct lane *l, int buffer)
{
    return buffer == BUFFER_MAPPED && l->mapping.base != 0 && !l->capturing;
}

bool access_takes_words(const struct lane *l, int buffer)
{
    return !access_is_in(l, buffer) || !l->mapping.readonly;
}

void access_run(struct thread *t, struct lane *l, const struct statement *s)
{
    uint32_t value = op_value(t, l, s);
    if (captures(t) != 0 || (t->par && t->world->par_captures))
        return;
    order_wait(t, l, EDGE_HOST);
    if (l->mapping.base == 0) {
        make(t, l, value);
        return;
    }
    if (l->mapping.closed)
        set(t, l, 3, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    else
        set(t, l, (unsigned)s->n % 4,
            s->how == 1 ? CU_MEM_ACCESS_FLAGS_PROT_READ : CU_MEM_ACCESS_FLAGS_PROT_NONE);
    l->mapping.closed = !l->mapping.closed;
    l->mapping.readonly = l->mapping.closed && s->how == 1;
}

void access_look(struct thread *t, struct lane *l)
{
    uint32_t words[BUFFER_WORDS];
    if (l->mapping.base == 0)
        return;
    set(t, l, 3, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    MUST(t, l->sync->cuMemcpyDtoH(words, access_memory(l), sizeof words));
    look(t, words, BUFFER_WORDS);
}

void access_free(struct thread *t, struct lane *l)
{
    if (l->mapping.base == 0)
        return;
    MUST(t, l->api->cuMemUnmap(l->mapping.base, 2 * l->mapping.size));
    MUST(t, l->api->cuMemAddressFree(l->mapping.base, 2 * l->mapping.size));
    l->mapping.base = 0;
    l->mapping.closed = l->mapping.readonly = false;
}
