/* SPDX-License-Identifier: MIT */
/*
 * Plays a recorded program: play [--seeds N] [--first SEED] [--no-plan] [FILE].
 *
 * Each play is a process of its own, since the engine has one state for a process. Prints a line of
 * JSON for the program: table.py makes a table of such lines.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/config.h"
#include "engine/engine.h"
#include "engine/tell/account.h"
#include "policy/doors.h"
#include "policy/driver.h"
#include "policy/plan.h"
#include "policy/program.h"
#include "policy/threads.h"

enum way { EAGER, LIBRARY, PLAN };

/* What a play tells. Times are of the model. */
struct result {
    uint64_t ns; /* from the first call to the end of all work */
    uint64_t ops, replayed, replays, patches, graphs, given_up;
    uint64_t flushes[AG_REASON_COUNT];
};

static enum way way;
static int output; /* of a play */

/* -- A play ------------------------------------------------------------------------------ */

static void complain(const char *mistake)
{
    fprintf(stderr, "play: %s\n", mistake);
}

static void begins(const struct play_program *program)
{
    play_driver_make(program);
    if (way == PLAN)
        play_plan_begins(program);
    if (way != LIBRARY)
        return;
    ag_config_load(complain);
    ag_engine_start();
    ag_engine_context_begins();
}

static void line(const struct play_program *program, uint64_t number)
{
    const struct play_line *call = &program->line[number];
    if (play_is_needless(call))
        return;
    if (play_stream_of(call) != 0)
        play_follow_context(play_stream(play_stream_of(call)));
    if (way == PLAN)
        play_plan_door(program, number);
    else
        play_door(program, call);
}

static void define(const struct play_program *program, uint64_t number)
{
    play_define(program, &program->line[number]);
}

static void count(struct result *result)
{
    struct ag_counters counters;
    uint64_t streams;
    ag_account_peek(&counters, &streams);
    result->ops = counters.ops;
    result->replayed = counters.replayed;
    result->replays = counters.replays;
    result->patches = counters.patches;
    result->graphs = counters.traces;
    result->given_up = counters.trials_lost;
    memcpy(result->flushes, counters.flushes, sizeof result->flushes);
}

/* The watchdog may be at work on a stream, and its counters could not be read. */
static void wait_for_streams(void)
{
    for (struct ag_stream *stream = ag_stream_all(); stream != NULL; stream = stream->place.next) {
        ag_stream_lock(stream);
        ag_stream_unlock(stream);
    }
}

static void ends(const struct play_program *program)
{
    struct result result = {.ns = 0};
    if (way == LIBRARY)
        ag_engine_barrier_all(AG_REASON_EXIT);
    uint64_t end = play_end();
    for (uint32_t c = 1; c <= program->contexts; c++)
        if (play_context_end(play_context(c)) > end)
            end = play_context_end(play_context(c));
    result.ns = end - PLAY_BEGIN;
    wait_for_streams(); /* the program has ended: that takes none of its time */
    if (way == LIBRARY)
        count(&result);
    else if (way == PLAN)
        play_plan_counts(&result.replayed, &result.replays, &result.patches, &result.graphs);
    _exit(write(output, &result, sizeof result) == sizeof result ? 0 : 2);
}

/* Plays the program in a process of its own. False: it has failed. */
static bool play(const struct play_program *program, uint64_t seed, struct result *result)
{
    const struct play_work work = {
        .line = line, .define = define, .begins = begins, .ends = ends, .apart = way == LIBRARY};
    enum { PATIENCE_S = 300 };
    int ends_of_pipe[2], status;
    if (pipe(ends_of_pipe) != 0)
        return false;
    pid_t child = fork();
    if (child == 0) {
        output = ends_of_pipe[1];
        (void)alarm(PATIENCE_S);
        play_run(program, seed, &work);
    }
    (void)close(ends_of_pipe[1]);
    bool read_all = read(ends_of_pipe[0], result, sizeof *result) == sizeof *result;
    (void)close(ends_of_pipe[0]);
    return child > 0 && waitpid(child, &status, 0) == child && status == 0 && read_all;
}

