/* SPDX-License-Identifier: MIT */
/* Whether it pays to hold: how holds of a head end, and how long its sequences take either way. */
#include "engine/trial.h"

#include <stdlib.h>

#include "config/config.h"
#include "engine/account.h"
#include "engine/pace.h"
#include "observe/log.h"

/* What a head's score is worth, and the sequences that it passes when the score is used up. */
enum { SCORE_MOST = 8, SCORE_LEAST = -4, SLEEP_FIRST = 8, SLEEP_MOST = 4096 };

/* Replays before the first trial, and of a trace of a few rounds; how many times as many before the
   next, and at most. */
enum { REPLAYS_FIRST = 16, REPLAYS_ROUNDS = 256, REPLAYS_GROW = 16, REPLAYS_MOST = 1 << 20 };

/* Heads of a stream in a row for which replay has won, after which it is taken to win for others,
   too: their first trial is as late as a second one. A program of many short sequences would be
   eager for as many trials. */
enum { TRUSTED = 4 };

/* A look first, which ends most trials: a pair of short windows, of two sequences if these have so
   many ops. Then pairs of longer ones, some of which may be lost by chance. In sequences, so many
   times as many where those are single ops; pairs; and of these, enough to lose: most where threads
   are in step, since what the others do makes more of it chance. */
enum { LOOK = 4, LONG = 64, WINDOW = 8, SHORT = 8, PAIRS = 5, LOST = 4, LOST_IN_STEP = 3 };

/* Sequences for which a head is given up. */
enum { REST_FIRST = 1 << 10, REST_MOST = 1 << 18 };

/* Held time against eager time, in percent: at the look, where holding is surely faster, and where
   that counts for a pair that is won; and in a pair. */
enum { SURE = 75, CLEARLY = 90, FASTER = 98 };

/* What a replay must save of its sequence where there are other threads, ns: it takes the driver
   longer than a launch, and less is chance where they meet in it. (Where two threads wait for each
   other in each step, sequences of a kernel and a record seemed to save 0.1 to 1 us, and the whole
   took 1.083 +- 0.017 of its time, 1.050 +- 0.021 without replays. Two H100s, driver 580.) */
enum { SAVED_NS = 1000 };

/* Ops of other threads, in percent of the head's own, where single ops are not replayed at all: the
   thread that replays may gain, but the others wait for it in the driver. A kernel and a wait in
   each of one, two, four and eight threads take 0.74, 0.81, 0.98 and 1.30 of their time if the
   kernels are graphs (H200, driver 580). */
enum { CROWD = 125 };

/* A sequence that took so many times as long as the others of its window has met a pause of the
   machine, or the program did something else. */
enum { PAUSE = 16 };

/* What other threads have issued, about: their holds, and what passed while they rested. */
static uint64_t issued_by_others(void)
{
    uint64_t sum = 0;
    for (struct ag_stream *stream = ag_stream_all(); stream != NULL; stream = stream->next)
        if (atomic_load_explicit(&stream->thread, memory_order_relaxed) != &ag_self)
            sum += atomic_load_explicit(&stream->epoch, memory_order_relaxed) +
                   atomic_load_explicit(&stream->passed, memory_order_relaxed);
    return sum;
}

/* Whether no other thread has issued anything into a stream of those that there are. */
static bool is_alone(void)
{
    const struct ag_stream *stream = ag_stream_all();
    const void *thread = &ag_self;
    while (stream != NULL && (thread == NULL || thread == &ag_self)) {
        thread = atomic_load_explicit(&stream->thread, memory_order_relaxed);
        stream = stream->next;
    }
    return thread == NULL || thread == &ag_self;
}

/* Nothing has been measured yet, or it is no more. */
static void start(struct ag_head *head)
{
    head->trial.on = false;
    head->replays = REPLAYS_FIRST;
    head->replays_next = REPLAYS_FIRST * REPLAYS_GROW;
}

static struct ag_head *head_of(struct ag_node *node)
{
    if (node->head == NULL && (node->head = calloc(1, sizeof *node->head)) != NULL) {
        start(node->head);
        node->head->rest_next = REST_FIRST;
    }
    return node->head;
}

void ag_trial_made(const struct ag_stream *stream, const struct ag_trace *trace)
{
    struct ag_head *head = head_of((struct ag_node *)ag_trial_head(trace->leaf));
    if (head == NULL)
        return;
    if (trace->rounds) {
        head->replays = REPLAYS_ROUNDS;
    } else if (trace->length >= 2 * head->longest) {
        start(head);
        head->longest = trace->length;
        if (stream->won >= TRUSTED && trace->length > 1)
            head->replays = head->replays_next;
    }
}

void ag_trial_submitted(struct ag_node *node, bool replayed)
{
    struct ag_head *head = node->head;
    if (replayed) {
        head->score += head->score < SCORE_MOST;
        head->sleep_next = SLEEP_FIRST;
        if (head->replays != 0 && --head->replays == 0 && ag_opt.trace_trial)
            head->trial = (struct ag_trial){.on = true,
                                            .others = head->longest == 1 ? issued_by_others() : 0};
    } else if (--head->score < SCORE_LEAST) {
        head->score = 0;
        head->sleep = head->sleep_next != 0 ? head->sleep_next : SLEEP_FIRST;
        head->sleep_next = head->sleep < SLEEP_MOST ? head->sleep * 2 : SLEEP_MOST;
    }
}

bool ag_trial_rests(const struct ag_node *leaf, uint32_t ends)
{
    struct ag_head *head = ag_trial_head(leaf)->head;
    if (head == NULL || head->rest == 0)
        return false;
    head->rest -= head->rest < ends ? head->rest : ends;
    return head->rest != 0;
}

