/* SPDX-License-Identifier: MIT */
/* Which streams become branches of a sequence, and how the branches end. */
#include "engine/stream/branches.h"

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

void ag_branches_forget_all(void)
{
    atomic_fetch_add(&ag_issuer_unknown_calls, 1);
}

void ag_branches_start(struct ag_stream *stream)
{
    struct ag_branching *branching = &stream->branching;
    atomic_store_explicit(&branching->behind, NULL, memory_order_relaxed);
    /* A context may go with its streams' sequences open. */
    atomic_store_explicit(&branching->origin, NULL, memory_order_relaxed);
    atomic_store_explicit(&stream->forked.branches, 0, memory_order_relaxed);
    branching->told = false;
    branching->suspended = branching->rebegun = 0;
    ag_backoff_reset(&branching->suspensions);
}

/* -- What comes before what ---------------------------------------------------------- */

/* All that the stream was given by this number comes before the next op of the other. That will be
   one of the open sequence of `within`, whose lock is held. */
static void come_before(struct ag_stream *stream, struct ag_stream *other, uint64_t given,
                        const struct ag_stream *within)
{
    stream->branching.waited = (struct ag_waited_for){.given = given,
                                                      .life = atomic_load(&other->id.life),
                                                      .within = within,
                                                      .number = within->seq.number,
                                                      .depth = within->recorder.cursor->depth};
    atomic_store_explicit(&stream->branching.behind, other, memory_order_release);
}

/* Whether their kinds allow it: only events order the branch's work with the origin's. */
static bool have_kinds(const struct ag_stream *origin, const struct ag_stream *branch)
{
    if (AG_MUTANT(kinds_mixed))
        return true;
    if (branch->id.kind == AG_STREAM_NONBLOCKING)
        return origin->id.kind == AG_STREAM_NONBLOCKING || origin->id.kind == AG_STREAM_LEGACY;
    return branch->id.kind == AG_STREAM_BLOCKING && origin->id.kind == AG_STREAM_BLOCKING;
}

/* Whether they are of kinds and states of which one may be the other's branch. */
static bool are_apt(const struct ag_stream *origin, const struct ag_stream *branch)
{
    return origin != branch && origin->id.live && branch->id.live &&
           origin->id.context == branch->id.context && have_kinds(origin, branch) &&
           ag_issuer_is_self(origin) && ag_issuer_is_self(branch) && !origin->seq.barred &&
           !branch->seq.barred &&
           !atomic_load_explicit(&origin->id.context->shares, memory_order_relaxed);
}

/* The recording stream, which is locked, as far as that is known. Not where it is the origin
   itself, whose lock is not taken twice. */
static void follow(struct ag_stream *stream, struct ag_stream *other, uint32_t life, uint64_t given)
{
    struct ag_stream *origin = ag_branches_origin(stream);
    if (origin == other || !are_apt(stream, other) || other->id.life != life ||
        ag_branches_origin(other) != NULL || ag_issuer_given(other) != given ||
        (origin != NULL && !ag_stream_trylock(origin)))
        return;
    come_before(other, stream, given, origin != NULL ? origin : stream);
    ag_sequence_subscribe(other, true);
    if (origin != NULL)
        ag_stream_unlock(origin);
}

void ag_branches_follow(struct ag_stream *stream, const struct ag_event_known *known)
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
    *waited = stream->branching.waited;
    if (waited->given == ag_issuer_given(stream))
        behind = atomic_load_explicit(&stream->branching.behind, memory_order_acquire);
    if (behind != NULL && atomic_load(&behind->id.life) != waited->life)
        behind = NULL;
    if (stream != locked)
        ag_stream_unlock(stream);
    return behind;
}

/* How all that a stream was given stands to an origin's open sequence. */
enum standing {
    UNKNOWN,
    WITHIN, /* it comes before an op of the sequence */
    BEFORE, /* it comes before the sequence */
};

/* It comes before an op of the origin, or before all that a branch had been given before it came,
   which comes before the sequence; maybe by way of further streams. */
static enum standing stands(struct ag_stream *stream, const struct ag_stream *origin)
{
    const struct ag_stream *first = stream;
    enum standing standing = BEFORE;
    for (unsigned i = 0; i < AG_BRANCHES; i++) {
        struct ag_waited_for waited;
        stream = step_behind(stream, first, &waited);
        if (stream == NULL)
            return AG_MUTANT(branch_unordered) ? BEFORE : UNKNOWN;
        if (waited.within == origin && waited.number == origin->seq.number && waited.depth != 0 &&
            !AG_MUTANT(branch_within))
            standing = WITHIN;
        if (stream == origin || ag_branches_origin(stream) == origin)
            return standing;
    }
    return UNKNOWN;
}

/* -- Who is suspended ---------------------------------------------------------------------- */

/* The number of the time that may be a probe. */
static uint32_t probe(void)
{
    return ag_self.forks / AG_FORK_PROBE;
}

