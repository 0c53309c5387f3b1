/* SPDX-License-Identifier: MIT */
/*
 * The doors of what `kernel<<<grid, block, shared, stream>>>(...)` calls besides the launch: its
 * caller pushes the configuration, and the kernel's stub pops it. To use the stack of a thread in
 * the runtime takes 36 ns for both, longer than to hold the launch; to use one here, 15
 * (docs/measurements.md, "What does a held launch cost?").
 *
 * Why the program cannot tell: the runtime's functions do nothing else (in 13.0, whose code was
 * read). What is here lies above what is in the runtime: before something is pushed there, all that
 * is here goes there, too. A pop takes what was last pushed for its own runtime. It would miss what
 * is here if it did not come through the door (its object may have looked the function up in the
 * runtime): so what a call pushes stays here only once it has pushed something to the runtime,
 * where nothing else was, and that was popped through the door.
 *
 * A signal handler may launch as well: an entry is counted before it is written, and until it has
 * been read.
 */
#include "preload/runtime.h"

#include <stdbool.h>
#include <string.h>

#include "engine/engine.h"

/* The version of the runtimes of which is known what the functions do. */
enum { MAJOR = 13 };

/* A kernel that is launched in an argument of another one's launch is the second. */
enum { MOST = 4 };

static _Thread_local struct {
    unsigned count;
    struct configuration {
        struct dim3 grid, block;
        size_t shared;
        void *stream;
        void *pop; /* the runtime's function that would take it */
        uintptr_t caller;
    } entries[MOST];
    unsigned there;   /* that went to runtimes and have not been popped through the door */
    uintptr_t lowest; /* the caller of the first of these */
} stack __attribute__((tls_model("initial-exec")));

typedef unsigned push(struct dim3 grid, struct dim3 block, size_t shared, void *stream);
typedef int pop(struct dim3 *grid, struct dim3 *block, size_t *shared, void *stream);

#define PUSH(caller) ((push *)ag_runtime_bound(AG_PUSH, caller))

/* In place of the function that pops what a call pushes: it does not stay here. */
#define NEVER ((void *)1)

static unsigned push_there(const struct configuration *entry)
{
    push *real = PUSH(entry->caller);
    unsigned error =
        real ? real(entry->grid, entry->block, entry->shared, entry->stream) : AG_STUB_LIBRARY;
    if (error == AG_RUNTIME_SUCCESS && stack.there++ == 0)
        stack.lowest = entry->caller;
    return error;
}

/* To the runtime, behind all that is here. */
static __attribute__((noinline)) unsigned push_all(struct configuration last)
{
    struct configuration entries[MOST];
    unsigned count = stack.count, error = AG_RUNTIME_SUCCESS;
    memcpy(entries, stack.entries, count * sizeof *entries);
    stack.count = 0;
    for (unsigned i = 0; i < count && error == AG_RUNTIME_SUCCESS; i++)
        error = push_there(&entries[i]);
    return error == AG_RUNTIME_SUCCESS ? push_there(&last) : error;
}

AG_RUNTIME_DOOR push __cudaPushCallConfiguration;
unsigned __cudaPushCallConfiguration(struct dim3 grid, struct dim3 block, size_t shared,
                                     void *stream)
{
    uintptr_t caller = AG_CALLER();
    void *real_pop = ag_runtime_known(AG_PUSH_PAIRED, caller);
    if ((uintptr_t)real_pop <= (uintptr_t)NEVER || stack.count == MOST ||
        !atomic_load_explicit(&ag_engine_on, memory_order_relaxed))
        return push_all((struct configuration){grid, block, shared, stream, NULL, caller});
    struct configuration *entry = &stack.entries[stack.count++];
    atomic_signal_fence(memory_order_seq_cst);
    *entry = (struct configuration){grid, block, shared, stream, real_pop, caller};
    return AG_RUNTIME_SUCCESS;
}

/* From the runtime. */
static __attribute__((noinline)) int pop_there(pop *real, struct dim3 *grid, struct dim3 *block,
                                               size_t *shared, void *stream)
{
    int error = real(grid, block, shared, stream);
    if (error == AG_RUNTIME_SUCCESS && stack.there != 0 && --stack.there == 0 &&
        ag_runtime_known(AG_PUSH_PAIRED, stack.lowest) == NULL) {
        bool known =
            ag_runtime_version(real) / 1000 == MAJOR && ag_runtime_is_one(real, PUSH(stack.lowest));
        ag_runtime_remember(AG_PUSH_PAIRED, stack.lowest, known ? (void *)real : NEVER);
    }
    return error;
}

AG_RUNTIME_DOOR pop __cudaPopCallConfiguration;
int __cudaPopCallConfiguration(struct dim3 *grid, struct dim3 *block, size_t *shared, void *stream)
{
    pop *real = ag_runtime_bound(AG_POP, AG_CALLER());
    if (!real)
        return AG_STUB_LIBRARY;
    unsigned at = stack.count;
    while (at > 0 && stack.entries[at - 1].pop != (void *)real)
        at--;
    if (at-- == 0)
        return pop_there(real, grid, block, shared, stream);
    const struct configuration *entry = &stack.entries[at];
    *grid = entry->grid;
    *block = entry->block;
    *shared = entry->shared;
    *(void **)stream = entry->stream;
    atomic_signal_fence(memory_order_seq_cst);
    for (; at + 1 < stack.count; at++) /* those of other runtimes above it */
        stack.entries[at] = stack.entries[at + 1];
    stack.count = at;
    return AG_RUNTIME_SUCCESS;
}
