/* SPDX-License-Identifier: MIT */
/* The functions and symbols of each libcuda. */
#include "preload/libcuda.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"

/* As each slot is in a file that has no function for it. */
static const struct ag_slot known[AG_SLOTS_KNOWN] = {
#define AG_SLOT(name, class, argument, ptsz) {NULL, AG_CLASS_##class, argument, ptsz},
#include "preload/slots.inc"
#undef AG_SLOT
};

/* In the order of strcmp(): slots.py sorts them. */
static const char *const names[AG_SLOTS_KNOWN] = {
#define AG_SLOT(name, class, argument, ptsz) #name,
#include "preload/slots.inc"
#undef AG_SLOT
};

struct ag_libcuda ag_libcudas[AG_LIBCUDAS];
static _Atomic unsigned count;

struct ag_libcuda *ag_libcuda_at(const void *address)
{
    unsigned n = atomic_load_explicit(&count, memory_order_acquire);
    for (unsigned i = 0; i < n; i++)
        if ((uintptr_t)address >= ag_libcudas[i].object.start &&
            (uintptr_t)address < ag_libcudas[i].object.end)
            return &ag_libcudas[i];
    return NULL;
}

bool ag_in_libcuda(const void *address)
{
    return ag_libcuda_at(address) != NULL;
}

/* -- From address to slot ------------------------------------------------------ */

static unsigned find_entry(const struct ag_libcuda *libcuda, uintptr_t address)
{
    unsigned i = (address >> 4) * 0x9e3779b1u % AG_TABLE;
    for (;; i = (i + 1) % AG_TABLE) {
        unsigned entry = atomic_load_explicit(&libcuda->table[i], memory_order_acquire);
        if (entry == 0 || (uintptr_t)libcuda->slots[entry - 1].real == address)
            return i;
    }
}

unsigned ag_libcuda_slot(const struct ag_libcuda *libcuda, const void *function)
{
    unsigned entry = libcuda->table[find_entry(libcuda, (uintptr_t)function)];
    return entry == 0 ? AG_SLOTS : entry - 1;
}

static void set_entry(struct ag_libcuda *libcuda, unsigned slot)
{
    unsigned i = find_entry(libcuda, (uintptr_t)libcuda->slots[slot].real);
    atomic_store_explicit(&libcuda->table[i], (uint16_t)(slot + 1), memory_order_release);
}

static void open_gate(const struct ag_libcuda *libcuda, unsigned slot);

unsigned ag_libcuda_add_function(struct ag_libcuda *libcuda, void *function)
{
    unsigned slot = ag_libcuda_slot(libcuda, function);
    if (slot != AG_SLOTS || libcuda->slots_used == AG_SLOTS)
        return slot;
    slot = libcuda->slots_used;
    libcuda->slots[slot] = (struct ag_slot){.real = function, .class = AG_CLASS_BARRIER};
    libcuda->slots_used = slot + 1;
    set_entry(libcuda, slot);
    open_gate(libcuda, slot);
    return slot;
}

/*
 * Two names of one function: what it is called by cannot be told, so the stricter class holds. A
 * life-cycle call stays one, since the engine must hear of it.
 */
static void merge(struct ag_libcuda *libcuda, unsigned there, unsigned new)
{
    struct ag_slot *slot = &libcuda->slots[there], *other = &libcuda->slots[new];
    bool same = slot->class == other->class && slot->argument == other->argument &&
                slot->ptsz == other->ptsz;
    if (slot->class == AG_CLASS_WRAP || (same && slot->class != AG_CLASS_OP))
        return;
    if (other->class == AG_CLASS_WRAP || slot->class == AG_CLASS_QUERY)
        set_entry(libcuda, new);
    else if (other->class != AG_CLASS_QUERY)
        slot->class = AG_CLASS_BARRIER;
}

/* -- From name to slot --------------------------------------------------------- */

static int compare(const void *name, const void *other)
{
    return strcmp(name, *(const char *const *)other);
}

static unsigned slot_named(const char *name)
{
    const char *const *found = bsearch(name, names, AG_SLOTS_KNOWN, sizeof *names, compare);
    return found ? (unsigned)(found - names) : AG_SLOTS;
}