/* The branch has not joined: it comes less often from the next probe on. */
static void suspend(struct ag_branching *branching)
{
    if (branching->suspended == 0 || branching->probe != probe())
        branching->suspended = ag_backoff_next(&branching->suspensions, AG_FORK_SUSPENDED);
    branching->probe = probe();
}

/* -- Branches ---------------------------------------------------------------------------- */

/* The stream's priority, which never changes. False: the driver does not tell. */
static bool has_priority(struct ag_stream *stream)
{
    struct ag_branching *branching = &stream->branching;
    if (branching->told)
        return true;
    ag_depth++;
    CUresult result = ag_real.cuStreamGetPriority(stream->id.handle, &branching->priority);
    ag_depth--;
    ag_failure_note(stream, result, "asking for a priority");
    return branching->told = result == CUDA_SUCCESS;
}

/* If the driver does not tell a priority it is suspended, so that not every fork asks again.
 */
static bool have_one_priority(struct ag_stream *origin, struct ag_stream *branch)
{
    if (has_priority(origin) && has_priority(branch))
        return origin->branching.priority == branch->branching.priority ||
               AG_MUTANT(priorities_mixed);
    suspend(&branch->branching);
    return false;
}

/* Whether the branch may come now: it joined the last times, or this is a probe. Probes are for
   all streams of the thread at one time, or those that fork together would never meet. */
static bool may_come(const struct ag_stream *branch)
{
    const struct ag_branching *branching = &branch->branching;
    /* Multiples of the golden section spread evenly: probes meet each place of a loop of any
     * period. */
    uint64_t place = probe() * 0x9e3779b97f4a7c15u;
    ag_self.forks++;
    return branching->suspended == 0 || branching->probe == probe() ||
           place <= UINT64_MAX / branching->suspended;
}

/* Where the branch's earlier work stands to the origin's sequence. UNKNOWN, too, if these two
   cannot be branch and origin now. */
static enum standing may_fork(struct ag_stream *origin, struct ag_stream *branch)
{
    if (!are_apt(origin, branch) || ag_branches_origin(origin) != NULL || ag_branches_any(branch) ||
        ag_pinned_holds(origin))
        return UNKNOWN;
    enum standing standing = stands(branch, origin);
    bool may = standing != UNKNOWN && may_come(branch) && have_one_priority(origin, branch);
    return may ? standing : UNKNOWN;
}

/* The origin moves the begin or the end of its sequence for the sake of this branch. If a few moves
   in a row have not made it one, the stream is suspended. */
static void count_rebegin(struct ag_branching *branching)
{
    if (branching->rebegun == AG_FORK_REBEGINS)
        suspend(branching);
    branching->rebegun = branching->rebegun == AG_FORK_REBEGINS ? 0 : branching->rebegun + 1;
}

bool ag_branches_would_come(struct ag_stream *origin, struct ag_stream *branch)
{
    if (may_fork(origin, branch) != BEFORE)
        return false;
    count_rebegin(&branch->branching);
    return true;
}

/* The open sequence's op at that depth; NULL: it has no node. */
static struct ag_node *node_at(const struct ag_stream *origin, uint32_t depth)
{
    struct ag_node *node = origin->recorder.cursor;
    while (node->depth > depth && node->parent != NULL)
        node = node->parent;
    return node->depth == depth && !ag_recorder_is_unseen(&origin->recorder) ? node : NULL;
}

/* Its token; 0: it has no node. */
static uint64_t token_at(const struct ag_stream *origin, uint32_t depth)
{
    const struct ag_node *node = node_at(origin, depth);
    return node != NULL ? node->op.token : 0;
}

/* Makes the stream a branch from the origin's op at that depth on, which is the record. */
static void admit(struct ag_stream *origin, struct ag_stream *branch, uint32_t depth)
{
    struct ag_forked *forked = &origin->forked;
    unsigned number = forked->branches + 1;
    if (number == 1) {
        forked->fork = (struct ag_fork){0};
        forked->taken = 0;
        forked->rebegins = false;
        ag_recorder_begins_fork(&origin->recorder, token_at(origin, depth));
    }
    forked->branch[number] = (struct ag_forked_branch){.stream = branch,
                                                       .handle = branch->id.handle,
                                                       .life = branch->id.life,
                                                       .given = ag_issuer_given(branch)};
    branch->branching.number = number;
    forked->branches = number;
    ag_sequence_subscribe(branch, true);
    atomic_store_explicit(&branch->branching.origin, origin, memory_order_release);
}

/* The origin's open sequence has waited for the branch itself, by an event that will be recorded
   again in the branch: it would have to end there. So it ends now, and a later one begins with the
   record from which the branch forks, and has that wait at its end. */
static void begin_anew(struct ag_stream *origin, struct ag_stream *branch)
{
    count_rebegin(&branch->branching);
    origin->forked.rebegins = true;
    origin->forked.next = branch;
    origin->forked.next_life = branch->id.life;
}

