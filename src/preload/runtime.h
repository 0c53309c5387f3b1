/* SPDX-License-Identifier: MIT */
/*
 * Which function of a CUDA runtime a call means. A process can have several runtimes. To which of
 * them a call would be bound without this library depends on the object that the call is in. So the
 * library looks that up once for each call instruction, which it knows by the return address. What
 * the global scope has is looked up once for all functions and call instructions.
 *
 * Any thread may call these; there are no locks.
 */
#ifndef AG_RUNTIME_H
#define AG_RUNTIME_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    AG_RUNTIME_SUCCESS = 0,
    AG_STUB_LIBRARY = 34, /* cudaErrorStubLibrary */
};

struct dim3 {
    unsigned x, y, z;
};

/* Begins a declaration or definition of an exported function. */
#define AG_RUNTIME_DOOR __attribute__((visibility("default")))

enum ag_runtime_function {
    AG_LAUNCH,
    AG_LAUNCH_PTSZ,
    AG_LAUNCH_HANDLE,
    AG_LAUNCH_HANDLE_PTSZ,
    AG_LAUNCH_EX,
    AG_LAUNCH_EX_PTSZ,
    AG_LAUNCH_COOPERATIVE,
    AG_LAUNCH_COOPERATIVE_PTSZ,
    AG_PUSH,
    AG_POP,
    AG_PUSH_PAIRED, /* for a call of PUSH: the POP that takes what it pushes (configuration.c) */
    AG_VERSION,     /* of the runtime that a function is of, by its address (ag_runtime_version) */
    AG_RUNTIME_FUNCTIONS
};

/*
 * One entry for each call instruction, written once: the caller first, then the function. If all
 * entries where a caller may be are taken, its function is looked up at each call.
 */
enum {
    AG_BINDINGS = 1024, /* entries for each runtime function */
    AG_PROBES = 8,      /* entries where a caller may be */
};

extern struct ag_binding {
    _Atomic uintptr_t caller;
    _Atomic(void *) function;
} ag_bindings[AG_RUNTIME_FUNCTIONS][AG_BINDINGS];

static inline struct ag_binding *ag_binding_of(enum ag_runtime_function which, uintptr_t caller,
                                               unsigned probe)
{
    return &ag_bindings[which][((caller * 0x9e3779b97f4a7c15u >> 40) + probe) % AG_BINDINGS];
}

/* What is remembered for the call that returns to `caller`; NULL if nothing is. */
static inline void *ag_runtime_known(enum ag_runtime_function which, uintptr_t caller)
{
    for (unsigned i = 0; i < AG_PROBES; i++) {
        struct ag_binding *binding = ag_binding_of(which, caller, i);
        uintptr_t there = atomic_load_explicit(&binding->caller, memory_order_relaxed);
        if (there == caller)
            return atomic_load_explicit(&binding->function, memory_order_acquire);
        if (!there)
            break;
    }
    return NULL;
}

void ag_runtime_remember(enum ag_runtime_function which, uintptr_t caller, void *function);

/* Looks the function up, and remembers it; NULL if there is none. */
void *ag_runtime_bind(enum ag_runtime_function which, uintptr_t caller);

/* The function that a call would have been bound to; NULL if there is none. */
static inline void *ag_runtime_bound(enum ag_runtime_function which, uintptr_t caller)
{
    void *function = ag_runtime_known(which, caller);
    return __builtin_expect(function != NULL, 1) ? function : ag_runtime_bind(which, caller);
}

/* The address to which the present function returns. */
#define AG_CALLER() ((uintptr_t)__builtin_return_address(0))

/* Whether both functions lie in one library. */
bool ag_runtime_is_one(const void *function, const void *other);

/* The version of the runtime to which the function belongs, 13020 for 13.2; 0: it belongs to no
   runtime. The function must have come from ag_runtime_bound(), so that it stays loaded. */
int ag_runtime_version(const void *function);

#endif
