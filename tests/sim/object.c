/* SPDX-License-Identifier: MIT */
/* object.c: handles. Each type has a region of address space, reserved at its
 * first object and never given back; a slot is used again at once, last freed
 * first, as the real driver's allocator tends to do. */
#include "sim.h"

#include <stdint.h>
#include <sys/mman.h>

static const struct {
    size_t size;
    size_t keep; /* bytes at the start that survive the slot's next use */
    size_t max;
} types[OBJ_TYPES] = {
    [OBJ_CTX] = {sizeof(struct ctx), sizeof(struct obj), 1024},
    [OBJ_STREAM] = {sizeof(struct stream), offsetof(struct stream, ctx), 1 << 16},
    [OBJ_EVENT] = {sizeof(struct event), sizeof(struct obj), 1 << 20},
    [OBJ_MODULE] = {sizeof(struct module), sizeof(struct obj), 1 << 16},
    [OBJ_LIBRARY] = {sizeof(struct library), sizeof(struct obj), 1 << 16},
    [OBJ_KERNEL] = {sizeof(struct kernel), sizeof(struct obj), 1 << 18},
    [OBJ_FUNCTION] = {sizeof(struct function), sizeof(struct obj), 1 << 18},
    [OBJ_GRAPH] = {sizeof(struct graph), sizeof(struct obj), 1 << 16},
    [OBJ_NODE] = {sizeof(struct node), sizeof(struct obj), 1 << 20},
    [OBJ_EXEC] = {sizeof(struct exec), sizeof(struct obj), 1 << 16},
    [OBJ_POOL] = {sizeof(struct pool), sizeof(struct obj), 1024},
    [OBJ_MEMORY] = {sizeof(struct memory), sizeof(struct obj), 1024},
};

static struct region {
    char *base;
    size_t used; /* slots ever handed out */
    struct obj *free;
    uint64_t made;
} regions[OBJ_TYPES];

/* Under LeakSanitizer, what only our objects point at is no leak. */
extern void __lsan_register_root_region(const void *, size_t) __attribute__((weak));
enum { ROOT_SLOTS = 64 };

static size_t slot_size(enum obj_type type)
{
    return (types[type].size + 63) & ~(size_t)63;
}

void *obj_new(enum obj_type type)
{
    struct region *r = &regions[type];
    if (!r->base) {
        void *p = mmap(NULL, slot_size(type) * types[type].max, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED)
            return NULL;
        r->base = p;
    }
    struct obj *o = r->free;
    if (o) {
        r->free = o->next_free;
    } else {
        if (r->used == types[type].max)
            return NULL;
        o = (struct obj *)(r->base + slot_size(type) * r->used);
        if (__lsan_register_root_region && r->used % ROOT_SLOTS == 0)
            __lsan_register_root_region(o, slot_size(type) * ROOT_SLOTS);
        r->used++;
    }
    memset((char *)o + types[type].keep, 0, types[type].size - types[type].keep);
    o->type = type;
    o->alive = o->in_use = true;
    o->gen++;
    o->id = ++r->made;
    o->next_free = NULL;
    return o;
}

bool obj_is(enum obj_type type, const void *handle)
{
    const struct region *r = &regions[type];
    uintptr_t p = (uintptr_t)handle, base = (uintptr_t)r->base;
    return base && p >= base && p < base + r->used * slot_size(type) &&
           (p - base) % slot_size(type) == 0;
}

void *obj_get(enum obj_type type, const void *handle)
{
    struct obj *o = (struct obj *)(uintptr_t)handle;
    return obj_is(type, handle) && o->alive ? o : NULL;
}

void obj_free(void *obj)
{
    struct obj *o = obj;
    o->alive = o->in_use = false;
    o->next_free = regions[o->type].free;
    regions[o->type].free = o;
}

void *obj_next(enum obj_type type, void *after)
{
    const struct region *r = &regions[type];
    char *p = after ? (char *)after + slot_size(type) : r->base;
    for (; p && p < r->base + r->used * slot_size(type); p += slot_size(type))
        if (((struct obj *)p)->alive)
            return p;
    return NULL;
}
