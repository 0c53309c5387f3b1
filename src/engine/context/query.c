/* SPDX-License-Identifier: MIT */
/* Questions to the driver about a stream. */
#include "engine/context/query.h"

#include "driver/driver.h"
#include "engine/context/context.h"
#include "engine/hot.h"

bool ag_query_relax(CUstreamCaptureMode *mode)
{
    *mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    bool done = ag_real.cuThreadExchangeStreamCaptureMode(mode) == CUDA_SUCCESS;
    if (!done)
        atomic_fetch_add(&ag_context_errors, 1);
    return done;
}

void ag_query_unrelax(CUstreamCaptureMode mode)
{
    if (ag_real.cuThreadExchangeStreamCaptureMode(&mode) != CUDA_SUCCESS)
        atomic_fetch_add(&ag_context_errors, 1);
}

bool ag_query_is_done(CUstream handle)
{
    CUstreamCaptureMode mode;
    if (!ag_query_relax(&mode))
        return false;
    bool done = ag_real.cuStreamQuery(handle) == CUDA_SUCCESS;
    ag_query_unrelax(mode);
    return done;
}

bool ag_query_is_idle(CUstream handle)
{
    atomic_fetch_add(&ag_capture_breakers, 1);
    bool idle = !ag_captures_about() && ag_query_is_done(handle);
    atomic_fetch_sub(&ag_capture_breakers, 1);
    return idle;
}

bool ag_query_has_run(CUevent event)
{
    CUstreamCaptureMode mode;
    if (!ag_query_relax(&mode))
        return false;
    bool done = ag_real.cuEventQuery(event) == CUDA_SUCCESS;
    ag_query_unrelax(mode);
    return done;
}

static bool is_settled(struct ag_context *context)
{
    unsigned number;
    CUevent event;
    while (!ag_orphans_is_settled(&context->orphans) &&
           (event = ag_orphans_oldest(&context->orphans, &number)) != NULL &&
           ag_query_has_run(event))
        ag_orphans_happened(&context->orphans, number);
    return ag_orphans_is_settled(&context->orphans);
}

bool ag_query_is_settled(struct ag_context *context)
{
    if (atomic_load(&ag_context_unknown))
        return false;
    if (context != NULL)
        return is_settled(context);
    while ((context = ag_context_next(context)) != NULL)
        if (!is_settled(context))
            return false;
    return true;
}
