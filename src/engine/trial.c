/* SPDX-License-Identifier: MIT */
/* Whether it pays to hold: how holds of a head end, and how long its sequences take either way. */
#include "engine/trial.h"

#include <stdlib.h>

#include "config/config.h"
#include "engine/account.h"
#include "engine/pace.h"
#include "observe/log.h"

/*
 * A head's score goes up by one with each hold that ends in a replay, and down by one with each
 * other hold. A head whose score falls below SCORE_LEAST sleeps: its next sequences go out eagerly.
 */
enum {
    SCORE_MOST = 8,    /* the score goes no higher, so that past replays do not hide new failures */
    SCORE_LEAST = -4,  /* the head sleeps below this score, and begins again with 0 */
    SLEEP_FIRST = 8,   /* sequences of the first sleep; each further sleep is twice as long */
    SLEEP_MOST = 4096, /* sequences of a sleep at most, so that the head is tried again */
};

/* How many replays precede a trial of their head. */
enum {
    REPLAYS_FIRST = 16,   /* before the first trial */
    REPLAYS_ROUNDS = 256, /* before it, if the trace is of a few rounds: a longer one comes soon */
    REPLAYS_GROW = 16,    /* times as many before the next trial, where replay has won */
    REPLAYS_MOST = 1 << 20, /* at most: no decision is for ever */
};

/* A stream whose last TRUSTED trials were all won by replay tries its next head late: after as many
   replays as precede a second trial. Otherwise a program of many short sequences would run each of
   them eagerly for one trial. */
enum { TRUSTED = 4 };

/*
 * A trial is a series of pairs of windows: in one window of a pair sequences are held, in the other
 * they go out eagerly. The windows of the first pair, the look, are short: it ends most trials.
 */
enum {
    LOOK = 4,         /* sequences in a window of the look */
    LONG = 64,        /* ops: two sequences that have so many together are enough for the look */
    WINDOW = 8,       /* sequences in a later window */
    SHORT = 8,        /* ops that sequences have on average, or a window has up to 8 times as many:
                         one wait differs much from the next */
    PAIRS = 5,        /* pairs behind the look, at most */
    LOST = 4,         /* of these, lost pairs that end the trial: one or two are lost by chance */
    LOST_IN_STEP = 3, /* of these, where threads are in step: other threads' work adds to chance,
                         so that neither way needs more than a majority */
};

/* Sequences for which a head that lost its trial is given up. */
enum {
    REST_FIRST = 1 << 10, /* after the first loss; twice as many after each further one */
    REST_MOST = 1 << 18,  /* at most: no decision is for ever */
};

/* The time of held ops, in percent of the time of eager ops, below which holding wins. */
enum {
    SURE = 75,    /* the trial, at the look: on average, and by the fastest sequence of each way */
    CLEARLY = 90, /* one pair, at the look: its windows are short, so that chance counts more */
    FASTER = 98,  /* one pair, behind the look */
};

/* ns that a replay must save for each sequence where other threads issue ops, too. A replay keeps
   the driver busy for longer than a launch, and where threads meet in the driver less is chance.
   (Two threads waited for each other in each step. Their sequences of a kernel and a record seemed
   to save 0.1 to 1 us, yet the program took 1.083 +- 0.017 of its time, and 1.050 +- 0.021 without
   replays. Two H100s, driver 580.) */
enum { SAVED_NS = 1000 };

/* Single ops are not replayed where other threads issue more than this many percent of the head's
   ops. The thread that replays may gain, but the other threads wait for it in the driver. (A kernel
   and a wait in each of one, two, four and eight threads take 0.74, 0.81, 0.98 and 1.30 of their
   time if the kernels are graphs; H200, driver 580.) */
enum { CROWD = 125 };

/* A sequence does not count if its ops took more than PAUSE times as long as the others of its
   window: the machine paused, or the program did something else. */
enum { PAUSE = 16 };

/* About how many ops other threads have issued: holds, and ops that passed while nothing was
   recorded. */
static uint64_t issued_by_others(void)
{
    uint64_t sum = 0;
    for (struct ag_stream *stream = ag_stream_all(); stream != NULL; stream = stream->next)
        if (atomic_load_explicit(&stream->thread, memory_order_relaxed) != &ag_self)
            sum += atomic_load_explicit(&stream->epoch, memory_order_relaxed) +
                   atomic_load_explicit(&stream->passed, memory_order_relaxed);
    return sum;
}

/* Whether the calling thread has issued the last op of every stream that has had one. */
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

/* Nothing has been measured yet, or what was measured does not hold any more. */
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
           (head->longest == 0 || saved_ns > SAVED_NS || is_alone());
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
    ag_log(AG_LOG_NOTE, "holding the sequences of one head does not pay in stream %p",
           (void *)stream->handle);
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
