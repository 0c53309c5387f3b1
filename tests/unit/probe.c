/* SPDX-License-Identifier: MIT */
/*
 * Runs the library's configuration and report alone, for test_config.py and test_report.py:
 *   probe defaults   every option as "section.key|default|least|greatest|help"
 *   probe options    every option as it was configured, as "section.key=value"
 *   probe report     writes an exit report with numbers of which none is zero
 *   probe end NAME=NUMBER...
 *                    the end of a process with these numbers: of 1000 ops, 900 were replayed
 *   probe log        one message of each level, then many warnings
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "observe/log.h"
#include "observe/reportfile.h"
#include "observe/verbose.h"

static void print_defaults(void)
{
#define AG_OPT_BOOL(section, key, value, help)                                                     \
    printf("%s.%s|%s|||%s\n", #section, #key, #value, help);
#define AG_OPT_INT(section, key, value, min, max, help)                                            \
    printf("%s.%s|%ld|%ld|%ld|%s\n", #section, #key, (long)value, (long)min, (long)max, help);
#define AG_OPT_CHOICE(section, key, words, help)                                                   \
    printf("%s.%s|%.*s|||%s\n", #section, #key, (int)strcspn(words, "|"), words, help);
#define AG_OPT_STRING(section, key, value, help)                                                   \
    printf("%s.%s|%s|||%s\n", #section, #key, value, help);
#include "config/options.def"
#undef AG_OPT_BOOL
#undef AG_OPT_INT
#undef AG_OPT_CHOICE
#undef AG_OPT_STRING
}

/* A word of "one|other|third" by its place. */
static const char *word(const char *words, unsigned place)
{
    static char copy[64];
    while (place-- > 0)
        words = strchr(words, '|') + 1;
    snprintf(copy, sizeof copy, "%.*s", (int)strcspn(words, "|"), words);
    return copy;
}

