/* SPDX-License-Identifier: MIT */
/* Threads that issue the ops of a stream. */
#include "engine/stream/issuer.h"

#include "engine/hot.h"
#include "observe/patience.h"

static _Atomic unsigned growing; /* threads that make more execs, or are about to */
static _Atomic uint32_t growths;
_Atomic unsigned ag_issuer_threads;
_Atomic uint64_t ag_issuer_unknown_calls;
_Atomic bool ag_setters_pass;

/* The library must hear of the thread's end: what it issued last is nobody's then. */
static void thread_begins(void)
{
    ag_self.issues = true;
    (void)ag_thread_watch();
    atomic_fetch_add(&ag_issuer_threads, 1);
}

bool ag_issuer_begins(void)
{
    if (ag_self.issues)
        return false;
    thread_begins();
    return atomic_load(&ag_setters_pass);
}

void ag_issuer_thread_ends(void)
{
    if (ag_self.issues)
        atomic_fetch_sub(&ag_issuer_threads, 1);
    ag_self.issues = false;
}

/* One side says that it grows, then looks whose the streams are; the other says that the stream is
   its own, then looks whether somebody grows: one of the two sees the other. What grows ends soon,
   for no kernel runs. (At exit it may be a signal handler's thread that does.) */
void ag_issuer_takes_over(struct ag_stream *stream)
{
    if (!ag_self.issues)
        thread_begins();
    ag_stream_touch(stream);
    atomic_store(&stream->issuer.thread, &ag_self);
    ag_issuer_wait_for_growth();
    ag_fetch_wait(&stream->id.context->fetch, stream);
}

void ag_issuer_launches_unseen(void)
{
    struct ag_context *context = ag_context_peek(ag_context_current());
    atomic_store(&ag_stateless_kernels, true);
    ag_context_unseen();
    ag_issuer_wait_for_growth();
    if (context != NULL)
        ag_fetch_wait(&context->fetch, NULL);
}

void ag_issuer_ends(struct ag_stream *stream, const void *thread)
{
    const void *last = thread;
    if (thread == NULL)
        atomic_store(&stream->issuer.thread, NULL);
    else if (atomic_load_explicit(&stream->issuer.thread, memory_order_relaxed) == thread)
        atomic_compare_exchange_strong(&stream->issuer.thread, &last, NULL);
}

void ag_issuer_grows(void)
{
    atomic_fetch_add(&growing, 1);
    atomic_fetch_add(&growths, 1);
}

void ag_issuer_has_grown(void)
{
    atomic_fetch_add(&growths, 1);
    atomic_fetch_sub(&growing, 1);
}

uint32_t ag_issuer_growths(void)
{
    return atomic_load(&growths);
}

void ag_issuer_wait_for_growth(void)
{
    uint64_t slept = 0;
    while (atomic_load(&growing) != 0 && atomic_load(&ag_hold_bans) == 0)
        (void)ag_patience_lasts(&slept, UINT64_MAX); /* no kernel runs meanwhile */
}
