/* SPDX-License-Identifier: MIT */
/* Ops that go straight to the driver, because their stream rests. */
#include "engine/engine.h"

#include "engine/base/branch.h"
#include "engine/replay/registry.h"
#include "engine/stream/copies.h"
#include "engine/stream/eager.h"
#include "engine/stream/event.h"
#include "engine/stream/issuer.h"

/* Whether the thread knows the state of the stream of this slot. */
static inline bool is_known(const struct ag_found *found)
{
    return found->stream != NULL &&
           found->life == atomic_load_explicit(&found->stream->id.life, memory_order_acquire);
}

static inline struct ag_passing passing_of(const struct ag_found *found, uint64_t heads,
                                           _Atomic uint32_t *left)
{
    return (struct ag_passing){.key = ag_passing_key(found->key, found->ptsz),
                               .life = found->life,
                               .living = &found->stream->id.life,
                               .heads = heads,
                               .left = left,
                               .passed = &found->stream->issuer.passed};
}

/* Without the stream's lock, if this thread has issued the ops before. A copy passes, too, that is
   taken for one that cannot be held, a barrier to the recorder: behind another one it changes
   nothing. */
bool ag_engine_passes(CUstream handle, bool ptsz, enum ag_op_kind kind, CUfunction func,
                      uint32_t grid)
{
    const struct ag_found *found = ag_stream_slot(handle);
    struct ag_stream *stream = found->stream;
    ag_passing.key = 0;
    if (atomic_load(&ag_subscribers) != 0 || atomic_load(&ag_refused) != 0 || !is_known(found))
        return false;
    bool rests = ag_recorder_rests(&stream->recorder);
    if ((LIKELY(!rests) && kind != AG_OP_COPY) || found->key != handle || found->ptsz != ptsz ||
        AG_NOTING() ||
        atomic_load_explicit(&stream->issuer.thread, memory_order_relaxed) != &ag_self)
        return false;
    uint64_t heads = atomic_load_explicit(&stream->recorder.resting.heads, memory_order_relaxed);
    _Atomic uint32_t *left = &stream->recorder.resting.ops;
    if (!rests || (heads & ag_mark(kind, func, grid)) != 0) {
        if (kind != AG_OP_COPY || !ag_eager_was_unrecorded(stream))
            return false;
        heads = AG_COPIES_PASS;
        left = &stream->copies.next;
    }
    if (!ag_copies_take(left))
        return false;
    ag_passing = passing_of(found, heads, left);
    ag_event_unseen(); /* ops that pass may be records */
    ag_issuer_passed(stream);
    ag_self.eager = NULL;
    return true;
}

bool ag_engine_stream_rests(CUstream handle)
{
    const struct ag_found *found = ag_stream_slot(handle);
    return is_known(found) && ag_recorder_rests(&found->stream->recorder);
}
