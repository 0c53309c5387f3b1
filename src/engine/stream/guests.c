/* SPDX-License-Identifier: MIT */
/* Hosts and guests: who may be one, and how their branches end. */
#include "engine/stream/guests.h"

#include "driver/driver.h"
#include "engine/context/query.h"
#include "engine/stream/event.h"
#include "engine/stream/failure.h"
#include "engine/stream/issuer.h"
#include "engine/stream/paths.h"
#include "engine/stream/pinned.h"
#include "engine/stream/sequence.h"
#include "mutant.h"
#include "policy/policy.h"

void ag_guests_forget_all(void)
{
    atomic_fetch_add(&ag_issuer_strange_calls, 1);
}

void ag_guests_start(struct ag_stream *stream)
{
    struct ag_visit *visit = &stream->visit;
    atomic_store_explicit(&visit->behind, NULL, memory_order_relaxed);
    /* A context may go with its streams' sequences open. */
    atomic_store_explicit(&visit->host, NULL, memory_order_relaxed);
    atomic_store_explicit(&stream->hosting.guests, 0, memory_order_relaxed);
    visit->told = false;
    visit->away = visit->turned = 0;
    ag_backoff_reset(&visit->aways);
}

/* -- What comes before what ---------------------------------------------------------- */

/* All that the stream was given by this number comes before the next op of the other. That will be
   one of the open sequence of `within`, whose lock is held. */
static void come_before(struct ag_stream *stream, struct ag_stream *other, uint64_t given,
                        const struct ag_stream *within)
{
    stream->visit.waited = (struct ag_waited_for){.given = given,
                                                  .life = atomic_load(&other->id.life),
                                                  .within = within,
                                                  .number = within->seq.number,
                                                  .depth = within->recorder.cursor->depth};
    atomic_store_explicit(&stream->visit.behind, other, memory_order_release);
}

