/* SPDX-License-Identifier: MIT */
/*
 * The doors: how calls of the program reach the library. The only part that knows symbol names.
 *
 * A program gets at a driver function in three ways: dlsym(), cuGetProcAddress() and linking. By
 * the first and the last it gets what the driver's symbols say. That is written there when a driver
 * was loaded (libcuda.h). The other finds the real function first. In place of a function of
 * libcuda the program gets a C door (ops and life-cycle calls), or a thunk (all others). A thunk
 * submits what is held and jumps on. Queries stay what they are, and so does what does not lie in
 * libcuda.
 *
 * The first function of a libcuda that the program asks for or calls starts everything. Until then,
 * and in a program without CUDA, nothing happens, except that bind.c looks at the name of each
 * object that was loaded. A call through a door takes no lock, and no call takes one of the
 * loader's.
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

struct ag_libcuda;

/* Decides what the program gets in place of a function of the file, and returns that. Safe from any
   thread. */
void *ag_route(struct ag_libcuda *libcuda, unsigned slot);

/* The name with which the name of a libcuda begins. */
#define AG_LIBCUDA "libcuda.so"

/* -- Loaded objects --------------------------------------------------------- */

/* Changes what the file's symbols, and what objects were bound to there, lead to. */
void ag_bind_show(struct ag_libcuda *libcuda, unsigned shown);

/*
 * The libcuda around an address that the program has got by asking. One that no object of it was
 * seen to load stops the library: others may be bound to it. `certain`: the address is a driver's,
 * whatever its file is called, and nobody asks for that by name.
 */
struct ag_libcuda *ag_bind_found(const void *address, bool certain);

/*
 * The door that the program gets in place of the thunk while there is a trace file. It submits what
 * is held, like the thunk. NULL for functions that neither allocate nor free memory.
 */
void *ag_memory_door(unsigned slot);

/* -- Looking up symbols --------------------------------------------------- */

/* The C library's dlsym(). Called with a handle, or with RTLD_NEXT for what lies behind us. */
void *ag_dlsym(void *handle, const char *name);

extern void *(*ag_real_dlsym)(void *handle, const char *name);

/* Finds it. ag_dlsym() does, too; the door's jump to it needs it before. */
void ag_find_dlsym(void);

/* The C library's dlmopen(); NULL if another library's function stands in front of it, which calls
   the C library's. */
void *ag_c_dlmopen(void);

/* musl's dlsym(). */
void *ag_musl_dlsym(void);

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

/* After `real`, a function of the runtime, has returned: remembers which function the kernel stands
   for. */
struct ag_runtime;
void ag_shortcut_learn(struct ag_runtime *runtime, void *real, const void *kernel, bool success);

/* -- Process -------------------------------------------------------------- */

/* Whether AUTOGRAPH_DISABLE is set: then no symbol is changed. */
bool ag_switched_off(void);

/* From now on a fork waits for the lock of the doors. False: it will not. */
bool ag_watches_forks(void);

/* Reads the options at the first use of libcuda. False: the library is switched off. */
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
