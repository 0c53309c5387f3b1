/* SPDX-License-Identifier: MIT */
/*
 * What the program sets for functions, and what a launch takes of that.
 *
 * A launch takes the settings that its function has at the call (CUDA driver API, "Execution
 * Control"). Two kinds are told apart:
 *
 * - The limit of dynamic shared memory says which launches are refused. It is compared when an op
 *   is described. An exec made under another limit stays right: the driver compares when a node is
 *   added or given its parameters, and never again (H200, driver 580).
 * - Everything else belongs to the op's structure: carve-out, cache configuration, clusters. A node
 *   takes it when it is added to a graph, and keeps it (H200, driver 580).
 *
 * Nothing of that is looked at while a function's settings stay as they were when an op first
 * referred to it, and its limit is no less than what its ops have had. Other changes give the
 * function settings of its own: a number for each combination of values that it has had. The number
 * is part of the op, and no call of the program has one, so that launches of such functions are
 * always described.
 *
 * A held launch may go out when its function has other settings already. For that moment the
 * function gets back the settings that it was called with, and setters wait (struct ag_moment).
 */
#ifndef AG_SETTING_H
#define AG_SETTING_H

#include "graph/function.h"
#include "trace/tree.h"

/* A call of the program that sets something. */
struct ag_setter {
    CUfunction handle; /* or a CUkernel cast to one; NULL: it is for the current context */
    bool kernel;       /* a CUkernel's, for the device that follows */
    CUdevice device;
    int attribute; /* CUfunction_attribute, or AG_SETTING_CACHE */
    int value;
    /* Of setting.c. */
    struct ag_reach reach;
    bool late; /* an op has come to refer to a function in reach since it was prepared */
};
enum { AG_SETTING_CACHE = -1 };

/* The limit comes last: it is no part of an op's structure. */
enum { AG_SETTING_LIMIT = 6, AG_SETTING_ATTRIBUTES };
struct ag_setting {
    int attribute[AG_SETTING_LIMIT];
    int cache; /* the function's, or where that is CU_FUNC_CACHE_PREFER_NONE its context's */
};

/* Whether the call would set what is set already, so that it changes nothing. The function must be
   loaded. `current`: the context. */
bool ag_setter_repeats(struct ag_setter *setter, CUcontext current);

/*
 * Around a call that is no repetition: prepare, begin, the call, end with its result.
 *
 * The first returns what ag_functions_retire() returns: before the call the ops that refer to these
 * functions must be gone, and all that is held must be submitted. Between begin and end the thread
 * has a lock, and makes this call only. The end may retire functions, too.
 */
uint32_t ag_setter_prepare(struct ag_setter *setter);
void ag_setter_begin(void);
uint32_t ag_setter_end(struct ag_setter *setter, CUresult result);

/* The number of the settings that a launch of the function takes now; 0: it has no settings of its
   own. False: the driver refuses a launch with so much dynamic shared memory, or there are too many
   combinations of settings. `limited`: the function's limit decides; else an attribute of the
   launch may, and the driver says so. From now on the function counts as used. */
bool ag_setting_number(const struct ag_function *function, uint32_t shared, bool limited,
                       uint32_t *number);

/*
 * A moment in which the function of an op has the settings that the op was called with, if the op
 * has a number of settings (ag_kernel_setting()). The context must be current. `sure`: if a setter
 * is at work, waits for it; otherwise the setter may come in between. If the driver does not set
 * something it stays as it is, and is counted: only speed depends on it, or the driver refuses what
 * follows.
 *
 * One moment is open at a time, and no lock is held meanwhile: a launch may wait until its stream
 * takes more. Setters and further moments wait for AG_PATIENCE_NS, and then end this one. Close
 * says whether the moment had lasted until then.
 */
struct ag_moment {
    const struct ag_function *function; /* NULL: nothing had to be set */
    CUcontext ctx;
    CUdevice device;
    bool cache;
    uint32_t changed; /* a bit for each attribute that was set; `was` and `kernel_was` go back */
    int was[AG_SETTING_ATTRIBUTES], kernel_was[AG_SETTING_ATTRIBUTES];
};
bool ag_moment_is_needed(const struct ag_op *op); /* now, of an op of any kind */
void ag_moment_open(struct ag_moment *moment, const struct ag_op *op, bool sure);
bool ag_moment_close(const struct ag_moment *moment);

extern _Atomic unsigned ag_setting_errors;

#endif
