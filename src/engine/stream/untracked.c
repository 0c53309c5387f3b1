/* SPDX-License-Identifier: MIT */
/* Streams that are not tracked yet: see untracked.h. */
#include "engine/stream/untracked.h"

#include "config/config.h"
#include "engine/context/query.h"
#include "engine/hot.h"
#include "engine/stream/issuer.h"
#include "policy/policy.h"

enum {
    PLACES = 2048, /* in the table */
    PROBES = 4,    /* places where a stream may be, so that a look-up is short */
};

static CUstream const reserved = (CUstream)1; /* a default stream's: never untracked */

/* The names of untracked streams, apart from what each thread writes about its own streams, which
   has cache lines of its own: threads search the names and write to their places at the same time.
 */
static _Alignas(64) _Atomic(CUstream) handles[PLACES]; /* NULL: nobody's */
static struct ag_untracked {
    _Alignas(64) const void *_Atomic thread; /* that issued the last op */
    struct ag_context *_Atomic context;      /* of the stream */
    _Atomic bool blocking;                   /* ordered with the legacy stream */
    _Atomic uint32_t ops;                    /* that it has had */
    _Atomic uint32_t waited;                 /* of these, before the program last waited for it */
} places[PLACES];
static _Alignas(64) _Atomic unsigned count; /* of streams in the table */

static _Atomic(CUstream) *handle_of(const struct ag_untracked *untracked)
{
    return &handles[untracked - places];
}

static unsigned first_place(CUstream handle)
{
    return (unsigned)((uintptr_t)handle * 0x9e3779b97f4a7c15u >> 53);
}

static struct ag_untracked *place(unsigned first, unsigned i)
{
    return &places[(first + i) % PLACES];
}

static bool has(const struct ag_untracked *untracked, CUstream handle)
{
    return atomic_load(handle_of(untracked)) == handle;
}

/* Whether no stream of this name can be untracked. */
static bool is_out(CUstream handle)
{
    return ag_stream_is_default(handle) || !atomic_load(&ag_any_untracked) ||
           atomic_load(&count) == 0;
}

/* The next place of the stream. (Two threads may have entered it at the same time, in two.) */
static struct ag_untracked *next_of(CUstream handle, unsigned *i)
{
    for (unsigned first = first_place(handle); *i < PROBES; (*i)++)
        if (has(place(first, *i), handle))
            return place(first, *i);
    return NULL;
}

struct ag_untracked *ag_untracked_find(CUstream handle)
{
    unsigned i = 0;
    if (ag_self.untracked != NULL && !ag_stream_is_default(handle) &&
        has(ag_self.untracked, handle))
        return ag_self.untracked;
    struct ag_untracked *untracked = is_out(handle) ? NULL : next_of(handle, &i);
    if (untracked != NULL)
        ag_self.untracked = untracked;
    return untracked;
}

/* -- Ops --------------------------------------------------------------------- */

/* The thread issues the stream's ops from now on. See ag_issuer_takes_over(). */
static void take_over(struct ag_untracked *untracked)
{
    if (atomic_load_explicit(&untracked->thread, memory_order_relaxed) == &ag_self)
        return;
    atomic_store(&untracked->thread, &ag_self);
    ag_issuer_wait_for_growth();
    ag_fetch_wait(&atomic_load(&untracked->context)->fetch, NULL);
}

static void remove_place(struct ag_untracked *untracked, CUstream handle)
{
    uint32_t ops = atomic_load_explicit(&untracked->ops, memory_order_relaxed);
    if (!atomic_compare_exchange_strong(handle_of(untracked), &handle, NULL))
        return; /* another thread was faster */
    atomic_fetch_sub(&count, 1);
    atomic_fetch_add_explicit(&ag_stateless_ops, ops, memory_order_relaxed);
}

struct ag_untracked *ag_untracked_begin(CUstream handle, struct ag_context *context, bool blocking)
{
    for (unsigned i = 0, first = first_place(handle); i < PROBES; i++) {
        struct ag_untracked *untracked = place(first, i);
        CUstream none = NULL;
        if (!atomic_compare_exchange_strong(handle_of(untracked), &none, reserved))
            continue;
        (void)ag_lives_take(context);
        atomic_fetch_add(&count, 1);
        atomic_store_explicit(&untracked->ops, 0, memory_order_relaxed);
        atomic_store_explicit(&untracked->waited, 0, memory_order_relaxed);
        atomic_store_explicit(&untracked->context, context, memory_order_relaxed);
        atomic_store_explicit(&untracked->blocking, blocking, memory_order_relaxed);
        atomic_store_explicit(&untracked->thread, NULL, memory_order_relaxed);
        atomic_store(handle_of(untracked), handle);
        return ag_self.untracked = untracked;
    }
    return NULL;
}

bool ag_untracked_op(struct ag_untracked *untracked, CUstream handle, bool *behind)
{
    uint32_t ops = atomic_load_explicit(&untracked->ops, memory_order_relaxed);
    if (ops >= AG_FEW_OPS) /* it lasts */
        return false;
    /* First: who asks another thread's stream counts no op that is still to come. */
    take_over(untracked);
    atomic_store_explicit(&untracked->ops, ops + 1, memory_order_relaxed);
    if (!has(untracked, handle)) /* it has got a state meanwhile */
        return false;
    ag_self.eager = NULL;
    bool blocking = atomic_load_explicit(&untracked->blocking, memory_order_relaxed);
    *behind = atomic_load(
                  ag_context_ahead(atomic_load_explicit(&untracked->context, memory_order_relaxed),
                                   blocking ? AG_STREAM_BLOCKING : AG_STREAM_NONBLOCKING)) != 0;
    return true;
}