const char *ag_slot_name(unsigned slot)
{
    return slot < AG_SLOTS_KNOWN ? names[slot] : "a driver function that is not known";
}

void *ag_libcuda_function(void *libcuda, const char *name)
{
    unsigned slot = slot_named(name);
    return slot == AG_SLOTS ? NULL : ((struct ag_libcuda *)libcuda)->slots[slot].real;
}

static const unsigned entries[AG_ENTRIES] = {AG_SLOT_cuInit, AG_SLOT_cuGetProcAddress,
                                             AG_SLOT_cuGetProcAddress_v2};

bool ag_slot_is_entry(unsigned slot)
{
    return slot == entries[0] || slot == entries[1] || slot == entries[2];
}

/* -- Gates ----------------------------------------------------------------------- */

/* doors.S, arch/.../thunks.S */
extern void *const ag_doors[AG_SLOTS_KNOWN];
extern const char ag_thunks[AG_SLOTS][AG_THUNK_SIZE];
extern const char ag_gates[AG_LIBCUDAS][AG_SLOTS][AG_GATE_SIZE];
extern const char ag_gate_undecided[];

/* What each gate jumps to. */
__attribute__((visibility("hidden"))) _Atomic(void *) ag_gate_words[AG_LIBCUDAS][AG_SLOTS];

static void *gate(const struct ag_libcuda *libcuda, unsigned slot)
{
    return (void *)ag_gates[ag_libcuda_number(libcuda)][slot];
}

struct ag_libcuda *ag_gate_of(const _Atomic(void *) *word, unsigned *slot)
{
    size_t at = (size_t)(word - &ag_gate_words[0][0]);
    *slot = (unsigned)(at % AG_SLOTS);
    return &ag_libcudas[at / AG_SLOTS];
}

void *ag_libcuda_behind_gate(const struct ag_libcuda *libcuda, unsigned slot)
{
    for (unsigned i = 0; i < AG_ENTRIES && libcuda->shown != AG_LEFT_ALONE; i++)
        if (slot == entries[i])
            return libcuda->entries[i];
    return ag_libcuda_shows(libcuda, slot);
}

static void open_gate(const struct ag_libcuda *libcuda, unsigned slot)
{
    void *to = libcuda->shown == AG_SHOWS_GATES ? (void *)ag_gate_undecided
                                                : ag_libcuda_behind_gate(libcuda, slot);
    atomic_store_explicit(&ag_gate_words[ag_libcuda_number(libcuda)][slot], to,
                          memory_order_release);
}

/* -- What is shown --------------------------------------------------------------- */

/* Of the chosen driver: what stands for a function that is neither a query nor an entry. */
static void *door_of(unsigned slot)
{
    if (slot < AG_SLOTS_KNOWN &&
        (ag_slots[slot].class == AG_CLASS_OP || ag_slots[slot].class == AG_CLASS_WRAP))
        return ag_doors[slot];
    void *door = *ag_opt.trace_file ? ag_memory_door(slot) : NULL;
    return door ? door : (void *)ag_thunks[slot];
}

void *ag_libcuda_shows(const struct ag_libcuda *libcuda, unsigned slot)
{
    const struct ag_slot *which = &libcuda->slots[slot];
    if (which->class == AG_CLASS_QUERY || libcuda->shown == AG_LEFT_ALONE)
        return which->real;
    if (ag_slot_is_entry(slot) || libcuda->shown == AG_SHOWS_GATES)
        return gate(libcuda, slot);
    return libcuda->shown == AG_SHOWS_DOORS ? door_of(slot) : which->real;
}

/* The slot that a gate or a door stands for. */
static struct ag_libcuda *find_given(const void *address, unsigned *slot)
{
    uintptr_t at = (uintptr_t)address - (uintptr_t)ag_gates;
    if (at < sizeof ag_gates) {
        *slot = (unsigned)(at / AG_GATE_SIZE % AG_SLOTS);
        return &ag_libcudas[at / sizeof *ag_gates];
    }
    for (unsigned i = 0; i < count; i++)
        for (*slot = 0; *slot < ag_libcudas[i].slots_used; ++*slot)
            if (ag_gate_words[i][*slot] == address && ag_libcudas[i].slots[*slot].real)
                return &ag_libcudas[i];
    return NULL;
}

