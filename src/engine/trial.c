/* SPDX-License-Identifier: MIT */
/* Whether it pays to hold: how holds of a head end, and how long its sequences take either way. */
#include "engine/trial.h"

#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "engine/hot.h"
#include "engine/issuer.h"
#include "observe/log.h"
#include "trace/policy.h"

AG_HOLDS(struct ag_trial, pair, AG_TRIAL_PAIRS + 1);
AG_HOLDS(struct ag_trial, won, AG_TRIAL_PAIRS + 1);
AG_HOLDS(struct ag_trial, lost, AG_TRIAL_PAIRS + 1);
AG_HOLDS(struct ag_trial, repeats, AG_TRIAL_REPEATS);
AG_HOLDS(struct ag_trial, begun, (AG_TRIAL_SHORT * AG_TRIAL_WINDOW) + AG_TRIAL_REPEATS);
AG_HOLDS(struct ag_trial, length, AG_MOST_LENGTH);

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

/* The next trial comes after so many replays. */
static void put_off(struct ag_head *head, uint32_t replays)
{
    head->replays = replays;
    head->put_off = (struct ag_put_off){
        .thread = &ag_self, .replays = replays, .waits = ag_done.waits, .graphs = ag_done.graphs};
}

/* Likewise, and after more of them each time. */
static void put_off_more(struct ag_head *head)
{
    put_off(head, head->replays_next);
    head->replays_next *= head->replays_next < AG_TRIAL_REPLAYS_MOST ? AG_TRIAL_REPLAYS_GROWS : 1;
}

/* Nothing has been measured yet, or what was measured does not hold any more. */
static void start(struct ag_head *head)
{
    head->trial.on = false;
    put_off(head, AG_TRIAL_REPLAYS_FIRST);
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
        put_off(head, AG_TRIAL_REPLAYS_ROUNDS);
    } else if (trace->length >= 2 * head->longest) {
        start(head);
        head->longest = trace->length;
        if (stream->trial.won >= AG_TRIAL_TRUSTED && trace->length > 1)
            put_off(head, head->replays_next);
    }
}

/* Whether the head, which came so often, came in every second lap at least, and not too often in
   one. */
static bool comes_in_laps(uint32_t laps, uint32_t times)
{
    return laps >= times / AG_TRIAL_LAP && laps <= times * AG_TRIAL_LAPS_MOST;
}

/* Where laps begin, as it was while the trial was put off. */
static enum ag_lap lap_of(const struct ag_head *head)
{
    const struct ag_put_off *before = &head->put_off;
    if (before->thread != &ag_self)
        return AG_LAP_SEQUENCE;
    if (comes_in_laps(ag_done.graphs - before->graphs, before->replays))
        return AG_LAP_GRAPH;
    bool waits = comes_in_laps(ag_done.waits - before->waits, before->replays);
    return waits ? AG_LAP_WAIT : AG_LAP_SEQUENCE;
}

/* Whether another thread issues the sequences now: its waits and graphs say nothing of the laps. */
static bool is_taken_over(const struct ag_trial *trial)
{
    return trial->lap != AG_LAP_SEQUENCE && trial->thread != &ag_self;
}

/* What the calling thread raises where laps begin. */
static uint32_t mark_of(const struct ag_trial *trial)
{
    return trial->lap == AG_LAP_GRAPH ? ag_done.graphs : ag_done.waits;
}

/* A trial is under way from now on. */
static void begin(struct ag_head *head)
{
    struct ag_trial *trial = &head->trial;
    *trial = (struct ag_trial){.on = true,
                               .lap = lap_of(head),
                               .thread = &ag_self,
                               .others = head->longest == 1 ? issued_by_others() : 0};
    trial->mark = mark_of(trial);
}