uint32_t ag_untracked_issued(CUstream handle)
{
    const struct ag_untracked *untracked = ag_self.untracked;
    return untracked != NULL && handle != NULL && has(untracked, handle) &&
                   atomic_load_explicit(&untracked->thread, memory_order_relaxed) == &ag_self
               ? atomic_load_explicit(&untracked->ops, memory_order_relaxed)
               : 0;
}

void ag_untracked_waited_for(CUstream handle, uint32_t issued)
{
    if (ag_untracked_issued(handle) != 0)
        atomic_store_explicit(&ag_self.untracked->waited, issued, memory_order_relaxed);
}

/* -- Their end ---------------------------------------------------------------- */

bool ag_untracked_has(CUstream handle)
{
    return ag_untracked_find(handle) != NULL;
}

void ag_untracked_leave(CUstream handle)
{
    struct ag_untracked *untracked;
    if (is_out(handle))
        return;
    for (unsigned i = 0; (untracked = next_of(handle, &i)) != NULL; i++)
        remove_place(untracked, handle);
}

bool ag_untracked_destroy(CUstream handle)
{
    bool done = true, blocking = true;
    struct ag_context *context = NULL;
    struct ag_untracked *untracked;
    uint32_t growths = ag_issuer_growths();
    if (is_out(handle))
        return false;
    for (unsigned i = 0; (untracked = next_of(handle, &i)) != NULL; i++) {
        context = atomic_load_explicit(&untracked->context, memory_order_relaxed);
        done &= atomic_load_explicit(&untracked->waited, memory_order_relaxed) ==
                atomic_load_explicit(&untracked->ops, memory_order_relaxed);
        blocking &= atomic_load_explicit(&untracked->blocking, memory_order_relaxed);
    }
    if (context == NULL)
        return false;
    /* Before it leaves: what runs there must be known in one way or the other. While there has been
       no graph in any context there is little reason to ask. */
    bool asks = atomic_load(&ag_hold_bans) == 0 && atomic_load(&ag_most_graph_memory) != 0;
    if (!done && !(asks && ag_query_is_done(handle)))
        (void)ag_context_leave_behind(context, asks ? handle : NULL, blocking);
    ag_untracked_leave(handle);
    ag_issuer_wait_for_growth();
    return ag_issuer_growths() == growths; /* or it may have got a state there */
}

/* -- All of them -------------------------------------------------------------- */

/* The next place that is taken; NULL: there is none. */
static struct ag_untracked *next_taken(struct ag_untracked *last, CUstream *handle)
{
    struct ag_untracked *untracked = last != NULL ? last + 1 : places;
    if (atomic_load(&count) == 0)
        return NULL;
    for (; untracked < places + PLACES; untracked++)
        if ((*handle = atomic_load(handle_of(untracked))) != NULL)
            return untracked;
    return NULL;
}

bool ag_untracked_others(void)
{
    CUstream handle;
    struct ag_untracked *untracked = NULL;
    while ((untracked = next_taken(untracked, &handle)) != NULL) {
        const void *thread = atomic_load(&untracked->thread);
        if (thread != NULL ? thread != &ag_self : handle == reserved)
            return true;
    }
    return false;
}

void ag_untracked_forget(const struct ag_context *context)
{
    CUstream handle;
    struct ag_untracked *untracked = NULL;
    while ((untracked = next_taken(untracked, &handle)) != NULL)
        if (handle != reserved && atomic_load(&untracked->context) == context)
            remove_place(untracked, handle);
}

void ag_untracked_thread_leaves(void)
{
    CUstream handle;
    struct ag_untracked *untracked = NULL;
    while ((untracked = next_taken(untracked, &handle)) != NULL) {
        const void *self = &ag_self;
        (void)atomic_compare_exchange_strong(&untracked->thread, &self, NULL);
    }
}

/* Whether nothing is at work there, and no other thread issues work there. */
static bool is_at_rest(struct ag_untracked *untracked, CUstream handle, bool asks)
{
    uint32_t ops = atomic_load(&untracked->ops);
    const void *thread = atomic_load(&untracked->thread);
    if (handle == reserved || (thread != NULL && thread != &ag_self))
        return false;
    if (!asks && atomic_load_explicit(&untracked->waited, memory_order_relaxed) == ops)
        return true;
    bool pushed, idle = ag_context_enter(atomic_load(&untracked->context), &pushed);
    if (idle) {
        idle = ag_query_is_idle(handle);
        ag_context_leave(pushed);
    }
    if (idle)
        atomic_store_explicit(&untracked->waited, ops, memory_order_relaxed);
    return idle;
}

bool ag_untracked_rest(const struct ag_context *context)
{
    bool rest = true;
    CUstream handle;
    struct ag_untracked *untracked = NULL;
    if (atomic_load(&count) == 0)
        return true;
    ag_issuer_grows(); /* who destroys one waits until it has been asked */
    while (rest && (untracked = next_taken(untracked, &handle)) != NULL)
        rest = (context != NULL && atomic_load(&untracked->context) != context) ||
               is_at_rest(untracked, handle, context == NULL);
    ag_issuer_has_grown();
    return rest;
}

unsigned ag_untracked_count(void)
{
    return atomic_load_explicit(&count, memory_order_relaxed);
}

uint64_t ag_untracked_ops(void)
{
    uint64_t ops = 0;
    CUstream handle;
    struct ag_untracked *untracked = NULL;
    while ((untracked = next_taken(untracked, &handle)) != NULL)
        ops += atomic_load_explicit(&untracked->ops, memory_order_relaxed);
    return ops;
}