/* -- Trials ---------------------------------------------------------------- */

static bool is_eager(const struct ag_trial *trial)
{
    return (trial->pair + trial->second) % 2 != 0;
}

/* Whether held sequences took less than so many percent of the time of eager ones. */
static bool faster(const struct ag_head *head, unsigned percent)
{
    const struct ag_window *held = &head->trial.window[0], *eager = &head->trial.window[1];
    if (held->ops == 0 || eager->ops == 0) /* not known: it stays */
        return true;
    double held_ns = (double)held->ns / (double)held->ops;
    double eager_ns = (double)eager->ns / (double)eager->ops;
    double saved_ns = (eager_ns - held_ns) * head->longest; /* not known of rounds of a loop: 0 */
    return held_ns * 100 < eager_ns * percent &&
           (head->longest == 0 || saved_ns > SAVED_NS || is_alone());
}

/* The same of the fastest sequence of each window: one that met a pause makes no difference. */
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
    return others * 100 > (int64_t)(head->trial.all[0].ops + head->trial.all[1].ops) * CROWD;
}

static void over(struct ag_stream *stream, struct ag_node *node, bool lost)
{
    struct ag_head *head = node->head;
    struct ag_trial *trial = &head->trial;
    trial->on = false;
    stream->won = lost ? 0 : stream->won + 1;
    stream->counters.trials++;
    AG_ACCOUNT(ag_account_trial(stream, node, lost));
    if (!lost) {
        head->replays = head->replays_next;
        head->replays_next *= head->replays_next < REPLAYS_MOST ? REPLAYS_GROW : 1;
        return;
    }
    head->replays = REPLAYS_FIRST;
    head->rest = head->rest_next;
    head->rest_next *= head->rest_next < REST_MOST ? 2 : 1;
    stream->counters.given_up++;
    ag_log(AG_LOG_NOTE, "gave up a head in stream %p", (void *)stream->handle);
    ag_stream_drop_traces(stream, node, 0);
    if (stream->recorder.tree.root.below == 0) {
        ag_recorder_unpaid(&stream->recorder);
        head->rest = 0;
    }
}

/* A window is whole: the next one begins, or the trial is over. */
static void window_over(struct ag_stream *stream, struct ag_node *node)
{
    struct ag_trial *trial = &node->head->trial;
    trial->begun = 0;
    trial->second ^= 1;
    if (trial->second)
        return;
    bool look = trial->pair++ == 0,
         sure = look && faster(node->head, SURE) && fastest_faster(trial->window, SURE);
    if (faster(node->head, look ? CLEARLY : FASTER))
        trial->won++;
    else if (!look)
        trial->lost++;
    for (unsigned i = 0; i < 2; i++) {
        trial->all[i].ns += trial->window[i].ns;
        trial->all[i].ops += trial->window[i].ops;
        trial->window[i] = (struct ag_window){0};
    }
    unsigned enough = ag_stream_in_step(stream) ? LOST_IN_STEP : LOST;
    bool lost = trial->lost >= enough || (look && is_crowded(node->head));
    if (lost || sure || trial->won > PAIRS - enough)
        over(stream, node, lost);
}

/* Whether the window has all its sequences. */
static bool is_whole(const struct ag_trial *trial)
{
    uint64_t ops = trial->window[is_eager(trial)].ops;
    uint32_t least = trial->pair == 0 ? LOOK : WINDOW;
    if (trial->pair == 0 && trial->begun >= 2 && ops >= LONG)
        return true;
    return trial->begun >= least && (trial->begun >= SHORT * least || ops >= SHORT * least);
}

/* A sequence of the trial begins; whether it is held. It counts whatever becomes of it, so that
   each trial ends. */
static bool next(struct ag_stream *stream, struct ag_node *node)
{
    struct ag_head *head = node->head;
    struct ag_trial *trial = &head->trial;
    if (trial->length == 0)
        trial->length = (uint16_t)stream->recorder.max_length;
    if (trial->length != stream->recorder.max_length) { /* what was measured is no more: anew */
        trial->on = false;
        head->replays = REPLAYS_FIRST;
        return true;
    }
    if (is_whole(trial))
        window_over(stream, node);
    if (!trial->on) /* it is over; a head that was given up has no trace any more */
        return ag_node_leads(node);
    trial->begun++;
    bool eager = is_eager(trial);
    stream->timed = (struct ag_timed){.head = node, .began = ag_pace_now(), .eager = eager};
    return !eager;
}

bool ag_trial_holds(struct ag_stream *stream, struct ag_node *node)
{
    struct ag_head *head = head_of(node);
    if (head == NULL || head->rest != 0)
        return false;
    if (head->sleep != 0) {
        head->sleep--;
        return false;
    }
    return __builtin_expect(!head->trial.on, 1) || next(stream, node);
}

void ag_trial_arrived(struct ag_stream *stream)
{
    const struct ag_timed *timed = &stream->timed;
    struct ag_window *window = &timed->head->head->trial.window[timed->eager];
    uint64_t ns = ag_pace_now() - timed->began;
    ns -= timed->spent < ns ? timed->spent : ns;
    uint64_t each = timed->ops != 0 ? ns / timed->ops : 0;
    uint64_t average = window->ops != 0 ? window->ns / window->ops : 0;
    if (timed->ops != 0 && (window->ops == 0 || average > PAUSE * (each + 1))) {
        *window = (struct ag_window){.ns = ns, .ops = timed->ops, .least = each};
    } else if (timed->ops != 0 && each <= PAUSE * (average + 1)) {
        window->ns += ns;
        window->ops += timed->ops;
        window->least = each < window->least ? each : window->least;
    }
    stream->timed.head = NULL;
}
