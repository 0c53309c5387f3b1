/* SPDX-License-Identifier: MIT */
/* Hosts and guests: who may be one, and how their branches end. */
#include "engine/guests.h"

#include "driver/driver.h"
#include "engine/event.h"
#include "engine/failure.h"
#include "engine/issuer.h"
#include "engine/pinned.h"
#include "engine/query.h"
#include "engine/sequence.h"
#include "policy/policy.h"

/* Calls that may have given any stream work that the library does not count. */
static _Atomic uint64_t strange_calls;

void ag_guests_forget_all(void)
{
    atomic_fetch_add(&strange_calls, 1);
}

void ag_guests_start(struct ag_stream *stream)
{
    struct ag_visit *visit = &stream->visit;
    ag_guests_forget_all(); /* it may have been the one that others come before */
    atomic_store_explicit(&visit->behind, NULL, memory_order_relaxed);
    /* A context may go with its streams' sequences open. */
    atomic_store_explicit(&visit->host, NULL, memory_order_relaxed);
    atomic_store_explicit(&stream->hosting.guests, 0, memory_order_relaxed);
    visit->told = false;
    visit->away = visit->turned = 0;
    ag_backoff_reset(&visit->aways);
}

/* -- What comes before what ---------------------------------------------------------- */

/* All that the stream was given, `issued` ops, comes before the next op of the other, whose lock is
   held. */
static void come_before(struct ag_stream *stream, struct ag_stream *other, uint64_t issued)
{
    struct ag_visit *visit = &stream->visit;
    visit->issued = issued;
    visit->strange = atomic_load(&strange_calls);
    visit->number = other->seq.number;
    visit->depth = other->recorder.cursor->depth;
    atomic_store_explicit(&visit->behind, other, memory_order_release);
}

/* Whether their kinds allow it: only events order the guest's work with the host's. */
static bool have_kinds(const struct ag_stream *host, const struct ag_stream *guest)
{
    if (guest->id.kind == AG_STREAM_NONBLOCKING)
        return host->id.kind == AG_STREAM_NONBLOCKING || host->id.kind == AG_STREAM_LEGACY;
    return guest->id.kind == AG_STREAM_BLOCKING && host->id.kind == AG_STREAM_BLOCKING;
}

/* Whether they are of kinds and states of which one may be the other's guest. */
static bool are_apt(const struct ag_stream *host, const struct ag_stream *guest)
{
    return host != guest && host->id.live && guest->id.live &&
           host->id.context == guest->id.context && have_kinds(host, guest) &&
           ag_issuer_is_self(host) && ag_issuer_is_self(guest) && !host->seq.barred &&
           !guest->seq.barred &&
           !atomic_load_explicit(&host->id.context->shares, memory_order_relaxed);
}

void ag_guests_follow(struct ag_stream *stream, const struct ag_event_known *known)
{
    struct ag_stream *other = known->by;
    if (!ag_opt.trace_forks || other == NULL || other == stream || !ag_stream_trylock(other))
        return;
    if (are_apt(stream, other) && other->id.life == known->life && ag_guests_host(other) == NULL &&
        ag_guests_host(stream) == NULL && ag_issuer_issued(other) == known->issued) {
        come_before(other, stream, known->issued);
        ag_sequence_be_curious(other, true);
    }
    ag_stream_unlock(other);
}

/* Whether all that the guest was given comes before the record at that depth of the host's open
   sequence: it comes before an op of the host, or before all that another guest does there. */
static bool comes_before(const struct ag_stream *guest, const struct ag_stream *host,
                         uint32_t depth)
{
    const struct ag_visit *visit = &guest->visit;
    const struct ag_stream *behind = atomic_load_explicit(&visit->behind, memory_order_acquire);
    if (behind == NULL || visit->issued != ag_issuer_issued(guest) ||
        visit->strange != atomic_load(&strange_calls))
        return false;
    return behind == host || (ag_guests_host(behind) == host &&
                              host->hosting.fork.at[depth][behind->visit.branch] != 0);
}

/* -- Guests ---------------------------------------------------------------------------- */

