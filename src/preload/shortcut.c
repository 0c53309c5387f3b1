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
 * tell what they will do: no shortcut.
 *
 * What is known is one table for all threads: a thread has a stack of its own, and what the library
 * adds to that must be cleared, and brought into memory, for each thread that a program begins.
 */
#include "preload/preload.h"

#include <stdatomic.h>
#include <string.h>

#include "driver/driver.h"
#include "preload/runtime.h"

_Thread_local struct ag_shortcut ag_shortcut __attribute__((tls_model("initial-exec")));

enum { KERNELS = 256 };

/*
 * Each kernel has one place. One thread writes an entry at a time, and the stamp says so meanwhile.
 * A reader reads the stamp before and after the entry. What it read counts if the two stamps are
 * equal and do not say that the entry is being written: a newer value would have brought the newer
 * stamp with it (release and acquire).
 */
static struct known {
    _Atomic uint64_t stamp; /* ag_changes, 0 while it is written, above how often it was */
    const void *_Atomic kernel;
    void *_Atomic real;
    _Atomic(CUcontext) context;
    _Atomic(CUfunction) func; /* NULL: no shortcut for this kernel */
} __attribute__((aligned(64))) known[KERNELS];

/* The bits of a stamp. */
enum {
    PTSZ = 1,    /* the launch was a _ptsz one */
    WRITING = 2, /* a thread writes the entry */
    CHANGES_SHIFT =
        32, /* from here on ag_changes; below, from bit 2 on, how often it was written */
};

#define GET(field)        atomic_load_explicit(&(field), memory_order_acquire)
#define PUT(field, value) atomic_store_explicit(&(field), (value), memory_order_release)

/* Functions begin at multiples of 16, often at equal distances: of 32 that are 48 bytes apart many
   would share an entry without the shift. */
static inline struct known *entry_of(const void *kernel, CUcontext current)
{
    uintptr_t key = ((uintptr_t)kernel + (uintptr_t)current) / 16;
    return &known[key * 0x9e3779b97f4a7c15u >> 56];
}
_Static_assert(KERNELS == 1 << (64 - 56), "the hash has as many values as the table has entries");

/* Whether it is known what the runtime makes of the kernel. */
static inline bool look_up(void *real, const void *kernel, struct ag_kernel_call *call)
{
    const struct ag_current now = ag_current; /* or it would be read anew behind each value */
    struct known *entry = entry_of(kernel, now.context);
    __asm__("" : "+r"(entry)); /* or the compiler computes each field's address from the table's */
    uint64_t stamp = GET(entry->stamp);
    call->current = now.context;
    call->ptsz = stamp & PTSZ;
    call->func = GET(entry->func);
    return GET(entry->kernel) == kernel && GET(entry->real) == real &&
           GET(entry->context) == now.context && stamp >> CHANGES_SHIFT == now.changes &&
           GET(entry->stamp) == stamp;
}

/* Not while another thread writes there, or this one, which a signal has interrupted. */
static void remember(void *real, const void *kernel, CUfunction func, bool ptsz)
{
    struct known *entry = entry_of(kernel, ag_current.context);
    uint64_t stamp = GET(entry->stamp);
    uint32_t times = (uint32_t)stamp;
    if (times & WRITING || !atomic_compare_exchange_strong(&entry->stamp, &stamp, times | WRITING))
        return;
    PUT(entry->kernel, kernel);
    PUT(entry->real, real);
    PUT(entry->context, ag_current.context);
    PUT(entry->func, func);
    times = (times | PTSZ | WRITING) + 1; /* the next multiple of 4 */
    PUT(entry->stamp, (uint64_t)ag_current.changes << CHANGES_SHIFT | times | (ptsz ? PTSZ : 0));
}

bool ag_shortcut_taken(void *real, const void *kernel, struct ag_kernel_call *call)
{
    if (ag_shortcut.call)
        return false;
    if (ag_engine_current(call->stream) == NULL)
        return false;
    bool usable = look_up(real, kernel, call);
    if (usable && !call->func)
        return false;
    if (usable && ag_engine_kernel(call))
        return true;
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

void ag_shortcut_learn(struct ag_runtime *runtime, void *real, const void *kernel, bool success)
{
    const struct ag_shortcut launch = ag_shortcut;
    ag_shortcut.call = NULL;
    if (launch.asked && !launch.seen)
        ag_engine_failed(); /* the eager launch that the engine waits for has not been made */
    bool confirmed = launch.asked && launch.seen && launch.func == launch.call->func;
    if (!success || confirmed || ag_current.context == NULL)
        return;
    bool usable = launch.seen && ag_runtime_version(runtime) >= 12000;
    remember(real, kernel, usable ? launch.func : NULL, launch.ptsz);
}
