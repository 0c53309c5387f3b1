/* SPDX-License-Identifier: MIT */
/* Whether it pays to hold: how holds of a head end, and how long its sequences take either way. */
#include "engine/trial.h"

#include <stdlib.h>

#include "config/config.h"
#include "engine/issuer.h"
#include "observe/log.h"
#include "trace/policy.h"

/* About how many ops other threads have issued: holds, and ops that passed while nothing was
   recorded. */
static uint64_t issued_by_others(void)
{
    uint64_t sum = 0;
    for (struct ag_stream *stream = ag_stream_all(); stream != NULL; stream = stream->place.next)
        if (atomic_load_explicit(&stream->issuer.thread, memory_order_relaxed) != &ag_self)
            sum += atomic_load_explicit(&stream->seq.epoch, memory_order_relaxed) +
                   atomic_load_explicit(&stream->issuer.passed, memory_order_relaxed);
    return sum;
}

/* Whether the calling thread has issued the last op of every stream that has had one. */
static bool is_alone(void)
{
    const struct ag_stream *stream = ag_stream_all();
    const void *thread = &ag_self;
    while (stream != NULL && (thread == NULL || thread == &ag_self)) {
        thread = atomic_load_explicit(&stream->issuer.thread, memory_order_relaxed);
        stream = stream->place.next;
    }
    return thread == NULL || thread == &ag_self;
}

/* Nothing has been measured yet, or what was measured does not hold any more. */
static void start(struct ag_head *head)
{
    head->trial.on = false;
    head->replays = AG_TRIAL_REPLAYS_FIRST;
    head->replays_next = AG_TRIAL_REPLAYS_FIRST * AG_TRIAL_REPLAYS_GROWS;
}

static struct ag_head *head_of(struct ag_node *node)
{
    if (node->head == NULL && (node->head = calloc(1, sizeof *node->head)) != NULL) {
        start(node->head);
        node->head->lost.next = AG_TRIAL_LOST_REST_FIRST;
    }
    return node->head;
}

void ag_trial_made(const struct ag_stream *stream, const struct ag_trace *trace)
{
    struct ag_head *head = head_of((struct ag_node *)ag_trial_head(trace->leaf));
    if (head == NULL)
        return;
    if (trace->rounds) {
        head->replays = AG_TRIAL_REPLAYS_ROUNDS;
    } else if (trace->length >= 2 * head->longest) {
        start(head);
        head->longest = trace->length;
        if (stream->trial.won >= AG_TRIAL_TRUSTED && trace->length > 1)
            head->replays = head->replays_next;
    }
}

void ag_trial_submitted(struct ag_node *node, bool replayed)
{
    struct ag_head *head = node->head;
    if (replayed) {
        head->score += head->score < AG_TRIAL_SCORE_MOST;
        head->missed.next = AG_TRIAL_MISSED_REST_FIRST;
        if (head->replays != 0 && --head->replays == 0 && ag_opt.trace_trial)
            head->trial = (struct ag_trial){.on = true,
                                            .others = head->longest == 1 ? issued_by_others() : 0};
    } else if (--head->score < AG_TRIAL_SCORE_LEAST) {
        head->score = 0;
        head->missed.left = head->missed.next != 0 ? head->missed.next : AG_TRIAL_MISSED_REST_FIRST;
        head->missed.next = head->missed.left < AG_TRIAL_MISSED_REST_MOST
                                ? head->missed.left * 2
                                : AG_TRIAL_MISSED_REST_MOST;
    }
}

bool ag_trial_rests(const struct ag_node *leaf, uint32_t ends)
{
    struct ag_head *head = ag_trial_head(leaf)->head;
    if (head == NULL || head->lost.left == 0)
        return false;
    head->lost.left -= head->lost.left < ends ? head->lost.left : ends;
    return head->lost.left != 0;
}

/* -- Trials ---------------------------------------------------------------- */

static bool is_eager(const struct ag_trial *trial)
{
    return (trial->pair + trial->second) % 2 != 0;
}

/* Whether held ops took less than so many percent of the time of eager ops, and replays saved
   enough where there are other threads. */
static bool faster(const struct ag_head *head, unsigned percent)
{
    const struct ag_window *held = &head->trial.window[0], *eager = &head->trial.window[1];
    if (held->ops == 0 || eager->ops == 0) /* not known: it stays */
        return true;
    double held_ns = (double)held->ns / (double)held->ops;
    double eager_ns = (double)eager->ns / (double)eager->ops;
    double saved_ns = (eager_ns - held_ns) * head->longest; /* not known of rounds of a loop: 0 */
    return held_ns * 100 < eager_ns * percent &&
           (head->longest == 0 || saved_ns > AG_TRIAL_SAVED_NS || is_alone());
}

/* Whether the fastest held sequence took less than so many percent of the time, for each op, of the
   fastest eager one. Sequences that met a pause make no difference here. */
static bool fastest_faster(const struct ag_window window[2], unsigned percent)
{
    return window[0].least * 100 < window[1].least * percent;
}

/* Whether the head's ops are single ones, and those of other threads are many. */
static bool is_crowded(const struct ag_head *head)
{
    if (head->longest != 1)
        return false;
    int64_t others = (int64_t)(issued_by_others() - head->trial.others);
    return others * 100 >
           (int64_t)(head->trial.all[0].ops + head->trial.all[1].ops) * AG_TRIAL_CROWD;
}