/* Whether their kinds allow it: only events order the guest's work with the host's. */
static bool have_kinds(const struct ag_stream *host, const struct ag_stream *guest)
{
    if (AG_MUTANT(kinds_mixed))
        return true;
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

/* The recording stream, which is locked, as far as that is known. Not where it is the host itself,
   whose lock is not taken twice. */
static void follow(struct ag_stream *stream, struct ag_stream *other, uint32_t life, uint64_t given)
{
    struct ag_stream *host = ag_guests_host(stream);
    if (host == other || !are_apt(stream, other) || other->id.life != life ||
        ag_guests_host(other) != NULL || ag_issuer_given(other) != given ||
        (host != NULL && !ag_stream_trylock(host)))
        return;
    come_before(other, stream, given, host != NULL ? host : stream);
    ag_sequence_be_curious(other, true);
    if (host != NULL)
        ag_stream_unlock(host);
}

void ag_guests_follow(struct ag_stream *stream, const struct ag_event_known *known)
{
    struct ag_stream *other = known->by;
    if (!ag_opt.trace_forks || other == NULL || other == stream || !ag_stream_trylock(other))
        return;
    follow(stream, other, known->life, known->given);
    ag_stream_unlock(other);
}

/* Whether the stream's lock is not needed, or is had. */
static bool enter(struct ag_stream *stream, const struct ag_stream *locked)
{
    return stream == locked || (ag_issuer_is_self(stream) && ag_stream_trylock(stream));
}

/* The stream before whose op all comes that this one was given; NULL: not known. */
static struct ag_stream *step_behind(struct ag_stream *stream, const struct ag_stream *locked,
                                     struct ag_waited_for *waited)
{
    struct ag_stream *behind = NULL;
    if (!enter(stream, locked))
        return NULL;
    *waited = stream->visit.waited;
    if (waited->given == ag_issuer_given(stream))
        behind = atomic_load_explicit(&stream->visit.behind, memory_order_acquire);
    if (behind != NULL && atomic_load(&behind->id.life) != waited->life)
        behind = NULL;
    if (stream != locked)
        ag_stream_unlock(stream);
    return behind;
}

/* How all that a stream was given stands to a host's open sequence. */
enum standing {
    UNKNOWN,
    WITHIN, /* it comes before an op of the sequence */
    BEFORE, /* it comes before the sequence */
};

/* It comes before an op of the host, or before all that a guest had been given before it came,
   which comes before the sequence; maybe by way of further streams. */
static enum standing stands(struct ag_stream *stream, const struct ag_stream *host)
{
    const struct ag_stream *first = stream;
    enum standing standing = BEFORE;
    for (unsigned i = 0; i < AG_BRANCHES; i++) {
        struct ag_waited_for waited;
        stream = step_behind(stream, first, &waited);
        if (stream == NULL)
            return AG_MUTANT(guest_unordered) ? BEFORE : UNKNOWN;
        if (waited.within == host && waited.number == host->seq.number && waited.depth != 0 &&
            !AG_MUTANT(guest_within))
            standing = WITHIN;
        if (stream == host || ag_guests_host(stream) == host)
            return standing;
    }
    return UNKNOWN;
}

/* -- Who stays away ---------------------------------------------------------------------- */

/* The number of the time that may be a trial. */
static uint32_t trial(void)
{
    return ag_self.forks / AG_FORK_TRIAL;
}

/* A branch has not joined: the guest comes less often from the next trial on. */
static void stay_away(struct ag_visit *visit)
{
    if (visit->away == 0 || visit->trial != trial())
        visit->away = ag_backoff_next(&visit->aways, AG_FORK_AWAY);
    visit->trial = trial();
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

/* If the driver does not tell a priority the guest stays away, so that not every fork asks again.
 */
static bool have_one_priority(struct ag_stream *host, struct ag_stream *guest)
{
    if (has_priority(host) && has_priority(guest))
        return host->visit.priority == guest->visit.priority || AG_MUTANT(priorities_mixed);
    stay_away(&guest->visit);
    return false;
}

/* Whether the guest may come now: its last branches have joined, or this is a trial. Trials are for
   all streams of the thread at one time, or those that fork together would never meet. */
static bool may_come(const struct ag_stream *guest)
{
    const struct ag_visit *visit = &guest->visit;
    /* Multiples of the golden section spread evenly: trials meet each place of a loop of any
     * period. */
    uint64_t place = trial() * 0x9e3779b97f4a7c15u;
    ag_self.forks++;
    return visit->away == 0 || visit->trial == trial() || place <= UINT64_MAX / visit->away;
}

/* Where the guest's earlier work stands to the host's sequence. UNKNOWN, too, if these two cannot
   be guest and host now. */
static enum standing may_host(struct ag_stream *host, struct ag_stream *guest)
{
    if (!are_apt(host, guest) || ag_guests_host(host) != NULL || ag_guests_any(guest) ||
        ag_pinned_holds(host))
        return UNKNOWN;
    enum standing standing = stands(guest, host);
    bool may = standing != UNKNOWN && may_come(guest) && have_one_priority(host, guest);
    return may ? standing : UNKNOWN;
}

/* The host moves the begin or the end of its sequence for the sake of this guest. If a few moves in
   a row have not made it one, the stream stays away. */
static void count_turn(struct ag_visit *visit)
{
    if (visit->turned == AG_FORK_TURNS)
        stay_away(visit);
    visit->turned = visit->turned == AG_FORK_TURNS ? 0 : visit->turned + 1;
}

bool ag_guests_would_come(struct ag_stream *host, struct ag_stream *guest)
{
    if (may_host(host, guest) != BEFORE)
        return false;
    count_turn(&guest->visit);
    return true;
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

/* Makes the stream a guest from the host's op at that depth on, which is the record. */
static void admit(struct ag_stream *host, struct ag_stream *guest, uint32_t depth)
{
    struct ag_hosting *hosting = &host->hosting;
    unsigned branch = hosting->guests + 1;
    if (branch == 1) {
        hosting->fork = (struct ag_fork){0};
        hosting->taken = 0;
        hosting->turns = false;
        ag_recorder_begins_fork(&host->recorder, token_at(host, depth));
    }
    hosting->guest[branch] = (struct ag_guest){.stream = guest,
                                               .handle = guest->id.handle,
                                               .life = guest->id.life,
                                               .given = ag_issuer_given(guest)};
    guest->visit.branch = branch;
    hosting->guests = branch;
    ag_sequence_be_curious(guest, true);
    atomic_store_explicit(&guest->visit.host, host, memory_order_release);
}

/* The host's open sequence has waited for the guest itself, by an event that will be recorded again
   in the branch: it would have to end there. So it ends now, and a later one begins with the record
   from which the guest forks, and has that wait at its end. */
static void turn_round(struct ag_stream *host, struct ag_stream *guest)
{
    count_turn(&guest->visit);
    host->hosting.turns = true;
    host->hosting.next = guest;
    host->hosting.next_life = guest->id.life;
}

bool ag_guests_begin(struct ag_stream *host)
{
    struct ag_hosting *hosting = &host->hosting;
    struct ag_stream *next = hosting->next;
    if (host->recorder.cursor->depth == 0 || !ag_guests_have_joined(host) ||
        !ag_stream_trylock(next))
        return false;
    bool lives = next->id.life == hosting->next_life && ag_guests_host(next) == NULL;
    bool begins = lives && stands(next, host) != UNKNOWN;
    ag_stream_unlock(next);
    if (begins || !lives)
        hosting->next = NULL;
    return begins;
}

bool ag_guests_admit(struct ag_stream *host, struct ag_stream *guest, CUevent event)
{
    uint32_t depth = ag_event_depth(event, host);
    if (depth == 0 || host->hosting.guests + 1 == AG_BRANCHES ||
        !ag_context_has_branches(host->id.context, host->hosting.guests + 2))
        return false;
    enum standing standing = may_host(host, guest);
    if (standing == UNKNOWN || (ag_sequence_holds(host) && ag_query_captures(guest->id.handle)))
        return false;
    if (standing == WITHIN)
        turn_round(host, guest);
    else
        admit(host, guest, depth);
    return standing == BEFORE;
}

void ag_guests_take(struct ag_stream *host, const struct ag_op *op)
{
    struct ag_hosting *hosting = &host->hosting;
    uint32_t depth = host->recorder.cursor->depth + 1;
    unsigned branch = ag_op_branch(op);
    hosting->before = hosting->fork.ways;
    hosting->taken = depth;
    hosting->guest[branch].given++;
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
        come_before(stream, host, guest->given, host);
    else
        atomic_store_explicit(&visit->behind, NULL, memory_order_relaxed);
    if (joined && ways->last[branch] != 0) {
        ag_backoff_reset(&visit->aways);
        visit->away = visit->turned = 0;
    } else if (!host->hosting.turns) {
        stay_away(visit);
    }
    atomic_store_explicit(&visit->host, NULL, memory_order_release);
}

void ag_guests_end_slow(struct ag_stream *host)
{
    struct ag_hosting *hosting = &host->hosting;
    bool lost = hosting->taken > host->recorder.cursor->depth; /* the op is none of the sequence */
    for (unsigned i = 1; i <= hosting->guests; i++) {
        hosting->guest[i].given -= lost && hosting->fork.ways.last[i] == hosting->taken;
        leave(host, i, lost ? &hosting->before : &hosting->fork.ways);
    }
    hosting->guests = 0;
    hosting->turns = false;
}

/* -- Submitting ------------------------------------------------------------------------ */

/* What comes next in the stream comes behind the event. If the driver refuses that the host waits:
   the order is kept, though a kernel may wait for the host (docs/semantics.md, "Known gaps"). */
static void wait_for(struct ag_stream *host, CUstream handle, CUevent event)
{
    CUresult result = ag_real.cuStreamWaitEvent(handle, event, 0);
    if (result == CUDA_SUCCESS)
        return;
    ag_failure_note(host, result, "waiting for a branch");
    ag_failure_note(host, ag_real.cuEventSynchronize(event), "waiting for a branch on the host");
}

/* Each wait finds room in its stream where the program's calls would have found it: the branch has
   a wait and a record at least, which take no place there. */
void ag_guests_replayed(struct ag_stream *host, const struct ag_trace *trace)
{
    for (unsigned i = 1; i < trace->ends.branches && !AG_MUTANT(guest_goes_on); i++) {
        const struct ag_step *last = &trace->step[trace->ends.last[i]];
        wait_for(host, host->hosting.guest[i].handle,
                 last->own != 0 ? trace->ends.own[last->own - 1] : ag_node_event(last->node));
    }
}