bool ag_branches_begin(struct ag_stream *origin)
{
    struct ag_forked *forked = &origin->forked;
    struct ag_stream *next = forked->next;
    if (origin->recorder.cursor->depth == 0 || !ag_branches_have_joined(origin) ||
        !ag_stream_trylock(next))
        return false;
    bool lives = next->id.life == forked->next_life && ag_branches_origin(next) == NULL;
    bool begins = lives && stands(next, origin) != UNKNOWN;
    ag_stream_unlock(next);
    if (begins || !lives)
        forked->next = NULL;
    return begins;
}

bool ag_branches_admit(struct ag_stream *origin, struct ag_stream *branch, CUevent event)
{
    uint32_t depth = ag_event_depth(event, origin);
    if (depth == 0 || origin->forked.branches + 1 == AG_BRANCHES ||
        !ag_context_has_branches(origin->id.context, origin->forked.branches + 2))
        return false;
    enum standing standing = may_fork(origin, branch);
    if (standing == UNKNOWN || (ag_sequence_holds(origin) && ag_query_captures(branch->id.handle)))
        return false;
    if (standing == WITHIN)
        begin_anew(origin, branch);
    else
        admit(origin, branch, depth);
    return standing == BEFORE;
}

void ag_branches_take(struct ag_stream *origin, const struct ag_op *op)
{
    struct ag_forked *forked = &origin->forked;
    uint32_t depth = origin->recorder.cursor->depth + 1;
    unsigned number = ag_op_branch(op);
    forked->before = forked->fork.ways;
    forked->taken = depth;
    forked->branch[number].given++;
    ag_fork_take(&forked->fork, op, depth);
    ag_recorder_forks(&origin->recorder, ag_ways_are_joined(&forked->fork.ways), depth);
}

void ag_branches_lose_event(struct ag_stream *origin, CUevent event)
{
    uint32_t depth = ag_event_depth(event, origin);
    struct ag_node *node = depth != 0 ? node_at(origin, depth) : NULL;
    if (node == NULL || node->args == NULL)
        return;
    struct ag_event_arguments arguments = ag_node_event_arguments(node);
    arguments.serial = AG_EVENT_GONE;
    memcpy(node->args, &arguments, sizeof arguments);
}

bool ag_branches_have_joined(const struct ag_stream *origin)
{
    return !ag_branches_any(origin) || ag_ways_are_joined(&origin->forked.fork.ways);
}

/* The branch of that number ends. Its stream may come again at once if the branch had ops and they
   have been waited for. */
static void leave(struct ag_stream *origin, unsigned number, const struct ag_ways *ways)
{
    const struct ag_forked_branch *branch = &origin->forked.branch[number];
    struct ag_stream *stream = branch->stream;
    struct ag_branching *branching = &stream->branching;
    bool joined = ways->last[number] <= ways->seen[0][number];
    if (atomic_load(&stream->id.life) != branch->life || ag_branches_origin(stream) != origin)
        return;
    if (joined)
        come_before(stream, origin, branch->given, origin);
    else
        atomic_store_explicit(&branching->behind, NULL, memory_order_relaxed);
    if (joined && ways->last[number] != 0) {
        ag_backoff_reset(&branching->suspensions);
        branching->suspended = branching->rebegun = 0;
    } else if (!origin->forked.rebegins) {
        suspend(branching);
    }
    atomic_store_explicit(&branching->origin, NULL, memory_order_release);
}

void ag_branches_end_slow(struct ag_stream *origin)
{
    struct ag_forked *forked = &origin->forked;
    bool lost = forked->taken > origin->recorder.cursor->depth; /* the op is none of the sequence */
    for (unsigned i = 1; i <= forked->branches; i++) {
        forked->branch[i].given -= lost && forked->fork.ways.last[i] == forked->taken;
        leave(origin, i, lost ? &forked->before : &forked->fork.ways);
    }
    forked->branches = 0;
    forked->rebegins = false;
}

/* -- Submitting ------------------------------------------------------------------------ */

/* What comes next in the stream comes behind the event. If the driver refuses that the host waits:
   the order is kept, though a kernel may wait for the host (docs/semantics.md, "Known gaps"). */
static void wait_for(struct ag_stream *origin, CUstream handle, CUevent event)
{
    CUresult result = ag_real.cuStreamWaitEvent(handle, event, 0);
    if (result == CUDA_SUCCESS)
        return;
    ag_failure_note(origin, result, "waiting for a branch");
    ag_failure_note(origin, ag_real.cuEventSynchronize(event), "waiting for a branch on the host");
}

/* Each wait finds room in its stream where the program's calls would have found it: the branch has
   a wait and a record at least, which take no place there. */
void ag_branches_replayed(struct ag_stream *origin, const struct ag_trace *trace)
{
    for (unsigned i = 1; i < trace->ends.branches && !AG_MUTANT(branch_goes_on); i++) {
        const struct ag_step *last = &trace->step[trace->ends.last[i]];
        wait_for(origin, origin->forked.branch[i].handle,
                 last->own != 0 ? trace->ends.own[last->own - 1] : ag_node_event(last->node));
    }
}
