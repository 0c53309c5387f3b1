/* SPDX-License-Identifier: MIT */
/*
 * What the library knows of a kernel: the function that graph nodes want, and the layout of its
 * parameters. Found once for each handle and context, and forgotten when modules are unloaded,
 * since a handle's value can come back with another layout.
 *
 * Layouts need cuFuncGetParamInfo (driver 12.4). Without it, or if the configuration wants it so,
 * the driver keeps the arguments: see graph/keep.h.
 */
#ifndef AG_FUNCTION_H
#define AG_FUNCTION_H

#include <cuda.h>

#include "trace/op.h"

struct ag_function {
    CUfunction func; /* of the context it was asked in, also where the program passes a CUkernel */
    bool kept;       /* the layout is not known, and empty */
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

/*
 * Before and after modules are unloaded: from now on every handle is asked for anew. What was found
 * before stays valid until ag_functions_sweep() with the answer, to be called once nothing refers
 * to it. What was found since stays valid: another thread's retire, for which streams have not been
 * reset yet, may have come between.
 */
uint32_t ag_functions_retire(void);
void ag_functions_sweep(uint32_t since);

#endif
