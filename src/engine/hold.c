/* SPDX-License-Identifier: MIT */
/* Whether a sequence is held, which its head decides. */
#include "engine/hold.h"

#include "engine/account.h"
#include "engine/execs.h"
#include "engine/pace.h"
#include "engine/query.h"
#include "engine/relay.h"
#include "engine/sequence.h"
#include "engine/trial.h"

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

/* A trial of the head is lost. */
static void give_up(struct ag_stream *stream, struct ag_node *head)
{
    ag_execs_drop_of(stream, head, 0);
    if (stream->recorder.tree.root.below != 0)
        return;
    ag_recorder_unpaid(&stream->recorder);
    ag_trial_forgives(head);
}

bool ag_hold_begins(struct ag_stream *stream, struct ag_node *head)
{
    enum ag_trial_verdict verdict = ag_trial_of(stream, head);
    if (__builtin_expect(verdict >= AG_TRIAL_KEEP, 0))
        AG_ACCOUNT(ag_account_trial(stream, head, verdict == AG_TRIAL_GIVE_UP));
    if (verdict == AG_TRIAL_GIVE_UP)
        give_up(stream, head);
    if (verdict == AG_TRIAL_EAGER || verdict == AG_TRIAL_GIVE_UP)
        return false;
    if (!prepare(stream, head)) {
        ag_trial_drop(stream);
        return false;
    }
    ag_sequence_turn(stream, AG_HOLDING);
    ag_pace_begun(stream);
    return true;
}
