/* SPDX-License-Identifier: MIT */
/*
 * Safe points: moments when more execs can be made than a context gives freely.
 *
 * Making one more then gets memory from the device, and waits until every running kernel has ended,
 * holding a lock of the driver (seen on driver 580). If a kernel waits for this thread, or for a
 * launch of another, that is a deadlock that the program does not have by itself. So it is done
 * only when the program has just waited for work itself, nothing is outstanding, and no other
 * thread issues work, which could bring a kernel in between (outstanding.h).
 */
#include "engine/engine.h"

#include "engine/context/query.h"
#include "engine/replay/make.h"
#include "engine/replay/staging.h"
#include "engine/stream/helper.h"
#include "engine/stream/issuer.h"
#include "engine/stream/outstanding.h"
#include "mutant.h"

static bool all_idle(void)
{
    atomic_fetch_add(&ag_capture_breakers, 1);
    bool all = !ag_captures_about() &&
               (!ag_outstanding_in_context(NULL, NULL) || AG_MUTANT(grows_beside_work));
    atomic_fetch_sub(&ag_capture_breakers, 1);
    return all;
}

/* Loads the kernel for read-backs if they want it in the current context. It launches in the legacy
   stream, and waits there: so no capture begins meanwhile, and the stream has no work. A copy from
   pageable memory may be there that the host has not waited for, though nobody follows the stream.
 */
static void fetch(void)
{
    struct ag_context *context = ag_context_peek(ag_context_current());
    if (context == NULL || !ag_fetch_is_wanted(&context->fetch) || ag_helper_waits())
        return;
    atomic_fetch_add(&ag_capture_breakers, 1);
    ag_depth++;
    bool idle = ag_query_is_idle(CU_STREAM_LEGACY); /* and nothing captures */
    CUresult result = idle ? ag_helper_fetch(context) : CUDA_ERROR_NOT_READY;
    ag_depth--;
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY)
        atomic_fetch_add(&ag_context_errors, 1);
    atomic_fetch_sub(&ag_capture_breakers, 1);
}

static void destroy_buried(void)
{
    struct ag_context *context = NULL;
    ag_depth++;
    while ((context = ag_context_next(context)) != NULL)
        if (ag_helper_destroy_buried(context) != CUDA_SUCCESS)
            atomic_fetch_add(&ag_context_errors, 1);
    ag_depth--;
}

static void grow(void)
{
    if (!all_idle())
        return;
    atomic_fetch_sub(&ag_program_execs, atomic_exchange(&ag_program_execs_gone, 0));
    destroy_buried();
    for (struct ag_stream *stream = ag_stream_all(); stream != NULL; stream = stream->place.next) {
        bool pushed;
        if (!ag_stream_trylock(stream)) /* another thread takes it over, and waits for us */
            continue;
        if (stream->id.live && stream->execs.wanted_count != 0 &&
            ag_context_enter(stream->id.context, &pushed)) {
            ag_depth++;
            ag_make_wanted(stream);
            ag_depth--;
            ag_context_leave(pushed);
        }
        ag_stream_unlock(stream);
    }
    fetch();
}

void ag_engine_waited(void)
{
    if (!all_idle()) /* mostly; and nobody has to wait for the look */
        return;
    if (AG_MUTANT(grows_beside_threads)) {
        grow();
        return;
    }
    ag_issuer_grows();
    grow();
    ag_issuer_has_grown();
}
