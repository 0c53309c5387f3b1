/* SPDX-License-Identifier: MIT */
/*
 * The CUDA runtimes that the process has loaded, files named libcudart. Like those of a libcuda
 * (libcuda.h), the symbols of some of their functions lead to doors. Each runtime has doors of its
 * own: whoever is bound to a runtime calls that one, however the call is made. A runtime is not
 * kept; one that is unloaded is forgotten before something else begins in its place.
 *
 * Written under the lock of the doors, before the runtime's symbols lead to its doors. Any thread
 * may read; there are no locks.
 */
#ifndef AG_RUNTIME_H
#define AG_RUNTIME_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/objects.h"

enum { AG_RUNTIME_SUCCESS = 0 };

struct dim3 {
    unsigned x, y, z;
};

enum ag_runtime_function {
    AG_LAUNCH,
    AG_LAUNCH_PTSZ,
    AG_LAUNCH_HANDLE,
    AG_LAUNCH_HANDLE_PTSZ,
    AG_PUSH,
    AG_POP,
    AG_RUNTIME_FUNCTIONS
};

enum { AG_RUNTIMES = 4 }; /* as many as launch.doors says; further ones have no doors */

extern struct ag_runtime {
    struct ag_object object;                    /* without a start: none */
    bool seen;                                  /* at the last look */
    _Atomic(void *) real[AG_RUNTIME_FUNCTIONS]; /* race detectors do not see the loader's lock */
    void *const *doors;                         /* in their place */
    int (*get_version)(int *version);
    _Atomic int version;     /* 0: not known */
    _Atomic unsigned pushes; /* enum pushes (configuration.c) */
} ag_runtimes[AG_RUNTIMES];

/* Is it the file of a runtime? Do its symbols lead to doors? */
bool ag_runtime_is_one(const struct ag_object *object);
bool ag_runtime_has_doors(const struct ag_object *object);

/*
 * What is loaded now: between the first and the last call each object that is, then those that are
 * new. All under the lock of the doors.
 */
void ag_runtimes_begin(void);
void ag_runtime_keep(const struct ag_object *object);
void ag_runtimes_end(void);
void ag_runtime_add(const struct ag_object *object,
                    void *const doors[AG_RUNTIMES][AG_RUNTIME_FUNCTIONS]);

/* Whether any is loaded. */
bool ag_runtimes_known(void);

/* The door in place of a runtime's function; 0 for other addresses. */
uintptr_t ag_runtime_in_place_of(uintptr_t address);

/* 13020 for 13.2; 0: the runtime does not say. */
int ag_runtime_version(struct ag_runtime *runtime);

#endif
