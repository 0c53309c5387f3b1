/* SPDX-License-Identifier: MIT */
/* Failed driver calls: what the program is told, and what the log says. */
#include "engine/stream/failure.h"

#include "engine/hot.h"
#include "mutant.h"
#include "observe/log.h"

void ag_failure_note_slow(struct ag_stream *stream, CUresult result, const char *what)
{
    stream->counters.errors++;
    ag_log(AG_LOG_WARNING, "CUDA error %d when %s", (int)result, what);
}

bool ag_failure_refused(struct ag_stream *stream, CUresult result, const char *what)
{
    if (__builtin_expect(result == CUDA_SUCCESS, 1))
        return false;
    ag_failure_note(stream, result, what);
    int none = CUDA_SUCCESS;
    if (AG_MUTANT(refusal_untold))
        return true;
    if (atomic_compare_exchange_strong(&stream->id.context->refused, &none, (int)result))
        atomic_fetch_add(&ag_refused, 1);
    return true;
}

void ag_failure_spoil(struct ag_stream *stream, struct ag_node *node)
{
    struct ag_refusals *refusals = &stream->refusals;
    if (!AG_MUTANT(refused_is_held))
        node->blacklisted |= AG_BLACKLISTED;
    refusals->until = stream->counters.ops + ag_backoff_next(&refusals->again, AG_BAD_OPS);
}

void ag_failure_forgive_slow(struct ag_stream *stream)
{
    stream->refusals.until = 0;
    ag_tree_forgive(&stream->recorder.tree);
}
