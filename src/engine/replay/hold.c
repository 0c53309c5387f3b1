/* SPDX-License-Identifier: MIT */
/* Whether a sequence is held, which its head decides. */
#include "engine/replay/hold.h"

#include "engine/context/query.h"
#include "engine/decide/pace.h"
#include "engine/decide/turns.h"
#include "engine/replay/relay.h"
#include "engine/stream/sequence.h"

/* Whether the stream can hold now, which has been prepared then. A single op is submitted before
   its call returns: no other thread will do it. */
static bool prepare(struct ag_stream *stream, const struct ag_node *head)
{
    if (ag_query_captures(stream->id.handle))
        return false;
    ag_sequence_turn(stream, AG_RECORDING);
    if (ag_recorder_ends(&stream->recorder, head))
        return true;
    if (stream->id.kind == AG_STREAM_PER_THREAD && !ag_relay_prepare(stream))
        return false;
    return ag_sequence_watch(stream);
}

bool ag_hold_begins(struct ag_stream *stream, struct ag_node *head)
{
    if (!ag_turns_hold(stream) || !prepare(stream, head))
        return false;
    ag_sequence_turn(stream, AG_HOLDING);
    ag_pace_begun(stream);
    return true;
}
