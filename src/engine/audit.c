/* SPDX-License-Identifier: MIT */
/* Whether it pays to follow a stream: see audit.h. */
#include "engine/audit.h"

#include "config/config.h"
#include "engine/clock.h"
#include "engine/hot.h"
#include "engine/issuer.h"
#include "engine/trial.h"
#include "observe/log.h"
#include "trace/policy.h"

AG_HOLDS(struct ag_audit, won, AG_AUDIT_PAIRS);
AG_HOLDS(struct ag_audit, lost, AG_AUDIT_PAIRS);

/* Begins to count: the next look is due after so many recorded ops. */
static void mark(struct ag_stream *stream, uint32_t after)
{
    struct ag_audit *audit = &stream->audit;
    audit->since = stream->recorder.ops;
    audit->after = after;
    audit->replayed = stream->counters.replayed;
    audit->traces = stream->counters.traces;
    audit->graphs = ag_done.graphs;
    audit->thread = &ag_self;
}

/* The next look comes as soon as that of a stream in step. It is put off if the stream is not in
   step by then (ag_audit_look()). */
static void mark_look(struct ag_stream *stream)
{
    mark(stream, AG_AUDIT_LOOK_OPS_IN_STEP);
}

void ag_audit_start(struct ag_stream *stream)
{
    stream->audit = (struct ag_audit){.again = AG_AUDIT_AGAIN_FIRST};
    mark_look(stream);
}

/* Whether trials say little: threads are in step, or this one launches graphs of its own, and may
   wait for those. */
static bool trials_say_little(const struct ag_stream *stream)
{
    bool same = stream->audit.thread == &ag_self; /* or its graphs are not known */
    uint32_t graphs = same ? ag_done.graphs - stream->audit.graphs : 0;
    uint32_t ops = stream->recorder.ops - stream->audit.since;
    return ag_issuer_in_step(stream) || (uint64_t)graphs * AG_AUDIT_RUN_MOST > ops;
}

static bool is_in_question(const struct ag_stream *stream)
{
    const struct ag_audit *audit = &stream->audit;
    uint64_t ops = stream->recorder.ops - audit->since;
    bool in_step = ag_issuer_in_step(stream);
    return ag_opt.trace_trial && audit->since != 0 && stream->pace.runs != 0 &&
           stream->pace.runs <= (in_step ? AG_AUDIT_RUN_MOST_IN_STEP : AG_AUDIT_RUN_MOST) &&
           stream->counters.traces - audit->traces <= AG_AUDIT_SETTLED &&
           (trials_say_little(stream) ||
            (stream->counters.replayed - audit->replayed) * 100 < ops * AG_AUDIT_MANY);
}

/* A window begins: notes the time and the number of ops that have been issued. */
static void begin(struct ag_stream *stream)
{
    stream->audit.began = ag_clock_now();
    stream->audit.issued = ag_issuer_issued(stream);
}

/* A window is over: the time of one of its ops, ps. */
static uint64_t op_ps(const struct ag_stream *stream)
{
    uint64_t ops = ag_issuer_issued(stream) - stream->audit.issued;
    return ag_clock_since(stream->audit.began) * 1000 / (ops | (ops == 0));
}

static void follow(struct ag_stream *stream)
{
    mark(stream, stream->audit.window);
    begin(stream);
}

static void rest(struct ag_stream *stream)
{
    struct ag_audit *audit = &stream->audit;
    audit->followed_ps = op_ps(stream);
    audit->rests = true;
    ag_trial_disturb(stream);
    ag_recorder_rest(&stream->recorder, audit->window, 0);
    begin(stream);
}

static void over(struct ag_stream *stream, bool lost)
{
    struct ag_audit *audit = &stream->audit;
    audit->on = false;
    stream->counters.trials++;
    if (lost) {
        stream->counters.given_up++;
        ag_log(AG_LOG_NOTE, "following stream %p does not pay", (void *)stream->id.handle);
        mark_look(stream);
        return;
    }
    ag_log(AG_LOG_NOTE, "following stream %p pays", (void *)stream->id.handle);
    mark(stream, audit->again);
    audit->again = audit->again < AG_AUDIT_AGAIN_MOST / AG_AUDIT_AGAIN_GROWS
                       ? audit->again * AG_AUDIT_AGAIN_GROWS
                       : AG_AUDIT_AGAIN_MOST;
}

void ag_audit_look(struct ag_stream *stream)
{
    struct ag_audit *audit = &stream->audit;
    if (audit->rests) /* until an op arrives that is recorded */
        return;
    if (audit->on && ag_recorder_rests(&stream->recorder)) { /* for another reason: once more */
        follow(stream);
    } else if (audit->on) {
        rest(stream);
    } else if (audit->after == AG_AUDIT_LOOK_OPS_IN_STEP && !ag_issuer_in_step(stream)) {
        audit->after = AG_AUDIT_LOOK_OPS;
    } else if (is_in_question(stream)) {
        audit->on = true;
        audit->won = audit->lost = 0;
        audit->clock = stream->execs.clock;
        audit->window =
            (AG_AUDIT_WINDOW + stream->pace.runs - 1) / stream->pace.runs * stream->pace.runs;
        follow(stream);
    } else {
        mark_look(stream);
    }
}

bool ag_audit_arrived(struct ag_stream *stream, uint32_t *least)
{
    struct ag_audit *audit = &stream->audit;
    uint64_t rested_ps = op_ps(stream);
    audit->rests = false;
    ag_recorder_resume(&stream->recorder, audit->window);
    bool won = audit->followed_ps * 100 < rested_ps * AG_AUDIT_FASTER;
    audit->won += won;
    audit->lost += !won;
    bool lost = audit->lost == AG_AUDIT_MOST;
    if (lost || audit->won == AG_AUDIT_MOST)
        over(stream, lost);
    else
        follow(stream);
    *least = ag_issuer_in_step(stream) ? AG_AUDIT_REST_IN_STEP : 0;
    return lost;
}
