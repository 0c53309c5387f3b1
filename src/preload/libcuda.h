/* SPDX-License-Identifier: MIT */
/*
 * The files named libcuda that the process has loaded: what their functions are, and what their
 * symbols say.
 *
 * The dynamic linker decides what an object is bound to, and it alone can: the answer depends on
 * scopes, versions and the order of loading. So the library exports no function of the driver. It
 * writes into the symbols of each libcuda what a program shall get in place of the functions.
 * Whoever is bound to a libcuda then, by linking or by dlsym(), gets that; whoever is bound to
 * something else never hears of this library.
 *
 * A symbol first leads to a gate: a jump by a word of memory, of its own for each function of each
 * file. The first call decides what the file is to the library (route.c). From then on its symbols
 * lead to doors, or to the file's own functions again.
 *
 * What is written here is written under the lock of the doors. Readers take no lock.
 */
#ifndef AG_LIBCUDA_H
#define AG_LIBCUDA_H

#include "preload/objects.h"
#include "preload/preload.h"

/* What the symbols of a file lead to. Queries always stay the file's own functions. */
enum ag_shown {
    AG_SHOWS_GATES,
    AG_SHOWS_DOORS, /* but for the entries: the functions that lead to all others have gates */
    AG_SHOWS_REAL,  /* but for the entries, of which the report must know */
    AG_LEFT_ALONE,
};

enum { AG_TABLE = 4096 };
_Static_assert(AG_TABLE > (int)AG_SLOTS, "the table never fills");

/* The functions that lead to all others: cuInit and cuGetProcAddress. Each file has its own doors.
 */
enum { AG_ENTRIES = 3 };

struct ag_libcuda {
    struct ag_object object;
    void *const *_Atomic entries;  /* doors of its entries, once something is decided (route.c) */
    _Atomic unsigned char works;   /* route.c */
    _Atomic unsigned char shown;   /* enum ag_shown */
    _Atomic unsigned char settled; /* the last that all symbols, words and gates lead to */
    bool full;                     /* it has more unknown functions than there is room for */
    _Atomic unsigned slots_used;
    struct ag_slot slots[AG_SLOTS];
    uint32_t symbols[AG_SLOTS]; /* index of the symbol that names the slot's function, or 0 */
    /* By address, open addressing: the slot and 1. An entry is changed only before the file is
       known to others. */
    _Atomic uint16_t table[AG_TABLE];
};

extern struct ag_libcuda ag_libcudas[AG_LIBCUDAS];

/* The file that has the address; NULL: none that is known. */
struct ag_libcuda *ag_libcuda_at(const void *address);

/* Does the address lie in one of them? */
bool ag_in_libcuda(const void *address);

/* Its place among all of them. */
static inline unsigned ag_libcuda_number(const struct ag_libcuda *libcuda)
{
    return (unsigned)(libcuda - ag_libcudas);
}

/* A new file; its symbols lead to gates from now on. NULL: there is no room, or they stay as they
   are. */
struct ag_libcuda *ag_libcuda_add(const struct ag_object *object);

/* The slot of a function of the file by its address, or of a new one; AG_SLOTS: none. */
unsigned ag_libcuda_slot(const struct ag_libcuda *libcuda, const void *function);
unsigned ag_libcuda_add_function(struct ag_libcuda *libcuda, void *function);

/* The name of a slot; whether that is one of the entries. */
const char *ag_slot_name(unsigned slot);
bool ag_slot_is_entry(unsigned slot);

/* The slot of the function that has code at the address; AG_SLOTS: it has no name. */
unsigned ag_libcuda_around(const struct ag_libcuda *libcuda, const void *address);

/* A function of the file by its name; NULL if it has none. */
void *ag_libcuda_function(void *libcuda, const char *name);

/* Changes what the file's symbols lead to; false if they still say what they said. And, after
   objects that were bound to the file have been bound anew, what its gates lead to. */
bool ag_libcuda_show(struct ag_libcuda *libcuda, enum ag_shown shown);
void ag_libcuda_open_gates(const struct ag_libcuda *libcuda);

/* What the program gets for a slot of the file. */
void *ag_libcuda_shows(const struct ag_libcuda *libcuda, unsigned slot);

/* What stands in place of an address that an object was bound to; 0 if that is no function of a
   libcuda. */
uintptr_t ag_libcuda_in_place_of(uintptr_t address);

/* The function of a libcuda that a gate or a door leads to; any other address as it is. */
void *ag_libcuda_behind(void *address);

/* What a gate leads to once that is decided. */
void *ag_libcuda_behind_gate(const struct ag_libcuda *libcuda, unsigned slot);

/* The file and slot of a gate's word. */
struct ag_libcuda *ag_gate_of(const _Atomic(void *) *word, unsigned *slot);

#endif
