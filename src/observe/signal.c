/* SPDX-License-Identifier: MIT */
/* The handler of SIGUSR2. */
#include "observe/signal.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

static struct sigaction previous; /* constant once ours is in force */
static _Atomic bool came;

static void handle(int number, siginfo_t *info, void *context)
{
    atomic_store(&came, true);
    if (previous.sa_flags & SA_SIGINFO)
        previous.sa_sigaction(number, info, context);
    else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN)
        previous.sa_handler(number);
}

bool ag_signal_install(void)
{
    /* Read first: the signal may come as soon as the handler is there. */
    if (sigaction(SIGUSR2, NULL, &previous) != 0)
        return false;
    struct sigaction ours = {.sa_sigaction = handle};
    ours.sa_mask = previous.sa_mask;
    ours.sa_flags = SA_SIGINFO | SA_RESTART | (previous.sa_flags & (SA_ONSTACK | SA_NODEFER));
    return sigaction(SIGUSR2, &ours, NULL) == 0;
}

bool ag_signal_taken(void)
{
    return atomic_exchange(&came, false);
}
