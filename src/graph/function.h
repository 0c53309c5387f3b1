/* SPDX-License-Identifier: MIT */
/*
 * What the library knows of a kernel: the function that graph nodes want, the layout of its
 * parameters, and the settings that a launch takes from it. Found once for each handle and context,
 * and forgotten with its module, library or context, since a handle's value can come back with
 * another layout.
 *
 * Layouts need cuFuncGetParamInfo (driver 12.4). Without it, or if the configuration wants it so,
 * the driver keeps the arguments: see graph/keep.h.
 */
#ifndef AG_FUNCTION_H
#define AG_FUNCTION_H

#include <cuda.h>
#include <stdatomic.h>

#include "trace/op.h"

struct ag_settings; /* graph/setting.h */

struct ag_function {
    CUfunction func; /* of the context it was asked in, also where the program passes a CUkernel */
    CUkernel kernel; /* of which it is known to be a function, or NULL */
    bool kept;       /* the layout is not known, and empty */
    _Atomic bool used;            /* some op may refer to it */
    _Atomic uint32_t retired;     /* 0: it is not; see ag_functions_retire() */
    _Atomic int limit;            /* bytes of dynamic shared memory that a launch may ask for now */
    int cache, context_cache;     /* CUfunc_cache: what the program set for it and its context;
                                     written under the lock of setting.c */
    struct ag_settings *settings; /* NULL: none has changed since an op first referred to it, but
                                     for a limit that was raised; constant */
    struct ag_layout layout;
};

/*
 * The function behind a handle that the program launches in context `ctx`. NULL: not known. Takes
 * the table's own lock if others have been looked for since, and never calls the driver. Valid
 * while the caller has the lock of a stream, and until this is reset: see ag_functions_retire().
 */
const struct ag_function *ag_function_find(CUfunction handle, CUcontext ctx);

/* The same where no lock need be held: a copy, to be freed by the caller. NULL also: no memory. */
struct ag_function *ag_function_copy(CUfunction handle, CUcontext ctx);

/*
 * Asks the driver what a handle is; `ctx` must be current. That may load the function, and loading
 * waits for running kernels with the driver locked (driver 580): nothing may be held that a kernel
 * could wait for, and no lock either. Does nothing where the driver does not know it.
 */
void ag_function_learn(CUfunction handle, CUcontext ctx);

/* The functions that something owns which goes. */
struct ag_functions {
    enum { AG_FUNCTIONS_OF_CONTEXT, AG_FUNCTIONS_OF_MODULE, AG_FUNCTIONS_OF_LIBRARY } of;
    const void *owner; /* CUcontext, CUmodule or CUlibrary; a function of which the driver did not
                          tell the module or library counts as one of any */
};

/*
 * Before and after something goes: from now on the functions are asked for anew. What was found
 * before stays valid, and says that it is retired, until ag_functions_sweep() with the answer, to
 * be called once nothing refers to it. 0: there was none.
 */
uint32_t ag_functions_retire(const struct ag_functions *which);
void ag_functions_sweep(uint32_t retired);

/* The functions that a setting may reach. */
struct ag_reach {
    CUfunction handle; /* that the program names, NULL: all functions of the current context */
    CUfunction func;   /* of the current context, if the handle is a CUkernel's; or NULL */
    CUcontext current;
    bool kernel; /* the handle is a CUkernel: its functions in other contexts cannot be named from
                    here, so that all those count that may be its */
};

/* Calls `each` with every such function, under the table's lock; it may ask the driver about it. */
void ag_functions_visit(const struct ag_reach *reach,
                        void (*each)(struct ag_function *function, void *data), void *data);

/*
 * Such of them as have been used, have no settings yet, and are `chosen` are retired, as by
 * ag_functions_retire(); in the place of each there is one with settings from now on, which `begin`
 * gives it (false: no memory; then there is none, and the handle is asked for anew).
 */
uint32_t ag_functions_renew(const struct ag_reach *reach,
                            bool (*chosen)(const struct ag_function *function, const void *data),
                            bool (*begin)(struct ag_function *function), const void *data);

/* A setting has changed: what another thread is being told of a function just now may be old. */
void ag_functions_doubt(void);

/* Whether a node's function was retired up to a stamp that ag_functions_retire() has returned: the
   answer stays what it is. */
static inline bool ag_function_is_retired(const struct ag_layout *layout, uint32_t stamp)
{
    const struct ag_function *function =
        (const void *)((const char *)layout - offsetof(struct ag_function, layout));
    uint32_t retired = atomic_load_explicit(&function->retired, memory_order_relaxed);
    return retired != 0 && (int32_t)(retired - stamp) <= 0;
}

#endif