/* -- All plays of a program ---------------------------------------------------------------- */

static void tell(const char *name, const struct result *result, unsigned seeds, uint64_t first)
{
    printf(", \"%s\": [", name);
    for (unsigned i = 0; i < seeds; i++, result++) {
        printf("%s{\"seed\": %llu, \"ns\": %llu, \"ops\": %llu, \"replayed\": %llu, \"replays\": "
               "%llu, \"patches\": %llu, \"graphs\": %llu, \"given_up\": %llu, \"flushes\": {",
               i == 0 ? "" : ", ", (unsigned long long)(first + i), (unsigned long long)result->ns,
               (unsigned long long)result->ops, (unsigned long long)result->replayed,
               (unsigned long long)result->replays, (unsigned long long)result->patches,
               (unsigned long long)result->graphs, (unsigned long long)result->given_up);
        bool any = false;
        for (unsigned r = 0; r < AG_REASON_COUNT; r++)
            if (result->flushes[r] != 0) {
                printf("%s\"%s\": %llu", any ? ", " : "", ag_reason_names[r],
                       (unsigned long long)result->flushes[r]);
                any = true;
            }
        printf("}}");
    }
    printf("]");
}

static bool play_way(const struct play_program *program, const char *name, enum way now,
                     unsigned seeds, uint64_t first)
{
    struct result *result = calloc(seeds, sizeof *result);
    bool all = result != NULL;
    way = now;
    for (unsigned i = 0; i < seeds && all; i++)
        all = play(program, first + i, &result[i]);
    if (all)
        tell(name, result, seeds, first);
    else
        fprintf(stderr, "play: %s: %s has failed\n", program->name, name);
    free(result);
    return all;
}

/* Whether the plan is better than those before; without noise. */
static bool is_better(const struct play_program *program, uint64_t *best)
{
    struct result result;
    if (!play(program, 0, &result) || (*best != 0 && result.ns >= *best))
        return false;
    *best = result.ns;
    return true;
}

/* The best plan: of all lengths of pieces, and then without some graphs. */
static void find_plan(const struct play_program *program)
{
    enum { LEFT_OUT = 4 };
    uint64_t best = 0;
    uint32_t lengths[PLAY_PLAN_LENGTHS], length = 0;
    unsigned plans = play_plan_lengths(program, lengths);
    way = PLAN;
    for (unsigned i = 0; i < plans; i++) {
        play_plan_make(program, lengths[i]);
        if (is_better(program, &best))
            length = lengths[i];
    }
    play_plan_make(program, length);
    for (unsigned i = 0; i < LEFT_OUT && play_plan_leave_out(); i++)
        if (!is_better(program, &best))
            play_plan_take_back();
}

int main(int argc, char **argv)
{
    enum { PLANS = 5 }; /* plays of the best plan are much alike */
    static struct play_program program;
    unsigned seeds = 1;
    uint64_t first = 0;
    bool plan = true;
    char error[256];
    FILE *file = stdin;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--seeds") == 0 && i + 1 < argc)
            seeds = (unsigned)atoi(argv[++i]);
        else if (strcmp(argv[i], "--first") == 0 && i + 1 < argc)
            first = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--no-plan") == 0)
            plan = false;
        else if ((file = fopen(argv[i], "r")) == NULL) {
            fprintf(stderr, "play: %s: %s\n", argv[i], strerror(errno));
            return 2;
        }
    }
    if (!play_read(&program, file, error)) {
        fprintf(stderr, "play: %s\n", error);
        return 2;
    }
    printf("{\"program\": \"%s\", \"calls\": %zu, \"threads\": %u, \"recorded_ns\": %llu",
           program.name, program.lines, program.threads, (unsigned long long)program.ns);
    (void)fflush(stdout);
    bool all = play_way(&program, "eager", EAGER, seeds, first) &&
               play_way(&program, "library", LIBRARY, seeds, first);
    if (all && plan) {
        find_plan(&program);
        all = play_way(&program, "plan", PLAN, seeds < PLANS ? seeds : PLANS, first);
    }
    printf("}\n");
    return all ? 0 : 1;
}
