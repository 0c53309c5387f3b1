/* SPDX-License-Identifier: MIT */
/*
 * The doors: how calls of the program reach the library. The only part that knows symbol names.
 *
 * A program gets at a driver function in three ways: dlsym(), cuGetProcAddress() and linking. Each
 * finds the real function first; then ag_route() decides by its address what the program gets: the
 * real function (queries), a C door (ops and life-cycle calls), or a thunk that submits what is
 * held and jumps on (everything else). Whatever does not lie in libcuda is left alone.
 *
 * The first address in a libcuda that the program asks for starts everything. Until then, and in a
 * program without CUDA, nothing happens, except that pointers.c looks at each object that was
 * loaded. A call through a door takes no lock; ag_route() takes its lock only to add something.
 *
 * A process may have several libcuda files: the toolkit's stub, a shim in front of the driver,
 * copies. The engine works with the file whose functions the program really uses.
 */
#ifndef AG_PRELOAD_H
#define AG_PRELOAD_H

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"
#include "preload/arch.h"

/* Begins the definition of a door. */
#define AG_DOOR __attribute__((used, visibility("hidden")))

/* -- Slots: one for each driver function --------------------------------- */

enum ag_class {
    AG_CLASS_QUERY,
    AG_CLASS_FUNCTION,
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

/* Is the last part of the path the name of a libcuda? */
bool ag_is_libcuda(const char *path);

/* Does the address lie in this library? */
bool ag_is_ours(const void *address);

/* Does the address lie in a libcuda? Remembers each, and keeps it loaded. */
bool ag_in_libcuda(const void *address);

/*
 * The door that the program gets in place of the thunk while there is a trace file, for a function
 * that allocates or frees memory; NULL for other functions. It submits what is held, like the
 * thunk.
 */
void *ag_memory_door(unsigned slot);

/* -- Looking up symbols --------------------------------------------------- */

/* The C library's dlsym(). Called with a handle, or with RTLD_NEXT for what lies behind us. */
void *ag_dlsym(void *handle, const char *name);

/* Finds it. ag_dlsym() does, too; the door's jump to it needs it before. */
void ag_find_dlsym(void);

/* musl's dlsym(). */
void *ag_musl_dlsym(void);

/* The calling thread's look-up of a CUDA name by dlsym(). */
extern _Thread_local struct ag_look_up {
    bool inside;     /* the door is deciding: what it looks up itself is left to the real dlsym() */
    bool came_again; /* the door was called meanwhile, since this was last cleared */
} ag_look_up __attribute__((tls_model("initial-exec")));

/*
 * Whether the program's look-ups come to this library's dlsym(). The dlsym() of another library may
 * stand in front of it, and call the C library's instead.
 */
bool ag_dlsym_is_asked(void *libcuda);

/*
 * What `name` would be bound to without this library, for code at `caller` (NULL: in the global
 * scope only). NULL: to nothing.
 */
void *ag_behind_us(const char *name, const void *caller);

/* `name` as the object around `caller` sees it in itself and what it depends on. */
void *ag_in_scope_of(const void *caller, const char *name);

/* A string of a loaded object's dynamic section (DT_SONAME); NULL if it has none. */
const char *ag_dynamic_string(const ElfW(Dyn) * dynamic, ElfW(Sxword) tag);
/*
 * Other libraries may have variables that are named like functions of the driver. References to
 * them that were bound to this library are bound to the variables again, in objects that were
 * loaded since the last call. To be called before the program is told a function's address.
 */
void ag_pointers_at_look_up(void);

/* Where an object that dl_iterate_phdr() reports lies in memory. */
void ag_object_range(const struct dl_phdr_info *info, uintptr_t *start, uintptr_t *end);

/* -- The shortcut past the runtime ---------------------------------------- */

/* A launch by a runtime function that this thread is in, if the shortcut may learn from it or has
   asked the engine about it. */
struct ag_shortcut {
    const struct ag_kernel_call *call; /* as the program made it; NULL: no such launch */
    bool asked;                        /* the engine was asked, and wants the launch eager */
    bool seen; /* the runtime has called the driver, with `func` and `ptsz` */
    CUfunction func;
    bool ptsz;
};
extern _Thread_local struct ag_shortcut ag_shortcut __attribute__((tls_model("initial-exec")));

/* Before the runtime's launch function `real` is called. True: the launch is held, and `real` is
   not to be called. */
bool ag_shortcut_taken(void *real, const void *kernel, struct ag_kernel_call *call);

/* When `real` calls the driver's launch. True: the engine has been asked about this launch. */
bool ag_shortcut_asked(const struct ag_kernel_call *call);

/* After `real` has returned: remembers which function the kernel stands for. */
void ag_shortcut_learn(void *real, const void *kernel, bool success);

/* -- Process -------------------------------------------------------------- */

/* Reads the options at the first sight of libcuda. False: the library is switched off. */
bool ag_enabled(void);

/* Starts the engine: the program is about to get the first door. */
void ag_start(void);

/*
 * From now on nothing is held, and the program gets real functions, except for those that the
 * report needs. The text says why; the first text stays.
 */
void ag_give_up(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool ag_gave_up(void);

/* The program is about to initialise the driver or, `for_good`, to make a context. Reads the
   variables of CUDA that the driver is about to read. */
void ag_driver_reads_variables(bool for_good);

/* The program has called cuInit(): what must happen at exit is registered now. */
void ag_driver_initialised(bool success);

#endif
