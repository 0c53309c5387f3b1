/* SPDX-License-Identifier: MIT */
/*
 * The shortcut: a runtime launch that can be held need not go through the runtime.
 *
 * The runtime turns its kernel into the driver's function, and calls the driver. Once a thread has
 * seen which function that is, it asks the engine at once. What the engine does not take goes the
 * whole way, and the driver's door must not ask a second time.
 *
 * The runtime's answer holds for one context, and until a function or context goes away or changes.
 * Runtimes before 12.0 make a context current only within the launch, so the current one does not
 * tell what they will do: no shortcut. A thread learns for itself: there are no locks.
 */
#include <stdatomic.h>
#include <string.h>

#include "driver/driver.h"
#include "preload/preload.h"
#include "preload/runtime.h"

_Thread_local struct ag_shortcut ag_shortcut __attribute__((tls_model("initial-exec")));

/* The current context when the launch began, and how many changes there had been when the driver
   was asked for it. NULL: it must be asked. */
static _Thread_local CUcontext context __attribute__((tls_model("initial-exec")));
static _Thread_local unsigned generation __attribute__((tls_model("initial-exec")));

static _Atomic unsigned changes = 1;

enum { KERNELS = 64 };

/* Direct mapped. */
static _Thread_local struct known {
    const void *kernel;
    void *real;
    CUcontext context;
    unsigned generation; /* never 0 where something is known */
    bool ptsz;
    CUfunction func; /* NULL: no shortcut for this kernel */
} known[KERNELS] __attribute__((tls_model("initial-exec")));

/* Functions begin at multiples of 16, often at equal distances: of 32 that are 48 bytes apart 9
   would have an entry of their own without the shift. */
static struct known *entry_of(const void *kernel)
{
    return &known[((uintptr_t)kernel >> 4) * 0x9e3779b97f4a7c15u >> 58];
}
_Static_assert(KERNELS == 1 << (64 - 58), "the hash has as many values as the table has entries");

void ag_shortcut_forget(void)
{
    atomic_fetch_add(&changes, 1);
}

void ag_shortcut_forget_context(void)
{
    context = NULL;
}

/* What stream NULL and its like mean depends on the current context: then there is no doubt. */
static bool is_handle(CUstream stream)
{
    return (uintptr_t)stream > (uintptr_t)CU_STREAM_PER_THREAD;
}

/* Finds the current context, and how many changes there have been. */
static bool find_context(CUstream stream)
{
    unsigned now = atomic_load_explicit(&changes, memory_order_relaxed);
    if (context != NULL && generation == now && is_handle(stream))
        return true;
    generation = now;
    context = NULL;
    return ag_real.cuCtxGetCurrent(&context) == CUDA_SUCCESS && context != NULL;
}

bool ag_shortcut_taken(void *real, const void *kernel, struct ag_kernel_call *call)
{
    if (ag_shortcut.call)
        return false;
    if (!find_context(call->stream))
        return false;
    const struct known *entry = entry_of(kernel);
    bool usable = entry->kernel == kernel && entry->real == real && entry->context == context &&
                  entry->generation == generation;
    if (usable && !entry->func)
        return false;
    if (usable) {
        call->func = entry->func;
        call->ptsz = entry->ptsz;
        call->current = context;
        if (ag_engine_kernel(call))
            return true;
    }
    ag_shortcut = (struct ag_shortcut){.call = call, .asked = usable};
    return false;
}

bool ag_shortcut_asked(const struct ag_kernel_call *call)
{
    struct ag_shortcut *launch = &ag_shortcut;
    if (launch->seen || memcmp(&call->shape, &launch->call->shape, sizeof call->shape) != 0 ||
        call->stream != launch->call->stream || call->params != launch->call->params || call->extra)
        return false;
    launch->seen = true;
    launch->func = call->func;
    launch->ptsz = call->ptsz;
    return launch->asked && call->func == launch->call->func && call->ptsz == launch->call->ptsz;
}

void ag_shortcut_learn(void *real, const void *kernel, bool success)
{
    const struct ag_shortcut launch = ag_shortcut;
    ag_shortcut.call = NULL;
    if (launch.asked && !launch.seen)
        ag_engine_failed(); /* the eager launch that the engine waits for has not been made */
    bool confirmed = launch.asked && launch.seen && launch.func == launch.call->func;
    if (!success || confirmed || context == NULL)
        return;
    *entry_of(kernel) = (struct known){
        .kernel = kernel,
        .real = real,
        .context = context,
        .generation = generation,
        .ptsz = launch.ptsz,
        .func = launch.seen && ag_runtime_version(real) >= 12000 ? launch.func : NULL,
    };
}