/* The stream's priority, which never changes. False: the driver does not tell. */
static bool has_priority(struct ag_stream *stream)
{
    struct ag_visit *visit = &stream->visit;
    if (visit->told)
        return true;
    ag_depth++;
    CUresult result = ag_real.cuStreamGetPriority(stream->id.handle, &visit->priority);
    ag_depth--;
    ag_failure_note(stream, result, "asking for a priority");
    return visit->told = result == CUDA_SUCCESS;
}

/* The driver is not asked in vain at every fork. */
static bool have_one_priority(struct ag_stream *host, struct ag_stream *guest)
{
    if (has_priority(host) && has_priority(guest))
        return host->visit.priority == guest->visit.priority;
    guest->visit.away = ag_backoff_next(&guest->visit.aways, AG_FORK_AWAY);
    return false;
}

/* Whether the guest may come now: its last branches have joined, or it has stayed away for long
   enough. If it may not, the host's sequence ends, and its other guests are not to blame. */
static bool may_come(struct ag_stream *host, struct ag_stream *guest)
{
    if (guest->visit.away == 0)
        return true;
    host->hosting.away = --guest->visit.away;
    host->hosting.lacks = ag_guests_any(host);
    return false;
}

/* Whether the streams may be host and guest, from the record at that depth of the host's sequence
   on. */
static bool may_host(struct ag_stream *host, struct ag_stream *guest, uint32_t depth)
{
    return are_apt(host, guest) && ag_guests_host(host) == NULL && !ag_guests_any(guest) &&
           !ag_pinned_holds(host) && comes_before(guest, host, depth) && may_come(host, guest) &&
           have_one_priority(host, guest);
}

bool ag_guests_would_come(struct ag_stream *host, struct ag_stream *guest)
{
    return may_host(host, guest, AG_MOST_LENGTH);
}

/* The open sequence's op at that depth; NULL: it has no node. */
static struct ag_node *node_at(const struct ag_stream *host, uint32_t depth)
{
    struct ag_node *node = host->recorder.cursor;
    while (node->depth > depth && node->parent != NULL)
        node = node->parent;
    return node->depth == depth && !ag_recorder_is_unseen(&host->recorder) ? node : NULL;
}

/* Its token; 0: it has no node. */
static uint64_t token_at(const struct ag_stream *host, uint32_t depth)
{
    const struct ag_node *node = node_at(host, depth);
    return node != NULL ? node->op.token : 0;
}

/* The guest is one from the record at that depth on. */
static void admit(struct ag_stream *host, struct ag_stream *guest, uint32_t depth)
{
    struct ag_hosting *hosting = &host->hosting;
    unsigned branch = hosting->guests + 1;
    if (branch == 1) {
        hosting->fork = (struct ag_fork){0};
        hosting->fork.at[depth][0] = (uint8_t)depth;
        hosting->taken = 0;
        hosting->turns = false;
        hosting->origin = token_at(host, depth);
        ag_recorder_begins_fork(&host->recorder, hosting->origin);
    }
    hosting->guest[branch] = (struct ag_guest){.stream = guest,
                                               .handle = guest->id.handle,
                                               .life = guest->id.life,
                                               .issued = ag_issuer_issued(guest)};
    guest->visit.branch = branch;
    hosting->guests = branch;
    ag_sequence_be_curious(guest, true);
    atomic_store_explicit(&guest->visit.host, host, memory_order_release);
}

/* The host's open sequence waits for the guest itself, by an event that will be recorded again in
   the branch: it would have to end there. So the next one begins with the record from which the
   guest forks, and has that wait at its end. If that does not help the guest stays away. */
static enum ag_admission turn_round(struct ag_stream *host, struct ag_stream *guest, uint32_t depth)
{
    struct ag_visit *visit = &guest->visit;
    if (visit->turned == AG_FORK_TURNS)
        visit->away = ag_backoff_next(&visit->aways, AG_FORK_AWAY);
    visit->turned = visit->turned == AG_FORK_TURNS ? 0 : visit->turned + 1;
    host->hosting.origin = token_at(host, depth);
    host->hosting.turns = true;
    return AG_ADMIT_LATER;
}

