/* SPDX-License-Identifier: MIT */
/*
 * The doors: how calls of the program reach the library. The only part that knows symbol names.
 *
 * A program gets at a driver function in three ways: dlsym(), cuGetProcAddress() and linking. Each
 * finds the real function first; then ag_route() decides by its address what the program gets: the
 * real function (queries), a C door (ops and life-cycle calls), or a thunk that submits what is
 * held and jumps on (everything else). Whatever does not lie in libcuda is left alone.
 *
 * Everything is started by the first address in a libcuda that passes by; until then, and in a
 * program without CUDA, nothing happens, except that pointers.c looks at each object that was
 * loaded. No lock is taken by a call that goes through a door; ag_route() takes its lock only to add
 * something.
 *
 * A process may have several files of that name: the toolkit's stub, a shim in front of the driver,
 * copies. The engine works with the one of which the program gets functions that do something.
 */
#ifndef AG_PRELOAD_H
#define AG_PRELOAD_H

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"
#include "preload/arch.h"

/* -- Slots: one for each driver function --------------------------------- */

enum ag_class {
    AG_CLASS_QUERY,
    AG_CLASS_FUNCTION,
    AG_CLASS_EVENT,
    AG_CLASS_STREAM,
    AG_CLASS_DEFAULT_STREAM,
    AG_CLASS_DEVICE_COPY,
    AG_CLASS_OP,
    AG_CLASS_WRAP,
    AG_CLASS_ALLOCATION,
    AG_CLASS_BARRIER,
};

/* Constant once the function's address has been given to the program. */
struct ag_slot {
    void *real;
    uint8_t class;    /* enum ag_class */
    uint8_t argument; /* index of the argument that the class names, if any */
    bool ptsz;        /* stream 0 is the per-thread default stream */
};
_Static_assert(sizeof(struct ag_slot) == AG_SLOT_SIZE, "the thunks count in slots");

enum {
#define AG_SLOT(name, class, argument, ptsz) AG_SLOT_##name,
#include "preload/slots.inc"
#undef AG_SLOT
    AG_SLOTS_KNOWN,
    AG_SLOTS = AG_SLOTS_KNOWN + AG_SLOTS_UNKNOWN
};

extern struct ag_slot ag_slots[AG_SLOTS];

/* -- Routing -------------------------------------------------------------- */

/* What the program gets in place of `found`, which may be any address. Safe from any thread. */
void *ag_route(void *found);

/* The same for what a driver has said is a function of the driver's, wherever it lies. */
void *ag_route_driver(void *found);

/* Is that, by its last part, the name of a libcuda? */
bool ag_is_libcuda(const char *path);

/* Does the address lie in this library? */
bool ag_is_ours(const void *address);

/* Does the address lie in a libcuda? Remembers each, and keeps it loaded. */
bool ag_in_libcuda(const void *address);

/*
 * The functions that lead to all others; a program may get them of a driver whose other functions
 * it never uses: of a shim in front of it, or of one that does not work. So each driver has its own
 * doors to them.
 */
enum { AG_DRIVERS = 8 };
extern struct ag_entries {
    CUresult (*init)(unsigned flags);
    CUresult (*get)(const char *symbol, void **found, int version, cuuint64_t flags);
    CUresult (*get_v2)(const char *symbol, void **found, int version, cuuint64_t flags,
                       CUdriverProcAddressQueryResult *status);
} ag_entries[AG_DRIVERS];

/* The door to that function of the driver with this number; NULL if it is none of these. */
void *ag_entry_door(unsigned driver, const void *function);

/*
 * What the program gets instead of the thunk while there is a trace file, for functions that
 * allocate or free memory: NULL for others. It submits what is held as the thunk does.
 */
void *ag_memory_door(unsigned slot);

/* -- Looking up symbols --------------------------------------------------- */

/* The C library's dlsym(). Called with a handle, or with RTLD_NEXT for what lies behind us. */
void *ag_dlsym(void *handle, const char *name);

/* musl's dlsym(). */
void *ag_musl_dlsym(void);

/*
 * Whether look-ups of the program come to this library's dlsym(): that of another library may stand
 * in front of it, and go on to the C library's.
 */
bool ag_dlsym_is_asked(void *libcuda);

/*
 * What `name` would be bound to if this library were not there, for code at `caller` (NULL: global
 * scope only). NULL if nothing.
 */
void *ag_behind_us(const char *name, const void *caller);

/* A string of a loaded object's dynamic section (DT_SONAME); NULL if it has none. */
const char *ag_dynamic_string(const ElfW(Dyn) * dynamic, ElfW(Sxword) tag);
/*
 * Binds anew what refers to a variable named like a function, and was bound to this library; in
 * objects that were loaded since the last call. Before the program is told a function's address.
 */
void ag_pointers_at_look_up(void);

/* Where an object that dl_iterate_phdr() reports lies in memory. */
void ag_object_range(const struct dl_phdr_info *info, uintptr_t *start, uintptr_t *end);

/* -- The shortcut past the runtime ---------------------------------------- */

/* The runtime launch that this thread is in, while the shortcut has an interest in it. */
struct ag_shortcut {
    const struct ag_kernel_call *call; /* as the program made it; NULL: no interest */
    bool asked;                        /* the engine has been asked, and wants it eager */
    bool seen;                         /* the driver's launch has come, for the function below */
    CUfunction func;
    bool ptsz;
};
extern _Thread_local struct ag_shortcut ag_shortcut __attribute__((tls_model("initial-exec")));

/* Before a launch of the runtime's function `real`. True: it is held, and need not be made. */
bool ag_shortcut_taken(void *real, const void *kernel, struct ag_kernel_call *call);

/* At the driver's launch within. True: the engine has been asked about it. */
bool ag_shortcut_asked(const struct ag_kernel_call *call);

/* After it. */
void ag_shortcut_learn(void *real, const void *kernel, bool success);

/* -- Process -------------------------------------------------------------- */

/* Reads the options at the first sight of libcuda. False: the library is switched off. */
bool ag_enabled(void);

/* Starts the engine: the program is about to get the first door. */
void ag_start(void);

/*
 * From now on nothing is held, and the program gets real functions, but for those without which
 * there would be no report. The text says why: the first one stays.
 */
void ag_give_up(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool ag_gave_up(void);

/* The program is about to initialise the driver or, `for_good`, to make a context: what the driver is
   about to read of the environment is read. */
void ag_driver_reads_variables(bool for_good);

/* The program has called cuInit(): what must happen at exit is registered now. */
void ag_driver_initialised(bool success);

#endif
