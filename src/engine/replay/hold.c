/* SPDX-License-Identifier: MIT */
/* Whether a sequence is held, which its head decides. */
#include "engine/replay/hold.h"

#include "engine/context/query.h"
#include "engine/decide/launch_model.h"
#include "engine/decide/trials.h"
#include "engine/replay/relay.h"
#include "engine/stream/sequence.h"

/* Why the stream cannot hold now. AG_WHY_HELD: it can, and has been prepared. A single op is
   submitted before its call returns: no other thread will do it. */
static enum ag_why prepare(struct ag_stream *stream, const struct ag_node *head)
{
    if (ag_query_captures(stream->id.handle)) /* begun by a call that no door saw */
        return AG_WHY_BANNED;
    ag_sequence_turn(stream, AG_RECORDING);
    if (ag_recorder_ends(&stream->recorder, head))
        return AG_WHY_HELD;
    if (stream->id.kind == AG_STREAM_PER_THREAD && !ag_relay_prepare(stream))
        return AG_WHY_RELAY;
    return ag_sequence_watch(stream) ? AG_WHY_HELD : AG_WHY_BANNED; /* the library has stopped */
}

enum ag_why ag_hold_begins(struct ag_stream *stream, struct ag_node *head)
{
    if (!ag_trials_hold(stream))
        return ag_trials_are_eager(stream) ? AG_WHY_TRIAL : AG_WHY_REST;
    enum ag_why why = prepare(stream, head);
    if (why != AG_WHY_HELD)
        return why;
    ag_sequence_turn(stream, AG_HOLDING);
    ag_model_begun(stream);
    return AG_WHY_HELD;
}