enum ag_admission ag_guests_admit(struct ag_stream *host, struct ag_stream *guest, CUevent event)
{
    uint32_t depth = ag_event_depth(event, host);
    if (depth == 0 || host->hosting.guests + 1 == AG_BRANCHES || !may_host(host, guest, depth) ||
        (ag_sequence_holds(host) && ag_query_captures(guest->id.handle)))
        return AG_ADMIT_NOT;
    bool here = guest->visit.behind == host && guest->visit.number == host->seq.number;
    if (here && guest->visit.depth != 0)
        return turn_round(host, guest, depth);
    admit(host, guest, depth);
    return AG_ADMITTED;
}

void ag_guests_take(struct ag_stream *host, const struct ag_op *op)
{
    struct ag_hosting *hosting = &host->hosting;
    uint32_t depth = host->recorder.cursor->depth + 1;
    unsigned branch = ag_op_branch(op);
    hosting->before = hosting->fork.ways;
    hosting->taken = depth;
    hosting->guest[branch].issued++;
    ag_fork_take(&hosting->fork, op, depth);
    ag_recorder_forks(&host->recorder, ag_ways_are_joined(&hosting->fork.ways), depth);
}

void ag_guests_lose_event(struct ag_stream *host, CUevent event)
{
    uint32_t depth = ag_event_depth(event, host);
    struct ag_node *node = depth != 0 ? node_at(host, depth) : NULL;
    if (node == NULL || node->args == NULL)
        return;
    struct ag_event_arguments arguments = ag_node_event_arguments(node);
    arguments.serial = AG_EVENT_GONE;
    memcpy(node->args, &arguments, sizeof arguments);
}

bool ag_guests_have_joined(const struct ag_stream *host)
{
    return !ag_guests_any(host) || ag_ways_are_joined(&host->hosting.fork.ways);
}

/* The guest at that branch leaves. It may come again at once if it had ops and they have been
   waited for. */
static void leave(struct ag_stream *host, unsigned branch, const struct ag_ways *ways)
{
    const struct ag_guest *guest = &host->hosting.guest[branch];
    struct ag_stream *stream = guest->stream;
    struct ag_visit *visit = &stream->visit;
    bool joined = ways->last[branch] <= ways->seen[0][branch];
    if (atomic_load(&stream->id.life) != guest->life || ag_guests_host(stream) != host)
        return;
    if (joined)
        come_before(stream, host, guest->issued);
    else
        ag_guests_forget(stream);
    if (joined && ways->last[branch] != 0) {
        ag_backoff_reset(&visit->aways);
        visit->turned = 0;
    } else if (host->hosting.lacks) { /* they come again at one time */
        visit->away = host->hosting.away;
    } else if (!host->hosting.turns) {
        visit->away = ag_backoff_next(&visit->aways, AG_FORK_AWAY);
    }
    atomic_store_explicit(&visit->host, NULL, memory_order_release);
}

void ag_guests_end_slow(struct ag_stream *host)
{
    struct ag_hosting *hosting = &host->hosting;
    const struct ag_ways *ways =
        hosting->taken > host->recorder.cursor->depth ? &hosting->before : &hosting->fork.ways;
    for (unsigned i = 1; i <= hosting->guests; i++)
        leave(host, i, ways);
    hosting->guests = 0;
    hosting->turns = hosting->lacks = false;
}

/* -- Submitting ------------------------------------------------------------------------ */

/* What comes next in the stream comes behind the event; if need be the host waits. */
static void wait_for(struct ag_stream *host, CUstream handle, CUevent event)
{
    CUresult result = ag_real.cuStreamWaitEvent(handle, event, 0);
    if (result == CUDA_SUCCESS)
        return;
    ag_failure_note(host, result, "waiting for a branch");
    ag_failure_note(host, ag_real.cuEventSynchronize(event), "waiting for a branch on the host");
}

void ag_guests_replayed(struct ag_stream *host, const struct ag_trace *trace)
{
    for (unsigned i = 1; i < trace->ends.branches; i++) {
        const struct ag_step *last = &trace->step[trace->ends.last[i]];
        wait_for(host, host->hosting.guest[i].handle,
                 last->own != 0 ? trace->ends.own[last->own - 1] : ag_node_event(last->node));
    }
}
