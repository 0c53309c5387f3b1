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
 * is here if it did not come through the door: so what is pushed to a runtime stays here only once
 * something was pushed there, where nothing else was, and that was popped through the door.
 *
 * A signal handler may launch as well: an entry is counted before it is written, and until it has
 * been read.
 */
#include "preload/configuration.h"

#include <stdbool.h>
#include <string.h>

#include "engine/engine.h"

/* The version of the runtimes of which is known what the functions do. */
enum { MAJOR = 13 };

/* A kernel that is launched in an argument of another one's launch is the second. */
enum { MOST = 4 };

enum pushes { UNKNOWN, STAY_HERE, GO_THERE };

static _Thread_local struct {
    unsigned count;
    struct configuration {
        struct dim3 grid, block;
        size_t shared;
        void *stream;
        struct ag_runtime *runtime; /* of which a pop takes it */
    } entries[MOST];
    unsigned there;            /* that went to runtimes and have not been popped through the door */
    struct ag_runtime *lowest; /* where the first of these went */
} stack __attribute__((tls_model("initial-exec")));

static unsigned push_there(const struct configuration *entry)
{
    unsigned (*push)(struct dim3, struct dim3, size_t, void *) =
        (unsigned (*)(struct dim3, struct dim3, size_t, void *))entry->runtime->real[AG_PUSH];
    unsigned error = push(entry->grid, entry->block, entry->shared, entry->stream);
    if (error == AG_RUNTIME_SUCCESS && stack.there++ == 0)
        stack.lowest = entry->runtime;
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

unsigned ag_configuration_push(struct ag_runtime *runtime, struct dim3 grid, struct dim3 block,
                               size_t shared, void *stream)
{
    struct configuration new = {grid, block, shared, stream, runtime};
    if (runtime->pushes != STAY_HERE || stack.count == MOST ||
        !atomic_load_explicit(&ag_engine_on, memory_order_relaxed))
        return push_all(new);
    struct configuration *entry = &stack.entries[stack.count++];
    atomic_signal_fence(memory_order_seq_cst);
    *entry = new;
    return AG_RUNTIME_SUCCESS;
}

/* From the runtime. */
static __attribute__((noinline)) int pop_there(struct ag_runtime *runtime, struct dim3 *grid,
                                               struct dim3 *block, size_t *shared, void *stream)
{
    int (*pop)(struct dim3 *, struct dim3 *, size_t *, void *) =
        (int (*)(struct dim3 *, struct dim3 *, size_t *, void *))runtime->real[AG_POP];
    int error = pop(grid, block, shared, stream);
    if (error == AG_RUNTIME_SUCCESS && stack.there != 0 && --stack.there == 0 &&
        stack.lowest == runtime && runtime->pushes == UNKNOWN)
        runtime->pushes = ag_runtime_version(runtime) / 1000 == MAJOR ? STAY_HERE : GO_THERE;
    return error;
}

int ag_configuration_pop(struct ag_runtime *runtime, struct dim3 *grid, struct dim3 *block,
                         size_t *shared, void *stream)
{
    unsigned at = stack.count;
    while (at > 0 && stack.entries[at - 1].runtime != runtime)
        at--;
    if (at-- == 0)
        return pop_there(runtime, grid, block, shared, stream);
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
