/* SPDX-License-Identifier: MIT */
/* The lines of the option log.verbose. */
#include "observe/verbose.h"

#include <inttypes.h>
#include <stdio.h>

#include "config/config.h"
#include "observe/saving.h"

enum ag_log_level ag_verbose_level(void)
{
    return ag_opt.log_verbose ? AG_LOG_ALWAYS : AG_LOG_WARNING;
}

void ag_verbose_first(uint32_t ops)
{
    if (ag_opt.log_verbose)
        ag_log(AG_LOG_ALWAYS, "version %s is at work: the first graph, of %" PRIu32 " ops, is made",
               PACKAGE_VERSION, ops);
}

/* Why there is no graph, where ops may be held. */
static void say_why(const struct ag_account *account)
{
    const struct ag_counters *c = &account->counters;
    if (c->ops == 0)
        ag_log(AG_LOG_ALWAYS, "no graph was made: the program launched nothing itself");
    else if (ag_opt.graph_execs == 0)
        ag_log(AG_LOG_ALWAYS, "no graph was made: graph.execs is 0");
    else if (account->barred)
        ag_log(AG_LOG_ALWAYS,
               "no graph was made: the attributes or the context of a stream rule it out");
    else if (c->errors != 0)
        ag_log(AG_LOG_ALWAYS, "no graph was made: calls of the library into the driver failed");
    else
        ag_log(AG_LOG_ALWAYS,
               "no graph was made: no sequence of its %" PRIu64 " ops came back often enough",
               c->ops);
}

static void saved(char *text, size_t size, const struct ag_account *account)
{
    struct ag_saving s = ag_saving_of(account);
    if (s.unknown != NULL)
        (void)snprintf(text, size, "not known: %s", s.unknown);
    else
        (void)snprintf(text, size, "%.1f ms, from %.1f to %.1f ms", s.middle / 1e3, s.low / 1e3,
                       s.high / 1e3);
}

static void sum_up(const struct ag_account *account)
{
    const struct ag_counters *c = &account->counters;
    char time[160];
    saved(time, sizeof time, account);
    ag_log(AG_LOG_ALWAYS,
           "%.1f %% of %" PRIu64 " ops were replayed, in %" PRIu64
           " graph launches; time saved: %s",
           c->ops != 0 ? 100 * (double)c->replayed / (double)c->ops : 0, c->ops, c->replays, time);
}

void ag_verbose_end(const struct ag_account *account, bool used)
{
    if (!ag_opt.log_verbose)
        return;
    if (account->partial)
        ag_log(AG_LOG_ALWAYS,
               "how much was replayed is not known: the process ended within a call");
    else if (account->counters.traces != 0)
        sum_up(account);
    else if (account->stopped == NULL && used) /* the reason was told when it came up */
        say_why(account);
}
