/* SPDX-License-Identifier: MIT */
/*
 * What the library knows of a kernel: the function that graph nodes want, the layout of its
 * parameters, and the settings that a launch takes from it. Found once for each handle and context,
 * and forgotten with its module, library or context, since a handle's value can come back with
 * another layout. A function whose layout the driver does not tell is not known.
 */
#ifndef AG_FUNCTION_H
#define AG_FUNCTION_H

#include <cuda.h>
#include <stdatomic.h>

#include "graph/shape.h"
#include "trace/op.h"

struct ag_settings; /* graph/setting.h */

struct ag_function {
    CUfunction func; /* of the context it was asked in, also where the program passes a CUkernel */
    CUkernel kernel; /* the kernel that it is a function of; NULL: none, or not known */
    _Atomic uint32_t retired;     /* 0: it is in use; else see ag_functions_retire() */
    struct ag_limits limits;      /* of its launches */
    int cache, context_cache;     /* CUfunc_cache: what the program set for it, and for its context;
                                     written under the lock of setting.c */
    struct ag_settings *settings; /* NULL: nothing has been set since an op first referred to it,
                                     except a limit that suits all ops; constant */
    struct ag_layout layout;
};

/*
 * The function behind a handle that the program launches in context `ctx`. NULL: not known. Takes
 * the table's own lock if others have been looked for since, and never calls the driver. Valid
 * while the caller has the lock of a stream, and until this is reset: see ag_functions_retire().
 */
const struct ag_function *ag_function_find(CUfunction handle, CUcontext ctx);

/* The function that graph nodes want for that handle; NULL: not known. The caller needs no lock. */
CUfunction ag_function_of_handle(CUfunction handle, CUcontext ctx);

/* The function whose layout that is. */
static inline const struct ag_function *ag_function_of(const struct ag_layout *layout)
{
    return (const void *)((const char *)layout - offsetof(struct ag_function, layout));
}

/* A copy of that, to be freed by the caller, who needs no lock. NULL: not known, or no memory. */
struct ag_function *ag_function_copy(CUfunction handle, CUcontext ctx);

/*
 * Asks the driver what a handle is; `ctx` must be current. That may load the function, and loading
 * waits for running kernels with the driver locked (driver 580): nothing may be held that a kernel
 * could wait for, and no lock either. Does nothing where the driver does not know it.
 */
void ag_function_learn(CUfunction handle, CUcontext ctx);

/* The functions of a context, module or library that goes away. */
struct ag_functions {
    enum { AG_FUNCTIONS_OF_CONTEXT, AG_FUNCTIONS_OF_MODULE, AG_FUNCTIONS_OF_LIBRARY } of;
    const void *owner; /* CUcontext, CUmodule or CUlibrary. A function whose module or library the
                          driver did not tell belongs to every one */
};

/*
 * Retires these functions, before and after their owner goes: from now on the driver is asked about
 * them anew. What is known of a retired function stays valid until ag_functions_sweep() is called
 * with the number that this returns, once nothing refers to it. 0: there was no such function.
 */
uint32_t ag_functions_retire(const struct ag_functions *which);
void ag_functions_sweep(uint32_t retired);

/* The functions that a setting may reach. */
struct ag_reach {
    CUfunction handle; /* what the program names; NULL: all functions of the current context */
    CUfunction
        func; /* the handle's function in the current context, if it is a CUkernel; or NULL */
    CUcontext current;
    bool kernel; /* the handle is a CUkernel. Its functions in other contexts cannot be named from
                    here: all functions that may be one of them count */
};

/* Calls `each` with every function in reach, under the table's lock. `each` may ask the driver. */
void ag_functions_visit(const struct ag_reach *reach,
                        void (*each)(struct ag_function *function, void *data), void *data);

/*
 * Retires the functions in reach that have been used, have no settings yet, and are `chosen`; see
 * ag_functions_retire(). Each is replaced by a function with settings, which `begin` gives it. If
 * `begin` returns false (no memory) there is no replacement, and the driver is asked anew.
 */
uint32_t ag_functions_renew(const struct ag_reach *reach,
                            bool (*chosen)(const struct ag_function *function, const void *data),
                            bool (*begin)(struct ag_function *function), const void *data);

/* A setting has changed. What the driver is telling another thread about a function just now may be
   old: it does not count. */
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
