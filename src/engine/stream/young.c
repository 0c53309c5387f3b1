/* SPDX-License-Identifier: MIT */
/* Streams that are not followed yet: see young.h. */
#include "engine/stream/young.h"

#include "config/config.h"
#include "engine/context/query.h"
#include "engine/hot.h"
#include "engine/stream/issuer.h"
#include "policy/policy.h"

enum {
    PLACES = 2048, /* in the table */
    PROBES = 4,    /* places where a stream may be, so that a look-up is short */
};

static CUstream const reserved = (CUstream)1; /* a default stream's: never young */

/* The names of young streams, apart from what each thread writes about its own streams, which has
   cache lines of its own: threads search the names and write to their places at the same time. */
static _Alignas(64) _Atomic(CUstream) handles[PLACES]; /* NULL: nobody's */
static struct ag_young {
    _Alignas(64) const void *_Atomic thread; /* that issued the last op */
    struct ag_context *_Atomic context;      /* of the stream */
    _Atomic bool blocking;                   /* ordered with the legacy stream */
    _Atomic uint32_t ops;                    /* that it has had */
    _Atomic uint32_t waited;                 /* of these, before the program last waited for it */
} places[PLACES];
static _Alignas(64) _Atomic unsigned count; /* of streams in the table */

static _Atomic(CUstream) *handle_of(const struct ag_young *young)
{
    return &handles[young - places];
}

static unsigned first_place(CUstream handle)
{
    return (unsigned)((uintptr_t)handle * 0x9e3779b97f4a7c15u >> 53);
}

static struct ag_young *place(unsigned first, unsigned i)
{
    return &places[(first + i) % PLACES];
}

static bool has(const struct ag_young *young, CUstream handle)
{
    return atomic_load(handle_of(young)) == handle;
}

/* Whether no stream of this name can be young. */
static bool is_out(CUstream handle)
{
    return ag_stream_is_default(handle) || !atomic_load(&ag_any_young) || atomic_load(&count) == 0;
}

/* The next place of the stream. (Two threads may have entered it at the same time, in two.) */
static struct ag_young *next_of(CUstream handle, unsigned *i)
{
    for (unsigned first = first_place(handle); *i < PROBES; (*i)++)
        if (has(place(first, *i), handle))
            return place(first, *i);
    return NULL;
}

struct ag_young *ag_young_find(CUstream handle)
{
    unsigned i = 0;
    if (ag_self.young != NULL && !ag_stream_is_default(handle) && has(ag_self.young, handle))
        return ag_self.young;
    struct ag_young *young = is_out(handle) ? NULL : next_of(handle, &i);
    if (young != NULL)
        ag_self.young = young;
    return young;
}

/* -- Ops --------------------------------------------------------------------- */

/* The thread issues the stream's ops from now on. See ag_issuer_takes_over(). */
static void take_over(struct ag_young *young)
{
    if (atomic_load_explicit(&young->thread, memory_order_relaxed) == &ag_self)
        return;
    atomic_store(&young->thread, &ag_self);
    ag_issuer_wait_for_growth();
    ag_fetch_wait(&atomic_load(&young->context)->fetch, NULL);
}

static void remove_place(struct ag_young *young, CUstream handle)
{
    uint32_t ops = atomic_load_explicit(&young->ops, memory_order_relaxed);
    if (!atomic_compare_exchange_strong(handle_of(young), &handle, NULL))
        return; /* another thread was faster */
    atomic_fetch_sub(&count, 1);
    atomic_fetch_add_explicit(&ag_unfollowed_ops, ops, memory_order_relaxed);
}

struct ag_young *ag_young_begin(CUstream handle, struct ag_context *context, bool blocking)
{
    for (unsigned i = 0, first = first_place(handle); i < PROBES; i++) {
        struct ag_young *young = place(first, i);
        CUstream none = NULL;
        if (!atomic_compare_exchange_strong(handle_of(young), &none, reserved))
            continue;
        (void)ag_lives_take(context);
        atomic_fetch_add(&count, 1);
        atomic_store_explicit(&young->ops, 0, memory_order_relaxed);
        atomic_store_explicit(&young->waited, 0, memory_order_relaxed);
        atomic_store_explicit(&young->context, context, memory_order_relaxed);
        atomic_store_explicit(&young->blocking, blocking, memory_order_relaxed);
        atomic_store_explicit(&young->thread, NULL, memory_order_relaxed);
        atomic_store(handle_of(young), handle);
        return ag_self.young = young;
    }
    return NULL;
}

bool ag_young_op(struct ag_young *young, CUstream handle, bool *behind)
{
    uint32_t ops = atomic_load_explicit(&young->ops, memory_order_relaxed);
    if (ops >= AG_FEW_OPS) /* it lasts */
        return false;
    /* First: who asks another thread's stream counts no op that is still to come. */
    take_over(young);
    atomic_store_explicit(&young->ops, ops + 1, memory_order_relaxed);
    if (!has(young, handle)) /* it has got a state meanwhile */
        return false;
    ag_self.eager = NULL;
    bool blocking = atomic_load_explicit(&young->blocking, memory_order_relaxed);
    *behind =
        atomic_load(ag_context_ahead(atomic_load_explicit(&young->context, memory_order_relaxed),
                                     blocking ? AG_STREAM_BLOCKING : AG_STREAM_NONBLOCKING)) != 0;
    return true;
}