void *ag_libcuda_behind(void *address)
{
    unsigned slot;
    struct ag_libcuda *libcuda = ag_is_ours(address) ? find_given(address, &slot) : NULL;
    return libcuda ? libcuda->slots[slot].real : address;
}

uintptr_t ag_libcuda_in_place_of(uintptr_t address)
{
    void *real = ag_libcuda_behind((void *)address);
    const struct ag_libcuda *libcuda = ag_libcuda_at(real);
    unsigned slot = libcuda ? ag_libcuda_slot(libcuda, real) : AG_SLOTS;
    return slot == AG_SLOTS ? 0 : (uintptr_t)ag_libcuda_shows(libcuda, slot);
}

bool ag_libcuda_show(struct ag_libcuda *libcuda, enum ag_shown shown)
{
    libcuda->shown = (unsigned char)shown;
    return ag_object_show(&libcuda->object, ag_libcuda_in_place_of);
}

void ag_libcuda_open_gates(const struct ag_libcuda *libcuda)
{
    for (unsigned slot = 0; slot < AG_SLOTS; slot++)
        if (libcuda->slots[slot].real)
            open_gate(libcuda, slot);
}

unsigned ag_libcuda_around(const struct ag_libcuda *libcuda, const void *address)
{
    unsigned best = AG_SLOTS;
    for (unsigned slot = 0; slot < libcuda->slots_used; slot++) {
        const char *start = libcuda->slots[slot].real;
        size_t size = libcuda->object.symbols[libcuda->symbols[slot]].st_size;
        if (libcuda->symbols[slot] != 0 && start <= (const char *)address &&
            ((const char *)address < start + size || start == address) &&
            (best == AG_SLOTS || start > (const char *)libcuda->slots[best].real))
            best = slot;
    }
    return best;
}

/* -- New files --------------------------------------------------------------------- */

/* Those that are known by their names. */
static void read_known(struct ag_libcuda *libcuda)
{
    const struct ag_object *object = &libcuda->object;
    for (size_t i = 0; i < object->symbol_count; i++) {
        const char *name = ag_object_function(object, &object->symbols[i]);
        unsigned slot = name ? slot_named(name) : AG_SLOTS;
        if (slot == AG_SLOTS)
            continue;
        libcuda->slots[slot].real = (void *)(object->base + object->symbols[i].st_value);
        libcuda->symbols[slot] = (uint32_t)i;
    }
    for (unsigned slot = 0; slot < AG_SLOTS_KNOWN; slot++) {
        const void *function = libcuda->slots[slot].real;
        unsigned there = function ? ag_libcuda_slot(libcuda, function) : slot;
        if (there == AG_SLOTS)
            set_entry(libcuda, slot);
        else if (there != slot)
            merge(libcuda, there, slot);
    }
}

/* What is left: unknown, or another name of what is known. */
static void read_others(struct ag_libcuda *libcuda)
{
    const struct ag_object *object = &libcuda->object;
    for (size_t i = 0; i < object->symbol_count; i++) {
        const char *name = ag_object_function(object, &object->symbols[i]);
        if (!name || strncmp(name, "cu", 2) != 0)
            continue;
        unsigned slot =
            ag_libcuda_add_function(libcuda, (void *)(object->base + object->symbols[i].st_value));
        if (slot == AG_SLOTS)
            libcuda->full = true;
        else if (libcuda->symbols[slot] == 0)
            libcuda->symbols[slot] = (uint32_t)i;
    }
}

struct ag_libcuda *ag_libcuda_add(const struct ag_object *object)
{
    unsigned n = atomic_load_explicit(&count, memory_order_relaxed);
    if (n == AG_LIBCUDAS)
        return NULL;
    struct ag_libcuda *libcuda = &ag_libcudas[n];
    libcuda->object = *object;
    ag_object_count(&libcuda->object);
    libcuda->slots_used = AG_SLOTS_KNOWN;
    memcpy(libcuda->slots, known, sizeof known);
    read_known(libcuda);
    read_others(libcuda);
    ag_libcuda_open_gates(libcuda); /* undecided */
    atomic_store_explicit(&count, n + 1, memory_order_release);
    return ag_libcuda_show(libcuda, AG_SHOWS_GATES) ? libcuda : NULL;
}
