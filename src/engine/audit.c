/* SPDX-License-Identifier: MIT */
/* Whether it pays to follow a stream: see audit.h. */
#include "engine/audit.h"

#include "config/config.h"
#include "engine/pace.h"
#include "observe/log.h"

/* Recorded ops between two looks, each of which may begin an audit. The first look of a state
   begins none: until then loops are found and trials are made. */
enum {
    LOOK_OPS = 1 << 11,
    LOOK_OPS_IN_STEP = 1 << 9, /* where threads are in step: trials say little there */
};

/* Recorded ops from an audit that following has won to the next audit. */
enum {
    AGAIN_FIRST = 1 << 16, /* after the first such audit */
    AGAIN_GROWS = 4,       /* times as many after each further one */
    AGAIN_MOST = 1 << 28,  /* at most: no decision is for ever */
};

/* Percent of ops that are replayed, from which on a stream is not audited: following it costs
   little besides. Where threads are in step it is audited all the same, since what a replay saves
   its own thread says little about the whole program. */
enum { MANY = 75 };

/* A stream is audited if it has made no more traces than this since the last look. With more, the
   audit would measure what comes before the loop. */
enum { SETTLED = 1 };

/* A stream is audited if it has no more ops than this between two barriers: a rest would make the
   recorder forget where it cuts a loop that seldom waits. */
enum {
    MOST_RUN = 128,
    MOST_RUN_IN_STEP = 1024, /* where threads are in step */
};

enum {
    WINDOW = 512,         /* ops of a window; rounded up, so that windows end at barriers */
    PAIRS = 5,            /* pairs of windows, at most */
    MOST = PAIRS / 2 + 1, /* pairs that decide: chance alone often wins two of five, where windows
                             differ by much more than FASTER asks for */
};

/* Following wins a pair if a followed op takes less than this many percent of the time of an op
   that passes while the stream rests. */
enum { FASTER = 98 };

/* Ops for which a stream rests, at least, that has lost an audit while threads were in step. */
enum { REST_IN_STEP = 1 << 17 };

/* Begins to count: the next look is due after so many recorded ops. */
static void mark(struct ag_stream *stream, uint32_t after)
{
    struct ag_audit *audit = &stream->audit;
    audit->since = stream->recorder.ops;
    audit->after = after;
    audit->replayed = stream->counters.replayed;
    audit->traces = stream->counters.traces;
}

/* The next look comes as soon as that of a stream in step. It is put off if the stream is not in
   step by then (ag_audit_look()). */
static void mark_look(struct ag_stream *stream)
{
    mark(stream, LOOK_OPS_IN_STEP);
}

void ag_audit_start(struct ag_stream *stream)
{
    stream->audit = (struct ag_audit){.again = AGAIN_FIRST};
    mark_look(stream);
}

static bool is_in_question(const struct ag_stream *stream)
{
    const struct ag_audit *audit = &stream->audit;
    uint64_t ops = stream->recorder.ops - audit->since;
    bool in_step = ag_stream_in_step(stream);
    return ag_opt.trace_trial && audit->since != 0 && stream->pace.runs != 0 &&
           stream->pace.runs <= (in_step ? MOST_RUN_IN_STEP : MOST_RUN) &&
           stream->counters.traces - audit->traces <= SETTLED &&
           (in_step || (stream->counters.replayed - audit->replayed) * 100 < ops * MANY);
}

/* A window begins: notes the time and the number of ops that have been issued. */
static void begin(struct ag_stream *stream)
{
    stream->audit.began = ag_pace_now();
    stream->audit.issued = ag_stream_issued(stream);
}

/* A window is over: the time of one of its ops, ps. */
static uint64_t op_ps(const struct ag_stream *stream)
{
    uint64_t ops = ag_stream_issued(stream) - stream->audit.issued;
    return (ag_pace_now() - stream->audit.began) * 1000 / (ops | (ops == 0));
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
    stream->timed.head = NULL;
    ag_recorder_doze(&stream->recorder, audit->window, 0);
    begin(stream);
}

static void over(struct ag_stream *stream, bool lost)
{
    struct ag_audit *audit = &stream->audit;
    audit->on = false;
    stream->counters.trials++;
    if (lost) {
        stream->counters.given_up++;
        ag_log(AG_LOG_NOTE, "following stream %p does not pay", (void *)stream->handle);
        ag_stream_drop_traces(stream, NULL, audit->clock);
        ag_stream_want_none(stream);
        ag_recorder_give_up(&stream->recorder, ag_stream_in_step(stream) ? REST_IN_STEP : 0);
        mark_look(stream);
        return;
    }
    ag_log(AG_LOG_NOTE, "following stream %p pays", (void *)stream->handle);
    mark(stream, audit->again);
    audit->again =
        audit->again < AGAIN_MOST / AGAIN_GROWS ? audit->again * AGAIN_GROWS : AGAIN_MOST;
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
    } else if (audit->after == LOOK_OPS_IN_STEP && !ag_stream_in_step(stream)) {
        audit->after = LOOK_OPS;
    } else if (is_in_question(stream)) {
        audit->on = true;
        audit->won = audit->lost = 0;
        audit->clock = stream->clock;
        audit->window = (WINDOW + stream->pace.runs - 1) / stream->pace.runs * stream->pace.runs;
        follow(stream);
    } else {
        mark_look(stream);
    }
}

void ag_audit_arrived(struct ag_stream *stream)
{
    struct ag_audit *audit = &stream->audit;
    uint64_t rested_ps = op_ps(stream);
    audit->rests = false;
    ag_recorder_wake(&stream->recorder, audit->window);
    bool won = audit->followed_ps * 100 < rested_ps * FASTER;
    audit->won += won;
    audit->lost += !won;
    if (audit->won == MOST || audit->lost == MOST)
        over(stream, audit->lost == MOST);
    else
        follow(stream);
}
