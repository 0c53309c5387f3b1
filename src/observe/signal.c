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

static bool is_handler(const struct sigaction *action)
{
    return (action->sa_flags & SA_SIGINFO) != 0 ||
           (action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN);
}

bool ag_signal_install(void)
{
    /* Read first: the signal may come as soon as the handler is there. */
    if (sigaction(SIGUSR2, NULL, &previous) != 0)
        return false;
    struct sigaction ours = {.sa_flags = SA_RESTART | SA_ONSTACK};
    if (is_handler(&previous))
        ours = previous; /* the kernel goes by the program's flags and mask */
    ours.sa_sigaction = handle;
    ours.sa_flags |= SA_SIGINFO;
    return sigaction(SIGUSR2, &ours, NULL) == 0;
}

void ag_signal_child(void)
{
    struct sigaction now;
    if (sigaction(SIGUSR2, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) != 0 &&
        now.sa_sigaction == handle)
        (void)sigaction(SIGUSR2, &previous, NULL); /* it was in force before */
}

bool ag_signal_taken(void)
{
    return atomic_exchange(&came, false);
}
