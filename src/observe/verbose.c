/* SPDX-License-Identifier: MIT */
/* The lines of the options log.verbose and report.stats. */
#include "observe/verbose.h"

#include <inttypes.h>
#include <stdio.h>

#include "config/config.h"
#include "observe/reportfile.h"
#include "observe/saving.h"

enum ag_log_level ag_verbose_level(void)
{
    return ag_opt.log_verbose || ag_opt.report_stats ? AG_LOG_ALWAYS : AG_LOG_WARNING;
}

void ag_verbose_first(uint32_t ops)
{
    if (ag_opt.log_verbose)
        ag_log(AG_LOG_ASKED, "version %s is at work: the first graph, of %" PRIu32 " ops, is made",
               PACKAGE_VERSION, ops);
}

/* Why there is no graph, where ops may be held; NULL: nothing came back often enough. */
static const char *why_none(const struct ag_account *account)
{
    const struct ag_counters *c = &account->counters;
    if (c->ops == 0)
        return "the program launched nothing itself";
    if (ag_opt.graph_execs == 0)
        return "graph.execs is 0";
    if (account->barred)
        return "the attributes or the context of a stream rule it out";
    return c->errors != 0 ? "calls of the library into the driver failed" : NULL;
}

static void say_why(const struct ag_account *account)
{
    const char *why = why_none(account);
    if (why != NULL)
        ag_log(AG_LOG_ASKED, "no graph was made: %s", why);
    else
        ag_log(AG_LOG_ASKED,
               "no graph was made: no sequence of its %" PRIu64 " ops came back often enough",
               account->counters.ops);
}

/* In percent; 100.0 only if it is all. */
static double share(const struct ag_counters *c)
{
    double percent = c->ops != 0 ? 100 * (double)c->replayed / (double)c->ops : 0;
    return percent > 99.9 && c->replayed < c->ops ? 99.9 : percent;
}

struct text {
    char text[160];
};

static struct text saved(const struct ag_account *account)
{
    struct text t;
    struct ag_saving s = ag_saving_of(account);
    if (s.unknown != NULL)
        (void)snprintf(t.text, sizeof t.text, "not known: %s", s.unknown);
    else
        (void)snprintf(t.text, sizeof t.text, "%.1f ms, from %.1f to %.1f ms", s.middle / 1e3,
                       s.low / 1e3, s.high / 1e3);
    return t;
}

static void sum_up(const struct ag_account *account)
{
    const struct ag_counters *c = &account->counters;
    ag_log(AG_LOG_ASKED,
           "%.1f %% of %" PRIu64 " ops were replayed, in %" PRIu64
           " graph launches; time saved: %s",
           share(c), c->ops, c->replays, saved(account).text);
}

/* -- Statistics ----------------------------------------------------------- */

static void take(uint64_t ops, const char *help, uint64_t *most, const char **why)
{
    if (ops <= *most)
        return;
    *most = ops;
    *why = help;
}

/* Why most of the eager ops were eager. */
static void say_obstacle(const struct ag_account *account)
{
    const struct ag_counters *c = &account->counters;
    const char *why = account->stopped;
    uint64_t most = 0;
    if (why == NULL && c->traces == 0)
        why = why_none(account);
    if (why != NULL) {
        ag_log(AG_LOG_ASKED, "most in the way: %s", why);
        return;
    }
#define AG_REASON(id, word, help) take(c->given_up[AG_REASON_##id], help, &most, &why);
#define AG_WHY(id, word, help)    take(c->eager[AG_WHY_##id], help, &most, &why);
#include "observe/reasons.def"
    if (why != NULL)
        ag_log(AG_LOG_ASKED, "most in the way: %s (operations: %" PRIu64 ")", why, most);
    else
        ag_log(AG_LOG_ASKED, "most in the way: nothing");
}

static void say_statistics(const struct ag_account *account)
{
    const struct ag_counters *c = &account->counters;
    const char *report = ag_report_place();
    ag_log(AG_LOG_ASKED, "operations: %.1f %% of %" PRIu64 " went out in graphs%s", share(c),
           c->ops, account->partial ? ", but a stream is missing that was in use" : "");
    ag_log(AG_LOG_ASKED, "launches: %" PRIu64 " of graphs, %" PRIu64 " of single operations",
           c->replays, c->ops - c->replayed);
    ag_log(AG_LOG_ASKED, "time saved: %s", saved(account).text);
    say_obstacle(account);
    ag_log(AG_LOG_ASKED, "memory of graphs: %.1f MiB of the device at most, by an estimate",
           (double)account->graph_memory_kb / 1024);
    ag_log(AG_LOG_ASKED, "report: %.900s",
           report != NULL        ? report
           : *ag_opt.report_file ? "none was written"
                                 : "none; autograph --report ./app writes one");
}

void ag_verbose_end(const struct ag_account *account, bool used)
{
    if (used && ag_opt.report_stats)
        say_statistics(account);
    else if (!ag_opt.log_verbose || !account->complete)
        return;
    else if (account->partial)
        ag_log(AG_LOG_ASKED, "how much was replayed is not known: the process ended within a call");
    else if (account->counters.traces != 0)
        sum_up(account);
    else if (account->stopped == NULL && used) /* the reason was told when it came up */
        say_why(account);
}