void ag_trial_submitted(struct ag_node *node, bool replayed)
{
    struct ag_head *head = node->head;
    if (replayed) {
        head->score += head->score < AG_TRIAL_SCORE_MOST;
        head->missed.next = AG_TRIAL_MISSED_REST_FIRST;
        if (head->replays != 0 && --head->replays == 0 && ag_opt.trace_trial)
            begin(head);
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

static bool is_known(const struct ag_window window[2])
{
    return window[0].ops != 0 && window[1].ops != 0;
}

/* The time of an op, ns. */
static double op_ns(const struct ag_window *window)
{
    return (double)window->ns / (double)window->ops;
}

/* What held ops have saved in all, ns. */
static double saved_ns(const struct ag_window window[2])
{
    return (op_ns(&window[1]) - op_ns(&window[0])) * (double)window[0].ops;
}

/* Whether held ops took less than so many percent of the time of eager ops, and replays saved
   enough where there are other threads. */
static bool faster(const struct ag_head *head, const struct ag_window window[2], unsigned percent)
{
    if (!is_known(window)) /* it stays */
        return true;
    double held_ns = op_ns(&window[0]), eager_ns = op_ns(&window[1]);
    double each_ns = (eager_ns - held_ns) * head->longest; /* not known of rounds of a loop: 0 */
    return held_ns * 100 < eager_ns * percent &&
           (head->longest == 0 || each_ns > AG_TRIAL_SAVED_NS || is_alone());
}

/* Whether the laps with held sequences were slower, whatever the sequences themselves took. */
static bool slower(const struct ag_window laps[2])
{
    return is_known(laps) && op_ns(&laps[0]) * 100 > op_ns(&laps[1]) * AG_TRIAL_SLOWER;
}

/* Whether what was saved in the sequences has been saved in the laps, too. */
static bool is_found(const struct ag_window window[2], const struct ag_window laps[2])
{
    return !is_known(laps) || !is_known(window) ||
           saved_ns(laps) * 100 >= saved_ns(window) * AG_TRIAL_FOUND;
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

/* Laps have been slower: other heads may be the reason, too, and are tried soon. */
static void doubt_all(const struct ag_stream *stream)
{
    const struct ag_trace *trace = stream->execs.traces;
    for (; trace != NULL; trace = trace->next) {
        struct ag_head *head = ag_trial_head(trace->leaf)->head;
        if (head != NULL && head->replays > AG_TRIAL_REPLAYS_FIRST)
            put_off(head, AG_TRIAL_REPLAYS_FIRST);
    }
}

static enum ag_trial_verdict over(struct ag_stream *stream, struct ag_node *node, bool lost)
{
    struct ag_head *head = node->head;
    head->trial.on = false;
    if (stream->trial.leader == node)
        stream->trial.leader = NULL;
    if (lost && slower(stream->trial.laps))
        doubt_all(stream);
    stream->trial.won = lost ? 0 : stream->trial.won + 1;
    stream->counters.trials++;
    if (!lost) {
        put_off_more(head);
        return AG_TRIAL_KEEP;
    }
    put_off(head, AG_TRIAL_REPLAYS_FIRST);
    head->lost.left = head->lost.next;
    head->lost.next *= head->lost.next < AG_TRIAL_LOST_REST_MOST ? 2 : 1;
    stream->counters.given_up++;
    ag_log(AG_LOG_NOTE, "holding the sequences of one head does not pay in stream %p",
           (void *)stream->id.handle);
    return AG_TRIAL_GIVE_UP;
}

/* What is compared: the head's own sequences or, where these were not faster, laps. All heads took
   turns, and one's sequences may have waited for what another's saved. */
static const struct ag_window *compared(const struct ag_head *head, const struct ag_window laps[2],
                                        unsigned percent)
{
    bool own = !is_known(laps) || faster(head, head->trial.window, percent);
    return own ? head->trial.window : laps;
}

/* A pair is over, and with it the trial, or not (EAGER). */
static enum ag_trial_verdict pair_over(struct ag_stream *stream, struct ag_node *node,
                                       const struct ag_window laps[2])
{
    struct ag_trial *trial = &node->head->trial;
    bool look = trial->pair++ == 0;
    unsigned percent = look ? AG_TRIAL_CLEARLY : AG_TRIAL_FASTER;
    const struct ag_window *window = compared(node->head, laps, percent);
    bool sure = look && faster(node->head, window, AG_TRIAL_SURE) &&
                fastest_faster(window, AG_TRIAL_SURE) && is_found(window, laps);
    if (faster(node->head, window, percent) && !slower(laps))
        trial->won++;
    else if (!look)
        trial->lost++;
    for (unsigned i = 0; i < 2; i++) {
        trial->all[i].ns += window[i].ns;
        trial->all[i].ops += window[i].ops;
    }
    memset(trial->window, 0, sizeof trial->window);
    unsigned enough = ag_issuer_in_step(stream) ? AG_TRIAL_LOST_IN_STEP : AG_TRIAL_LOST;
    bool lost = trial->lost >= enough || (look && is_crowded(node->head));
    bool is_over = lost || sure || trial->won > AG_TRIAL_PAIRS - enough;
    return is_over ? over(stream, node, lost) : AG_TRIAL_EAGER;
}

/* A window is whole: the next one begins (EAGER), or the trial is over. */
static enum ag_trial_verdict window_over(struct ag_stream *stream, struct ag_node *node)
{
    struct ag_trial *trial = &node->head->trial;
    trial->begun = 0;
    trial->second ^= 1;
    if (trial->second)
        return AG_TRIAL_EAGER;
    if (trial->lap == AG_LAP_SEQUENCE)
        return pair_over(stream, node, trial->laps); /* none */
    memcpy(stream->trial.laps, trial->laps, sizeof trial->laps);
    memset(trial->laps, 0, sizeof trial->laps);
    stream->trial.pairs++;
    return pair_over(stream, node, stream->trial.laps);
}

/* Whether the window has all its sequences. All ops of their laps count: they take turns, too. */
static bool is_whole(const struct ag_trial *trial)
{
    unsigned eager = is_eager(trial);
    uint64_t own = trial->window[eager].ops, all = trial->laps[eager].ops;
    uint64_t ops = all > own ? all : own;
    uint32_t least = trial->pair == 0 ? AG_TRIAL_LOOK : AG_TRIAL_WINDOW;
    if (trial->pair == 0 && trial->begun >= 2 && ops >= AG_TRIAL_LONG)
        return true;
    return trial->begun >= least &&
           (trial->begun >= AG_TRIAL_SHORT * least || ops >= AG_TRIAL_SHORT * least);
}

/* Adds a time. One that is much longer than the others does not count: somebody paused. */
static void take(struct ag_window *window, uint64_t ns, uint64_t ops)
{
    uint64_t each = ops != 0 ? ns / ops : 0;
    uint64_t average = window->ops != 0 ? window->ns / window->ops : 0;
    if (ops != 0 && (window->ops == 0 || average > AG_TRIAL_PAUSE * (each + 1))) {
        *window = (struct ag_window){.ns = ns, .ops = ops, .least = each};
    } else if (ops != 0 && each <= AG_TRIAL_PAUSE * (average + 1)) {
        window->ns += ns;
        window->ops += ops;
        window->least = each < window->least ? each : window->least;
    }
}

/* Whether the sequence that begins is the first of a lap. */
static bool begins_lap(struct ag_trial *trial)
{
    uint32_t mark = mark_of(trial);
    bool first = trial->lap == AG_LAP_SEQUENCE || trial->began == 0 || mark != trial->mark ||
                 trial->repeats == AG_TRIAL_REPEATS;
    trial->repeats += !first;
    trial->mark = mark;
    return first;
}

/* A lap is over, and the next one begins; or the window does, too, or the trial. */
static enum ag_trial_verdict lap_over(struct ag_stream *stream, struct ag_node *node)
{
    struct ag_trials *trials = &stream->trial;
    struct ag_trial *trial = &node->head->trial;
    uint64_t now = ag_clock_now();
    if (trials->leader == node && trial->disturbed == trials->disturbed)
        take(&trial->laps[is_eager(trial)],
             ag_clock_less(ag_clock_less(now, trial->began), trials->spent),
             stream->counters.ops - trial->ops);
    enum ag_trial_verdict verdict = is_whole(trial) ? window_over(stream, node) : AG_TRIAL_EAGER;
    if (trial->on && trial->lap != AG_LAP_SEQUENCE)
        trials->leader = node;
    trial->repeats = 1;
    trial->began = now;
    trial->ops = stream->counters.ops;
    trial->disturbed = trials->disturbed;
    trials->spent = 0;
    return verdict;
}

/* A sequence begins, whose time is taken. */
static enum ag_trial_verdict turn(struct ag_stream *stream, struct ag_node *node, bool eager)
{
    stream->trial.timed = (struct ag_timed){.head = node, .began = ag_clock_now(), .eager = eager};
    return eager ? AG_TRIAL_EAGER : AG_TRIAL_HOLD;
}

/* A sequence of the trial begins. It counts whatever becomes of it, so that each trial ends. */
static enum ag_trial_verdict next(struct ag_stream *stream, struct ag_node *node)
{
    struct ag_head *head = node->head;
    struct ag_trial *trial = &head->trial;
    if (trial->length == 0)
        trial->length = (uint16_t)stream->recorder.max_length;
    if (trial->length != stream->recorder.max_length || is_taken_over(trial)) {
        /* What was measured is no more: anew. */
        trial->on = false;
        put_off(head, AG_TRIAL_REPLAYS_FIRST);
        return AG_TRIAL_HOLD;
    }
    if (trial->began == 0 && trial->lap != AG_LAP_SEQUENCE && mark_of(trial) == trial->mark)
        return AG_TRIAL_HOLD; /* the first lap is a whole one */
    enum ag_trial_verdict verdict = begins_lap(trial) ? lap_over(stream, node) : AG_TRIAL_EAGER;
    trial->begun++;
    return trial->on ? turn(stream, node, is_eager(trial)) : verdict;
}

/* Another head leads, or has led: takes part in the pair that is over (EAGER: none is). */
static enum ag_trial_verdict follow(struct ag_stream *stream, struct ag_node *node)
{
    struct ag_trial *trial = &node->head->trial;
    bool over = trial->follows && trial->pairs != stream->trial.pairs;
    bool joins = stream->trial.leader != NULL && !trial->follows;
    trial->pairs = stream->trial.pairs;
    trial->follows = stream->trial.leader != NULL;
    if (over && is_known(trial->window))
        return pair_over(stream, node, stream->trial.laps);
    if (over || joins)
        memset(trial->window, 0, sizeof trial->window);
    return AG_TRIAL_EAGER;
}

/* Nobody follows a head whose trial is off, or that does not come any more: the program has gone on
   to something else, or sequences begin there only where others are held. */
static void leave_astray(struct ag_stream *stream)
{
    struct ag_head *head = stream->trial.leader->head;
    const struct ag_trial *trial = &head->trial;
    bool comes = !is_taken_over(trial) && mark_of(trial) - trial->mark <= AG_TRIAL_ASTRAY_LAPS &&
                 stream->counters.ops - trial->ops <= AG_TRIAL_ASTRAY_OPS;
    if (trial->on && comes)
        return;
    stream->trial.leader = NULL;
    if (trial->on)
        put_off_more(head);
    head->trial.on = false;
}

/* There is a trial of this head, or one that it takes part in. */
static __attribute__((noinline)) enum ag_trial_verdict take_turns(struct ag_stream *stream,
                                                                  struct ag_node *node)
{
    struct ag_trials *trials = &stream->trial;
    struct ag_trial *trial = &node->head->trial;
    if (trials->leader != NULL && (trials->leader != node || !trial->on))
        leave_astray(stream);
    if (trial->on && trials->leader != node) {
        enum ag_trial_verdict verdict = follow(stream, node);
        if (verdict != AG_TRIAL_EAGER)
            return verdict;
    }
    if (trials->leader != NULL && trials->leader != node)
        return turn(stream, node, is_eager(&trials->leader->head->trial));
    return trial->on ? next(stream, node) : AG_TRIAL_HOLD;
}

/* Out of line, like take_turns(): most sequences need neither. */
static __attribute__((noinline)) enum ag_trial_verdict rest(struct ag_node *node)
{
    struct ag_head *head = head_of(node);
    if (head != NULL && head->lost.left == 0 && head->missed.left == 0)
        return AG_TRIAL_HOLD; /* it is new */
    if (head != NULL && head->lost.left == 0)
        head->missed.left--;
    return AG_TRIAL_EAGER;
}

enum ag_trial_verdict ag_trial_of(struct ag_stream *stream, struct ag_node *node)
{
    const struct ag_head *head = node->head;
    if (__builtin_expect(head == NULL || (head->lost.left | head->missed.left) != 0, 0))
        return rest(node);
    if (__builtin_expect(head->trial.on || stream->trial.leader != NULL, 0))
        return take_turns(stream, node);
    return AG_TRIAL_HOLD;
}

void ag_trial_forgives(struct ag_node *node)
{
    node->head->lost.left = 0;
}

void ag_trial_start(struct ag_stream *stream)
{
    stream->trial.won = 0;
    stream->trial.leader = NULL;
}

void ag_trial_arrived(struct ag_stream *stream)
{
    const struct ag_timed *timed = &stream->trial.timed;
    struct ag_trial *trial = &timed->head->head->trial;
    take(&trial->window[timed->eager], ag_clock_less(ag_clock_since(timed->began), timed->spent),
         timed->ops);
    stream->trial.spent += timed->spent;
    stream->trial.timed.head = NULL;
}