static void print_options(void)
{
#define AG_OPT_BOOL(section, key, value, help)                                                     \
    printf("%s.%s=%s\n", #section, #key, ag_opt.section##_##key ? "true" : "false");
#define AG_OPT_INT(section, key, value, min, max, help)                                            \
    printf("%s.%s=%ld\n", #section, #key, ag_opt.section##_##key);
#define AG_OPT_CHOICE(section, key, words, help)                                                   \
    printf("%s.%s=%s\n", #section, #key, word(words, ag_opt.section##_##key));
#define AG_OPT_STRING(section, key, value, help)                                                   \
    printf("%s.%s=%s\n", #section, #key, ag_opt.section##_##key);
#include "config/options.def"
}

static void write_report(void)
{
    struct ag_stream_account streams[] = {
        {.number = 3,
         .lives = 2,
         .kind = "blocking",
         .ops = 1000,
         .replayed = 900,
         .replays = 15,
         .traces = 2},
    };
    struct ag_trace_account few = {.number = 1,
                                   .stream = 3,
                                   .length = 10,
                                   .replays = 5,
                                   .patches = 7,
                                   .names = 1,
                                   .kernels = {{"memset", 10}}};
    struct ag_trace_account many = {.number = 2,
                                    .stream = 3,
                                    .length = 20,
                                    .replays = 10,
                                    .patches = 1,
                                    .names = 2,
                                    .kernels = {{"_Z3\"mix", 15}, {NULL, 5}}};
    struct ag_trace_account *traces[] = {&few, &many};
    struct ag_cut cuts[] = {
        {NULL, AG_REASON_WATCHDOG, AG_WHY_HELD, 1, 20},
        {"cuStreamSynchronize", AG_REASON_HOST_WAIT, AG_WHY_SHORT, 2, 30},
    };
    struct ag_account account = {
        .streams = streams,
        .stream_count = 1,
        .traces = traces,
        .trace_count = 2,
        .cuts = cuts,
        .cut_count = 2,
        .traces_left_out = 4,
        .held_ns = 4500,
        .eager_ns = 2500,
        .trial_variance = 0.25,
        .gpus = {"A \"GPU\""},
        .gpu_count = 1,
        .pool_allocations = 70,
        .pool_behind_waits = 60,
        .pool_keeps = 4096,
        .graph_memory_kb = 200,
        .stopped = "no reason",
        .seconds = 1.5,
        .complete = true,
        .partial = true,
        .barred = true,
    };
    struct ag_counters c = {.ops = 1000,
                            .replayed = 900,
                            .replays = 15,
                            .waited = 3,
                            .patches = 8,
                            .updates = 5,
                            .traces = 2,
                            .making_ns = 2500000,
                            .evictions = 1,
                            .trials = 9,
                            .trials_lost = 4,
                            .errors = 1};
    for (int i = 0; i < AG_REASON_COUNT; i++)
        c.flushes[i] = (uint64_t)i + 1;
    for (int i = 0; i < AG_REASON_COUNT; i++)
        c.given_up[i] = 200 + (uint64_t)i;
    for (int i = 0; i < AG_WHY_COUNT; i++)
        c.eager[i] = 100 + (uint64_t)i;
    c.flushes[0] = UINT64_MAX;
    for (int i = 1; i < AG_REFUSAL_COUNT; i++)
        c.refusals[i] = (uint64_t)i;
    account.counters = c;
    ag_report_write(&account);
}

/* Of "NAME=NUMBER", the number. */
static double number(char **words, const char *name, double otherwise)
{
    size_t n = strlen(name);
    for (; *words; words++)
        if (strncmp(*words, name, n) == 0 && (*words)[n] == '=')
            return strtod(*words + n + 1, NULL);
    return otherwise;
}

static void end(char **words)
{
    struct ag_trace_account trace = {.number = 1, .length = 9, .replays = 100};
    struct ag_account account = {
        .complete = true,
        .traces = (struct ag_trace_account *[]){&trace},
        .trace_count = 1,
        .gpus = {number(words, "simulated", 0) != 0 ? "Simulated GPU" : "A GPU"},
        .gpu_count = 1,
        .partial = number(words, "partial", 0) != 0,
        .seconds = number(words, "seconds", 1.5),
        .held_ns = (uint64_t)number(words, "held", 2500),
        .eager_ns = (uint64_t)number(words, "eager", 4500),
        .trial_variance = number(words, "variance", 0.0001),
        .graph_memory_kb = 2048,
    };
    struct ag_counters c = {.replays = 15, .traces = 2};
    c.ops = (uint64_t)number(words, "ops", 1000);
    c.replayed = (uint64_t)number(words, "replayed", 900);
    c.making_ns = (uint64_t)number(words, "making_ns", 0);
    c.eager[AG_WHY_NOVEL] = (uint64_t)number(words, "novel", 60);
    c.given_up[AG_REASON_HOST_WAIT] = 40;
    account.counters = c;
    ag_report_write(&account);
    ag_verbose_end(&account, true);
}

static void write_log(void)
{
    ag_log(AG_LOG_ALWAYS, "always");
    ag_log(AG_LOG_WARNING, "warning");
    ag_log(AG_LOG_NOTE, "note on\ntwo lines");
    ag_log(AG_LOG_DETAIL, "%01500d", 1);
    for (int i = 0; i < 100; i++)
        ag_log(AG_LOG_WARNING, "warning %d", i);
}

static void complain(const char *mistake)
{
    ag_log(AG_LOG_ALWAYS, "%s", mistake);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    /* What a host program has in its buffers and in errno must come through unharmed. */
    fputs("[host", stdout);
    errno = ERANGE;
    ag_config_load(complain);
    if (strcmp(what, "report") == 0)
        write_report();
    else if (strcmp(what, "end") == 0)
        end(argv + 2);
    else if (strcmp(what, "log") == 0)
        write_log();
    if (errno != ERANGE) {
        fputs("errno was changed\n", stderr);
        return 1;
    }
    puts(" text]");
    if (strcmp(what, "defaults") == 0)
        print_defaults();
    else if (strcmp(what, "options") == 0)
        print_options();
    return 0;
}