uint32_t ag_young_issued(CUstream handle)
{
    const struct ag_young *young = ag_self.young;
    return young != NULL && handle != NULL && has(young, handle) &&
                   atomic_load_explicit(&young->thread, memory_order_relaxed) == &ag_self
               ? atomic_load_explicit(&young->ops, memory_order_relaxed)
               : 0;
}

void ag_young_waited_for(CUstream handle, uint32_t issued)
{
    if (ag_young_issued(handle) != 0)
        atomic_store_explicit(&ag_self.young->waited, issued, memory_order_relaxed);
}

/* -- Their end ---------------------------------------------------------------- */

bool ag_young_has(CUstream handle)
{
    return ag_young_find(handle) != NULL;
}

void ag_young_leave(CUstream handle)
{
    struct ag_young *young;
    if (is_out(handle))
        return;
    for (unsigned i = 0; (young = next_of(handle, &i)) != NULL; i++)
        remove_place(young, handle);
}

bool ag_young_destroy(CUstream handle)
{
    bool done = true, blocking = true;
    struct ag_context *context = NULL;
    struct ag_young *young;
    uint32_t growths = ag_issuer_growths();
    if (is_out(handle))
        return false;
    for (unsigned i = 0; (young = next_of(handle, &i)) != NULL; i++) {
        context = atomic_load_explicit(&young->context, memory_order_relaxed);
        done &= atomic_load_explicit(&young->waited, memory_order_relaxed) ==
                atomic_load_explicit(&young->ops, memory_order_relaxed);
        blocking &= atomic_load_explicit(&young->blocking, memory_order_relaxed);
    }
    if (context == NULL)
        return false;
    /* Before it leaves: what runs there must be known in one way or the other. While there has been
       no graph in any context there is little reason to ask. */
    bool asks = atomic_load(&ag_hold_bans) == 0 && atomic_load(&ag_most_graph_memory) != 0;
    if (!done && !(asks && ag_query_is_done(handle)))
        (void)ag_context_leave_behind(context, asks ? handle : NULL, blocking);
    ag_young_leave(handle);
    ag_issuer_wait_for_growth();
    return ag_issuer_growths() == growths; /* or it may have got a state there */
}

/* -- All of them -------------------------------------------------------------- */

/* The next place that is taken; NULL: there is none. */
static struct ag_young *next_taken(struct ag_young *last, CUstream *handle)
{
    struct ag_young *young = last != NULL ? last + 1 : places;
    if (atomic_load(&count) == 0)
        return NULL;
    for (; young < places + PLACES; young++)
        if ((*handle = atomic_load(handle_of(young))) != NULL)
            return young;
    return NULL;
}

bool ag_young_others(void)
{
    CUstream handle;
    struct ag_young *young = NULL;
    while ((young = next_taken(young, &handle)) != NULL) {
        const void *thread = atomic_load(&young->thread);
        if (thread != NULL ? thread != &ag_self : handle == reserved)
            return true;
    }
    return false;
}

void ag_young_forget(const struct ag_context *context)
{
    CUstream handle;
    struct ag_young *young = NULL;
    while ((young = next_taken(young, &handle)) != NULL)
        if (handle != reserved && atomic_load(&young->context) == context)
            remove_place(young, handle);
}

void ag_young_thread_leaves(void)
{
    CUstream handle;
    struct ag_young *young = NULL;
    while ((young = next_taken(young, &handle)) != NULL) {
        const void *self = &ag_self;
        (void)atomic_compare_exchange_strong(&young->thread, &self, NULL);
    }
}

/* Whether nothing is at work there, and no other thread issues work there. */
static bool is_at_rest(struct ag_young *young, CUstream handle, bool asks)
{
    uint32_t ops = atomic_load(&young->ops);
    const void *thread = atomic_load(&young->thread);
    if (handle == reserved || (thread != NULL && thread != &ag_self))
        return false;
    if (!asks && atomic_load_explicit(&young->waited, memory_order_relaxed) == ops)
        return true;
    bool pushed, idle = ag_context_enter(atomic_load(&young->context), &pushed);
    if (idle) {
        idle = ag_query_is_idle(handle);
        ag_context_leave(pushed);
    }
    if (idle)
        atomic_store_explicit(&young->waited, ops, memory_order_relaxed);
    return idle;
}

bool ag_young_rest(const struct ag_context *context)
{
    bool rest = true;
    CUstream handle;
    struct ag_young *young = NULL;
    if (atomic_load(&count) == 0)
        return true;
    ag_issuer_grows(); /* who destroys one waits until it has been asked */
    while (rest && (young = next_taken(young, &handle)) != NULL)
        rest = (context != NULL && atomic_load(&young->context) != context) ||
               is_at_rest(young, handle, context == NULL);
    ag_issuer_has_grown();
    return rest;
}

unsigned ag_young_count(void)
{
    return atomic_load_explicit(&count, memory_order_relaxed);
}

uint64_t ag_young_ops(void)
{
    uint64_t ops = 0;
    CUstream handle;
    struct ag_young *young = NULL;
    while ((young = next_taken(young, &handle)) != NULL)
        ops += atomic_load_explicit(&young->ops, memory_order_relaxed);
    return ops;
}