static enum ag_trial_verdict over(struct ag_stream *stream, struct ag_node *node, bool lost)
{
    struct ag_head *head = node->head;
    struct ag_trial *trial = &head->trial;
    trial->on = false;
    stream->trial.won = lost ? 0 : stream->trial.won + 1;
    stream->counters.trials++;
    if (!lost) {
        head->replays = head->replays_next;
        head->replays_next *=
            head->replays_next < AG_TRIAL_REPLAYS_MOST ? AG_TRIAL_REPLAYS_GROWS : 1;
        return AG_TRIAL_KEEP;
    }
    head->replays = AG_TRIAL_REPLAYS_FIRST;
    head->lost.left = head->lost.next;
    head->lost.next *= head->lost.next < AG_TRIAL_LOST_REST_MOST ? 2 : 1;
    stream->counters.given_up++;
    ag_log(AG_LOG_NOTE, "holding the sequences of one head does not pay in stream %p",
           (void *)stream->id.handle);
    return AG_TRIAL_GIVE_UP;
}

/* A window is whole: the next one begins (EAGER), or the trial is over. */
static enum ag_trial_verdict window_over(struct ag_stream *stream, struct ag_node *node)
{
    struct ag_trial *trial = &node->head->trial;
    trial->begun = 0;
    trial->second ^= 1;
    if (trial->second)
        return AG_TRIAL_EAGER;
    bool look = trial->pair++ == 0, sure = look && faster(node->head, AG_TRIAL_SURE) &&
                                           fastest_faster(trial->window, AG_TRIAL_SURE);
    if (faster(node->head, look ? AG_TRIAL_CLEARLY : AG_TRIAL_FASTER))
        trial->won++;
    else if (!look)
        trial->lost++;
    for (unsigned i = 0; i < 2; i++) {
        trial->all[i].ns += trial->window[i].ns;
        trial->all[i].ops += trial->window[i].ops;
        trial->window[i] = (struct ag_window){0};
    }
    unsigned enough = ag_issuer_in_step(stream) ? AG_TRIAL_LOST_IN_STEP : AG_TRIAL_LOST;
    bool lost = trial->lost >= enough || (look && is_crowded(node->head));
    bool is_over = lost || sure || trial->won > AG_TRIAL_PAIRS - enough;
    return is_over ? over(stream, node, lost) : AG_TRIAL_EAGER;
}

/* Whether the window has all its sequences. */
static bool is_whole(const struct ag_trial *trial)
{
    uint64_t ops = trial->window[is_eager(trial)].ops;
    uint32_t least = trial->pair == 0 ? AG_TRIAL_LOOK : AG_TRIAL_WINDOW;
    if (trial->pair == 0 && trial->begun >= 2 && ops >= AG_TRIAL_LONG)
        return true;
    return trial->begun >= least &&
           (trial->begun >= AG_TRIAL_SHORT * least || ops >= AG_TRIAL_SHORT * least);
}

/* A sequence of the trial begins. It counts whatever becomes of it, so that each trial ends. */
static enum ag_trial_verdict next(struct ag_stream *stream, struct ag_node *node)
{
    struct ag_head *head = node->head;
    struct ag_trial *trial = &head->trial;
    if (trial->length == 0)
        trial->length = (uint16_t)stream->recorder.max_length;
    if (trial->length != stream->recorder.max_length) { /* what was measured is no more: anew */
        trial->on = false;
        head->replays = AG_TRIAL_REPLAYS_FIRST;
        return AG_TRIAL_HOLD;
    }
    enum ag_trial_verdict verdict = is_whole(trial) ? window_over(stream, node) : AG_TRIAL_EAGER;
    if (!trial->on) /* it is over */
        return verdict;
    trial->begun++;
    bool eager = is_eager(trial);
    stream->trial.timed = (struct ag_timed){.head = node, .began = ag_clock_now(), .eager = eager};
    return eager ? AG_TRIAL_EAGER : AG_TRIAL_HOLD;
}

enum ag_trial_verdict ag_trial_of(struct ag_stream *stream, struct ag_node *node)
{
    struct ag_head *head = head_of(node);
    if (head == NULL || head->lost.left != 0)
        return AG_TRIAL_EAGER;
    if (head->missed.left != 0) {
        head->missed.left--;
        return AG_TRIAL_EAGER;
    }
    return __builtin_expect(!head->trial.on, 1) ? AG_TRIAL_HOLD : next(stream, node);
}

void ag_trial_forgives(struct ag_node *node)
{
    node->head->lost.left = 0;
}

void ag_trial_start(struct ag_stream *stream)
{
    stream->trial.won = 0;
}

void ag_trial_arrived(struct ag_stream *stream)
{
    const struct ag_timed *timed = &stream->trial.timed;
    struct ag_window *window = &timed->head->head->trial.window[timed->eager];
    uint64_t ns = ag_clock_now() - timed->began;
    ns -= timed->spent < ns ? timed->spent : ns;
    uint64_t each = timed->ops != 0 ? ns / timed->ops : 0;
    uint64_t average = window->ops != 0 ? window->ns / window->ops : 0;
    if (timed->ops != 0 && (window->ops == 0 || average > AG_TRIAL_PAUSE * (each + 1))) {
        *window = (struct ag_window){.ns = ns, .ops = timed->ops, .least = each};
    } else if (timed->ops != 0 && each <= AG_TRIAL_PAUSE * (average + 1)) {
        window->ns += ns;
        window->ops += timed->ops;
        window->least = each < window->least ? each : window->least;
    }
    stream->trial.timed.head = NULL;
}
