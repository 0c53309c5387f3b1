/* SPDX-License-Identifier: MIT */
/* The engine's accounts, and gathering them for a report. */
#include "engine/tell/account.h"

#include <stdlib.h>

#include "driver/driver.h"
#include "engine/base/facts.h"
#include "engine/hot.h"
#include "engine/stream/copies.h"
#include "engine/stream/eager.h"
#include "engine/stream/untracked.h"
#include "graph/node.h"
#include "graph/setting.h"
#include "observe/callsite.h"
#include "observe/patience.h"
#include "observe/strings.h"
#include "sanitize.h"

bool ag_accounting;

/* -- Cuts ---------------------------------------------------------------------- */

/* These have no call of the program that did it. */
static bool has_cause(enum ag_reason reason)
{
    return reason != AG_REASON_SIDE_EXIT && reason != AG_REASON_WATCHDOG &&
           reason != AG_REASON_LEGACY && reason != AG_REASON_FAILURE && reason != AG_REASON_EXIT &&
           reason != AG_REASON_QUEUE && reason != AG_REASON_SEQUENCE_END;
}

static bool same(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static void add_cut(struct ag_cut *cuts, uint32_t *count, uint32_t most, const struct ag_cut *cut)
{
    uint32_t i = 0;
    while (i < *count && !(cuts[i].reason == cut->reason && cuts[i].why == cut->why &&
                           same(cuts[i].function, cut->function)))
        i++;
    if (i == most)
        return;
    if (i == *count) {
        cuts[(*count)++] = *cut;
    } else {
        cuts[i].calls += cut->calls;
        cuts[i].ops += cut->ops;
    }
}

static void count_cut(struct ag_stream *stream, const struct ag_cut *cut)
{
    add_cut(stream->cuts.cut, &stream->cuts.count, AG_CUTS, cut);
}

void ag_account_cut(struct ag_stream *stream, enum ag_reason reason, enum ag_why why, uint64_t ops)
{
    const char *function = has_cause(reason) ? ag_cause : NULL;
    if (function == NULL && ops == 0)
        return;
    if (ops == 0) { /* the call is counted with the op that it makes */
        why = stream->cuts.ending;
        stream->cuts.ending = AG_WHY_HELD;
    }
    count_cut(stream, &(struct ag_cut){function, reason, why, 1, ops});
    if (function != NULL && function != ag_cause_kernel) /* no stack is walked on that path */
        ag_callsite_count(function);
}

void ag_account_alone(struct ag_stream *stream, enum ag_why why, bool open)
{
    struct ag_cut cut = {ag_cause, AG_REASON_STREAM_BARRIER, why, !open, 1};
    stream->cuts.ending = open ? why : AG_WHY_HELD;
    if (why == AG_WHY_PAUSED)
        cut = (struct ag_cut){"autograph_pause", AG_REASON_REQUEST, why, 0, 1};
    count_cut(stream, &cut);
}

void ag_account_eager(struct ag_stream *stream, enum ag_why why)
{
    if (why >= AG_WHY_PAUSED)
        count_cut(stream, &(struct ag_cut){ag_cause, AG_REASON_STREAM_BARRIER, why, 1, 1});
}

/* -- Traces -------------------------------------------------------------------- */

enum { MOST_TRACES = 4096 };

static struct ag_trace_account *_Atomic traces; /* newest first; never freed */
static _Atomic uint32_t trace_count;
static _Atomic uint64_t traces_left_out;

static const char *name_of(const struct ag_step *step)
{
    static const char *const kinds[] = {
#define AG_KIND(id, word, addresses) [AG_OP_##id] = word,
#include "trace/kinds.def"
    };
    const char *name = NULL;
    if (step->node->op.kind != AG_OP_KERNEL)
        return kinds[step->node->op.kind];
    if (ag_real.cuFuncGetName == NULL || ag_real.cuFuncGetName(&name, step->func) != CUDA_SUCCESS ||
        name == NULL)
        return kinds[AG_OP_KERNEL];
    return ag_keep(name);
}

/* The keys of the ops; NULL: some op has none, or no memory. */
static const uint64_t *keys_of(const struct ag_trace *trace)
{
    uint64_t *keys = malloc(trace->length * sizeof *keys);
    uint32_t i = 0;
    while (keys != NULL && i < trace->length &&
           (keys[i] = ag_known_key(&trace->step[i].node->op)) != 0)
        i++;
    if (i == trace->length)
        return keys;
    free(keys);
    return NULL;
}

static void count_name(struct ag_trace_account *account, const char *name)
{
    uint32_t i = 0;
    while (i < account->names && account->kernels[i].name != name)
        i++;
    if (i == AG_TRACE_NAMES) /* the last place is for all others */
        account->kernels[--i].name = NULL;
    else if (i == account->names)
        account->kernels[account->names++].name = name;
    account->kernels[i].count++;
}

void ag_account_trace(struct ag_stream *stream, struct ag_trace *trace)
{
    struct ag_trace_account *account = NULL;
    if (atomic_fetch_add(&trace_count, 1) < MOST_TRACES)
        account = calloc(1, sizeof *account);
    if (account == NULL) {
        atomic_fetch_add(&traces_left_out, 1);
        return;
    }
    account->number = trace->number;
    account->stream = stream->id.number;
    account->length = trace->length;
    account->context = stream->id.context;
    account->keys = *ag_opt.trace_profile ? keys_of(trace) : NULL;
    for (uint32_t i = 0; i < trace->length; i++)
        count_name(account, name_of(&trace->step[i]));
    trace->account = account;
    account->next = atomic_load(&traces);
    while (!atomic_compare_exchange_weak(&traces, &account->next, account))
        continue;
}

static void add(_Atomic uint64_t *to, uint64_t n)
{
    atomic_store_explicit(to, atomic_load_explicit(to, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

void ag_account_replay(struct ag_stream *stream, const struct ag_trace *trace, uint64_t patches)
{
    stream->counters.waited += stream->cuts.waits != ag_done.waits;
    stream->cuts.waits = ag_done.waits;
    if (trace->account == NULL)
        return;
    atomic_store_explicit(&trace->account->stream, stream->id.number, memory_order_relaxed);
    add(&trace->account->replays, 1);
    add(&trace->account->patches, patches);
}

/* Of the last trial: time of an op, ns, held and eager; 0: there was none. And 1e9 times the
   variance of what it found. */
static _Atomic uint64_t trial_ns[2], trial_variance;

void ag_account_trial(const struct ag_context *context, const struct ag_trial *trial, bool lost)
{
    for (struct ag_trace_account *trace = atomic_load(&traces); trace != NULL;
         trace = trace->next) {
        uint64_t replays = atomic_load_explicit(&trace->replays, memory_order_relaxed);
        if (trace->context != context || trace->judged == replays)
            continue;
        trace->judged = replays;
        atomic_store_explicit(&trace->lost, lost, memory_order_relaxed);
    }
    for (unsigned i = 0; i < 2; i++)
        atomic_store_explicit(&trial_ns[i], (uint64_t)(trial->mean_ns[i] + 0.5),
                              memory_order_relaxed);
    atomic_store_explicit(&trial_variance, (uint64_t)(ag_trial_variance(trial) * 1e9),
                          memory_order_relaxed);
}

/* -- Gathering ------------------------------------------------------------------- */

static void add_counters(struct ag_counters *sum, const struct ag_counters *more)
{
    sum->ops += more->ops;
    sum->replayed += more->replayed;
    sum->replays += more->replays;
    sum->patches += more->patches;
    sum->updates += more->updates;
    sum->traces += more->traces;
    sum->making_ns += more->making_ns;
    sum->evictions += more->evictions;
    sum->trials += more->trials;
    sum->trials_lost += more->trials_lost;
    sum->waited += more->waited;
    sum->errors += more->errors;
    for (unsigned i = 0; i < AG_REASON_COUNT; i++)
        sum->flushes[i] += more->flushes[i], sum->given_up[i] += more->given_up[i];
    for (unsigned i = 0; i < AG_WHY_COUNT; i++)
        sum->eager[i] += more->eager[i];
    for (unsigned i = 0; i < AG_REFUSAL_COUNT; i++)
        sum->refusals[i] += more->refusals[i];
}

/* Guards each stream's `seen`. Taken with a stream's lock held; with it held, those are only tried.
 */
static pthread_mutex_t peek_lock = PTHREAD_MUTEX_INITIALIZER;

/* Both locks held. */
static void see(struct ag_stream *stream)
{
    stream->seen.counters = stream->counters;
    stream->seen.counters.eager[ag_eager_why(stream)] += ag_eager_open(stream);
    stream->seen.live = stream->id.live && !stream->id.vacant;
}

/* Ops of the stream that passed without its lock. */
static uint64_t passed_by(const struct ag_stream *stream, struct ag_counters *sum)
{
    uint64_t passed = atomic_load_explicit(&stream->issuer.passed, memory_order_relaxed);
    uint64_t copies = ag_copies_passed(stream);
    copies = copies < passed ? copies : passed;
    sum->eager[AG_WHY_UNSEEN] += copies;
    sum->eager[AG_WHY_REST] += passed - copies;
    return passed;
}

/* Ops that were neither replayed nor counted as eager: those that are held. */
static uint64_t held(const struct ag_counters *sum)
{
    uint64_t told = sum->replayed;
    for (unsigned i = 0; i < AG_REASON_COUNT; i++)
        told += sum->given_up[i];
    for (unsigned i = 0; i < AG_WHY_COUNT; i++)
        told += sum->eager[i];
    return sum->ops > told ? sum->ops - told : 0;
}

/* Adds what no stream's counters have. Last: who had a stream's lock may have counted an error. */
static void add_others(struct ag_counters *sum)
{
    uint64_t unfollowed = atomic_load(&ag_stateless_ops) + ag_untracked_ops();
    for (struct ag_stream *stream = ag_stream_all(); stream != NULL; stream = stream->place.next)
        sum->ops += passed_by(stream, sum);
    sum->eager[AG_WHY_STATELESS] += unfollowed;
    sum->ops += unfollowed;
    sum->eager[AG_WHY_HELD] = held(sum);
    sum->errors += atomic_load(&ag_context_errors) + atomic_load(&ag_setting_errors);
}

void ag_account_peek(struct ag_counters *sum, uint64_t *streams)
{
    *sum = (struct ag_counters){.ops = 0};
    *streams = 0;
    pthread_mutex_lock(&peek_lock);
    for (struct ag_stream *stream = ag_stream_all(); stream != NULL; stream = stream->place.next)
        ag_lock_revoke(&stream->lock, &ag_self);
    for (struct ag_stream *stream = ag_stream_all(); stream != NULL; stream = stream->place.next) {
        if (ag_stream_lock_within(stream, 0)) { /* whoever has it for longer may wait for the GPU */
            see(stream);
            ag_stream_unlock(stream);
        }
        *streams += stream->seen.live;
        add_counters(sum, &stream->seen.counters);
    }
    add_others(sum);
    pthread_mutex_unlock(&peek_lock);
}

enum { MOST_CUTS = 256 }; /* causes of cuts that are told apart in the whole process */

/* What a report tells of a stream. */
struct looked {
    struct ag_counters counters;
    struct ag_cuts cuts;
    struct ag_stream_account account;
    bool barred;
};
_Static_assert(sizeof(struct ag_counters) % 8 == 0 && sizeof(struct ag_cuts) % 8 == 0,
               "both are copied by words");

AG_UNINSTRUMENTED static void copy_words(void *to, const void *from, size_t size)
{
    for (size_t i = 0; i < size / 8; i++)
        ((uint64_t *)to)[i] = ((const volatile uint64_t *)from)[i];
}

/*
 * With the stream's lock this is how the stream stands. Without it, each word is one that the
 * stream has had: the thread that has the lock may be between two of them. To take the lock would
 * cost that thread its bias, again and again.
 */
AG_UNINSTRUMENTED static void look_at(const struct ag_stream *stream, struct looked *looked)
{
    static const char *const kinds[] = {"blocking", "nonblocking", "legacy", "per_thread"};
    copy_words(&looked->counters, &stream->counters, sizeof looked->counters);
    copy_words(&looked->cuts, &stream->cuts, sizeof looked->cuts);
    if (stream->seq.state == AG_RECORDING && looked->counters.ops > stream->eager.from)
        looked->counters.eager[ag_eager_why(stream)] += looked->counters.ops - stream->eager.from;
    looked->account = (struct ag_stream_account){
        .number = stream->id.number,
        .lives = stream->id.lives,
        .kind = kinds[stream->id.kind],
        .ops = atomic_load_explicit(&stream->issuer.passed, memory_order_relaxed),
    };
    looked->barred = stream->seq.barred;
}

static void gather_stream(struct ag_account *account, const struct looked *looked)
{
    const struct ag_counters *c = &looked->counters;
    struct ag_stream_account *row = &account->streams[account->stream_count];
    if (looked->account.lives == 0)
        return;
    account->stream_count++;
    account->barred |= looked->barred;
    *row = looked->account;
    row->ops += c->ops;
    row->replayed = c->replayed;
    row->replays = c->replays;
    row->traces = c->traces;
    for (uint32_t i = 0; i < looked->cuts.count && i < AG_CUTS; i++)
        add_cut(account->cuts, &account->cut_count, MOST_CUTS, &looked->cuts.cut[i]);
}

/* How the streams stand, and the counters; what is missing makes the account partial. */
static void gather_exactly(struct ag_account *account, struct ag_stream *first)
{
    struct looked looked;
    for (struct ag_stream *stream = first; stream != NULL; stream = stream->place.next) {
        if (!ag_stream_lock_within(stream, AG_PATIENCE_NS)) {
            account->partial = true;
            continue;
        }
        look_at(stream, &looked);
        pthread_mutex_lock(&peek_lock);
        see(stream);
        pthread_mutex_unlock(&peek_lock);
        ag_stream_unlock(stream);
        gather_stream(account, &looked);
    }
}

static void gather_roughly(struct ag_account *account, struct ag_stream *first)
{
    struct looked looked;
    for (struct ag_stream *stream = first; stream != NULL; stream = stream->place.next) {
        look_at(stream, &looked);
        gather_stream(account, &looked);
        add_counters(&account->counters, &looked.counters);
    }
}

static void gather_traces(struct ag_account *account)
{
    uint32_t count = 0;
    struct ag_trace_account *newest = atomic_load(&traces);
    for (struct ag_trace_account *trace = newest; trace != NULL; trace = trace->next)
        count++;
    account->traces = calloc(count + 1, sizeof account->traces[0]);
    if (account->traces == NULL)
        return;
    for (struct ag_trace_account *trace = newest; trace != NULL; trace = trace->next)
        account->traces[account->trace_count++] = trace;
}

void ag_account_gather(struct ag_account *account, bool exact)
{
    uint64_t living;
    *account = (struct ag_account){.held_ns = atomic_load(&trial_ns[0]),
                                   .eager_ns = atomic_load(&trial_ns[1]),
                                   .trial_variance = (double)atomic_load(&trial_variance) / 1e9,
                                   .traces_left_out = atomic_load(&traces_left_out),
                                   .graph_memory_kb = (uint64_t)atomic_load(&ag_most_graph_memory)};

    ag_facts_gather(account);

    uint32_t streams = 0;
    struct ag_stream *first = ag_stream_all();
    for (struct ag_stream *stream = first; stream != NULL; stream = stream->place.next)
        streams++;
    account->streams = calloc(streams + 1, sizeof *account->streams);
    account->cuts = calloc(MOST_CUTS, sizeof *account->cuts);
    bool room = account->streams != NULL && account->cuts != NULL;
    if (room && exact)
        gather_exactly(account, first);
    else if (room)
        gather_roughly(account, first);
    if (exact)
        ag_account_peek(&account->counters, &living);
    else
        add_others(&account->counters);
    gather_traces(account);
}

void ag_account_free(struct ag_account *account)
{
    free(account->streams);
    free(account->traces);
    free(account->cuts);
}
