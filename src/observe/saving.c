/* SPDX-License-Identifier: MIT */
/* What a trial says of the whole run: see saving.h. */
#include "observe/saving.h"

#include <string.h>

static bool is_simulated(const struct ag_account *account)
{
    for (uint32_t i = 0; i < account->gpu_count; i++)
        if (strstr(account->gpus[i], "Simulated") != NULL)
            return true;
    return false;
}

static const char *unknown(const struct ag_account *account)
{
    if (account->counters.replayed == 0)
        return "nothing went out in graphs";
    if (is_simulated(account))
        return "the driver is the simulated one, whose times say nothing about a GPU";
    return account->eager_ns == 0 ? "no trial measured it" : NULL;
}

/* By Newton: there is no root without libm. */
static double root(double square)
{
    double x = square > 1 ? square : 1, next = (x + square / x) / 2;
    for (; square > 0 && next < x; next = (x + square / x) / 2)
        x = next;
    return square > 0 ? x : 0;
}

static double within(double us, double most)
{
    return us > most ? most : us < -most ? -most : us;
}

struct ag_saving ag_saving_of(const struct ag_account *account)
{
    struct ag_saving saving = {.unknown = unknown(account)};
    if (saving.unknown != NULL)
        return saving;
    double held = (double)account->held_ns, eager = (double)account->eager_ns;
    double ops = (double)account->counters.replayed, run = account->seconds * 1e6;
    double middle = (eager - held) * ops / 1e3 - (double)account->counters.making_ns / 1e3;
    double error = root(account->trial_variance) * (held + eager) * ops / 1e3; /* two of them */
    if (middle - error >= run || middle + error <= -run)
        saving.unknown =
            "by one trial it is more than the whole run took, which needs a better measurement";
    else
        saving = (struct ag_saving){NULL, within(middle - error, run), within(middle, run),
                                    within(middle + error, run)};
    return saving;
}
